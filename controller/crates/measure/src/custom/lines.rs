//! `lines` reads every line of the form `key=value` or `key: value` whose value is a number.

use drover_model::Measurement;

use crate::{Input, ParseError, number, sheet::Sheet, text::Text};

const ADVICE: &str = "write lines such as `ops=12.5` to standard output: a name of letters, digits, `_`, `-` and `.`, \
                      then `=` or `:`, then a number and nothing else";

/// Of several lines with the same key the last counts. Lines of other forms are ignored, but a value that looks like
/// a number of another locale is an error.
pub(crate) fn parse(input: &Input<'_>) -> Result<Measurement, ParseError> {
    let text = Text::everything(input, "lines", ADVICE);
    let mut sheet = Sheet::default();
    for line in text.body().lines() {
        let Some((key, value)) = line.split_once(['=', ':']) else { continue };
        let (key, value) = (key.trim(), value.trim());
        if !is_key(key) {
            continue;
        }
        match number::plain(value) {
            Some(figure) => sheet.put(key, "1", figure.value),
            None if is_foreign(value) => return Err(text.bad(key, value)),
            None => {}
        }
        if sheet.overflowed() {
            break;
        }
    }
    if sheet.is_empty() {
        return Err(text.missing("line of the form key=value with a number"));
    }
    sheet.finish(text.parser)
}

fn is_key(key: &str) -> bool {
    let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    key.len() <= 64 && key.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && key.chars().all(good)
}

/// Digits with a decimal comma, or grouped.
fn is_foreign(value: &str) -> bool {
    let digits = value.strip_prefix(['-', '+']).unwrap_or(value);
    let (mut seen_comma, mut all) = (false, digits.starts_with(|c: char| c.is_ascii_digit()));
    for c in digits.chars() {
        seen_comma |= matches!(c, ',' | '\'' | '\u{a0}' | '\u{202f}');
        all &= c.is_ascii_digit() || matches!(c, ',' | '.' | '\'' | '\u{a0}' | '\u{202f}');
    }
    all && seen_comma
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(stdout: &str) -> Result<Measurement, ParseError> {
        parse(&Input { stdout: stdout.as_bytes(), stderr: b"", output_cut: false })
    }

    #[test]
    fn expect_numbers_only_when_lines_have_keys_and_values() {
        let out = "# note\nops=12\nlat.p99: 0.25\r\nunit: ms\n time =3 s\nops=13\nlast=1e3";
        let measurement = run(out).unwrap();
        let samples: Vec<_> = measurement.samples.iter().map(|s| (s.name.as_str(), s.value)).collect();
        assert_eq!(samples, [("ops", 13.0), ("lat.p99", 0.25), ("last", 1000.0)]);
    }

    #[test]
    fn expect_an_error_when_a_value_is_of_another_locale_or_nothing_is_found() {
        for out in ["ops=1,5\n", "ops: 1.234,5\n", "ops=1'000\n"] {
            assert!(matches!(run(out), Err(ParseError::BadFigure { .. })), "{out}");
        }
        assert!(matches!(run("hello\n"), Err(ParseError::Missing { .. })));
        let many: String = (0..2000).map(|i| format!("k{i}=1\n")).collect();
        assert!(matches!(run(&many), Err(ParseError::TooMany { .. })));
    }
}
