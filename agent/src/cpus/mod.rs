//! The host's CPUs, taken offline for the run that holds the host and put back afterwards. Called by the service for `SetCpus`
//! and when the host changes hands, by the server at the agent's start and end.
//!
//! What was online is written to the file `cpus` of the state directory, with the boot id, before the first CPU goes (`before`).
//! The file is there for as long as anything may be changed. So whatever happens to the agent, the next one knows what to put
//! back; after a reboot there is nothing to put back, and the file is only removed. What does not come back quarantines the
//! host, and is tried again by the next agent.
//!
//! One change at a time (`turn`), on a thread of its own, because a large machine takes seconds; no task starts meanwhile.
//!
//! A test lab can give the agent a recorded tree in place of the machine's CPUs: [`LAB_ROOT_VARIABLE`] names it.

mod before;
mod keeper;
mod turn;

use std::path::PathBuf;

pub use keeper::{CpuKeeper, CpusError};
pub use turn::{put_back, release, set};

/// Environment variable that names a folder with the `proc` and `sys` whose CPUs are switched, in a test lab.
const LAB_ROOT_VARIABLE: &str = "DROVER_LAB_CPUS_ROOT";

/// Below which folder the files of the CPUs are.
#[must_use]
pub fn root() -> PathBuf {
    std::env::var_os(LAB_ROOT_VARIABLE).map_or_else(|| PathBuf::from("/"), PathBuf::from)
}
