//! CSV for spreadsheets and scripts: a row for each attempt, or a row for each cell.

use std::{borrow::Cow, collections::HashSet, io::Write};

use drover_model::Outcome;
use drover_store::{AttemptRecord, MetricRecord, RunResults};
use jiff::Timestamp;

use crate::{
    error::ReportError,
    escape::csv_field,
    functional::{functional_hosts, is_functional},
    statistics::Summary,
    trials::{CellOutcome, CellTrials, Trial, group, valid_metrics},
};

/// Columns of [`write_attempts`] before the axes, between axes and metrics, and after the metrics.
const FIRST: [&str; 3] = ["run", "cell", "key"];
const MIDDLE: [&str; 8] =
    ["repetition", "attempt", "hosts", "outcome", "cause", "detail", "started", "elapsed_s"];
const LAST: [&str; 3] = ["start_skew_us", "functional_only", "final"];

/// Writes a row for each attempt. A trial that was never begun, and an excluded cell, are a row too, `missing` and
/// without attempt: what was planned can be counted from the file alone. Times are UTC (RFC 3339) and seconds.
pub(crate) fn write_attempts(results: &RunResults, out: &mut dyn Write) -> Result<(), ReportError> {
    let mut csv = csv::Writer::from_writer(out);
    let run = &results.run;
    let mut columns = Columns::new(FIRST.iter().chain(&MIDDLE).chain(&LAST));
    let mut header: Vec<String> = FIRST.map(str::to_owned).to_vec();
    header.extend(run.axes.iter().map(|axis| columns.add("axis", axis.as_str())));
    header.extend(MIDDLE.map(str::to_owned));
    header.extend(run.metrics.iter().map(|metric| columns.add("metric", metric.name.as_str())));
    header.extend(LAST.map(str::to_owned));
    write(&mut csv, header.iter().map(String::as_str))?;
    let id = run.id.to_string();
    let functional = functional_hosts(results);
    for cell in group(results)? {
        let mut first = vec![id.clone(), cell.cell.index.to_string(), cell.cell.key.to_string()];
        first.extend(cell.cell.values.iter().map(|value| value.to_string()));
        if cell.is_excluded() {
            let because = cell.cell.excluded.as_deref().unwrap_or_default();
            absent(&mut csv, &first, "", "excluded", because, run.metrics.len())?;
        }
        for trial in &cell.trials {
            if trial.attempts.is_empty() {
                absent(&mut csv, &first, &trial.repetition.to_string(), "not-run", "", run.metrics.len())?;
            }
            for attempt in &trial.attempts {
                let fields = attempt_fields(attempt, &run.metrics, &functional);
                write(&mut csv, first.iter().map(String::as_str).chain(fields.iter().map(|field| &**field)))?;
            }
        }
    }
    csv.flush()?;
    Ok(())
}

fn attempt_fields<'a>(
    attempt: &'a AttemptRecord,
    metrics: &[MetricRecord],
    functional: &[&str],
) -> Vec<Cow<'a, str>> {
    let started =
        i64::try_from(attempt.started_unix_us).ok().and_then(|us| Timestamp::from_microsecond(us).ok());
    let mut fields: Vec<Cow<'_, str>> = vec![
        attempt.id.trial.repetition.to_string().into(),
        attempt.id.number.to_string().into(),
        attempt.hosts.iter().map(|host| host.as_str()).collect::<Vec<_>>().join(" ").into(),
        attempt.verdict.outcome().as_str().into(),
        attempt.verdict.cause().into(),
        attempt.verdict.detail().into(),
        started.map(|at| at.to_string()).unwrap_or_default().into(),
        attempt.elapsed.as_secs_f64().to_string().into(),
    ];
    for metric in metrics {
        let value = valid_metrics(attempt).find(|(name, _)| *name == metric.name.as_str());
        fields.push(value.map(|(_, value)| value.to_string()).unwrap_or_default().into());
    }
    fields.push(attempt.start_skew_us.map(|skew| skew.to_string()).unwrap_or_default().into());
    fields.push(is_functional(functional, attempt).to_string().into());
    fields.push(attempt.is_final.to_string().into());
    fields
}

