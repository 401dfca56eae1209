//! Virtual machines: QEMU processes, from start to end.

mod args;
mod console;
mod error;
mod event;
mod folder;
mod kvm;
mod process;
mod qmp;
mod sockets;
mod spec;
mod vm;

pub use console::Console;
pub use error::{BootError, StartError};
pub use event::{Shutdown, VmEvent};
pub use kvm::{KVM_LIMIT, KvmVerdict, kvm_works};
pub use process::End;
pub use qmp::{Qmp, QmpError};
pub use spec::{Accelerator, AcceleratorWish, OnReboot, SpecError, Topology, VmSpec};
pub use vm::{Vm, VmState};
