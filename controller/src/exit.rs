//! Exit statuses. Only this crate's `main` turns them into a process exit.

use std::process::ExitCode;

/// How a command ended, for the caller's shell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitStatus {
    /// Everything asked for was done, and everything measured is ok.
    Ok,
    /// Something under test failed.
    Ng,
    /// Wrong usage, or a mistake in a matrix.
    Usage,
    /// Not everything was measured.
    Incomplete,
    /// Our own side failed.
    Infrastructure,
    /// Interrupted by the user.
    Interrupted,
}

impl From<ExitStatus> for ExitCode {
    fn from(status: ExitStatus) -> Self {
        Self::from(match status {
            ExitStatus::Ok => 0,
            ExitStatus::Ng => 1,
            ExitStatus::Usage => 2,
            ExitStatus::Incomplete => 3,
            ExitStatus::Infrastructure => 4,
            ExitStatus::Interrupted => 130,
        })
    }
}
