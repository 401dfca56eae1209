//! `json:` reads figures at given paths of the last JSON document in the output.

use std::collections::BTreeMap;

use drover_model::Measurement;
use serde_json::Value;

use super::path::Path;
use crate::{
    Input, ParseError, SpecError,
    json::{documents, none},
    number,
    sheet::Sheet,
    text::Text,
};

const ADVICE: &str =
    "the command must write one JSON document to standard output (look at the task's raw output)";

/// Checks all paths.
pub(crate) fn check(paths: &BTreeMap<String, String>) -> Result<(), SpecError> {
    if paths.is_empty() {
        return Err(SpecError::NoPath);
    }
    paths.values().try_for_each(|path| Path::parse(path).map(drop))
}

/// A path that leads nowhere, or to `null`, gives no sample; it is an error when none leads anywhere.
pub(crate) fn parse(paths: &BTreeMap<String, String>, input: &Input<'_>) -> Result<Measurement, ParseError> {
    check(paths)?;
    let text = Text::everything(input, "json", ADVICE);
    let mut documents = documents(text.body());
    let Some(document) = documents.complete.pop().filter(|_| documents.cut.is_none()) else {
        return Err(none(&text, documents));
    };
    let root: Value = serde_json::from_str(document).map_err(|source| ParseError::NoDocument {
        parser: text.parser,
        kind: "JSON",
        found: text.excerpt(),
        advice: ADVICE,
        source: Some(source.into()),
    })?;
    let mut sheet = Sheet::default();
    let mut first_missing = None;
    for (name, path) in paths {
        let parsed = Path::parse(path)?;
        match parsed.find(&root) {
            Ok(value) => sheet.put_some(name.clone(), "1", figure(&text, path, value)?),
            Err(reason) => first_missing = first_missing.or_else(|| Some(format!("{path} ({reason})"))),
        }
    }
    if sheet.is_empty() {
        let what = first_missing.unwrap_or_else(|| "number at any of the paths, only null".to_owned());
        return Err(text.missing(&what));
    }
    sheet.finish(text.parser)
}

/// The number at a path; a text counts if it is wholly a number.
fn figure(text: &Text<'_>, path: &str, value: &Value) -> Result<Option<f64>, ParseError> {
    match value {
        Value::Null => Ok(None),
        Value::Number(number) => Ok(number.as_f64()),
        Value::String(written) if number::is_absent(written) => Ok(None),
        Value::String(written) => {
            let read = number::plain(written).ok_or_else(|| text.bad(path, written))?;
            Ok(Some(read.value))
        }
        Value::Bool(_) | Value::Array(_) | Value::Object(_) => Err(text.bad(path, &value.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(stdout: &str, paths: &[(&str, &str)]) -> Result<Measurement, ParseError> {
        let paths = paths.iter().map(|(name, path)| ((*name).to_owned(), (*path).to_owned())).collect();
        parse(&paths, &Input { stdout: stdout.as_bytes(), stderr: b"", output_cut: false })
    }

    #[test]
    fn expect_the_last_document_when_there_are_several() {
        let out = "log line\n{\"rps\": 1}\n{\"rps\": 2.5, \"none\": null, \"text\": \"7\"}\n";
        let measurement = run(out, &[("rps", "rps"), ("n", "none"), ("t", "text"), ("gone", "a.b")]).unwrap();
        assert_eq!(measurement.value("rps"), Some(2.5));
        assert_eq!(measurement.value("t"), Some(7.0));
        assert_eq!(measurement.samples.len(), 2);
    }

    #[test]
    fn expect_an_error_when_the_last_document_is_cut() {
        assert!(run("{\"rps\": 1}\n{\"rps\": 2", &[("rps", "rps")]).is_err());
    }

    #[test]
    fn expect_what_there_is_named_when_no_path_leads_anywhere() {
        let error = run("{\"summary\": {\"requestsPerSec\": 1}}", &[("rps", "summary.rps")]).unwrap_err();
        let error = error.to_string();
        assert!(error.contains("summary.rps") && error.contains("`requestsPerSec`"), "{error}");
    }

    #[test]
    fn expect_an_error_when_a_value_is_not_a_number() {
        for document in ["{\"a\": \"1,5\"}", "{\"a\": true}", "{\"a\": [1]}", "{\"a\": \"12 ms\"}"] {
            assert!(matches!(run(document, &[("a", "a")]), Err(ParseError::BadFigure { .. })), "{document}");
        }
        assert!(run("{\"a\": 1,5}", &[("a", "a")]).is_err());
    }
}
