//! Names of packages with gaps in them, and which of several is the newest.

use std::cmp::Ordering;

/// Kinds of packages that are called like kernel images and are none that can be booted.
const OTHERS: [&str; 3] = ["-dbg", "-unsigned", "-template"];

/// Whether a name has gaps: `*`, `...`, or `.y` for what follows a version.
pub(super) fn has_gaps(name: &str) -> bool {
    name.contains('*') || name.contains("...") || pieces(name).len() > 1
}

/// Whether `name` is what `pattern` describes. A gap `*` or `...` is any text; `.y` is what begins with a dot and has
/// no `-`, as `6.12.y` is every release of 6.12.
pub(super) fn matches(pattern: &str, name: &str) -> bool {
    let other = |kind: &str| name.contains(kind) && !pattern.contains(kind);
    !OTHERS.into_iter().any(other) && fits(&pieces(pattern), name)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Piece<'a> {
    Text(&'a str),
    Any,
    Release,
}

fn pieces(pattern: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut rest = pattern;
    while !rest.is_empty() {
        let gaps = [("...", Piece::Any), ("*", Piece::Any), (".y-", Piece::Release)];
        let first = gaps
            .iter()
            .filter_map(|(gap, piece)| Some((rest.find(gap)?, gap.len(), *piece)))
            .min_by_key(|(at, ..)| *at);
        let Some((at, length, piece)) = first else { break };
        let (text, after) = rest.split_at(at);
        if !text.is_empty() {
            pieces.push(Piece::Text(text));
        }
        pieces.push(piece);
        // The `-` after `.y` belongs to what follows.
        let length = if piece == Piece::Release { length - 1 } else { length };
        rest = after.get(length..).unwrap_or_default();
    }
    if let Some(text) = rest.strip_suffix(".y") {
        pieces.extend([Piece::Text(text), Piece::Release]);
    } else if !rest.is_empty() {
        pieces.push(Piece::Text(rest));
    }
    pieces
}

fn fits(pieces: &[Piece<'_>], name: &str) -> bool {
    let Some((first, rest)) = pieces.split_first() else { return name.is_empty() };
    let ends = |mut end: Box<dyn Iterator<Item = usize>>| {
        end.any(|end| name.get(end..).is_some_and(|after| fits(rest, after)))
    };
    match first {
        Piece::Text(text) => name.strip_prefix(text).is_some_and(|after| fits(rest, after)),
        Piece::Any => ends(Box::new(0..=name.len())),
        Piece::Release => name.starts_with('.') && ends(Box::new(1..=name.find('-').unwrap_or(name.len()))),
    }
}

/// Compares names by the numbers in them: `6.12.9` is older than `6.12.10`.
pub(super) fn by_version(one: &str, other: &str) -> Ordering {
    let (mut one, mut other) = (one, other);
    loop {
        let (text, number, rest) = head(one);
        let (other_text, other_number, other_rest) = head(other);
        let order = text.cmp(other_text).then(number.cmp(&other_number));
        if order != Ordering::Equal || (rest.is_empty() && other_rest.is_empty()) {
            return order;
        }
        (one, other) = (rest, other_rest);
    }
}

/// The text before the first number, the number, and what follows.
fn head(name: &str) -> (&str, Option<u64>, &str) {
    let Some(at) = name.find(|c: char| c.is_ascii_digit()) else { return (name, None, "") };
    let (text, rest) = name.split_at(at);
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (digits, rest) = rest.split_at(end);
    (text, Some(digits.parse().unwrap_or(u64::MAX)), rest)
}

#[cfg(test)]
mod tests {
    use super::{by_version, has_gaps, matches};

    #[test]
    fn expect_the_kernels_meant_when_a_name_has_gaps() {
        for pattern in
            ["linux-image-6.12.y-cloud-amd64", "linux-image-6.12...-cloud-amd64", "*6.12.1*-cloud-amd64"]
        {
            assert!(has_gaps(pattern), "{pattern}");
            assert!(matches(pattern, "linux-image-6.12.117+deb12-cloud-amd64"), "{pattern}");
            assert!(!matches(pattern, "linux-image-6.1.0-57-cloud-amd64"), "{pattern}");
            assert!(!matches(pattern, "linux-image-6.12.117+deb12-cloud-amd64-unsigned"), "{pattern}");
            assert!(!matches(pattern, "linux-image-6.12.117+deb12-cloud-amd64-dbg"), "{pattern}");
        }
        assert!(!matches("linux-image-6.12.y-cloud-amd64", "linux-image-6.12-cloud-amd64"));
        assert!(matches("linux-image-6.12.y", "linux-image-6.12.9"));
        assert!(!matches("linux-image-6.12.y-amd64", "linux-image-6.12.9-rt-amd64"));
        assert!(matches("*-unsigned", "linux-image-6.1-unsigned"));
    }

    #[test]
    fn expect_no_gaps_when_a_name_is_a_name() {
        for name in ["linux-image-cloud-amd64", "linux-image-6.12.117+deb12-cloud-amd64", "a.you"] {
            assert!(!has_gaps(name), "{name}");
            assert!(matches(name, name), "{name}");
        }
    }

    #[test]
    fn expect_the_newest_last_when_names_are_sorted() {
        let mut names = ["l-6.12.100+deb12-a", "l-6.1.0-57-a", "l-6.12.9+deb12-a", "l-6.12-a"];
        names.sort_by(|one, other| by_version(one, other));
        assert_eq!(names, ["l-6.1.0-57-a", "l-6.12-a", "l-6.12.9+deb12-a", "l-6.12.100+deb12-a"]);
    }
}
