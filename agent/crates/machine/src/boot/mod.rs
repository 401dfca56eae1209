//! Boots another kernel once: what the host's boot loader has to be told, and how the machine is taken down. Called by the
//! agent, which writes down what is undone before anything is done.
//!
//! [`plan`] looks whether it can be done at all, and changes nothing. [`Plan::carry_out`] does it and reads it back. [`Undo`]
//! takes it back, as often as one likes; also after the boot, when the boot loader should have done so itself.
//!
//! Everything here waits for disks and programs: it is for threads that may.

mod command;
mod efi;
mod entry_file;
mod grub;
mod kexec;
mod loaders;
mod mounts;
mod plan;
mod reboot;
mod run;
mod systemd_boot;
mod words;

pub use efi::{BootNextError, VariableError};
pub use grub::{BlockError, EntryError, GrubError, MediumError};
pub use kexec::KexecError;
pub(crate) use loaders::features;
pub use plan::{BootError, Plan, Undo, plan};
pub use reboot::{RebootBy, RebootError};
pub use run::RunError;
pub use systemd_boot::SystemdBootError;
pub use words::{WordError, Words};
