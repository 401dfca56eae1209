//! The whole run as one JSON document, for other programs. Its schema is `report.schema.json` beside this crate.
//!
//! Own types instead of the stored records, so that a change of the store does not change what others read.

mod document;
mod task;

use std::io::Write;

use drover_store::RunResults;
use serde::Serialize;

use crate::{error::ReportError, escape::SafeJson, soak::SoakResult};

pub(crate) use document::Document;

/// Writes the document on one line.
pub(crate) fn write(
    results: &RunResults,
    soaks: &[SoakResult],
    out: &mut dyn Write,
) -> Result<(), ReportError> {
    let document = Document::of(results, soaks)?;
    let mut serializer = serde_json::Serializer::with_formatter(&mut *out, SafeJson);
    document.serialize(&mut serializer).map_err(std::io::Error::from)?;
    writeln!(out)?;
    Ok(())
}

/// The JSON Schema of [`write`]'s documents, indented, with a line end.
#[must_use]
pub(crate) fn schema() -> String {
    let schema = schemars::schema_for!(Document<'static>);
    // A schema is plain JSON of strings and numbers, which always serialises.
    let text = serde_json::to_string_pretty(&schema).unwrap_or_default();
    text + "\n"
}
