//! Output parsers: bytes in, samples out.
//!
//! Called by the controller after a task ended, with what it wrote and how it ended, and again by `drover reparse`.
//! Pure: no I/O, no clock, no panic whatever the bytes; the work is linear in them.
//!
//! What all parsers hold to:
//! - Missing is not zero: a figure that the output does not have gives no sample. Nothing is guessed.
//! - Units are those of the sample's name (`_s`, `_bytes`, `_per_s`), whatever the tool prints.
//! - The tool's own count of failures and its exit status are not believed: `failed` is reconciled, goodput is
//!   successes / elapsed time, and what the tool reported stays in [`Measurement::reported`] beside it.
//! - Figures that contradict each other raise a [`Doubt`](drover_model::Doubt) with the figures.
//! - A number is read only if it is one in the C locale, to its last character.

mod custom;
mod error;
mod http;
mod json;
mod number;
mod sheet;
mod text;
mod tools;
mod usage;

use drover_model::{DoubtKind, Measurement, ParserSpec};

pub use error::{DocumentError, Excerpt, ParseError, SpecError};
pub use usage::{client_doubts, usage_doubts, usage_samples};

/// What a task wrote.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// Standard output, as kept.
    pub stdout: &'a [u8],
    /// Standard error, as kept.
    pub stderr: &'a [u8],
    /// Whether the middle of either was cut out at the limit of what is kept.
    pub output_cut: bool,
}

/// Reads the output of a task.
///
/// # Errors
///
/// When the output does not hold what the parser is made to find; the error quotes the tool's own complaint if there
/// is one, else what the output begins with, and says what to do.
pub fn parse(spec: &ParserSpec, input: &Input<'_>) -> Result<Measurement, ParseError> {
    let mut measurement = match spec {
        ParserSpec::Tool(tool) => tools::parse(*tool, input)?,
        ParserSpec::Json(paths) => custom::json::parse(paths, input)?,
        ParserSpec::Regex(pattern) => custom::regex::parse(pattern, input)?,
        ParserSpec::Lines => custom::lines::parse(input)?,
    };
    if input.output_cut {
        let detail = "the middle of the output was cut out at the limit of what is kept".to_owned();
        measurement.doubts.push(drover_model::Doubt { kind: DoubtKind::OutputCut, detail });
    }
    Ok(measurement)
}

/// Checks a parser's description before any task has run.
///
/// # Errors
///
/// When a regular expression or a path is malformed, or nothing is named.
pub fn check_spec(spec: &ParserSpec) -> Result<(), SpecError> {
    match spec {
        ParserSpec::Tool(_) | ParserSpec::Lines => Ok(()),
        ParserSpec::Json(paths) => custom::json::check(paths),
        ParserSpec::Regex(pattern) => custom::regex::compile(pattern).map(drop),
    }
}
