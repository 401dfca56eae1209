//! The text of the evidence, and how complete it is.

use std::{
    collections::VecDeque,
    fmt::Write,
    pin::Pin,
    task::{Context, Poll},
};

use drover_model::{AttemptId, Completeness};
use drover_proto::{MAX_CHUNK_BYTES, MAX_EVIDENCE_BYTES, v1};
use tokio_stream::Stream;
use tonic::Status;

use crate::clock::unix_us;

/// Most reasons that are kept.
const MAX_MISSING: usize = 100;

/// Kept free for the heading of the whole.
const HEADING: usize = 64 << 10;

/// Evidence that is being collected.
#[derive(Debug)]
pub struct Bundle {
    attempt: AttemptId,
    text: String,
    missing: Vec<String>,
    /// Sections that say something about the attempt's own processes, or about the kernel.
    telling: u32,
}

impl Bundle {
    pub(super) fn new(attempt: AttemptId) -> Self {
        Self { attempt, text: String::new(), missing: Vec::new(), telling: 0 }
    }

    /// Adds a section; of a text that is longer than `limit`, the end. `tells` says whether it is about the attempt's own
    /// processes or the kernel's reports.
    pub(super) fn section(&mut self, title: &str, text: &str, limit: usize, tells: bool) {
        let room = MAX_EVIDENCE_BYTES.saturating_sub(HEADING + self.text.len() + title.len() + 100);
        if room == 0 {
            return self.missing(format!("{title}: there is no more room"));
        }
        let start = text.len().saturating_sub(limit.min(room));
        let start = (start..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
        let kept = text.get(start..).unwrap_or_default();
        self.telling += u32::from(tells && !kept.trim().is_empty());
        // Writing to a string does not fail.
        let _ = writeln!(self.text, "\n== {title}");
        if start > 0 {
            let _ = writeln!(self.text, "[drover: {start} bytes cut here]");
        }
        self.text.push_str(kept);
        if !kept.ends_with('\n') {
            self.text.push('\n');
        }
    }

    /// Notes that something is not in it, and why; each thing once.
    pub(super) fn missing(&mut self, what: String) {
        if self.missing.len() < MAX_MISSING && !self.missing.contains(&what) {
            self.missing.push(what);
        }
    }

    /// How much of what there could be is in it.
    #[must_use]
    pub fn completeness(&self) -> Completeness {
        match (self.telling, self.missing.is_empty()) {
            (0, _) => Completeness::None,
            (_, true) => Completeness::Complete,
            (_, false) => Completeness::Partial,
        }
    }

    /// The whole text.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = format!(
            "evidence of attempt {}\ncollected at {} us since 1970\nevidence: {}\n",
            self.attempt,
            unix_us(),
            self.completeness().as_str(),
        );
        for missing in &self.missing {
            let _ = writeln!(text, "not in it: {missing}");
        }
        // The heading has its own room, whatever the reasons are.
        let end = (0..=HEADING.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(end);
        text.push_str(&self.text);
        text
    }
}

/// Evidence on its way to a controller.
#[derive(Debug)]
pub struct EvidenceStream {
    chunks: VecDeque<v1::EvidenceChunk>,
}

impl EvidenceStream {
    /// The summary first, then the text.
    #[must_use]
    pub fn new(bundle: Bundle) -> Self {
        use v1::evidence_chunk::Part;
        let text = bundle.text().into_bytes();
        let completeness = v1::Completeness::from(bundle.completeness()).into();
        let summary = v1::EvidenceSummary { completeness, missing: bundle.missing };
        let data = text.chunks(MAX_CHUNK_BYTES).map(|chunk| Part::Data(chunk.to_vec().into()));
        let parts = std::iter::once(Part::Summary(summary)).chain(data);
        Self { chunks: parts.map(|part| v1::EvidenceChunk { part: Some(part) }).collect() }
    }
}

impl Stream for EvidenceStream {
    type Item = Result<v1::EvidenceChunk, Status>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Poll::Ready(self.chunks.pop_front().map(Ok))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bundle() -> Bundle {
        Bundle::new("00000000-0000-0000-0000-000000000001.c0r1a1".parse().unwrap())
    }

    #[test]
    fn expect_the_end_of_long_sections_and_never_more_than_the_bound() {
        let mut bundle = bundle();
        bundle.section("short", &format!("{}end", "é".repeat(100)), 10, true);
        assert!(
            bundle.text().contains("\n== short\n[drover: 194 bytes cut here]\néééend\n"),
            "{}",
            bundle.text()
        );
        for number in 0..200 {
            bundle.section(&number.to_string(), &"x".repeat(100_000), usize::MAX, false);
            bundle.missing(format!("{}{number}", "y".repeat(10_000)));
        }
        let length = bundle.text().len();
        assert!(length <= MAX_EVIDENCE_BYTES && length > MAX_EVIDENCE_BYTES - 2 * HEADING, "{length}");
    }

    #[test]
    fn expect_none_without_anything_telling_and_partial_with_a_reason() {
        let mut bundle = bundle();
        bundle.section("memory", "much", 100, false);
        assert_eq!(bundle.completeness(), Completeness::None);
        bundle.section("process", "1", 100, true);
        assert_eq!(bundle.completeness(), Completeness::Complete);
        bundle.missing("stacks: not permitted".to_owned());
        bundle.missing("stacks: not permitted".to_owned());
        assert_eq!((bundle.completeness(), bundle.missing.len()), (Completeness::Partial, 1));
    }
}
