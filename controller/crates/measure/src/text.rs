//! The output of a tool as lines, and the look-ups that the text parsers share. Made once per parse.

use std::borrow::Cow;

use drover_model::DoubtKind;

use crate::{
    Input, ParseError,
    error::{Excerpt, complaint, shorten},
    number::{self, Figure},
    sheet::Sheet,
};

/// Decoded standard output of a named tool.
pub(crate) struct Text<'a> {
    input: &'a Input<'a>,
    /// Name of the parser, for errors.
    pub parser: &'static str,
    /// What to do if the output is not as expected, for errors.
    pub advice: &'static str,
    body: Cow<'a, str>,
    ends_in_line: bool,
}

impl<'a> Text<'a> {
    /// Whole lines only: a last line without its end may be cut in the middle of a number.
    pub fn whole_lines(input: &'a Input<'a>, parser: &'static str, advice: &'static str) -> Self {
        let end = input.stdout.iter().rposition(|&b| b == b'\n').map_or(0, |at| at + 1);
        let (whole, rest) = input.stdout.split_at(end);
        let ends_in_line = rest.iter().any(|b| !b.is_ascii_whitespace());
        Self { input, parser, advice, body: String::from_utf8_lossy(whole), ends_in_line }
    }

    /// Everything, for formats that show by themselves whether they are complete.
    pub fn everything(input: &'a Input<'a>, parser: &'static str, advice: &'static str) -> Self {
        Self { input, parser, advice, body: String::from_utf8_lossy(input.stdout), ends_in_line: false }
    }

    pub fn body(&self) -> &str {
        self.body.strip_prefix('\u{feff}').unwrap_or(&self.body)
    }

    /// The part from the last line that begins with `anchor`, where a report of the tool begins. Says in `sheet` when
    /// there were several, or when the output ends in the middle of a line.
    pub fn report(&self, anchor: &str, sheet: &mut Sheet) -> Result<Report<'_>, ParseError> {
        let mut start = None;
        let mut reports = 0_u32;
        let mut at = 0;
        for raw in self.body().split_inclusive('\n') {
            if visible(raw).trim_start().starts_with(anchor) {
                start = Some(at);
                reports += 1;
            }
            at += raw.len();
        }
        let body = start.and_then(|start| self.body().get(start..));
        let Some(body) = body else {
            return Err(self.missing(&format!("line `{}`", anchor.trim_end())));
        };
        if reports > 1 {
            let detail =
                format!("the output holds {reports} reports of {}, the last one was read", self.parser);
            sheet.doubt(DoubtKind::Incomplete, detail);
        }
        if self.ends_in_line {
            let detail = format!("the output of {} ends in the middle of a line", self.parser);
            sheet.doubt(DoubtKind::Incomplete, detail);
        }
        Ok(Report { text: self, body })
    }

    /// Standard error, decoded.
    pub fn stderr(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(self.input.stderr)
    }

    /// The error for a figure that is not there: the tool's own complaint, if it made one.
    pub fn missing(&self, what: &str) -> ParseError {
        match complaint(self.input) {
            Some(said) => ParseError::ToolFailed { parser: self.parser, said },
            None => ParseError::Missing {
                parser: self.parser,
                what: what.to_owned(),
                found: self.excerpt(),
                advice: self.advice,
            },
        }
    }

    pub fn bad(&self, what: &str, found: &str) -> ParseError {
        ParseError::BadFigure { parser: self.parser, what: what.to_owned(), found: shorten(found, 60) }
    }

    pub fn excerpt(&self) -> Excerpt {
        Excerpt::of(self.input)
    }

    /// What the tool itself complained of, anywhere in its output.
    pub fn complaint(&self) -> Option<String> {
        complaint(self.input)
    }
}

/// One report within a [`Text`].
#[derive(Clone, Copy)]
pub(crate) struct Report<'t> {
    text: &'t Text<'t>,
    body: &'t str,
}