fn absent<W: Write>(
    csv: &mut csv::Writer<W>,
    first: &[String],
    repetition: &str,
    cause: &str,
    detail: &str,
    metrics: usize,
) -> Result<(), ReportError> {
    let middle = [repetition, "", "", Outcome::Missing.as_str(), cause, detail, "", ""];
    let rest = std::iter::repeat_n("", metrics + LAST.len());
    write(csv, first.iter().map(String::as_str).chain(middle).chain(rest))
}

/// Writes a row for each cell: its axes, the median of the metric, over how many trials, the mark (empty, `**`, `NG`,
/// `ERR` or `---`) and the causes behind the mark. The median has all its digits.
pub(crate) fn write_cells(
    results: &RunResults,
    metric: Option<&MetricRecord>,
    out: &mut dyn Write,
) -> Result<(), ReportError> {
    let mut csv = csv::Writer::from_writer(out);
    let mut columns = Columns::new(["n", "mark", "cause"].iter());
    let mut header: Vec<String> =
        results.run.axes.iter().map(|axis| columns.add("axis", axis.as_str())).collect();
    header.extend(metric.map(|metric| columns.add("metric", metric.name.as_str())));
    header.extend(["n", "mark", "cause"].map(str::to_owned));
    write(&mut csv, header.iter().map(String::as_str))?;
    for cell in group(results)? {
        let outcome = cell.outcome;
        let has_number = outcome.outcome().has_number();
        let summary =
            metric.filter(|_| has_number).and_then(|metric| Summary::of(cell.values(metric.name.as_str())));
        let no_value = has_number && metric.is_some() && summary.is_none();
        let n = match (summary, metric) {
            (Some(summary), _) => summary.n,
            (None, None) if has_number => cell.count(Outcome::has_number),
            _ => 0,
        };
        let mut row: Vec<Cow<'_, str>> =
            cell.cell.values.iter().map(|value| Cow::Borrowed(&**value)).collect();
        if metric.is_some() {
            row.push(summary.map(|summary| summary.median.to_string()).unwrap_or_default().into());
        }
        row.push(n.to_string().into());
        row.push(if no_value { "---" } else { outcome.mark() }.into());
        row.push(if no_value { "no-value".into() } else { causes(&cell, outcome).into() });
        write(&mut csv, row.iter().map(|field| &**field))?;
    }
    csv.flush()?;
    Ok(())
}

/// The causes of all trials, each once, the one of the cell first.
fn causes(cell: &CellTrials<'_>, outcome: CellOutcome) -> String {
    let mut causes = vec![outcome.cause()];
    for reason in cell.trials.iter().flat_map(Trial::reasons) {
        if !causes.contains(&reason.cause) {
            causes.push(reason.cause);
        }
    }
    causes.retain(|cause| !cause.is_empty());
    causes.join(" ")
}

fn write<'f, W: Write>(
    csv: &mut csv::Writer<W>,
    fields: impl Iterator<Item = &'f str>,
) -> Result<(), ReportError> {
    for field in fields {
        csv.write_field(csv_field(field).as_bytes()).map_err(std::io::Error::from)?;
    }
    csv.write_record(None::<&[u8]>).map_err(std::io::Error::from)?;
    Ok(())
}

/// Fields as they stand in a CSV file, safe for spreadsheets, without a line end.
#[must_use]
pub fn csv_record<'f>(fields: impl IntoIterator<Item = &'f str>) -> String {
    let mut csv = csv::Writer::from_writer(Vec::new());
    // Writing to memory does not fail.
    let written = write(&mut csv, fields.into_iter()).ok().and_then(|()| csv.into_inner().ok());
    String::from_utf8_lossy(&written.unwrap_or_default()).trim_end_matches('\n').to_owned()
}

/// Names of columns, each once: an axis called `hosts` becomes `axis.hosts`.
struct Columns<'a>(HashSet<Cow<'a, str>>);

impl<'a> Columns<'a> {
    fn new(fixed: impl Iterator<Item = &'a &'a str>) -> Self {
        Self(fixed.map(|name| Cow::Borrowed(*name)).collect())
    }

    fn add(&mut self, kind: &str, name: &str) -> String {
        let taken = !self.0.insert(Cow::Owned(name.to_owned()));
        if taken { format!("{kind}.{name}") } else { name.to_owned() }
    }
}
