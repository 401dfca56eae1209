//! h2load (nghttp2).
//!
//! It counts a status of 400 or more as failed, and requests that it never sent because their connection broke as
//! errored, which are part of failed. Its rate is that of responses. Several requests may be under way on one
//! connection, and the output does not say how many, so Little's law gives no bound.

use drover_model::{DoubtKind, Measurement};

use crate::{
    Input, ParseError,
    http::HttpRun,
    number::{self, BINARY_SIZES, Figure, approx},
    sheet::Sheet,
    text::{Report, Text, between, word_after, word_before},
};

const ADVICE: &str = "use `measure: h2load` with h2load's plain output";

pub(super) fn parse(input: &Input<'_>) -> Result<Measurement, ParseError> {
    let text = Text::whole_lines(input, "h2load", ADVICE);
    let mut sheet = Sheet::default();
    let report = text.report("starting benchmark", &mut sheet)?;

    let requests = report.require("requests:", report.after("requests:"))?;
    let count = |line: &str, unit: &str| -> Result<u64, ParseError> {
        let word = report.require(unit, word_before(line, unit))?;
        number::count(word).ok_or_else(|| report.bad(unit.trim(), word))
    };
    let (succeeded, failed) = (count(requests, " succeeded")?, count(requests, " failed")?);
    let (errored, timeout) = (count(requests, " errored")?, count(requests, " timeout")?);
    let statuses = report.require("status codes:", report.after("status codes:"))?;
    let responses = [" 2xx", " 3xx", " 4xx", " 5xx"]
        .into_iter()
        .try_fold(0_u64, |sum, class| count(statuses, class).map(|n| sum.saturating_add(n)))?;
    sheet.check_equal(
        "responses by status + errored against succeeded + failed",
        approx(responses) + approx(errored),
        approx(succeeded) + approx(failed),
        0.0,
    );
    sheet.report("requests", requests);
    let (total, started) = (count(requests, " total")?, count(requests, " started")?);
    if started < total {
        let detail = format!(
            "h2load started {started} of {total} requests: it does not open a broken connection again"
        );
        sheet.doubt(DoubtKind::Incomplete, detail);
    }

    let finished = report.require("finished in", report.after("finished in "))?;
    let mut parts = finished.split(", ");
    let elapsed = parts.next().unwrap_or_default();
    let elapsed = number::time(elapsed).ok_or_else(|| report.bad("finished in", elapsed))?;
    let rate = parts.next().and_then(|part| part.strip_suffix(" req/s"));
    let rate = rate.map(|rate| report.read("req/s", rate, number::plain)).transpose()?.flatten();
    let size = parts.next().and_then(|part| part.strip_suffix("/s"));
    let size_of = |text: &str| number::with_unit(text, &BINARY_SIZES);
    let bytes = size.map(|size| report.read("bytes per second", size, size_of)).transpose()?.flatten();

    let (threads, clients) = threads_and_clients(report)?;
    sheet.put_some("threads", "1", threads.map(approx));
    HttpRun {
        succeeded,
        failed,
        elapsed,
        rate: rate.map(|rate| (rate, responses)),
        latency: latency(report)?,
        bytes_per_s: bytes.map(|bytes| bytes.value),
        concurrency: clients,
        errors: vec![("timeout", timeout), ("other", errored.saturating_sub(timeout))],
        ..HttpRun::default()
    }
    .write(&mut sheet);
    sheet.finish(text.parser)
}

/// `spawning thread #0: 5 total client(s). 250 total requests`, once per thread.
fn threads_and_clients(report: Report<'_>) -> Result<(Option<u64>, Option<u64>), ParseError> {
    let (mut threads, mut clients) = (0_u64, 0_u64);
    for line in report.lines().filter(|line| line.starts_with("spawning thread #")) {
        let Some(word) = between(line, ": ", " total client") else { return Ok((None, None)) };
        let count = number::count(word).ok_or_else(|| report.bad("total clients", line))?;
        clients = clients.saturating_add(count);
        threads = threads.saturating_add(1);
    }
    Ok(if threads == 0 { (None, None) } else { (Some(threads), Some(clients)) })
}

/// The row `time for request:` under a header that names its columns; newer versions have more of them.
fn latency(report: Report<'_>) -> Result<Vec<(&'static str, Figure)>, ParseError> {
    let header = report.lines().find(|line| line.starts_with("min ") && line.contains(" mean "));
    let (Some(header), Some(row)) = (header, report.after("time for request:")) else {
        return Ok(Vec::new());
    };
    let cells: Vec<_> = row.split_ascii_whitespace().collect();
    let mut found = Vec::new();
    for (place, column) in header.split_ascii_whitespace().enumerate() {
        let name = match column {
            "mean" => "latency_mean_s",
            "median" => "latency_p50_s",
            "p95" => "latency_p95_s",
            "p99" => "latency_p99_s",
            "max" => "latency_max_s",
            _ => continue,
        };
        if let Some(cell) = cells.get(place) {
            found.extend(report.read("time for request", cell, number::time)?.map(|figure| (name, figure)));
        }
    }
    // Says nothing if the table is cut before its end, so that no reader takes a part of it for all.
    Ok(if word_after(row, "%").is_none() && cells.len() < 5 { Vec::new() } else { found })
}
