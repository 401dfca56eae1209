//! Finds JSON documents in an output that may begin with log lines, and reads them. Used by the parsers of tools that
//! write JSON and by `json:`.

use serde::de::{DeserializeOwned, IgnoredAny};

use crate::{ParseError, error::DocumentError, text::Text};

/// The complete documents of an output, and why what follows them is none.
#[derive(Debug, Default)]
pub(crate) struct Documents<'t> {
    pub complete: Vec<&'t str>,
    /// The output ends within a document.
    pub cut: Option<serde_json::Error>,
    /// A line looked like the beginning of a document, but was none.
    pub broken: Option<serde_json::Error>,
}

/// Documents are looked for at lines that begin with `{` or `[`; anything else is a log line. Nothing inside of a
/// document that turned out to be broken or cut is taken for one.
pub(crate) fn documents(body: &str) -> Documents<'_> {
    let mut found = Documents::default();
    let mut rest = body;
    while let Some(line_len) = line_len(rest) {
        if !rest.starts_with(['{', '[']) {
            rest = rest.get(line_len..).unwrap_or_default();
            continue;
        }
        let mut stream = serde_json::Deserializer::from_str(rest).into_iter::<IgnoredAny>();
        let outcome = stream.next();
        let end = stream.byte_offset();
        let skip = match outcome {
            Some(Ok(_)) => {
                found.complete.extend(rest.get(..end));
                end
            }
            Some(Err(error)) if error.is_eof() => {
                found.cut = Some(error);
                return found;
            }
            Some(Err(error)) => {
                let lines_before = error.line().saturating_sub(1);
                found.broken = Some(error);
                rest.split_inclusive('\n').take(lines_before).map(str::len).sum()
            }
            None => return found,
        };
        rest = rest.get(skip..).unwrap_or_default();
        rest = rest.get(self::line_len(rest).unwrap_or(rest.len())..).unwrap_or_default();
    }
    found
}

/// Length of the first line with its end; `None` when nothing is left.
fn line_len(text: &str) -> Option<usize> {
    (!text.is_empty()).then(|| text.find('\n').map_or(text.len(), |at| at + 1))
}

/// The first document that has the form of `T`.
pub(crate) fn read<T: DeserializeOwned>(text: &Text<'_>) -> Result<T, ParseError> {
    let documents = documents(text.body());
    let mut misfit = None;
    for document in &documents.complete {
        match serde_json::from_str(document) {
            Ok(read) => return Ok(read),
            Err(error) => misfit = Some(error),
        }
    }
    if let Some(error) = misfit {
        return Err(ParseError::Form {
            parser: text.parser,
            kind: "JSON",
            found: text.excerpt(),
            advice: text.advice,
            source: error.into(),
        });
    }
    Err(none(text, documents))
}

/// The error for an output without a complete document: the tool's complaint, if it made one.
pub(crate) fn none(text: &Text<'_>, documents: Documents<'_>) -> ParseError {
    if let (None, Some(said)) = (&documents.cut, text.complaint()) {
        return ParseError::ToolFailed { parser: text.parser, said };
    }
    ParseError::NoDocument {
        parser: text.parser,
        kind: "JSON",
        found: text.excerpt(),
        advice: text.advice,
        source: documents.cut.or(documents.broken).map(DocumentError::from),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expect_the_documents_only_when_log_lines_surround_them() {
        let body = "[info] starting\n{note}\n{\"a\":\n [1,\n {\"b\":2}]}\nbye\n{\"c\":3}";
        assert_eq!(documents(body).complete, ["{\"a\":\n [1,\n {\"b\":2}]}", "{\"c\":3}"]);
    }

    #[test]
    fn expect_no_inner_document_when_the_outer_one_is_cut_or_broken() {
        let cut = documents("{\"a\": [\n{\"rps\": 5},\n{\"rps\": 6}");
        assert!(cut.complete.is_empty() && cut.cut.is_some());
        let broken = documents("{\"a\": [\n{\"rps\": 5},\n{\"rps\" 6}\n]}\n");
        assert_eq!(broken.complete, [] as [&str; 0]);
        assert!(broken.broken.is_some());
    }
}
