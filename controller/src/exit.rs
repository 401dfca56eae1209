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

impl ExitStatus {
    const ALL: [Self; 6] =
        [Self::Ok, Self::Ng, Self::Usage, Self::Incomplete, Self::Infrastructure, Self::Interrupted];

    fn code(self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::Ng => 1,
            Self::Usage => 2,
            Self::Incomplete => 3,
            Self::Infrastructure => 4,
            Self::Interrupted => 130,
        }
    }

    /// How another process of this program ended; `None` for a code that is none of ours.
    pub fn of_code(code: i32) -> Option<Self> {
        Self::ALL.into_iter().find(|status| i32::from(status.code()) == code)
    }
}

impl From<ExitStatus> for ExitCode {
    fn from(status: ExitStatus) -> Self {
        Self::from(status.code())
    }
}
