//! Keeps the first and the last part of a stream within a limit. Driven by the agent, which owns the pipe.

use std::{
    fs::{self, File},
    io,
    os::{fd::BorrowedFd, unix::fs::FileExt},
    path::PathBuf,
    sync::Arc,
};

use drover_model::OutputSummary;

use super::{KeptOutput, kept::Source, layout::Layout};

/// Most bytes that travel inside the end event of a task, and that are kept in memory before a file is made.
pub const INLINE_MAX: u64 = 64 * 1024;

/// Most bytes read by one call of [`Capture::pump`], so that one task that prints a lot does not starve the others.
const SHARE: usize = 4 << 20;

/// Why output is not kept any more. The rest is counted.
#[derive(Debug, thiserror::Error)]
#[error("cannot keep output in `{}`{}", path.display(), hint(source))]
pub struct CaptureError {
    /// The file.
    pub path: PathBuf,
    /// Why.
    pub source: io::Error,
}

impl CaptureError {
    /// Whether the disk is full, the quota used up, or the file larger than allowed.
    #[must_use]
    pub fn is_disk_full(&self) -> bool {
        is_full(&self.source)
    }
}

fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}

fn hint(error: &io::Error) -> &'static str {
    if is_full(error) { "; free some space or set a smaller `output:`" } else { "" }
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
/// (no file is made for them), more goes to one file of at most `limit` bytes.
#[derive(Debug)]
pub struct Capture {
    path: PathBuf,
    limit: u64,
    layout: Layout,
    place: Place,
    /// Bytes seen.
    written: u64,
    /// Bytes of which the layout tells where they are; behind `written` after an error only.
    stored: u64,
    error: Option<CaptureError>,
}

#[derive(Debug)]
enum Place {
    Memory(Vec<u8>),
    File(Arc<File>),
}

impl Capture {
    /// A capture that would write to `path`.
    #[must_use]
    pub fn new(path: PathBuf, limit: u64) -> Self {
        let layout = Layout::new(limit);
        Self { path, limit, layout, place: Place::Memory(Vec::new()), written: 0, stored: 0, error: None }
    }

    /// Takes bytes.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.written = self.written.saturating_add(length(bytes));
        if self.error.is_some() || bytes.is_empty() {
            return;
        }
        if self.limit == 0 {
            // Cut, all of it.
            self.stored = self.written;
            return;
        }
        if let Place::Memory(kept) = &mut self.place {
            let fits = length(kept) + length(bytes) <= INLINE_MAX.min(self.limit);
            if fits {
                kept.extend_from_slice(bytes);
                self.stored += length(bytes);
                return;
            }
            self.spill();
        }
        if let Place::File(file) = &self.place {
            let file = Arc::clone(file);
            self.store(&file, bytes);
        }
    }

    fn store(&mut self, file: &File, mut bytes: &[u8]) {
        // Of a piece longer than the ring only the end would survive; the part that head and ring cannot keep is skipped.
        let head_left = self.layout.head.saturating_sub(self.stored);
        let needed = head_left.saturating_add(self.layout.ring);
        if length(bytes) > needed {
            let (head, rest) = bytes.split_at(index(head_left));
            self.write_all(file, head);
            let skipped = length(rest) - self.layout.ring;
            if self.error.is_none() {
                self.stored += skipped;
            }
            bytes = rest.split_at(index(skipped)).1;
        }
        self.write_all(file, bytes);
    }

    /// Writes bytes of which none overwrites another.
    fn write_all(&mut self, file: &File, mut bytes: &[u8]) {
        while !bytes.is_empty() && self.error.is_none() {
            let (offset, room) = self.layout.place(self.stored);
            let now = bytes.split_at(index(room).min(bytes.len())).0;
            match file.write_at(now, offset) {
                Ok(done) => {
                    self.stored += u64::try_from(done).unwrap_or(0);
                    bytes = bytes.split_at(done).1;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => self.error = Some(CaptureError { path: self.path.clone(), source }),
            }
        }
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
        let mut left = SHARE;
        while left > 0 {
            match rustix::io::read(source, &mut *buffer) {
                Ok(0) => return Ok(Pumped::End),
                Ok(count) => {
                    let bytes = buffer.get(..count).unwrap_or_default();
                    seen(bytes);
                    self.feed(bytes);
                    left = left.saturating_sub(count);
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => return Ok(Pumped::Blocked),
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(Pumped::More)
    }

    /// Bytes seen so far.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Why output is no longer kept, if so.
    #[must_use]
    pub fn error(&self) -> Option<&CaptureError> {
        self.error.as_ref()
    }

    /// Moves what is still in memory to the file, so that it survives the agent; for tasks that run long. Makes no file for
    /// a stream that is empty so far.
    pub fn spill(&mut self) {
        let Place::Memory(kept) = &mut self.place else { return };
        if self.limit == 0 || (kept.is_empty() && self.written == 0) {
            return;
        }
        let kept = std::mem::take(kept);
        let file = File::options().read(true).write(true).create(true).truncate(true).open(&self.path);
        match file {
            Ok(file) => {
                let file = Arc::new(file);
                self.place = Place::File(Arc::clone(&file));
                self.stored = 0;
                self.write_all(&file, &kept);
            }
            Err(source) => {
                self.error = Some(CaptureError { path: self.path.clone(), source });
                // What is in memory is better than nothing.
                self.place = Place::Memory(kept);
            }
        }
    }

    /// The file, if there is one; to be removed when it was fetched.
    #[must_use]
    pub fn file(&self) -> Option<&std::path::Path> {
        matches!(self.place, Place::File(_)).then_some(&*self.path)
    }

    /// What was kept so far.
    #[must_use]
    pub fn reader(&self) -> KeptOutput {
        let source = match &self.place {
            Place::Memory(kept) => Source::Memory(kept.clone()),
            Place::File(file) => Source::File(Arc::clone(file)),
        };
        KeptOutput::new(source, self.layout, self.written, self.stored)
    }

    /// The summary for the end event. `inline` holds exactly what [`Self::reader`] gives (marker included) if at most
    /// [`INLINE_MAX`] bytes were kept; then the file, if there was one, is removed.
    pub fn finish(&mut self) -> OutputSummary {
        let kept = self.layout.kept(self.stored).bytes();
        let mut inline = None;
        if kept <= INLINE_MAX {
            let reader = self.reader();
            let mut bytes = Vec::with_capacity(index(reader.len()));
            match io::copy(&mut { reader }, &mut bytes) {
                Ok(_) => inline = Some(bytes),
                Err(source) if self.error.is_none() => {
                    self.error = Some(CaptureError { path: self.path.clone(), source });
                }
                Err(_) => {}
            }
            if inline.is_some() && self.file().is_some() {
                let _ = fs::remove_file(&self.path);
            }
        }
        OutputSummary { written: self.written, kept, inline }
    }
}

pub(super) fn length(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}

/// An amount as an index; what does not fit is cut to what a slice can have.
pub(super) fn index(amount: u64) -> usize {
    usize::try_from(amount).unwrap_or(usize::MAX)
}
