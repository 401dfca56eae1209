//! `drover report`: tables and exports of a stored run.

use std::{fs::File, io::Write};

use drover_model::RunId;
use drover_report::{Axes, Options, ReportError, write_report_with_soaks};
use drover_store::{ResultsDir, RunResults, SqliteStore, Store};

use super::{
    open::{find, open},
    soaks::soaks,
};
use crate::{
    Context,
    args::{Format, ReportArgs},
    driver::chain,
    error::Failure,
    exit::ExitStatus,
};

/// Writes a report to standard output or a file. The exit status is that of the run reported.
pub fn report(args: &ReportArgs, context: &Context) -> Result<ExitStatus, Failure> {
    let (dir, store) = open(context)?;
    let run = find(&store, &args.run)?;
    // Only one form shows the tasks themselves; the others take a tenth of the time without them.
    let results = if args.format == Format::Json { store.load(run) } else { store.load_table(run) };
    let results = results.map_err(|error| Failure::infrastructure(&error))?;
    let options = Options {
        format: args.format.into(),
        metric: args.metric.clone(),
        axes: Axes { rows: some(&args.rows), cols: some(&args.cols), facet: some(&args.facet) },
        color: args.output.is_none() && context.screen.colours_out(),
    };
    let mut text = Vec::new();
    let soaks = soaks(&results, &store, &dir, context)?;
    write_report_with_soaks(&results, &soaks, &options, &mut text).map_err(|error| refuse(&error))?;
    match &args.output {
        Some(path) => {
            let written = File::create(path).and_then(|mut file| file.write_all(&text));
            written.map_err(|error| {
                let text = format!("cannot write {}: {error}", path.display());
                Failure::new(ExitStatus::Infrastructure, text)
            })?;
        }
        None => drop(context.screen.out(&String::from_utf8_lossy(&text))),
    }
    status_of(&results)
}

/// The exit status that a run deserves.
pub fn status_of(results: &RunResults) -> Result<ExitStatus, Failure> {
    drover_report::exit_status(results).map(Into::into).map_err(|error| Failure::infrastructure(&error))
}

/// Axes that were named, if any.
fn some(names: &[String]) -> Option<Vec<String>> {
    (!names.is_empty()).then(|| names.to_vec())
}

/// Prints the table of a run that has just ended.
pub fn print_table(store: &SqliteStore, run: RunId, context: &Context) -> Result<(), Failure> {
    let dir = ResultsDir::open(&context.global.results).map_err(|error| Failure::infrastructure(&error))?;
    let results = store.load_table(run).map_err(|error| Failure::infrastructure(&error))?;
    let options = Options { color: context.screen.colours_out(), ..Options::default() };
    let mut text = Vec::new();
    let soaks = soaks(&results, store, &dir, context)?;
    write_report_with_soaks(&results, &soaks, &options, &mut text).map_err(|error| refuse(&error))?;
    let _ = context.screen.out(&String::from_utf8_lossy(&text));
    Ok(())
}

fn refuse(error: &ReportError) -> Failure {
    let status = match error {
        ReportError::Layout(_) => ExitStatus::Usage,
        _ => ExitStatus::Infrastructure,
    };
    Failure::new(status, chain(error))
}

impl From<Format> for drover_report::Format {
    fn from(format: Format) -> Self {
        match format {
            Format::Text => Self::Text,
            Format::Markdown => Self::Markdown,
            Format::Csv => Self::Csv,
            Format::CellsCsv => Self::CellsCsv,
            Format::Json => Self::Json,
            Format::Junit => Self::Junit,
        }
    }
}

impl From<drover_report::ExitStatus> for ExitStatus {
    fn from(status: drover_report::ExitStatus) -> Self {
        match status {
            drover_report::ExitStatus::AllOk => Self::Ok,
            drover_report::ExitStatus::Ng => Self::Ng,
            drover_report::ExitStatus::Incomplete => Self::Incomplete,
            drover_report::ExitStatus::Infrastructure => Self::Infrastructure,
        }
    }
}
