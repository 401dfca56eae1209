//! Reads what a [`crate::Capture`] kept, with a line that says where something was cut. Used for the end event, for transfers in
//! chunks, and by a later agent that finds the file.

use std::{
    fs::File,
    io::{self, Read},
    os::unix::fs::FileExt,
    path::Path,
    sync::Arc,
};

use super::{
    layout::{Kept, Layout},
    writer::{index, length},
};

/// What was kept of an output stream. Reads as the first part, a line `[drover: N bytes cut here]` if something was cut, the last part,
/// and a line `[drover: N bytes not kept: cannot write]` if keeping failed at some point. Implements [`io::Read`].
#[derive(Debug)]
pub struct KeptOutput {
    source: Source,
    layout: Layout,
    kept: Kept,
    cut_line: Vec<u8>,
    lost_line: Vec<u8>,
    /// Where [`io::Read`] is.
    position: u64,
}

#[derive(Debug)]
pub(super) enum Source {
    Memory(Vec<u8>),
    File(Arc<File>),
}

impl KeptOutput {
    pub(super) fn new(source: Source, layout: Layout, written: u64, stored: u64) -> Self {
        let kept = layout.kept(stored);
        let line = |count: u64, what: &str| match count {
            0 => Vec::new(),
            _ => format!("\n[drover: {count} bytes {what}]\n").into_bytes(),
        };
        Self {
            source,
            layout,
            kept,
            cut_line: line(kept.cut(), "cut here"),
            lost_line: line(written.saturating_sub(stored), "not kept: cannot write"),
            position: 0,
        }
    }

    /// Opens the file of a capture again, for an agent that was restarted: `written` is that of the summary, `limit` that of the task.
    /// For a task that was never summed up, give the length of the file: that is right for any stream below the limit, and otherwise
    /// shows the last part in the order of the file.
    ///
    /// # Errors
    ///
    /// When the file cannot be opened.
    pub fn open(path: &Path, limit: u64, written: u64) -> io::Result<Self> {
        let file = File::open(path)?;
        let size = file.metadata()?.len();
        // A file shorter than it had to be is one whose writing failed.
        let stored = if size < written.min(limit) { size } else { written };
        Ok(Self::new(Source::File(Arc::new(file)), Layout::new(limit), written, stored))
    }

    /// Length in bytes, lines of our own included.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.kept.bytes() + length(&self.cut_line) + length(&self.lost_line)
    }

    /// Whether there is nothing to read.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Reads at an offset (for chunked, resumable transfer); 0 only at the end or for an empty buffer.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let tail = self.kept.stored - self.kept.tail_start;
        let mut at = offset;
        for (part, size) in [
            (Part::Stream(0), self.kept.head),
            (Part::Text(&self.cut_line), length(&self.cut_line)),
            (Part::Stream(self.kept.tail_start), tail),
            (Part::Text(&self.lost_line), length(&self.lost_line)),
        ] {
            if at < size {
                let most = index(size - at).min(buffer.len());
                let buffer = buffer.get_mut(..most).unwrap_or_default();
                return match part {
                    Part::Text(text) => Ok(copy_from(text, at, buffer)),
                    Part::Stream(start) => self.read_stream(start + at, buffer),
                };
            }
            at -= size;
        }
        Ok(0)
    }

    /// Reads at a position of the stream that is kept.
    fn read_stream(&self, position: u64, buffer: &mut [u8]) -> io::Result<usize> {
        match &self.source {
            Source::Memory(bytes) => Ok(copy_from(bytes, position, buffer)),
            Source::File(file) => {
                let (offset, room) = self.layout.place(position);
                let most = index(room).min(buffer.len());
                match file.read_at(buffer.get_mut(..most).unwrap_or_default(), offset)? {
                    0 if most > 0 => Err(io::ErrorKind::UnexpectedEof.into()),
                    count => Ok(count),
                }
            }
        }
    }
}

enum Part<'a> {
    /// From this position of the stream on.
    Stream(u64),
    Text(&'a [u8]),
}

fn copy_from(bytes: &[u8], at: u64, buffer: &mut [u8]) -> usize {
    let mut rest = bytes.get(index(at)..).unwrap_or_default();
    rest.read(buffer).unwrap_or(0)
}

impl Read for KeptOutput {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.read_at(self.position, buffer)?;
        self.position += u64::try_from(count).unwrap_or(0);
        Ok(count)
    }
}
