//! Cuts a task's standard output into complete lines for those who follow it, in batches that are bounded in size and in
//! number. Pure.

use std::time::Duration;

use drover_proto::MAX_LINES_BYTES;
use tokio::time::Instant;

/// Shortest time between two batches.
const PERIOD: Duration = Duration::from_secs(1);

/// Lines that are not reported yet.
#[derive(Debug, Default)]
pub(super) struct Lines {
    /// Complete ones.
    whole: Vec<u8>,
    /// The beginning of one.
    partial: Vec<u8>,
    /// The line whose beginning was seen is too long, or there was no room for it.
    skipping: bool,
    /// Bytes that had no room in the batch that is being filled: they come after it.
    dropped: u64,
    /// Bytes that had no room in the batch before.
    dropped_before: u64,
    last: Option<Instant>,
}

impl Lines {
    /// Takes in the next piece of output.
    pub(super) fn feed(&mut self, piece: &[u8]) {
        for part in piece.split_inclusive(|byte| *byte == b'\n') {
            let room = MAX_LINES_BYTES.saturating_sub(self.whole.len());
            if self.skipping || self.partial.len() + part.len() > room {
                let lost = self.partial.len() + part.len();
                self.dropped = self.dropped.saturating_add(u64::try_from(lost).unwrap_or(u64::MAX));
                self.partial.clear();
                self.skipping = !part.ends_with(b"\n");
                continue;
            }
            self.partial.extend_from_slice(part);
            if part.ends_with(b"\n") {
                self.whole.append(&mut self.partial);
            }
        }
    }

    /// What was begun is a line: nothing more comes of it.
    pub(super) fn end_line(&mut self) {
        self.skipping = false;
        if !self.partial.is_empty() {
            self.partial.push(b'\n');
            self.whole.append(&mut self.partial);
        }
    }

    /// When the next batch may be taken; `None` if there is nothing in it.
    pub(super) fn due(&self) -> Option<Instant> {
        if self.whole.is_empty() && self.dropped == 0 && self.dropped_before == 0 {
            return None;
        }
        Some(self.last.map_or_else(Instant::now, |last| last + PERIOD))
    }

    /// The batch, and how many bytes before it were dropped; `None` if there is nothing in it.
    pub(super) fn take(&mut self, now: Instant) -> Option<(String, u64)> {
        self.due()?;
        self.last = Some(now);
        let text = String::from_utf8_lossy(&std::mem::take(&mut self.whole)).into_owned();
        let dropped = std::mem::replace(&mut self.dropped_before, std::mem::take(&mut self.dropped));
        Some((text, dropped))
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    fn take(lines: &mut Lines) -> Option<(String, u64)> {
        lines.take(Instant::now())
    }

    #[test]
    fn expect_complete_lines_only_when_output_is_cut_anywhere() {
        let mut lines = Lines::default();
        lines.feed(b"one\ntw");
        assert_eq!(take(&mut lines), Some(("one\n".into(), 0)));
        assert_eq!(lines.due(), None);
        lines.feed(b"o\n\nthr");
        assert!(lines.due().unwrap() > Instant::now());
        assert_eq!(take(&mut lines), Some(("two\n\n".into(), 0)));
        lines.feed(b"ee");
        lines.end_line();
        assert_eq!(take(&mut lines), Some(("three\n".into(), 0)));
        assert_eq!(take(&mut lines), None);
    }

    #[test]
    fn expect_the_excess_counted_in_the_next_batch_when_there_is_no_room() {
        let mut lines = Lines::default();
        let line = [&[b'x'; 999][..], b"\n"].concat();
        for _ in 0..100 {
            lines.feed(&line);
        }
        let (text, dropped) = take(&mut lines).unwrap();
        assert_eq!((text.len(), dropped), (65_000, 0));
        assert_eq!(take(&mut lines), Some((String::new(), 35_000)));
        lines.feed(&[b'y'; 100_000]);
        lines.feed(b"end of it\nshort\n");
        assert_eq!(take(&mut lines).unwrap().0, "short\n");
        assert_eq!(take(&mut lines), Some((String::new(), 100_010)));
    }

    proptest! {
        #[test]
        fn every_byte_is_reported_or_counted(
            pieces in vec((vec(prop::sample::select(b"ab\n".to_vec()), 0..20), 0_usize..2000), 0..12),
        ) {
            let mut lines = Lines::default();
            let mut reported = 0;
            let pieces: Vec<_> = pieces.iter().map(|(piece, times)| piece.repeat(*times)).collect();
            for piece in &pieces {
                lines.feed(piece);
            }
            let open = !lines.partial.is_empty();
            lines.end_line();
            while let Some((text, dropped)) = take(&mut lines) {
                prop_assert!(text.len() <= MAX_LINES_BYTES + 1);
                reported += text.len() + usize::try_from(dropped).unwrap();
            }
            prop_assert_eq!(reported, pieces.concat().len() + usize::from(open));
        }
    }
}
