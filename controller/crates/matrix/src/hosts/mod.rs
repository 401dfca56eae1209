//! The host file: which machines there are, how each is reached, what it is good for. Parsed like the matrix, with the same
//! diagnostics.

mod boot;
mod boot_draft;
mod decode;
mod entry;
mod file;
mod machine;
mod placeholders;
mod power;
mod reach;
mod schema;

pub use boot::{Boot, BootKernel, BootMethod, CpuWord, CpusBy};
pub use file::{HostEntry, HostFile, HostLimits, Power, Reach, SshReach, TlsReach};
pub use machine::{KernelEntry, KernelSource, VmAccelerator, VmReach};

pub(crate) use decode::parse;
pub(crate) use schema::text as schema;
