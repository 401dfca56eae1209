//! Where the bytes of a stream are within its file. Pure.
//!
//! A file of `limit` bytes has a head of `limit / 2` bytes, written once, and behind it a ring of the rest, written round and round.
//! So what is where follows from the number of bytes stored alone, and the file needs no record of its own.

/// The shape of one capture file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) head: u64,
    pub(super) ring: u64,
}

impl Layout {
    pub(super) fn new(limit: u64) -> Self {
        let head = limit / 2;
        Self { head, ring: limit - head }
    }

    /// The file offset of byte `index` of the stream, and how many bytes from there on are contiguous in the file.
    pub(super) fn place(self, index: u64) -> (u64, u64) {
        match index.checked_sub(self.head) {
            None => (index, self.head - index),
            Some(_) if self.ring == 0 => (self.head, 0),
            Some(behind) => {
                let at = behind % self.ring;
                (self.head + at, self.ring - at)
            }
        }
    }

    /// What is kept of the first `stored` bytes: the head's length and the range of the tail, as positions in the stream.
    pub(super) fn kept(self, stored: u64) -> Kept {
        let head = stored.min(self.head);
        let tail = (stored - head).min(self.ring);
        Kept { head, tail_start: stored - tail, stored }
    }
}

/// Positions in the stream: `0..head` and `tail_start..stored` are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kept {
    pub(super) head: u64,
    pub(super) tail_start: u64,
    pub(super) stored: u64,
}

impl Kept {
    /// Bytes between head and tail that are gone.
    pub(super) fn cut(self) -> u64 {
        self.tail_start - self.head
    }

    /// Bytes kept.
    pub(super) fn bytes(self) -> u64 {
        self.head + (self.stored - self.tail_start)
    }
}
