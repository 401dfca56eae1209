//! ApacheBench (`ab`), versions 2.0 and 2.3.
//!
//! Its count of failures cannot be used as it is: with `-r` one reset connection is counted three times (Receive,
//! Length, Exceptions); a response of another length than the first is counted, though it is a success; a response
//! with status 500 is not counted. Statuses other than 2xx are one figure, so a redirect counts as failed here.

use drover_model::Measurement;

use crate::{
    Input, ParseError,
    http::{HttpRun, latency_name},
    number::{self, Figure, approx},
    sheet::Sheet,
    text::{Report, Text, word_after},
};

const ADVICE: &str = "use `measure: ab` with ab's plain output (no -w, no -i)";

pub(super) fn parse(input: &Input<'_>) -> Result<Measurement, ParseError> {
    let text = Text::whole_lines(input, "ab", ADVICE);
    let mut sheet = Sheet::default();
    let report = text.report("This is ApacheBench", &mut sheet)?;

    let complete = report.require("Complete requests:", report.count("Complete requests:")?)?;
    let elapsed = report.require("Time taken for tests:", report.figure("Time taken for tests:")?)?;
    // All counts stand before this line: once it is there, none is missing because the output was cut.
    let rate = report.require("Requests per second:", report.figure("Requests per second:")?)?;
    let reported = report.require("Failed requests:", report.count("Failed requests:")?)?;
    let parts = FailureParts::read(report)?;
    let write_errors = report.count("Write errors:")?.unwrap_or(0);
    let other_status = report.count("Non-2xx responses:")?.unwrap_or(0);
    let concurrency = report.count("Concurrency Level:")?;

    // A connection that broke while it was read is in `complete`, one that broke while connecting is not; an
    // exception comes with a receive error, or (on a connection that is then opened again) alone.
    let broken = parts.receive.max(parts.exceptions);
    let not_counted = parts.connect.saturating_add(broken - parts.receive);
    let failed_complete = parts.receive.saturating_add(write_errors).saturating_add(other_status);
    if failed_complete > complete {
        sheet.check_equal(
            "failures against completed requests",
            approx(failed_complete),
            approx(complete),
            0.0,
        );
    }
    let failed_complete = failed_complete.min(complete);

    sheet.report("Failed requests", reported);
    if let Some(line) = parts.line {
        sheet.report("Failed requests by kind", line);
    }
    if other_status > 0 {
        sheet.report("Non-2xx responses", other_status);
    }
    let mut errors = Vec::new();
    if parts.line.is_some() {
        errors.extend([("connect", parts.connect), ("receive", broken)]);
        sheet.put("length_changes", "1", approx(parts.length.saturating_sub(broken)));
    }
    let bytes_per_s = report.figure("Transfer rate:")?.map(|kib| kib.value * 1024.0);
    HttpRun {
        succeeded: complete - failed_complete,
        failed: failed_complete.saturating_add(not_counted),
        elapsed,
        rate: Some((rate, complete)),
        latency: latency(report)?,
        bytes_per_s,
        concurrency,
        one_at_a_time: true,
        // Whole milliseconds.
        rounds_to_zero: true,
        errors,
        ..HttpRun::default()
    }
    .write(&mut sheet);
    sheet.finish(text.parser)
}

/// `(Connect: 0, Receive: 150, Length: 150, Exceptions: 150)`, there only if something failed.
#[derive(Default)]
struct FailureParts<'t> {
    line: Option<&'t str>,
    connect: u64,
    receive: u64,
    length: u64,
    exceptions: u64,
}

impl<'t> FailureParts<'t> {
    fn read(report: Report<'t>) -> Result<Self, ParseError> {
        let Some(line) = report.lines().find(|line| line.starts_with("(Connect: ")) else {
            return Ok(Self::default());
        };
        let part = |label: &str| match word_after(line, label) {
            // Version 2.0 has no `Receive`.
            None => Ok(0),
            Some(word) => {
                let word = word.trim_end_matches([',', ')']);
                number::count(word).ok_or_else(|| report.bad("Failed requests by kind", line))
            }
        };
        Ok(Self {
            line: Some(line.trim_matches(['(', ')'])),
            connect: part("Connect: ")?,
            receive: part("Receive: ")?,
            length: part("Length: ")?,
            exceptions: part("Exceptions: ")?,
        })
    }
}

/// Whole milliseconds: the `Total:` row (minimum, mean, then with or without the deviation, median, maximum) and the
/// percentiles. `Time per request` is not a latency: it is elapsed time x concurrency / requests, idle connections
/// included.
fn latency(report: Report<'_>) -> Result<Vec<(&'static str, Figure)>, ParseError> {
    let mut found = Vec::new();
    let milliseconds = |what: &str, word: &str| {
        let read = |word: &str| number::plain(word).filter(|figure| figure.value >= 0.0);
        report.read(what, word, read).map(|figure| figure.map(|figure| figure.over(1e3)))
    };
    if let Some(row) = report.after("Total:") {
        let mut words = row.split_ascii_whitespace();
        if let Some(mean) = words.nth(1) {
            found.extend(milliseconds("mean of the total time", mean)?.map(|mean| ("latency_mean_s", mean)));
        }
        if let Some(max) = words.next_back() {
            found.extend(milliseconds("maximum of the total time", max)?.map(|max| ("latency_max_s", max)));
        }
    }
    let table = report.lines().skip_while(|line| !line.starts_with("Percentage of the requests")).skip(1);
    for line in table.take_while(|line| line.contains('%')) {
        let Some((percent, value)) = line.split_once('%') else { continue };
        let (Some(name), Some(value)) = (latency_name(percent.trim()), value.split_ascii_whitespace().next())
        else {
            continue;
        };
        found.extend(milliseconds("percentile", value)?.map(|value| (name, value)));
    }
    Ok(found)
}
