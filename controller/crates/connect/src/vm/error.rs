//! Why a virtual machine cannot be had.

use std::{io, path::PathBuf};

use drover_model::{MissingCause, Name};
use drover_vm::{BootError, CatalogueError, InitramfsError, SpecError, StartError};

use crate::ConnectError;

/// Lines of a console that explain why a kernel does not boot.
const CONSOLE_LINES: usize = 12;

/// Why a virtual machine cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum VmError {
    /// A kernel that is asked for is not there.
    #[error(
        "host {host} has no kernel `{label}`: see `drover kernels list`, or name it in `kernels` of the host file"
    )]
    Kernel {
        /// The host.
        host: Name,
        /// The label.
        label: String,
        /// Why.
        source: CatalogueError,
    },
    /// So many CPUs cannot be arranged as the host file says.
    #[error("host {host} cannot have {cpus} CPUs: it has {sockets} sockets, and {threads} threads a core")]
    Cpus {
        /// The host.
        host: Name,
        /// As asked for.
        cpus: u32,
        /// Sockets.
        sockets: u32,
        /// Threads of a core.
        threads: u32,
    },
    /// A folder or file of ours cannot be made.
    #[error("cannot prepare `{}` for the virtual machine", path.display())]
    Folder {
        /// The folder or file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// There is no first root file system.
    #[error("cannot make the first root file system of kernel `{label}`")]
    Initramfs {
        /// The kernel.
        label: String,
        /// Why.
        source: InitramfsError,
    },
    /// QEMU does not come up.
    #[error("the virtual machine {host} does not start with kernel `{label}`")]
    Start {
        /// The host.
        host: Name,
        /// The kernel.
        label: String,
        /// Why.
        source: StartError,
    },
    /// The kernel does not come to run the agent.
    #[error("kernel `{label}` does not boot on host {host}: {error}{}", last_lines(error.console()))]
    Boot {
        /// The host.
        host: Name,
        /// The kernel.
        label: String,
        /// Why; not a source, because its console is part of the message.
        error: BootError,
    },
    /// The agent in it does not answer as it should.
    #[error("kernel `{label}` boots on host {host}, and its agent cannot be talked to")]
    Agent {
        /// The host.
        host: Name,
        /// The kernel.
        label: String,
        /// Why.
        source: Box<ConnectError>,
    },
}

/// The last lines of a console, as the end of a message.
fn last_lines(console: &str) -> String {
    let lines: Vec<&str> = console.lines().filter(|line| !line.trim().is_empty()).collect();
    match lines.get(lines.len().saturating_sub(CONSOLE_LINES)..) {
        None | Some([]) => "; its console says nothing".to_owned(),
        Some(last) => format!("; its console ends with\n{}", last.join("\n")),
    }
}

impl VmError {
    /// What it means for a trial that asks for the machine.
    pub(super) fn missing_cause(&self) -> MissingCause {
        match self {
            Self::Cpus { .. } | Self::Start { source: StartError::Spec(SpecError::Cpus(_)), .. } => {
                MissingCause::WrongCpus
            }
            _ => MissingCause::WrongKernel,
        }
    }

    /// Whether the same may go well at another time.
    pub(super) fn may_pass(&self) -> bool {
        matches!(
            self,
            Self::Boot { error: BootError::TimedOut { .. }, .. } | Self::Agent { .. } | Self::Folder { .. }
        )
    }
}
