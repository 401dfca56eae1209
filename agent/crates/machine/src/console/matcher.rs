//! Finds the first format in a line. Most lines hold none, so one automaton looks for the literal beginnings of all formats at once.

use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};

use super::{
    format::{anchor, match_length},
    patterns::{Meaning, PATTERNS, Pattern, Place},
    prefix::{Prefix, read},
};

/// A format found in a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hit {
    pub(super) meaning: Meaning,
    /// Where it begins in the line.
    pub(super) at: usize,
}

/// The place of an anchor, with the index of its pattern: in the order in which they are preferred.
type Candidate = (usize, usize);

static ANCHORS: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| {
    AhoCorasick::builder()
        .match_kind(MatchKind::Standard)
        .kind(Some(AhoCorasickKind::DFA))
        .build(PATTERNS.iter().map(|pattern| anchor(pattern.format)))
        .ok()
});

/// Whether a line is worth a closer look.
pub(super) fn has_candidates(line: &[u8]) -> bool {
    ANCHORS.as_ref().is_none_or(|anchors| anchors.is_match(line))
}

/// The first format in a line, and what stands before its message.
pub(super) fn find(line: &[u8]) -> (Prefix, Option<Hit>) {
    let prefix = read(line);
    if prefix.from_process {
        return (prefix, None);
    }
    let mut candidates = match ANCHORS.as_ref() {
        Some(anchors) => by_automaton(anchors, line),
        None => by_searching(line),
    };
    candidates.retain(|(at, _)| *at >= prefix.text);
    candidates.sort_unstable();
    (prefix, first(&candidates, line, prefix.text))
}

fn by_automaton(anchors: &AhoCorasick, line: &[u8]) -> Vec<Candidate> {
    anchors.find_overlapping_iter(line).map(|found| (found.start(), found.pattern().as_usize())).collect()
}

/// What the automaton gives, slowly.
fn by_searching(line: &[u8]) -> Vec<Candidate> {
    let of_pattern = |(index, pattern): (usize, &Pattern)| {
        let anchor = anchor(pattern.format);
        let places = (0..line.len())
            .filter(move |at| line.get(*at..).is_some_and(|rest| rest.starts_with(anchor.as_bytes())));
        places.map(move |at| (at, index))
    };
    PATTERNS.iter().enumerate().flat_map(of_pattern).collect()
}

fn first(candidates: &[Candidate], line: &[u8], text: usize) -> Option<Hit> {
    // What lies before is described by a format that means nothing.
    let mut ignored = 0;
    let mut alone = None;
    for &(at, index) in candidates.iter().filter(|(at, _)| *at >= text) {
        let Some(pattern) = PATTERNS.get(index).filter(|_| at >= ignored) else { continue };
        if !is_in_place(pattern.place, line, at, text) {
            continue;
        }
        let Some(length) = match_length(pattern.format, line.get(at..).unwrap_or_default()) else { continue };
        let hit = Hit { meaning: pattern.meaning, at };
        if pattern.place == Place::Alone {
            alone = alone.or(Some(hit));
            continue;
        }
        if pattern.meaning != Meaning::Ignore {
            return Some(hit);
        }
        // A format that ends with a text describes the line to its end.
        ignored = if pattern.format.ends_with("%s") { line.len() } else { at + length };
    }
    alone
}

fn is_in_place(place: Place, line: &[u8], at: usize, text: usize) -> bool {
    let before = at.checked_sub(1).filter(|before| *before >= text).and_then(|before| line.get(before));
    match place {
        Place::Start | Place::Alone => at == text,
        Place::Word => before.is_none_or(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_'),
        Place::Any => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expect_the_same_candidates_when_searched_slowly() {
        let anchors = ANCHORS.as_ref().unwrap();
        for pattern in PATTERNS {
            let line = format!("[    1.5] x: {} BUG: soft lockup - CPU#1 stuck", pattern.format);
            let mut fast = by_automaton(anchors, line.as_bytes());
            let mut slow = by_searching(line.as_bytes());
            fast.sort_unstable();
            slow.sort_unstable();
            assert!(!fast.is_empty());
            assert_eq!(fast, slow, "{line}");
        }
    }
}
