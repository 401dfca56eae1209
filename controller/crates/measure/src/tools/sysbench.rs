//! sysbench 1.0: cpu, memory, threads, mutex, fileio, and the database tests.

use drover_model::{DoubtKind, Measurement};

use crate::{
    Input, ParseError,
    http::check_little,
    number::{self, Figure, approx},
    sheet::Sheet,
    text::{Report, Text, between},
};

const ADVICE: &str = "use `measure: sysbench` with the output of `sysbench ... run`";

const MIB: f64 = 1_048_576.0;

pub(super) fn parse(input: &Input<'_>) -> Result<Measurement, ParseError> {
    let text = Text::whole_lines(input, "sysbench", ADVICE);
    let mut sheet = Sheet::default();
    let report = text.report("Running the test with following options", &mut sheet)?;

    let events = report.require("total number of events:", report.count("total number of events:")?)?;
    let elapsed = report.require("total time:", report.after("total time:"))?;
    let elapsed = number::time(elapsed).ok_or_else(|| report.bad("total time", elapsed))?;
    let threads = report.count("Number of threads:")?;
    sheet.put("events", "events", approx(events));
    sheet.put("elapsed_s", "s", elapsed.value);
    sheet.put_some("threads", "1", threads.map(approx));
    let rate = (elapsed.value > 0.0).then(|| approx(events) / elapsed.value);
    sheet.put_some("events_per_s", "events/s", rate);
    if let Some(reported) = report.figure("events per second:")? {
        sheet.report("events per second", reported.value);
        let computed = rate.unwrap_or(0.0);
        let slack = 0.02 * computed + 1.0;
        sheet.check_equal("events per second against events / total time", reported.value, computed, slack);
    }
    database(report, &mut sheet)?;
    memory(report, &mut sheet)?;
    files(report, &mut sheet)?;
    let mean = latency(report, &mut sheet, events)?;
    if let (Some(rate), Some(mean), Some(threads)) = (rate, mean, threads) {
        check_little(&mut sheet, rate, mean, approx(threads));
    }
    if events == 0 {
        sheet.doubt(DoubtKind::Incomplete, "not one event was completed".to_owned());
    }
    sheet.finish(text.parser)
}

/// `transactions:  153  (76.09 per sec.)`
fn database(report: Report<'_>, sheet: &mut Sheet) -> Result<(), ParseError> {
    for (label, count_name, rate_name, unit) in [
        ("transactions:", "transactions", "tx_per_s", "tx/s"),
        ("queries:", "queries", "queries_per_s", "queries/s"),
        ("ignored errors:", "ignored_errors", "ignored_errors_per_s", "1/s"),
        ("reconnects:", "reconnects", "reconnects_per_s", "1/s"),
    ] {
        let Some(line) = report.after(label) else { continue };
        sheet.put_some(count_name, "1", report.count(label)?.map(approx));
        if let Some(rate) = between(line, "(", " per sec") {
            sheet.put_some(rate_name, unit, value(report, label, rate)?);
        }
    }
    Ok(())
}

/// `Total operations: 3607721 (3585929.89 per second)` and `3523.17 MiB transferred (3501.88 MiB/sec)`
fn memory(report: Report<'_>, sheet: &mut Sheet) -> Result<(), ParseError> {
    if let Some(line) = report.after("Total operations:") {
        sheet.put_some("operations", "1", report.count("Total operations:")?.map(approx));
        if let Some(rate) = between(line, "(", " per second") {
            sheet.put_some("operations_per_s", "ops/s", value(report, "operations per second", rate)?);
        }
    }
    if let Some(line) = report.lines().find(|line| line.contains(" MiB transferred (")) {
        let rate = between(line, "transferred (", " MiB/sec").unwrap_or_default();
        let rate = value(report, "MiB/sec", rate)?;
        sheet.put_some("bytes_per_s", "bytes/s", rate.map(|mib| mib * MIB));
    }
    Ok(())
}

fn files(report: Report<'_>, sheet: &mut Sheet) -> Result<(), ParseError> {
    for (label, name, unit, factor) in [
        ("reads/s:", "reads_per_s", "io/s", 1.0),
        ("writes/s:", "writes_per_s", "io/s", 1.0),
        ("fsyncs/s:", "fsyncs_per_s", "io/s", 1.0),
        ("read, MiB/s:", "read_bytes_per_s", "bytes/s", MIB),
        ("written, MiB/s:", "write_bytes_per_s", "bytes/s", MIB),
    ] {
        sheet.put_some(name, unit, report.figure(label)?.map(|figure| figure.value * factor));
    }
    Ok(())
}

/// Milliseconds with two decimals: what reads 0.00 is below that resolution. Returns the mean in seconds.
fn latency(report: Report<'_>, sheet: &mut Sheet, events: u64) -> Result<Option<Figure>, ParseError> {
    if events == 0 {
        return Ok(None);
    }
    let mut mean = None;
    for (label, name) in [
        ("avg:", "latency_mean_s"),
        ("max:", "latency_max_s"),
        ("90th percentile:", "latency_p90_s"),
        ("95th percentile:", "latency_p95_s"),
        ("99th percentile:", "latency_p99_s"),
    ] {
        let Some(figure) = report.figure(label)?.filter(|figure| figure.value > 0.0) else { continue };
        let seconds = figure.over(1e3);
        sheet.put(name, "s", seconds.value);
        if label == "avg:" {
            mean = Some(seconds);
        }
    }
    Ok(mean)
}

fn value(report: Report<'_>, what: &str, found: &str) -> Result<Option<f64>, ParseError> {
    Ok(report.read(what, found, number::plain)?.map(|figure| figure.value))
}
