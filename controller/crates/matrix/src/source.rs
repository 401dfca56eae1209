//! Text with a name and line numbers: the matrix file, a file it refers to, or a command-line option. Diagnostics
//! point into it.

use std::{ops::Range, sync::Arc};

/// A file as read, not yet checked for anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Name for diagnostics, usually the path as given by the user.
    pub name: String,
    /// Its bytes.
    pub text: Vec<u8>,
}

impl Source {
    /// A file with this name and these bytes.
    pub fn new(name: impl Into<String>, text: impl Into<Vec<u8>>) -> Self {
        Self { name: name.into(), text: text.into() }
    }
}

/// A place in a [`SourceText`], counted from 1. Columns count characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Location {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
}

/// UTF-8 text with an index of its lines. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct SourceText(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    name: String,
    kind: &'static FileKind,
    text: String,
    /// Byte offset of the first byte of each line.
    lines: Vec<usize>,
}

/// What a file is, in the words of its diagnostics.
#[derive(Debug)]
pub(crate) struct FileKind {
    /// With its article: `a matrix`.
    pub(crate) what: &'static str,
    /// What to do when it is too large.
    pub(crate) smaller: &'static str,
    /// What to compare it with.
    pub(crate) example: &'static str,
}

/// The matrix file, and what belongs to it.
pub(crate) static MATRIX: &FileKind = &FileKind {
    what: "a matrix",
    smaller: "write axes as ranges (`1..1000`), put large inputs into files of their own (`files:`), or split it",
    example: "compare with the examples in `matrices/`",
};

impl SourceText {
    pub(crate) fn new(name: impl Into<String>, text: impl Into<String>) -> Self {
        Self::of_kind(name, text, MATRIX)
    }

    pub(crate) fn of_kind(name: impl Into<String>, text: impl Into<String>, kind: &'static FileKind) -> Self {
        let text = text.into();
        let lines = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        Self(Arc::new(Inner { name: name.into(), kind, text, lines }))
    }

    pub(crate) fn name(&self) -> &str {
        &self.0.name
    }

    /// What the file is.
    pub(crate) fn kind(&self) -> &'static FileKind {
        self.0.kind
    }

    pub(crate) fn text(&self) -> &str {
        &self.0.text
    }

    /// The text of a span; empty if the span does not lie on character boundaries of this text.
    pub(crate) fn slice(&self, span: Range<usize>) -> &str {
        self.0.text.get(span).unwrap_or("")
    }

    /// Line and column of a byte offset; offsets past the end are the end.
    pub(crate) fn location(&self, offset: usize) -> Location {
        let offset = offset.min(self.0.text.len());
        let line = self.0.lines.partition_point(|start| *start <= offset);
        let start = self.line_start(line);
        let column = self.0.text.get(start..offset).map_or(1, |before| before.chars().count() + 1);
        Location { line, column }
    }

    /// The text of a line, counted from 1, without its end.
    pub(crate) fn line(&self, line: usize) -> &str {
        let start = self.line_start(line);
        let end = self.0.lines.get(line).map_or(self.0.text.len(), |next| next - 1);
        self.slice(start..end.max(start)).trim_end_matches('\r')
    }

    fn line_start(&self, line: usize) -> usize {
        line.checked_sub(1).and_then(|index| self.0.lines.get(index)).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expect_columns_in_characters_when_a_line_holds_other_than_ascii() {
        let source = SourceText::new("x", "a\nüö b\r\n");
        assert_eq!(source.location(0), Location { line: 1, column: 1 });
        assert_eq!(source.location("a\nüö ".len()), Location { line: 2, column: 4 });
        assert_eq!(source.line(2), "üö b");
        assert_eq!(source.line(3), "");
        assert_eq!(source.location(1000).line, 3);
    }
}
