//! Why an output gave no measurement, in words that tell its reader what to do. Made by every parser of this crate;
//! shown by the controller as the detail of an `ERR parse` verdict.

use std::{borrow::Cow, fmt};

use crate::Input;

/// An output that could not be turned into samples.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ParseError {
    /// The output has no figures, but a line in which the tool says what went wrong.
    #[error("{parser} gave no figures, it said: {said}")]
    ToolFailed {
        /// Which parser.
        parser: &'static str,
        /// The tool's own line, shortened.
        said: String,
    },
    /// A figure without which there is no result is not there.
    #[error("no {what} in the output of {parser}, {found}; {advice}")]
    Missing {
        /// Which parser.
        parser: &'static str,
        /// What was looked for.
        what: String,
        /// How the output begins.
        found: Excerpt,
        /// What to do.
        advice: &'static str,
    },
    /// A figure is there, but what is written is not a number of the expected form.
    #[error(
        "{what} in the output of {parser} reads `{found}`, not a number such as 1234.5; \
         run it with LC_ALL=C and without grouping of digits"
    )]
    BadFigure {
        /// Which parser.
        parser: &'static str,
        /// Which figure.
        what: String,
        /// What is written there, shortened.
        found: String,
    },
    /// There is no complete document of the expected kind (JSON, YAML).
    #[error("no complete {kind} document in the output of {parser}, {found}; {advice}")]
    NoDocument {
        /// Which parser.
        parser: &'static str,
        /// Kind of document.
        kind: &'static str,
        /// How the output begins.
        found: Excerpt,
        /// What to do.
        advice: &'static str,
        /// Where it stops being one.
        #[source]
        source: Option<DocumentError>,
    },
    /// A document is there, but it is not of the form the tool writes.
    #[error(
        "the {kind} document in the output of {parser} has another form than expected, {found}; {advice}"
    )]
    Form {
        /// Which parser.
        parser: &'static str,
        /// Kind of document.
        kind: &'static str,
        /// How the output begins.
        found: Excerpt,
        /// What to do.
        advice: &'static str,
        /// The first difference.
        #[source]
        source: DocumentError,
    },
    /// The measurement of a role asks for something that cannot be carried out.
    #[error("the parser of this role cannot be used")]
    Spec(#[from] SpecError),
    /// More samples than a task may have.
    #[error("the output of {parser} has more than {limit} samples; name the few that matter with `regex:`")]
    TooMany {
        /// Which parser.
        parser: &'static str,
        /// Samples allowed.
        limit: usize,
    },
}

/// A fault of the parser's description itself, not of an output.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpecError {
    /// Not a regular expression.
    #[error("`{pattern}` is not a regular expression")]
    Regex {
        /// As written.
        pattern: String,
        /// The fault in it.
        #[source]
        source: Box<regex::Error>,
    },
    /// No named group, so there is nothing to call a sample.
    #[error("`{pattern}` has no named group; write the figure as (?<name>[0-9.]+)")]
    NoGroup {
        /// As written.
        pattern: String,
    },
    /// Not a path into a JSON document.
    #[error("`{path}` is not a path: {reason}, at character {at}; write for example jobs[0].read[\"iops\"]")]
    Path {
        /// As written.
        path: String,
        /// Character at which it goes wrong, from 1.
        at: usize,
        /// What is wrong.
        reason: &'static str,
    },
    /// Nothing to look for.
    #[error("`json:` names no sample; write name: path")]
    NoPath,
}

/// What a reader of documents objects to, shortened: such messages may quote a whole text of the document.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DocumentError {
    /// JSON.
    #[error("{}", shorten(&.0.to_string(), 300))]
    Json(serde_json::Error),
    /// YAML.
    #[error("{}", shorten(&.0.to_string(), 300))]
    Yaml(serde_yaml::Error),
}

macro_rules! from {
    ($($variant:ident $error:ty,)*) => {
        $(impl From<$error> for DocumentError {
            fn from(error: $error) -> Self {
                Self::$variant(error)
            }
        })*
    };
}

from! {
    Json serde_json::Error,
    Yaml serde_yaml::Error,
}

/// The first lines of an output, bounded and free of control characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Excerpt {
    lines: Vec<String>,
    from_stderr: bool,
}

impl Excerpt {
    const LINES: usize = 3;
    const CHARS: usize = 100;

