//! Statistics, tables and exports of stored results.
//!
//! Pure: takes what the store read back and writes to any [`std::io::Write`]; the command line program calls it for
//! `report`, and at the end of `run` and `resume`, and takes its exit status from here.
//!
//! | module | is for |
//! |---|---|
//! | `trials` | which attempt speaks for a trial, and which outcome for a cell |
//! | [`statistics`] | medians, quartiles, spreads |
//! | [`drift`] | trends of time series |
//! | `layout`, `pivot`, `notes`, `heading`, `machines` | the table as data, with the evidence for its marks |
//! | `scaling`, `rank` | where more CPUs did worse |
//! | `text`, `markdown` | the table for people |
//! | [`soak`] | the morning report of a soak |
//! | `table_csv`, `json`, `junit` | exports for programs |
//! | `escape` | makes foreign text harmless in all of them |

mod coverage;
pub mod drift;
mod error;
mod escape;
mod functional;
mod heading;
mod json;
mod junit;
mod layout;
mod machines;
mod markdown;
mod notes;
mod number;
mod pivot;
mod rank;
mod scaling;
pub mod soak;
pub mod statistics;
mod table_csv;
mod text;
mod trials;

use std::{
    fmt,
    io::{BufWriter, Write},
    str::FromStr,
};

use drover_store::RunResults;
use soak::SoakResult;

pub use coverage::{Coverage, ExitStatus, exit_status};
pub use error::ReportError;
pub use layout::{Axes, LayoutError};
pub use table_csv::csv_record;
pub use trials::InconsistentRun;

/// A number as tables print it: four significant digits, thousands separated by commas.
#[must_use]
pub fn format_number(value: f64) -> String {
    number::number(value, number::Decimals::Each)
}

/// Text that a terminal shows and does not obey: control characters and the like become visible escapes, line ends and
/// tabs stay.
#[must_use]
pub fn printable_lines(text: &str) -> String {
    let line = |line: &str| line.split('\t').map(escape::printable).collect::<Vec<_>>().join("\t");
    text.split('\n').map(line).collect::<Vec<_>>().join("\n")
}

/// How a report is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Format {
    /// A table for a terminal or a mail.
    #[default]
    Text,
    /// A table for GitHub, with footnotes.
    Markdown,
    /// A row for each attempt.
    Csv,
    /// A row for each cell.
    CellsCsv,
    /// Everything; the schema is [`json_schema`].
    Json,
    /// A test case for each trial.
    Junit,
}

impl Format {
    /// All formats, in the order of the documentation.
    pub const ALL: [Self; 6] =
        [Self::Text, Self::Markdown, Self::Csv, Self::CellsCsv, Self::Json, Self::Junit];

    /// The word for it on the command line.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Markdown => "markdown",
            Self::Csv => "csv",
            Self::CellsCsv => "csv-table",
            Self::Json => "json",
            Self::Junit => "junit",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(text: &str) -> Result<Self, UnknownFormat> {
        Self::ALL
            .into_iter()
            .find(|format| format.as_str() == text)
            .ok_or_else(|| UnknownFormat(text.to_owned()))
    }
}

/// A word that is not a format.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no format is called `{0}` (formats: text, markdown, csv, csv-table, json, junit)")]
pub struct UnknownFormat(pub String);

/// What a report shows. The default is a plain text table of the primary metric in the run's own layout.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// How it is written.
    pub format: Format,
    /// The metric shown by `text`, `markdown` and `csv-table`; the primary one if not named.
    pub metric: Option<String>,
    /// Where axes go in `text` and `markdown`.
    pub axes: Axes,
    /// Whether `text` has colours.
    pub color: bool,
}

/// Writes a report of a run. Nothing is written if the options do not fit the run.
///
/// # Errors
///
/// If an axis or the metric does not exist or the layout is contradictory ([`ReportError::Layout`]), if the stored
/// results contradict the stored plan, or if `out` fails.
pub fn write_report(results: &RunResults, options: &Options, out: &mut dyn Write) -> Result<(), ReportError> {
    write_report_with_soaks(results, &[], options, out)
}

/// The same for a run of soaks: text, Markdown and JSON have what became of each, in the order given.
///
/// # Errors
///
/// As [`write_report`].
pub fn write_report_with_soaks(
    results: &RunResults,
    soaks: &[SoakResult],
    options: &Options,
    out: &mut dyn Write,
) -> Result<(), ReportError> {
    let metric = options.metric.as_deref();
    // Writers write in small pieces; `out` may be a terminal.
    let mut buffered = BufWriter::with_capacity(64 << 10, out);
    let out = &mut buffered;
    match options.format {
        Format::Text => {
            text::write(&pivot::Pivot::of(results, &options.axes, metric)?, options.color, out)?;
            soak::text::write(results, soaks, out)?;
        }
        Format::Markdown => {
            markdown::write(&pivot::Pivot::of(results, &options.axes, metric)?, out)?;
            soak::markdown::write(results, soaks, out)?;
        }
        Format::Csv => table_csv::write_attempts(results, out)?,
        Format::CellsCsv => {
            table_csv::write_cells(results, pivot::choose_metric(results, metric)?, out)?;
        }
        Format::Json => json::write(results, soaks, out)?,
        Format::Junit => junit::write(results, out)?,
    }
    buffered.flush()?;
    Ok(())
}

/// The JSON Schema of [`Format::Json`], as committed in `report.schema.json`.
#[must_use]
pub fn json_schema() -> String {
    json::schema()
}
