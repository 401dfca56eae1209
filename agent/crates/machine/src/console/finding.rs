//! What the classifier finds, and the bounded store of it.

use std::{collections::HashMap, time::Duration};

use super::{
    class::{Class, Hint, Severity},
    excerpt::Excerpt,
};

/// Findings kept that are the kernel's death.
pub const FATAL_MAX: usize = 64;
/// Findings kept that are bugs of the kernel.
pub const BUG_MAX: usize = 96;
/// Findings kept of all other severities together.
pub const OTHER_MAX: usize = 96;
/// Consequences kept of one finding.
pub const THEN_MAX: usize = 16;
/// Bytes of a first line that tell one report from another.
const KEY_MAX: usize = 200;

/// A report of the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Its class, by its first line.
    pub class: Class,
    /// How bad it is.
    pub severity: Severity,
    /// The line that names it, from the message on.
    pub first_line: String,
    /// Place of that line in the stream, in bytes from the first.
    pub offset: u64,
    /// Number of that line in the stream, from 1.
    pub line: u64,
    /// When it was received, by the caller's clock.
    pub at: Duration,
    /// When the kernel wrote it, since its boot, if it says so.
    pub kernel_time: Option<Duration>,
    /// How often it was reported; later reports that differ in numbers only are counted and not kept.
    pub count: u64,
    /// When it was last received, by the caller's clock.
    pub last_at: Duration,
    /// The report and some lines from before.
    pub excerpt: Excerpt,
    /// Whether the report has ended; more lines may follow if not.
    pub complete: bool,
    /// Classes, with line numbers, of what the same report went on to say: an oops, a panic.
    pub then: Vec<(Class, u64)>,
    /// The index of the finding that this one followed closely, if it is a consequence.
    pub follows: Option<usize>,
    /// Whether it is a request of the caller's (see [`Classifier::expect_sysrq`](super::Classifier::expect_sysrq)), or what that led to.
    pub ours: bool,
}

impl Finding {
    /// What it means for a verdict.
    #[must_use]
    pub fn hint(&self) -> Hint {
        if self.ours { Hint::Nothing } else { self.class.hint() }
    }

    pub(super) fn then(&mut self, class: Class, line: u64) {
        if self.then.len() < THEN_MAX {
            self.then.push((class, line));
        }
    }
}

/// Where a report went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stored {
    /// It is new.
    New(usize),
    /// It is one more of a finding.
    Again(usize),
    /// There is no room for it.
    Dropped,
}

impl Stored {
    pub(super) fn index(self) -> Option<usize> {
        match self {
            Self::New(index) | Self::Again(index) => Some(index),
            Self::Dropped => None,
        }
    }
}

/// Findings, each once.
#[derive(Debug, Default)]
pub(super) struct Findings {
    found: Vec<Finding>,
    by_key: HashMap<(Class, Vec<u8>), usize>,
    fatal: usize,
    bugs: usize,
    others: usize,
    dropped: u64,
}

impl Findings {
    pub(super) fn all(&self) -> &[Finding] {
        &self.found
    }

    pub(super) fn dropped(&self) -> u64 {
        self.dropped
    }

    pub(super) fn get(&self, index: usize) -> Option<&Finding> {
        self.found.get(index)
    }

    pub(super) fn get_mut(&mut self, index: usize) -> Option<&mut Finding> {
        self.found.get_mut(index)
    }

    /// The index of a report like this one.
    pub(super) fn like(&self, class: Class, text: &[u8]) -> Option<usize> {
        self.by_key.get(&(class, without_numbers(text))).copied()
    }

    /// Counts one more report of a finding.
    pub(super) fn again(&mut self, index: usize, at: Duration) {
        if let Some(finding) = self.found.get_mut(index) {
            finding.count = finding.count.saturating_add(1);
            finding.last_at = at;
        }
    }

    /// Keeps a report, or counts it. `text` tells it from others of its class.
    pub(super) fn store(&mut self, finding: Finding, text: &[u8]) -> Stored {
        let key = (finding.class, without_numbers(text));
        if let Some(&index) = self.by_key.get(&key) {
            self.again(index, finding.at);
            return Stored::Again(index);
        }
        let (kept, max) = match finding.severity {
            Severity::Fatal => (&mut self.fatal, FATAL_MAX),
            Severity::Bug => (&mut self.bugs, BUG_MAX),
            _ => (&mut self.others, OTHER_MAX),
        };
        if *kept >= max {
            self.dropped = self.dropped.saturating_add(1);
            return Stored::Dropped;
        }
        *kept += 1;
        let index = self.found.len();
        self.by_key.insert(key, index);
        self.found.push(finding);
        Stored::New(index)
    }
}

/// A line with one sign in the place of every number, so that reports that differ in CPU, time, process or address are alike.
fn without_numbers(line: &[u8]) -> Vec<u8> {
    let line = line.get(..KEY_MAX).unwrap_or(line);
    let mut key = Vec::with_capacity(line.len());
    for word in line.chunk_by(|a, b| is_digit(*a) == is_digit(*b)) {
        if word.first().is_some_and(|byte| is_digit(*byte)) && word.iter().any(u8::is_ascii_digit) {
            key.push(b'#');
        } else {
            key.extend_from_slice(word);
        }
    }
    key
}

fn is_digit(byte: u8) -> bool {
    byte.is_ascii_hexdigit() || byte == b'x'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expect_one_key_when_lines_differ_in_numbers() {
        let key = |line: &str| String::from_utf8(without_numbers(line.as_bytes())).unwrap();
        assert_eq!(key("CPU#1 stuck for 134s! [httpd:4588]"), "CPU## stuck for #s! [httpd:#]");
        assert_eq!(key("address: ffffc90000000000"), key("address: 0000000000000060"));
        assert_eq!(key("in foo+0x182/0x328"), "in foo+#/#");
    }
}
