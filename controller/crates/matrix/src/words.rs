//! A command written as one text: split by the rules of shell quoting, without a shell. Templates are never split, even
//! if they contain spaces or quotes.

use crate::{
    scalar::{Scalar, Style},
    source::SourceText,
};

/// Stands for a template while the words around it are split; from a private area of Unicode.
const MARK: char = '\u{f8ff}';

/// The words of a text, each with the place that it is written at.
pub(crate) fn split(scalar: &Scalar, source: &SourceText) -> Result<Vec<Scalar>, String> {
    if scalar.text.contains(MARK) {
        return Err(format!("it has the character U+{:X}, which is reserved", u32::from(MARK)));
    }
    let mut templates = Vec::new();
    let mut masked = String::new();
    let mut rest = scalar.text.as_str();
    while let Some((before, code, after)) = next_template(rest) {
        masked.push_str(before);
        masked.push(MARK);
        templates.push(code);
        rest = after;
    }
    masked.push_str(rest);
    let words = shell_words::split(&masked).map_err(|_| "a quote is not closed".to_owned())?;

    let mut templates = templates.into_iter();
    let raw = source.slice(scalar.span.clone());
    let mut from = 0;
    let restore = |word: String| {
        let text: String = word
            .split_inclusive(MARK)
            .flat_map(|part| match part.strip_suffix(MARK) {
                Some(text) => [text, templates.next().unwrap_or("")],
                None => [part, ""],
            })
            .collect();
        // A word that is written as it is keeps its own place; any other one points at the whole text.
        let found = raw.get(from..).and_then(|rest| rest.find(&text)).map(|at| from + at);
        match found.filter(|_| !text.is_empty()) {
            Some(at) => {
                from = at + text.len();
                let start = scalar.span.start + at;
                Scalar { span: start..start + text.len(), style: Style::Plain, text }
            }
            None => Scalar { text, style: Style::Opaque, span: scalar.span.clone() },
        }
    };
    Ok(words.into_iter().map(restore).collect())
}

/// The text before the next template, the template, and the text behind it.
fn next_template(text: &str) -> Option<(&str, &str, &str)> {
    let start = [text.find("{{"), text.find("{%"), text.find("{#")].into_iter().flatten().min()?;
    let close = match text.get(start..start + 2)? {
        "{{" => "}}",
        "{%" => "%}",
        _ => "#}",
    };
    let end = text.get(start..)?.find(close).map_or(text.len(), |at| start + at + 2);
    Some((text.get(..start)?, text.get(start..end)?, text.get(end..)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Result<Vec<String>, String> {
        let source = SourceText::new("x", text);
        split(&Scalar::verbatim(&source), &source)
            .map(|list| list.into_iter().map(|word| word.text).collect())
    }

    #[test]
    fn expect_templates_in_one_piece_when_a_command_is_split() {
        assert_eq!(words("ab -n 10 'a b' \"c d\"").unwrap(), ["ab", "-n", "10", "a b", "c d"]);
        assert_eq!(
            words("httperf --port {{ server.port }} --x={{ a ~ ' b' }}y").unwrap(),
            ["httperf", "--port", "{{ server.port }}", "--x={{ a ~ ' b' }}y"],
        );
        assert_eq!(words("a {{ unclosed b").unwrap(), ["a", "{{ unclosed b"]);
        assert!(words("a 'b").is_err());
        assert!(words("a \u{f8ff}").is_err());
    }
}
