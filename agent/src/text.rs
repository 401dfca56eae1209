//! Small helpers for messages, used all over the agent.

use std::{error::Error, fmt::Write, io};

/// An error and its sources in one line, for logs and for messages that travel as text.
#[must_use]
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        let _ = write!(text, ": {inner}");
        source = inner.source();
    }
    text
}

/// Whether the disk or a quota is full, or the file system is read-only.
#[must_use]
pub fn is_disk_full(error: &io::Error) -> bool {
    use io::ErrorKind as Kind;
    matches!(
        error.kind(),
        Kind::StorageFull | Kind::QuotaExceeded | Kind::ReadOnlyFilesystem | Kind::FileTooLarge
    )
}
