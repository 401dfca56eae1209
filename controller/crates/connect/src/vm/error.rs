//! Why a virtual machine cannot be had.

use std::{io, path::PathBuf, time::Duration};

use drover_machine::console::{Classifier, Hint};
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
    /// What is known of a kernel, or its files, cannot be used.
    #[error("host {host} cannot use kernel `{label}`")]
    Files {
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
    #[error(
        "kernel `{label}` does not boot on host {host}: {}{error}{}",
        complaint(error.console()),
        last_lines(error.console())
    )]
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

/// What the kernel has reported, as the beginning of a message: the last lines of a panic are seldom those that say why.
fn complaint(console: &str) -> String {
    let mut classifier = Classifier::new();
    classifier.expect_boot();
    classifier.push(console.as_bytes(), Duration::ZERO);
    classifier.finish(Duration::ZERO);
    let report = classifier.verdict().filter(|(_, hint)| matches!(hint, Hint::Ng(_) | Hint::Missing(_)));
    report.map_or_else(String::new, |(finding, _)| format!("{}; ", finding.first_line))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expect_the_kernels_report_first_when_it_did_not_find_its_root() {
        let console = "[    2.9] VFS: Cannot open root device \"/dev/nonsense\" or unknown-block(0,0): error -6\n\
                       [    3.0] Kernel panic - not syncing: VFS: Unable to mount root fs on unknown-block(0,0)\n\
                       [    3.0]  ret_from_fork+0x22/0x30\n";
        let error = BootError::Panicked { console: console.to_owned() };
        let error = VmError::Boot { host: "vm1".parse().unwrap(), label: "k".to_owned(), error };
        let text = error.to_string();
        let beginning =
            "kernel `k` does not boot on host vm1: VFS: Cannot open root device \"/dev/nonsense\"";
        assert!(text.starts_with(beginning) && text.ends_with("ret_from_fork+0x22/0x30"), "{text}");
        assert_eq!(complaint("[    0.0] Linux version 6.1.0\n[    1.0] all is well\n"), "");
    }
}