    /// Of standard output, or of standard error if the former is blank.
    #[must_use]
    pub fn of(input: &Input<'_>) -> Self {
        let stdout = first_lines(input.stdout);
        if stdout.is_empty() {
            return Self { lines: first_lines(input.stderr), from_stderr: true };
        }
        Self { lines: stdout, from_stderr: false }
    }
}

impl fmt::Display for Excerpt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.lines.is_empty(), self.from_stderr) {
            (true, _) => f.write_str("which is empty"),
            (false, true) => write!(f, "which is empty (stderr begins `{}`)", self.lines.join(" | ")),
            (false, false) => write!(f, "which begins `{}`", self.lines.join(" | ")),
        }
    }
}

fn first_lines(bytes: &[u8]) -> Vec<String> {
    // Enough for a few lines, whatever the size of the output.
    let head = bytes.get(..4096).unwrap_or(bytes);
    let head = String::from_utf8_lossy(head);
    let lines = head.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.take(Excerpt::LINES).map(|line| shorten(line, Excerpt::CHARS)).collect()
}

/// At most `max` characters of `text`, control characters escaped.
pub(crate) fn shorten(text: &str, max: usize) -> String {
    let mut short = String::new();
    for (i, c) in text.chars().enumerate() {
        if i == max {
            short.push('…');
            break;
        }
        if c.is_control() { short.extend(c.escape_default()) } else { short.push(c) }
    }
    short
}

/// The line in which a tool says why it failed, if it does: standard error first.
pub(crate) fn complaint(input: &Input<'_>) -> Option<String> {
    /// Words that no line of figures has.
    const STRONG: [&str; 15] = [
        "refused",
        "error:",
        "unable to",
        "cannot",
        "can't",
        "could not",
        "no such",
        "timed out",
        "denied",
        "unreachable",
        "reset by",
        "fatal",
        "panic",
        "invalid",
        "unknown option",
    ];
    /// Words that mean something on standard error only.
    const WEAK: [&str; 4] = ["error", "fail", "timeout", "expired"];
    let stderr = last_part(input.stderr);
    let stdout = last_part(input.stdout);
    find_line(&stderr, &[&STRONG, &WEAK]).or_else(|| find_line(&stdout, &[&STRONG]))
}

/// The complaint of a tool that gives up is near the end of what it wrote: 64 KiB are plenty.
fn last_part(bytes: &[u8]) -> Cow<'_, str> {
    let from = bytes.len().saturating_sub(64 * 1024);
    String::from_utf8_lossy(bytes.get(from..).unwrap_or_default())
}

fn find_line(text: &str, words: &[&[&str]]) -> Option<String> {
    text.lines().map(str::trim).find_map(|line| {
        let lower = line.to_ascii_lowercase();
        // httperf remarks on its descriptor limit in every run.
        let harmless = lower.contains("warning:");
        let found = words.iter().copied().flatten().any(|word| lower.contains(word));
        (found && !harmless).then(|| shorten(line, 200))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expect_a_bounded_printable_excerpt_when_the_output_is_long_or_binary() {
        let long = "x".repeat(5000);
        let input = Input { stdout: long.as_bytes(), stderr: b"", output_cut: false };
        assert!(Excerpt::of(&input).to_string().chars().count() < 130);
        let input = Input { stdout: b"\x00\x1b[2J\xff\n\x07", stderr: b"", output_cut: false };
        let shown = Excerpt::of(&input).to_string();
        assert!(!shown.chars().any(char::is_control), "{shown:?}");
    }

    #[test]
    fn expect_stderr_quoted_when_stdout_is_blank() {
        let input = Input { stdout: b" \n", stderr: b"boom\n", output_cut: false };
        assert_eq!(Excerpt::of(&input).to_string(), "which is empty (stderr begins `boom`)");
        let input = Input { stdout: b"", stderr: b"", output_cut: false };
        assert_eq!(Excerpt::of(&input).to_string(), "which is empty");
    }

    #[test]
    fn expect_the_tools_own_line_when_it_complains_on_stderr() {
        let stderr = b"httperf: warning: open file limit > FD_SETSIZE\nconnect: Connection refused (111)\n";
        let input = Input { stdout: b"", stderr, output_cut: false };
        assert_eq!(complaint(&input).as_deref(), Some("connect: Connection refused (111)"));
    }
}
