//! Virtual machines as hosts: booted when they are connected to, made anew when they died or are to be another machine.
//!
//! Tasks: `watch`, one per boot, reads the console and ends the machine when its kernel has reported a failure; it ends
//! with QEMU. The machine lives as long as its [`VmHost`], and dies with the controller.

mod boot;
mod death;
mod error;
mod host;
mod options;
mod silence;
mod watch;

pub use death::Death;
pub use error::VmError;
pub use host::{Now, VmHost};
pub use options::{KernelPlace, Machine, VmOptions};
