//! httperf 0.9.
//!
//! Its errors are per connection, its replies per call. Connections that it could not open for want of descriptors,
//! addresses or its own table are the client's fault: they are left out of `failed` and raise a doubt.

use drover_model::Measurement;

use crate::{
    Input, ParseError,
    http::{HttpRun, check_little},
    number::{self, Figure, approx},
    sheet::Sheet,
    text::{Report, Text, word_after, word_before},
};

const ADVICE: &str = "use `measure: httperf` with httperf's plain output";

pub(super) fn parse(input: &Input<'_>) -> Result<Measurement, ParseError> {
    let text = Text::whole_lines(input, "httperf", ADVICE);
    let mut sheet = Sheet::default();
    // The echo of the command line comes first; its remarks before that.
    let report = text.report("httperf --", &mut sheet)?;

    let totals = Totals::read(report)?;
    let errors = Errors::read(report)?;
    let statuses = Statuses::read(report)?;
    let status_sum = statuses.good.saturating_add(statuses.bad);
    sheet.check_equal("sum of statuses against replies", approx(status_sum), approx(totals.replies), 0.0);
    sheet.report("Errors: total", errors.total);
    if let Some(line) = report.after("Connection rate:") {
        sheet.report("Connection rate", line);
    }

    let conn_rate = match report.after("Connection rate:") {
        Some(line) => word(report, "connection rate", line.split_ascii_whitespace().next())?,
        None => None,
    };
    let (reply, transfer) = reply_time(report)?;
    let mut latency = Vec::new();
    if let (Some(reply), Some(transfer)) = (reply, transfer) {
        let half = reply.half + transfer.half;
        latency.push(("latency_mean_s", Figure { value: reply.value + transfer.value, half }));
    }
    let pace = HttpRun {
        succeeded: statuses.good,
        failed: statuses.bad.saturating_add(errors.of_the_server),
        elapsed: totals.elapsed,
        rate: conn_rate.map(|rate| (rate, totals.connections)),
        latency,
        errors: errors.kinds.to_vec(),
        ..HttpRun::default()
    }
    .write(&mut sheet);

    sheet.put("connections", "connections", approx(totals.connections));
    if let Some(pace) = pace {
        let rate = pace.per_second(totals.connections);
        // A refused connection is none; those that timed out may have come about.
        let made = totals.connections.saturating_sub(errors.refused);
        sheet.put("conn_per_s", "conn/s", pace.per_second(made));
        if let Some(size) = reply_size(report)?.filter(|_| totals.replies > 0) {
            sheet.put("bytes_per_s", "bytes/s", pace.amount_per_second(size.value * approx(totals.replies)));
        }
        connection_times(report, &mut sheet, rate, totals.replies > 0)?;
    }
    let asked = report.after("httperf --").and_then(|line| word_after(line, "--rate="));
    sheet.put_some("rate_asked", "conn/s", word(report, "--rate", asked)?.map(|rate| rate.value));
    sheet.finish(text.parser)
}

/// `Total: connections 200 requests 200 replies 200 test-duration 1.995 s`
struct Totals {
    connections: u64,
    replies: u64,
    elapsed: Figure,
}

impl Totals {
    fn read(report: Report<'_>) -> Result<Self, ParseError> {
        let line = report.require("Total: connections", report.after("Total:"))?;
        let count = |label: &str| {
            let word = report.require(label, word_after(line, label))?;
            number::count(word).ok_or_else(|| report.bad(label, word))
        };
        let elapsed = report.require("test-duration", word_after(line, "test-duration "))?;
        Ok(Self {
            connections: count("connections ")?,
            replies: count("replies ")?,
            elapsed: number::plain(elapsed).ok_or_else(|| report.bad("test-duration", elapsed))?,
        })
    }
}

