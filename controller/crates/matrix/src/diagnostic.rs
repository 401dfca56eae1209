//! Diagnostics: every mistake of a file in one go, each with its place, the text, and the remedy. Printed as plain
//! text by `Display`, or by miette for people at a terminal.

use std::{fmt, ops::Range};

use crate::source::{Location, SourceText};

/// Longest part of a source line shown, in characters; a longer line is cut around the mistake.
const EXCERPT: usize = 96;

/// One mistake: where it is, what is wrong, what to do.
#[derive(Clone, Debug)]
pub struct Diagnostic {
    source: SourceText,
    span: Range<usize>,
    message: String,
    help: String,
}

impl Diagnostic {
    pub(crate) fn new(
        source: &SourceText,
        span: Range<usize>,
        message: impl Into<String>,
        help: impl Into<String>,
    ) -> Self {
        Self { source: source.clone(), span, message: message.into(), help: help.into() }
    }

    /// The file, or the command-line option, that holds the mistake.
    #[must_use]
    pub fn file(&self) -> &str {
        self.source.name()
    }

    /// Line and column of its first character.
    #[must_use]
    pub fn location(&self) -> Location {
        self.source.location(self.span.start)
    }

    /// The offending text.
    #[must_use]
    pub fn text(&self) -> &str {
        self.source.slice(self.span.clone())
    }

    /// What is wrong.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// What was expected, or what to do about it.
    #[must_use]
    pub fn remedy(&self) -> &str {
        &self.help
    }

    /// Start of the offending text in bytes, for sorting.
    pub(crate) fn offset(&self) -> usize {
        self.span.start
    }

    /// The source line and the marks below the offending part of it.
    fn excerpt(&self) -> (String, String) {
        let at = self.location();
        let line: Vec<char> = self.source.line(at.line).chars().collect();
        let first = at.column - 1;
        let marked = self.text().lines().next().unwrap_or("").chars().count();
        let skip = if line.len() > EXCERPT && first > EXCERPT / 2 { first - EXCERPT / 3 } else { 0 };
        let shown: String = line
            .iter()
            .skip(skip)
            .take(EXCERPT)
            .map(|c| match c {
                '\t' => '→',
                c if c.is_control() => ' ',
                c => *c,
            })
            .collect();
        let cut = line.len() > skip + EXCERPT;
        let lead = if skip > 0 { "..." } else { "" };
        let tail = if cut { "..." } else { "" };
        let width = marked.clamp(1, EXCERPT.saturating_sub(first - skip).max(1));
        let marks = format!("{}{}", " ".repeat(first - skip + lead.len()), "^".repeat(width));
        (format!("{lead}{shown}{tail}"), marks)
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = self.location();
        writeln!(f, "{}:{}:{}: {}", self.file(), at.line, at.column, self.message)?;
        let (line, marks) = self.excerpt();
        let number = at.line.to_string();
        let gap = " ".repeat(number.len());
        writeln!(f, " {number} | {}", line.trim_end())?;
        writeln!(f, " {gap} | {marks}")?;
        write!(f, " {gap} = {}", self.help)
    }
}

impl std::error::Error for Diagnostic {}

/// A mistake as miette prints it: only the message by `Display`, everything else through its trait.
#[derive(Clone, Debug)]
struct Fancy(Diagnostic);

impl fmt::Display for Fancy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl std::error::Error for Fancy {}

impl miette::Diagnostic for Fancy {
    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        Some(Box::new(&self.0.help))
    }

    fn source_code(&self) -> Option<&dyn miette::SourceCode> {
        Some(&self.0.source)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = miette::LabeledSpan> + '_>> {
        let label = miette::LabeledSpan::new_with_span(Some("here".into()), self.0.span.clone());
        Some(Box::new(std::iter::once(label)))
    }
}

impl miette::SourceCode for SourceText {
    fn read_span<'a>(
        &'a self,
        span: &miette::SourceSpan,
        before: usize,
        after: usize,
    ) -> Result<Box<dyn miette::SpanContents<'a> + 'a>, miette::MietteError> {
        let inner = self.text().read_span(span, before, after)?;
        let contents = miette::MietteSpanContents::new_named(
            self.name().to_owned(),
            inner.data(),
            *inner.span(),
            inner.line(),
            inner.column(),
            inner.line_count(),
        );
        Ok(Box::new(contents))
    }
}

/// All mistakes of one matrix, in the order of their places. Never empty.
#[derive(Clone, Debug)]
pub struct Diagnostics {
    list: Vec<Fancy>,
    /// How many more were found and are not listed.
    more: usize,
}

impl Diagnostics {
    /// Mistakes listed; a file with more says how many more.
    pub const LIMIT: usize = 100;

    /// Sorts the mistakes by place; `None` when there are none.
    pub(crate) fn collect(mut list: Vec<Diagnostic>) -> Option<Self> {
        if list.is_empty() {
            return None;
        }
        list.sort_by(|a, b| (a.file(), a.offset()).cmp(&(b.file(), b.offset())));
        list.dedup_by(|a, b| a.file() == b.file() && a.span == b.span && a.message == b.message);
        let more = list.len().saturating_sub(Self::LIMIT);
        list.truncate(Self::LIMIT);
        Some(Self { list: list.into_iter().map(Fancy).collect(), more })
    }

    /// The mistakes in the order of their places.
    pub fn iter(&self) -> impl Iterator<Item = &Diagnostic> {
        self.list.iter().map(|one| &one.0)
    }

    /// How many there are, listed or not.
    #[must_use]
    pub fn count(&self) -> usize {
        self.list.len() + self.more
    }

    /// A line that counts them.
    fn summary(&self) -> String {
        match self.count() {
            1 => "1 mistake".to_owned(),
            count if self.more > 0 => format!("{count} mistakes, the first {} are shown", self.list.len()),
            count => format!("{count} mistakes"),
        }
    }
}

impl From<Diagnostic> for Diagnostics {
    fn from(one: Diagnostic) -> Self {
        Self { list: vec![Fancy(one)], more: 0 }
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for diagnostic in self.iter() {
            writeln!(f, "{diagnostic}\n")?;
        }
        f.write_str(&self.summary())
    }
}

/// What miette prints: a headline, then each mistake with its source as a related report.
///
/// `Diagnostics` itself prints everything in plain text; this wrapper prints only the count, because miette prints the
/// related reports itself.
#[derive(Debug)]
pub struct FancyDiagnostics(pub Diagnostics);

impl fmt::Display for FancyDiagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.summary())
    }
}

impl std::error::Error for Diagnostics {}
impl std::error::Error for FancyDiagnostics {}

impl miette::Diagnostic for FancyDiagnostics {
    fn related<'a>(&'a self) -> Option<Box<dyn Iterator<Item = &'a dyn miette::Diagnostic> + 'a>> {
        Some(Box::new(self.0.list.iter().map(|one| -> &dyn miette::Diagnostic { one })))
    }
}
