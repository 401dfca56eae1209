//! Why a command failed, in words for people, and with which status it exits.

use std::fmt;

use crate::exit::ExitStatus;

/// Ends a command. Printed to standard error by `main`.
#[derive(Debug)]
pub struct Failure {
    pub status: ExitStatus,
    message: String,
    /// The message is ours to the last byte and may hold colours.
    styled: bool,
}

impl Failure {
    pub fn new(status: ExitStatus, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), styled: false }
    }

    /// A message that holds colours, and nothing that a host has said.
    pub fn styled(status: ExitStatus, message: String) -> Self {
        Self { status, message, styled: true }
    }

    /// Whether the message may be printed as it is.
    pub fn is_styled(&self) -> bool {
        self.styled
    }

    /// An error of ours with all its causes, on one line.
    pub fn infrastructure(error: &dyn std::error::Error) -> Self {
        Self::new(ExitStatus::Infrastructure, crate::driver::chain(error))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}
