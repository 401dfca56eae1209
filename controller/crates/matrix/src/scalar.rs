//! Scalars with their place in the source, and the way back from a position inside a scalar's value (a variable in a
//! template, a token in an expression) to a position in the file.

use std::ops::Range;

use crate::source::SourceText;

/// How a scalar is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    Plain,
    Single,
    Double,
    /// `|` or `>`.
    Block,
    /// Not YAML at all: a whole file or a command-line option.
    Verbatim,
    /// Cut out of a longer scalar: its places cannot be told from those of the whole.
    Opaque,
}

/// Text of a scalar with the place it comes from.
#[derive(Clone, Debug)]
pub(crate) struct Scalar {
    /// The value: quotes, escapes and folding resolved, nothing else interpreted.
    pub(crate) text: String,
    pub(crate) style: Style,
    /// Bytes of the source that it is written in, quotes included.
    pub(crate) span: Range<usize>,
}

impl Scalar {
    /// A whole text as one scalar.
    pub(crate) fn verbatim(source: &SourceText) -> Self {
        let text = source.text().to_owned();
        let span = 0..text.len();
        Self { text, style: Style::Verbatim, span }
    }

    /// Whether it is a plain scalar without text: YAML's null by omission.
    pub(crate) fn is_nothing(&self) -> bool {
        self.style == Style::Plain && self.text.is_empty()
    }

    /// The bytes of the source that a range of the value is written in.
    pub(crate) fn locate(&self, source: &SourceText, within: Range<usize>) -> Range<usize> {
        if self.style == Style::Opaque {
            return self.span.clone();
        }
        let start = self.offset(source, within.start);
        let end = if within.is_empty() { start } else { self.offset(source, within.end).max(start) };
        start..end
    }

    /// The byte of the source that a byte of the value is written at.
    ///
    /// Walks value and source side by side: equal characters advance both, an escape advances both by what it stands
    /// for, and what YAML added (indentation, folded line ends, doubled quotes) advances the source alone.
    fn offset(&self, source: &SourceText, target: usize) -> usize {
        let raw = source.slice(self.span.clone());
        let start = self.span.start;
        // The span of a block begins at its first character, behind the indentation that all its lines share.
        let (mut at, indentation) = match self.style {
            Style::Verbatim => return start + target.min(raw.len()),
            Style::Single | Style::Double => (1, 0),
            Style::Plain | Style::Opaque => (0, 0),
            Style::Block => (0, source.location(start).column - 1),
        };
        let mut value = self.text.char_indices().peekable();
        while let Some((position, wanted)) = value.peek().copied() {
            let Some(rest) = raw.get(at..) else { return start };
            let Some(found) = rest.chars().next() else { break };
            let written = self.written(rest, found, wanted);
            if position >= target && written.is_some() {
                return start + at;
            }
            match written {
                Some(length) => {
                    at += length;
                    value.next();
                    if wanted == '\n' {
                        // The indentation of a block is not part of its value; deeper lines keep their extra spaces.
                        let spaces = raw.get(at..).map_or(0, |r| r.len() - r.trim_start_matches(' ').len());
                        at += spaces.min(indentation);
                    }
                }
                None => at += found.len_utf8(),
            }
        }
        start + at.min(raw.len())
    }

    /// Length of the source text that `wanted` is written as, if it is written at the beginning of `rest`.
    fn written(&self, rest: &str, found: char, wanted: char) -> Option<usize> {
        match (self.style, found) {
            (Style::Double, '\\') => {
                let mut escape = rest.chars().skip(1);
                let digits = match escape.next()? {
                    'x' => 2,
                    'u' => 4,
                    'U' => 8,
                    '\n' | '\r' => return None,
                    other => return Some(1 + other.len_utf8()),
                };
                Some(2 + digits)
            }
            (Style::Single, '\'') if wanted == '\'' => rest.starts_with("''").then_some(2),
            (Style::Single, '\'') => None,
            // A folded line end is a space in the value.
            (_, '\n') if wanted == ' ' => Some(1 + rest.chars().skip(1).take_while(|c| *c == ' ').count()),
            _ if found == wanted => Some(found.len_utf8()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree;

    /// The source text that the needle inside the only value of a file is found at.
    fn found_at(text: &str, needle: &str) -> usize {
        let source = SourceText::new("x", text);
        let (node, problems) = tree::build(&source);
        assert!(problems.is_empty(), "{problems:?}");
        let node = node.unwrap();
        let tree::Kind::Map(entries) = &node.kind else { panic!("not a mapping") };
        let tree::Kind::Scalar(scalar) = &entries[0].value.kind else { panic!("not a scalar") };
        let at = scalar.text.find(needle).unwrap();
        scalar.locate(&source, at..at + needle.len()).start
    }

    #[test]
    fn expect_the_place_in_the_file_whatever_the_style_of_the_scalar() {
        for text in [
            "a: some {{ x }}\n",
            "a: \"so\\tme\\u0041 {{ x }}\"\n",
            "a: 'it''s {{ x }}'\n",
            "a: |\n  one\n    two\n  {{ x }}\n",
            "a: |\n    one\n\n      two {{ x }}\n",
            "a: >-\n  one\n  two {{ x }}\n",
            "a: plain\n  folded {{ x }}\n",
            "a: \"quoted\n  folded {{ x }}\"\n",
        ] {
            assert_eq!(found_at(text, "{{ x"), text.find("{{ x").unwrap(), "{text}");
        }
    }
}
