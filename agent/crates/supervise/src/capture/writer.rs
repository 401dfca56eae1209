//! Keeps the first and the last part of a stream within a limit.

use std::{io, os::fd::BorrowedFd, path::PathBuf};

use drover_model::OutputSummary;

use super::KeptOutput;

/// Most bytes that travel inside the end event of a task, and that are kept in memory before a file is made.
pub const INLINE_MAX: u64 = 64 * 1024;

/// Why output is not kept any more. Capture goes on counting.
#[derive(Debug, thiserror::Error)]
#[error("cannot keep output in `{}`{hint}", path.display())]
pub struct CaptureError {
    /// The file.
    pub path: PathBuf,
    /// What to do about it.
    pub hint: &'static str,
    /// Why.
    pub source: io::Error,
}

impl CaptureError {
    /// Whether the disk (or quota) is full.
    #[must_use]
    pub fn is_disk_full(&self) -> bool {
        unimplemented!()
    }
}

/// What stopped [`Capture::pump`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pumped {
    /// All writers have closed it; no more will come.
    End,
    /// Nothing to read right now.
    Blocked,
    /// The share of one call is used up; there may be more.
    More,
}

/// Keeps the first `limit / 2` and the last `limit - limit / 2` bytes of a stream. Up to [`INLINE_MAX`] bytes stay in memory
/// (no file is made for them), the rest goes to one file of at most `limit` bytes.
#[derive(Debug)]
pub struct Capture {}

impl Capture {
    /// A capture that would write to `path`.
    #[must_use]
    pub fn new(path: PathBuf, limit: u64) -> Self {
        let _ = (path, limit);
        unimplemented!()
    }

    /// Takes bytes.
    pub fn feed(&mut self, bytes: &[u8]) {
        let _ = bytes;
        unimplemented!()
    }

    /// Reads from a non-blocking descriptor through `buffer` (64 KiB or more for speed; may be shared by all captures) until
    /// it would block, ends, or 4 MiB were read. `seen` gets every piece, e.g. to look for a line.
    ///
    /// # Errors
    ///
    /// When the descriptor cannot be read; a file that cannot be written is not an error here, see [`Self::error`].
    pub fn pump(
        &mut self,
        source: BorrowedFd<'_>,
        buffer: &mut [u8],
        seen: &mut dyn FnMut(&[u8]),
    ) -> io::Result<Pumped> {
        let _ = (source, buffer, seen);
        unimplemented!()
    }

    /// Bytes seen so far.
    #[must_use]
    pub fn written(&self) -> u64 {
        unimplemented!()
    }

    /// Why output is no longer kept, if so.
    #[must_use]
    pub fn error(&self) -> Option<&CaptureError> {
        unimplemented!()
    }

    /// Moves what is still in memory to the file, so that it survives the agent; for tasks that run long.
    pub fn spill(&mut self) {
        unimplemented!()
    }

    /// Whether there is a file (to be removed when it was fetched).
    #[must_use]
    pub fn has_file(&self) -> bool {
        unimplemented!()
    }

    /// What was kept so far.
    ///
    /// # Errors
    ///
    /// When the file cannot be opened.
    pub fn reader(&self) -> io::Result<KeptOutput> {
        unimplemented!()
    }

    /// The summary for the end event. `inline` holds exactly what [`Self::reader`] gives (marker included) if at most
    /// [`INLINE_MAX`] bytes were kept.
    pub fn finish(&mut self) -> OutputSummary {
        unimplemented!()
    }
}