/// The two lines of errors, the last of the output: when both are there, it is complete.
struct Errors {
    total: u64,
    of_the_server: u64,
    refused: u64,
    kinds: [(&'static str, u64); 6],
}

impl Errors {
    fn read(report: Report<'_>) -> Result<Self, ParseError> {
        let count = |label: &str| {
            let line = report.lines().find(|line| line.starts_with("Errors:") && line.contains(label));
            let word = report.require(&format!("error count `{}`", label.trim()), line)?;
            let word = word_after(word, label).unwrap_or_default();
            number::count(word).ok_or_else(|| report.bad(label.trim(), word))
        };
        let (client_timeouts, socket_timeouts) = (count("client-timo ")?, count("socket-timo ")?);
        let (refused, reset, other) = (count("connrefused ")?, count("connreset ")?, count("other ")?);
        let (fd_unavail, addr_unavail) = (count("fd-unavail ")?, count("addrunavail ")?);
        let table_full = count("ftab-full ")?;
        let timeouts = client_timeouts.saturating_add(socket_timeouts);
        let sum = |counts: &[u64]| counts.iter().fold(0, |sum: u64, count| sum.saturating_add(*count));
        Ok(Self {
            total: count("total ")?,
            refused,
            of_the_server: sum(&[timeouts, refused, reset, other]),
            kinds: [
                ("timeout", timeouts),
                ("refused", refused),
                ("reset", reset),
                ("address_in_use", addr_unavail),
                // Its own table of connections has a place per descriptor.
                ("fd_limit", fd_unavail.saturating_add(table_full)),
                ("other", other),
            ],
        })
    }
}

/// `Reply status: 1xx=0 2xx=200 3xx=0 4xx=0 5xx=0`
struct Statuses {
    good: u64,
    bad: u64,
}

impl Statuses {
    fn read(report: Report<'_>) -> Result<Self, ParseError> {
        let line = report.require("Reply status:", report.after("Reply status:"))?;
        let (mut good, mut bad) = (0_u64, 0_u64);
        for class in ["1xx=", "2xx=", "3xx=", "4xx=", "5xx="] {
            let word = report.require(class, word_after(line, class))?;
            let count = number::count(word).ok_or_else(|| report.bad("Reply status", line))?;
            let sum = if matches!(class, "4xx=" | "5xx=") { &mut bad } else { &mut good };
            *sum = sum.saturating_add(count);
        }
        Ok(Self { good, bad })
    }
}

/// Times of whole connections, in the unit of a connection's life and not of a request's: `conn_time_*`.
fn connection_times(report: Report<'_>, sheet: &mut Sheet, rate: f64, any: bool) -> Result<(), ParseError> {
    let line = report.after("Connection time [ms]: min");
    let time = |label: &str| -> Result<Option<Figure>, ParseError> {
        let found = word(report, "connection time", line.and_then(|line| word_after(line, label)))?;
        Ok(found.filter(|time| any && time.value > 0.0).map(|time| time.over(1e3)))
    };
    let mean = time("avg ")?;
    sheet.put_some("conn_time_mean_s", "s", mean.map(|time| time.value));
    sheet.put_some("conn_time_p50_s", "s", time("median ")?.map(|time| time.value));
    sheet.put_some("conn_time_max_s", "s", time("max ")?.map(|time| time.value));
    let limit = report.after("Connection rate:").and_then(|line| line.split_once("<=")).map(|(_, rest)| rest);
    let limit = limit.and_then(|rest| word_before(rest, "concurrent"));
    if let Some(limit) = limit {
        let limit = number::count(limit).ok_or_else(|| report.bad("concurrent connections", limit))?;
        sheet.put("concurrency", "1", approx(limit));
        if let Some(mean) = mean {
            check_little(sheet, rate, mean, approx(limit));
        }
    }
    Ok(())
}

/// Mean time to the first byte of a reply, and from there to its last.
fn reply_time(report: Report<'_>) -> Result<(Option<Figure>, Option<Figure>), ParseError> {
    let Some(line) = report.after("Reply time [ms]:") else { return Ok((None, None)) };
    let time = |label: &str| -> Result<Option<Figure>, ParseError> {
        Ok(word(report, "reply time", word_after(line, label))?.map(|time| time.over(1e3)))
    };
    Ok((time("response ")?, time("transfer ")?))
}

/// Bytes of a mean reply, with its header.
fn reply_size(report: Report<'_>) -> Result<Option<Figure>, ParseError> {
    let line = report.after("Reply size [B]:");
    let size = line.and_then(|line| word_after(line, "(total ")).map(|word| word.trim_end_matches(')'));
    word(report, "reply size", size)
}

fn word(report: Report<'_>, what: &str, found: Option<&str>) -> Result<Option<Figure>, ParseError> {
    found.map_or(Ok(None), |found| report.read(what, found, number::plain))
}