impl<'t> Report<'t> {
    /// Lines as a terminal would show them, trimmed.
    pub fn lines(self) -> impl Iterator<Item = &'t str> {
        self.body.split_terminator('\n').map(|line| visible(line).trim())
    }

    /// What follows `prefix` on the first line that begins with it.
    pub fn after(self, prefix: &str) -> Option<&'t str> {
        self.lines().find_map(|line| line.strip_prefix(prefix)).map(str::trim)
    }

    /// Reads `found` with `read`; an error naming `what` if it cannot, `None` for the words that say "no figure".
    pub fn read<T>(
        self,
        what: &str,
        found: &str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, ParseError> {
        if number::is_absent(found) {
            return Ok(None);
        }
        read(found).map(Some).ok_or_else(|| self.text.bad(what, found))
    }

    /// The count behind `prefix`, if that line is there.
    pub fn count(self, prefix: &str) -> Result<Option<u64>, ParseError> {
        self.word(prefix)?.map_or(Ok(None), |found| self.read(name_of(prefix), found, number::count))
    }

    /// The number behind `prefix`, if that line is there.
    pub fn figure(self, prefix: &str) -> Result<Option<Figure>, ParseError> {
        self.word(prefix)?.map_or(Ok(None), |found| self.read(name_of(prefix), found, number::plain))
    }

    /// The word behind `prefix`; an error if more digits follow, as in `1 234`.
    fn word(self, prefix: &str) -> Result<Option<&'t str>, ParseError> {
        let Some(rest) = self.after(prefix) else { return Ok(None) };
        let mut words = rest.split_ascii_whitespace();
        let found = words.next();
        if words.next().is_some_and(|next| next.starts_with(|c: char| c.is_ascii_digit())) {
            return Err(self.bad(name_of(prefix), rest));
        }
        Ok(found)
    }

    /// Turns an absent figure into an error.
    pub fn require<T>(self, what: &str, value: Option<T>) -> Result<T, ParseError> {
        value.ok_or_else(|| self.text.missing(name_of(what)))
    }

    /// The error of a figure that is not a number.
    pub fn bad(self, what: &str, found: &str) -> ParseError {
        self.text.bad(what, found)
    }
}

fn name_of(prefix: &str) -> &str {
    prefix.trim_end_matches([':', '=', ' '])
}

/// What a terminal shows of a line: without its end, and without what a carriage return has overwritten.
fn visible(line: &str) -> &str {
    let line = line.trim_end_matches(['\n', '\r']);
    line.rsplit('\r').next().unwrap_or(line)
}

/// Splits `text` between `open` and the next `close` behind it.
pub(crate) fn between<'t>(text: &'t str, open: &str, close: &str) -> Option<&'t str> {
    let (_, rest) = text.split_once(open)?;
    rest.split_once(close).map(|(inner, _)| inner.trim())
}

/// The word right before `unit` in a line such as `20 requests, 3 failed`.
pub(crate) fn word_before<'t>(text: &'t str, unit: &str) -> Option<&'t str> {
    text.split_once(unit).and_then(|(before, _)| before.split_ascii_whitespace().next_back())
}

/// The word right behind `label` in a line such as `connections 20 requests 3`.
pub(crate) fn word_after<'t>(text: &'t str, label: &str) -> Option<&'t str> {
    text.split_once(label).and_then(|(_, behind)| behind.split_ascii_whitespace().next())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(stdout: &[u8]) -> Input<'_> {
        Input { stdout, stderr: b"", output_cut: false }
    }

    #[test]
    fn expect_the_unfinished_last_line_left_out_when_output_is_cut() {
        let input = input(b"start\nrate: 12\ncount: 12");
        let text = Text::whole_lines(&input, "tool", "");
        let mut sheet = Sheet::default();
        let report = text.report("start", &mut sheet).unwrap();
        assert_eq!(report.count("rate:").unwrap(), Some(12));
        assert_eq!(report.count("count:").unwrap(), None);
        assert_eq!(sheet.into_measurement().doubts.len(), 1);
    }

    #[test]
    fn expect_the_last_report_when_there_are_two() {
        let input = input(b"start\nrate: 1\nstart\r\nprogress 1\rrate: 2\r\n");
        let text = Text::whole_lines(&input, "tool", "");
        let mut sheet = Sheet::default();
        let report = text.report("start", &mut sheet).unwrap();
        assert_eq!(report.count("rate:").unwrap(), Some(2));
        assert_eq!(sheet.into_measurement().doubts.len(), 1);
    }

    #[test]
    fn expect_an_error_with_the_text_when_a_figure_is_not_a_number() {
        let input = input(b"start\nrate: 1,5\n");
        let text = Text::whole_lines(&input, "tool", "");
        let report = text.report("start", &mut Sheet::default()).unwrap();
        let error = report.figure("rate:").unwrap_err().to_string();
        assert!(error.contains("rate") && error.contains("`1,5`"), "{error}");
    }
}
