//! pgbench, versions 9.6 to 17.
//!
//! The rate is the one without the time of connecting. Failed transactions (serialisation errors and deadlocks) are
//! apart from those processed; a client that met any other error stopped, which shows only in the number of
//! transactions or on standard error.

use drover_model::{DoubtKind, Measurement};

use crate::{
    Input, ParseError,
    http::check_little,
    number::{self, Figure, approx},
    sheet::Sheet,
    text::{Report, Text},
};

const ADVICE: &str = "use `measure: pgbench` with pgbench's plain output";

pub(super) fn parse(input: &Input<'_>) -> Result<Measurement, ParseError> {
    let text = Text::whole_lines(input, "pgbench", ADVICE);
    let mut sheet = Sheet::default();
    let report = text.report("transaction type:", &mut sheet)?;

    // All counts stand before the rate.
    let rate = report.require("tps", rate(report)?)?;
    let processed = report.after("number of transactions actually processed:");
    let processed = report.require("number of transactions actually processed", processed)?;
    let (done, planned) = match processed.split_once('/') {
        Some((done, planned)) => (done, Some(planned)),
        None => (processed, None),
    };
    let count =
        |word: &str| number::count(word).ok_or_else(|| report.bad("transactions processed", processed));
    let done = count(done)?;
    let planned = planned.map(count).transpose()?;
    let failed = report.count("number of failed transactions:")?;
    let clients = report.count("number of clients:")?;

    sheet.put("transactions", "1", approx(done));
    sheet.put("completed", "1", approx(done.saturating_add(failed.unwrap_or(0))));
    sheet.put("succeeded", "1", approx(done));
    // Before version 15 there was no such count.
    sheet.put_some("failed", "1", failed.map(approx));
    sheet.put_some("skipped", "1", report.count("number of transactions skipped:")?.map(approx));
    sheet.put("tx_per_s", "tx/s", rate.value);
    sheet.put("goodput_per_s", "tx/s", rate.value);
    sheet.put_some("concurrency", "1", clients.map(approx));
    sheet.put_some("threads", "1", report.count("number of threads:")?.map(approx));
    sheet.put_some("connect_s", "s", milliseconds(report, "initial connection time")?.map(|time| time.value));
    let mean = milliseconds(report, "latency average")?.filter(|_| done > 0);
    sheet.put_some("latency_mean_s", "s", mean.map(|mean| mean.value));
    let deviation = milliseconds(report, "latency stddev")?.filter(|_| done > 0);
    sheet.put_some("latency_stddev_s", "s", deviation.map(|deviation| deviation.value));

    let paced = report.after("rate limit schedule lag").is_some();
    if let (Some(mean), Some(clients), false) = (mean, clients, paced) {
        check_little(&mut sheet, rate.value, mean, approx(clients));
    }
    // The last transactions of a timed run end after its time.
    if let Some(asked) = report.count("duration:")? {
        let product = rate.value * approx(asked);
        let slack = 0.05 * approx(done) + rate.value * 0.1 + approx(clients.unwrap_or(1));
        sheet.check_equal("tps x duration against transactions", product, approx(done), slack);
    }
    if let Some(planned) = planned.filter(|planned| *planned > done) {
        let detail = format!("{done} of {planned} transactions were processed");
        sheet.doubt(DoubtKind::Incomplete, detail);
    } else if text.stderr().contains("results are incomplete") {
        sheet.doubt(DoubtKind::Incomplete, "pgbench said that the run was aborted".to_owned());
    }
    sheet.finish(text.parser)
}

/// Without connecting; versions before 14 called it `excluding connections establishing`.
fn rate(report: Report<'_>) -> Result<Option<Figure>, ParseError> {
    let line = report.lines().find(|line| {
        let without = line.contains("(without initial") || line.contains("(excluding connections");
        line.starts_with("tps = ") && without
    });
    let word = line.and_then(|line| line.split_ascii_whitespace().nth(2));
    word.map_or(Ok(None), |word| report.read("tps", word, number::plain))
}

/// `latency average = 10.247 ms`, in seconds.
fn milliseconds(report: Report<'_>, label: &str) -> Result<Option<Figure>, ParseError> {
    let Some(rest) = report.after(label) else { return Ok(None) };
    let words = rest.trim_start_matches(['=', ' ']);
    report.read(label, words, number::time)
}
