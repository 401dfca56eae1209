//! `regex:` reads the named groups of a regular expression. `^` and `$` match at lines; of several matches the last
//! counts, group by group. Standard output is searched first; standard error only for groups not found there.

use drover_model::Measurement;
use regex::{Regex, RegexBuilder};

use crate::{Input, ParseError, SpecError, number, sheet::Sheet, text::Text};

const ADVICE: &str = "compare the regular expression with the task's raw output";

/// Compiles a pattern that has at least one named group.
pub(crate) fn compile(pattern: &str) -> Result<Regex, SpecError> {
    let regex = RegexBuilder::new(pattern)
        .multi_line(true)
        .crlf(true)
        .build()
        .map_err(|source| SpecError::Regex { pattern: pattern.to_owned(), source: Box::new(source) })?;
    if regex.capture_names().flatten().next().is_none() {
        return Err(SpecError::NoGroup { pattern: pattern.to_owned() });
    }
    Ok(regex)
}

/// A group that takes no part in any match gives no sample; it is an error when none does.
pub(crate) fn parse(pattern: &str, input: &Input<'_>) -> Result<Measurement, ParseError> {
    let regex = compile(pattern)?;
    let text = Text::everything(input, "regex", ADVICE);
    let mut sheet = Sheet::default();
    let stderr = text.stderr();
    for name in regex.capture_names().flatten() {
        let found = last(&regex, text.body(), name).or_else(|| last(&regex, &stderr, name));
        let Some(found) = found else { continue };
        if found.is_part || (!number::is_absent(found.group) && number::plain(found.group).is_none()) {
            return Err(text.bad(name, found.whole));
        }
        sheet.put_some(name, "1", number::plain(found.group).map(|figure| figure.value));
    }
    if sheet.is_empty() {
        return Err(text.missing(&format!("match of `{pattern}`")));
    }
    sheet.finish(text.parser)
}

struct Found<'t> {
    group: &'t str,
    /// The group with what follows it, if that belongs to the same number.
    whole: &'t str,
    is_part: bool,
}

/// The last match of a group. A group at the end of its match that stops within a number has read part of it, as
/// `[0-9]+` does with `1,5`.
fn last<'t>(regex: &Regex, text: &'t str, name: &str) -> Option<Found<'t>> {
    let captures = regex.captures_iter(text).filter(|captures| captures.name(name).is_some()).last()?;
    let group = captures.name(name)?;
    let match_end = captures.get(0).map_or(group.end(), |all| all.end());
    let behind = text.get(group.end()..).unwrap_or_default();
    let tail = behind.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | ','))).unwrap_or(behind.len());
    let tail = behind.get(..tail).unwrap_or_default().trim_end_matches(['.', ',']);
    let is_part = group.end() == match_end && !group.is_empty() && !tail.is_empty();
    let whole = text.get(group.start()..group.end() + tail.len()).unwrap_or_default();
    Some(Found { group: group.as_str().trim(), whole, is_part })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(pattern: &str, stdout: &str) -> Result<Measurement, ParseError> {
        parse(pattern, &Input { stdout: stdout.as_bytes(), stderr: b"took 3 s\n", output_cut: false })
    }

    #[test]
    fn expect_the_last_match_of_each_group_when_there_are_several() {
        let out = "rate 1 op/s\r\nrate 2.5 op/s\r\nlost 7\r\n";
        let measurement = run(r"^rate (?<rate>\S+) op/s$|lost (?<lost>\d+)|took (?<took>\d+)", out).unwrap();
        let value = |name| measurement.value(name);
        assert_eq!((value("rate"), value("lost"), value("took")), (Some(2.5), Some(7.0), Some(3.0)));
    }

    #[test]
    fn expect_an_error_when_a_group_stops_within_a_number() {
        for (pattern, out) in [
            (r"rate (?<rate>\d+)", "rate 1,5 op/s\n"),
            (r"rate (?<rate>\d+)", "rate 1.5 op/s\n"),
            (r"rate (?<rate>\d)", "rate 15 op/s\n"),
            (r"rate (?<rate>\S+)", "rate 1,5 op/s\n"),
            (r"rate (?<rate>.+)", "rate 15 op/s\n"),
        ] {
            assert!(matches!(run(pattern, out), Err(ParseError::BadFigure { .. })), "{pattern} {out}");
        }
        assert_eq!(run(r"rate (?<rate>\d+)", "rate 15, good\n").unwrap().value("rate"), Some(15.0));
        assert_eq!(run(r"rate (?<rate>\d+)", "rate 15.\n").unwrap().value("rate"), Some(15.0));
    }

    #[test]
    fn expect_an_error_when_nothing_matches_or_nothing_is_named() {
        assert!(matches!(run(r"x(?<x>\d)", "none"), Err(ParseError::Missing { .. })));
        assert!(matches!(run(r"x(\d)", "x1"), Err(ParseError::Spec(SpecError::NoGroup { .. }))));
        assert!(matches!(run(r"x(", "x1"), Err(ParseError::Spec(SpecError::Regex { .. }))));
    }
}
