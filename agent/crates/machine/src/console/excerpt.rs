//! The lines that a finding keeps, bounded.

use std::collections::VecDeque;

/// Lines kept from before a report.
pub const BEFORE_LINES: usize = 10;
/// Lines kept of a report with registers and stacks, its first included.
pub const TRACE_LINES: usize = 200;
/// Lines kept from a report of one line on, its first included.
pub const AFTER_LINES: usize = 10;
/// Bytes kept of a line.
pub const KEPT_LINE_MAX: usize = 1024;
/// Bytes kept of one report.
pub const EXCERPT_MAX: usize = 32 * 1024;

/// What was said around a report, with the prefixes as they were.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Excerpt {
    /// Lines before the first of the report.
    pub before: Vec<String>,
    /// The first line and those that follow.
    pub lines: Vec<String>,
    /// Whether lines, or parts of them, were left out because a bound was reached.
    pub cut: bool,
    bytes: usize,
}

impl Excerpt {
    pub(super) fn starting(before: Vec<String>, first: &[u8]) -> Self {
        let bytes = before.iter().map(String::len).sum();
        let mut excerpt = Self { before, bytes, ..Self::default() };
        excerpt.push(first);
        excerpt
    }

    /// Adds a line, if there is room.
    pub(super) fn push(&mut self, line: &[u8]) {
        let text = kept(line);
        self.cut |= line.len() > KEPT_LINE_MAX;
        if self.lines.len() >= TRACE_LINES || self.bytes + text.len() > EXCERPT_MAX {
            self.cut = true;
            return;
        }
        self.bytes += text.len();
        self.lines.push(text);
    }
}

/// As much of a line as is kept, as text.
pub(super) fn kept(line: &[u8]) -> String {
    String::from_utf8_lossy(line.get(..KEPT_LINE_MAX).unwrap_or(line)).into_owned()
}

/// The last lines seen.
#[derive(Debug, Default)]
pub(super) struct Recent {
    lines: VecDeque<Vec<u8>>,
}

impl Recent {
    /// Reuses the memory of the line that goes.
    pub(super) fn push(&mut self, line: &[u8]) {
        let mut kept = match self.lines.len() < BEFORE_LINES {
            true => Vec::new(),
            false => self.lines.pop_front().unwrap_or_default(),
        };
        kept.clear();
        kept.extend_from_slice(line.get(..KEPT_LINE_MAX).unwrap_or(line));
        self.lines.push_back(kept);
    }

    pub(super) fn text(&self) -> Vec<String> {
        self.lines.iter().map(|line| kept(line)).collect()
    }
}
