//! The kernel that the host boots next, for the run that holds the host. Called by the service for `ArmKernel` and `Reboot` and
//! when the host changes hands, and at the agent's start.
//!
//! What undoes it is written to the file `boot` of the state directory, with the boot id, before the boot loader is told
//! (`intent`). So is that a reboot was asked for. The next agent finds it: after a boot, it looks whether the boot loader has
//! cleared what was set for one boot, and clears it otherwise; in the same boot it takes it back, unless the host is about to go
//! down. What cannot be taken back quarantines the host.
//!
//! One change at a time (`turn`), on a thread of its own, and no task starts meanwhile.
//!
//! A test lab can give the agent a recorded tree in place of the host's files: [`LAB_ROOT_VARIABLE`] names it. Such a host can be
//! rebooted by a command only.

mod intent;
mod keeper;
mod turn;

use std::path::PathBuf;

pub use keeper::{BootKeeper, KernelError};
pub use turn::{arm, disarm, leave, reboot, release};

/// Environment variable that names a folder with the files of a host, in a test lab.
const LAB_ROOT_VARIABLE: &str = "DROVER_LAB_BOOT_ROOT";

/// Below which folder the files are that say what is booted.
#[must_use]
pub fn root() -> PathBuf {
    std::env::var_os(LAB_ROOT_VARIABLE).map_or_else(|| PathBuf::from("/"), PathBuf::from)
}
