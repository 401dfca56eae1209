//! A light look at the text of templates and expressions: where a variable stands, which operator was meant. minijinja
//! decides what is valid; this finds the places that its errors do not tell.

use std::ops::Range;

/// A piece of an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) kind: TokenKind,
    pub(crate) range: Range<usize>,
}

/// What kind of piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenKind {
    /// A variable with its attributes: `server.port`.
    Path,
    /// A quoted text.
    Text,
    /// A number.
    Number,
    /// Operators and brackets, one or more characters.
    Symbol,
}

/// The tokens of an expression.
pub(crate) fn tokens(text: &str) -> Vec<Token> {
    tokens_from(text, 0..text.len())
}

/// The tokens of the code parts (`{{ ... }}`, `{% ... %}`) of a template.
pub(crate) fn template_tokens(text: &str) -> Vec<Token> {
    code_parts(text).into_iter().flat_map(|part| tokens_from(text, part)).collect()
}

fn tokens_from(text: &str, part: Range<usize>) -> Vec<Token> {
    let mut list = Vec::new();
    let mut at = part.start;
    while let Some(rest) = text.get(at..part.end) {
        let Some(first) = rest.chars().next() else { break };
        let (kind, length) = if first.is_whitespace() {
            at += first.len_utf8();
            continue;
        } else if first == '"' || first == '\'' {
            (TokenKind::Text, text_length(rest, first))
        } else if first.is_ascii_digit() {
            (TokenKind::Number, span_of(rest, |c| c.is_ascii_alphanumeric() || c == '.' || c == '_'))
        } else if first.is_alphabetic() || first == '_' {
            (TokenKind::Path, span_of(rest, |c| c.is_alphanumeric() || c == '.' || c == '_'))
        } else if "=<>!&|".contains(first) {
            (TokenKind::Symbol, span_of(rest, |c| "=<>!&|".contains(c)))
        } else {
            (TokenKind::Symbol, first.len_utf8())
        };
        list.push(Token { kind, range: at..at + length });
        at += length;
    }
    list
}

fn span_of(text: &str, belongs: impl Fn(char) -> bool) -> usize {
    text.find(|c| !belongs(c)).unwrap_or(text.len())
}

/// Length of a quoted text, quotes included; to the end if it is not closed.
fn text_length(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if c == quote => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// Inner ranges of `{{ ... }}` and `{% ... %}`; comments are skipped.
fn code_parts(text: &str) -> Vec<Range<usize>> {
    let mut parts = Vec::new();
    let mut at = 0;
    while let Some(start) = text.get(at..).and_then(|rest| rest.find('{')).map(|found| at + found) {
        let end_mark = match text.get(start..start + 2) {
            Some("{{") => "}}",
            Some("{%") => "%}",
            Some("{#") => "#}",
            _ => {
                at = start + 1;
                continue;
            }
        };
        let inner = start + 2;
        let end =
            text.get(inner..).and_then(|rest| rest.find(end_mark)).map_or(text.len(), |found| inner + found);
        if end_mark != "#}" {
            parts.push(inner..end);
        }
        at = end;
    }
    parts
}

/// Where a variable is used: the whole path, or its beginning.
pub(crate) fn find_path(text: &str, tokens: &[Token], name: &str) -> Option<Range<usize>> {
    let path = |token: &&Token| token.kind == TokenKind::Path;
    let written = |token: &Token| text.get(token.range.clone()).unwrap_or("");
    let exact = tokens.iter().filter(path).find(|token| written(token) == name);
    let begins = |token: &&Token| written(token).strip_prefix(name).is_some_and(|rest| rest.starts_with('.'));
    let token = exact.or_else(|| tokens.iter().filter(path).find(begins))?;
    Some(token.range.start..token.range.start + name.len())
}

/// A hint for operators that other languages have and this one has not.
pub(crate) fn operator_hint(text: &str, tokens: &[Token]) -> Option<(Range<usize>, &'static str)> {
    let hint = |written: &str| match written {
        "=" => Some("a comparison is written `==`"),
        "===" => Some("equality is written `==`"),
        "!==" | "=!" | "<>" => Some("inequality is written `!=`"),
        "&&" | "&" => Some("write `and`"),
        "||" => Some("write `or`"),
        "!" => Some("write `not`"),
        "=>" => Some("write `>=`"),
        "=<" => Some("write `<=`"),
        _ => None,
    };
    tokens
        .iter()
        .filter(|token| token.kind == TokenKind::Symbol)
        .find_map(|token| Some((token.range.clone(), hint(text.get(token.range.clone())?)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(template: &str, name: &str) -> Option<usize> {
        find_path(template, &template_tokens(template), name).map(|range| range.start)
    }

    #[test]
    fn expect_variables_only_inside_code_and_outside_quotes() {
        assert_eq!(place("port {{ 'port' }} {# port #} {{ port }}", "port"), Some(32));
        assert_eq!(place("{{ server.port }} {{ port }}", "port"), Some(21));
        assert_eq!(place("{% if a.b.c %}", "a.b"), Some(6));
        assert_eq!(place("{{ unclosed", "unclosed"), Some(3));
        assert_eq!(place("none { here }", "here"), None);
    }

    #[test]
    fn expect_a_hint_when_an_operator_comes_from_another_language() {
        let hint = |text: &str| operator_hint(text, &tokens(text)).map(|(range, _)| range.start);
        assert_eq!(hint("a = 1"), Some(2));
        assert_eq!(hint("a == 1 && b == '||'"), Some(7));
        assert_eq!(hint("a == '=' or b != 2"), None);
    }
}
