//! Reads what a [`crate::Capture`] kept, with a line that says where something was cut.

use std::{io, path::PathBuf};

/// What was kept of an output stream. Reads as the first part, a line `[drover: N bytes cut here]` if something was cut,
/// and the last part. Implements [`io::Read`].
#[derive(Debug)]
pub struct KeptOutput {}

impl KeptOutput {
    /// Opens the file of a finished capture again, for an agent that was restarted: `written` and `kept` are those of
    /// the summary, `limit` that of the task.
    ///
    /// # Errors
    ///
    /// When the file cannot be opened.
    pub fn open(path: PathBuf, limit: u64, written: u64, kept: u64) -> io::Result<Self> {
        let _ = (path, limit, written, kept);
        unimplemented!()
    }

    /// Length in bytes, marker included.
    #[must_use]
    pub fn len(&self) -> u64 {
        unimplemented!()
    }

    /// Whether there is nothing to read.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Reads at an offset (for chunked, resumable transfer); 0 only at the end.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let _ = (offset, buffer);
        unimplemented!()
    }
}
