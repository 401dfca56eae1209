//! Why a machine does not start, or its kernel does not boot.

use std::{io, path::PathBuf, time::Duration};

use super::{process::End, qmp::QmpError, spec::SpecError};

/// Why there is no machine.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// What is asked for cannot be.
    #[error("the machine cannot be made as asked for")]
    Spec(#[from] SpecError),
    /// The machine's folder, or a file in it, cannot be made.
    #[error("cannot prepare `{}`", path.display())]
    Folder {
        /// The folder or file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Others may enter the machine's folder, where the way to the agent is.
    #[error("`{}` must be open to its owner only: chmod 700 it, or name another folder", path.display())]
    Open {
        /// The folder.
        path: PathBuf,
    },
    /// The kernel image or the initramfs cannot be read.
    #[error("cannot read `{}`", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// KVM was asked for, and no kernel boots with it.
    #[error("kvm does not work here ({why}); ask for `tcg`, or for `auto`")]
    NoKvm {
        /// What was seen.
        why: String,
    },
    /// No process.
    #[error("cannot start QEMU by way of setpriv (package util-linux)")]
    Spawn(#[source] io::Error),
    /// QEMU has ended at once.
    #[error("`{}` has ended at once ({end}): {said}; is the package qemu-system-x86 installed?", qemu.display())]
    Ended {
        /// The program.
        qemu: PathBuf,
        /// How.
        end: End,
        /// Its last words.
        said: String,
    },
    /// QEMU's sockets cannot be reached.
    #[error("QEMU did not open its socket `{socket}` within {limit:?}")]
    Socket {
        /// Its name in the machine's folder.
        socket: &'static str,
        /// How long was waited.
        limit: Duration,
        /// Why the last try failed.
        source: io::Error,
    },
    /// QEMU's control does not answer.
    #[error("QEMU does not answer")]
    Qmp(#[from] QmpError),
}

/// Why a kernel that was started did not come to run its program.
#[derive(Debug, thiserror::Error)]
pub enum BootError {
    /// QEMU has ended, because the guest has, or by itself.
    #[error("the guest ended before its program served: {how}")]
    Ended {
        /// Exit code or signal of QEMU, and its reason.
        how: String,
        /// The last lines of the console.
        console: String,
    },
    /// The kernel has panicked, and does not go on to its end.
    #[error("the kernel panicked before its program served")]
    Panicked {
        /// The last lines of the console.
        console: String,
    },
    /// Nothing came within the limit.
    #[error("the guest's program did not serve within {limit:?}")]
    TimedOut {
        /// How long was waited.
        limit: Duration,
        /// The last lines of the console; empty if the kernel said nothing at all.
        console: String,
    },
}

impl BootError {
    /// The last lines of the console.
    #[must_use]
    pub fn console(&self) -> &str {
        match self {
            Self::Ended { console, .. } | Self::Panicked { console } | Self::TimedOut { console, .. } => {
                console
            }
        }
    }
}
