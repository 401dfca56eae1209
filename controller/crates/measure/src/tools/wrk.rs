//! wrk 4 and its relative wrk2, whose output differs in the table of percentiles.
//!
//! `requests` counts responses; broken connections are counted apart. A timeout is counted every time a response is
//! overdue, also when it arrives in the end, so timeouts are neither successes nor failures here but a doubt. wrk fits
//! the distribution to what requests that were held back would have seen, so Little's law does not bind its mean.

use drover_model::{DoubtKind, Measurement};

use crate::{
    Input, ParseError,
    http::{HttpRun, latency_name_of},
    number::{self, BINARY_SIZES, Figure, approx},
    sheet::Sheet,
    text::{Report, Text, word_after, word_before},
};

const ADVICE: &str = "use `measure: wrk` or `wrk2` with its plain output; a script's own `done` function must not \
                      replace it";

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flavour {
    Wrk,
    Wrk2,
}

pub(super) fn parse(input: &Input<'_>, flavour: Flavour) -> Result<Measurement, ParseError> {
    let name = if flavour == Flavour::Wrk { "wrk" } else { "wrk2" };
    let text = Text::whole_lines(input, name, ADVICE);
    let mut sheet = Sheet::default();
    let report = text.report("Running ", &mut sheet)?;

    let summary = report.lines().find(|line| line.contains(" requests in "));
    let summary = report.require("line `N requests in T`", summary)?;
    let responses = word_before(summary, " requests in ").unwrap_or_default();
    let responses = number::count(responses).ok_or_else(|| report.bad("requests", responses))?;
    let elapsed = word_after(summary, " requests in ").unwrap_or_default().trim_end_matches(',');
    let elapsed = number::time(elapsed).ok_or_else(|| report.bad("elapsed time", elapsed))?;
    // All counts of failures stand before this line.
    let rate = report.require("Requests/sec:", report.figure("Requests/sec:")?)?;
    let bad_status = report.count("Non-2xx or 3xx responses:")?.unwrap_or(0);
    let socket = SocketErrors::read(report)?;

    if bad_status > responses {
        sheet.check_equal(
            "responses with a bad status against all",
            approx(bad_status),
            approx(responses),
            0.0,
        );
    }
    let bad_status = bad_status.min(responses);
    sheet.report("requests", responses);
    sheet.report("Requests/sec", rate.value);
    if let Some(line) = socket.line {
        sheet.report("Socket errors", line);
    }
    if socket.timeout > 0 {
        let detail = format!(
            "{} timeouts, which {name} counts apart: such a request may have been answered later, or never",
            socket.timeout
        );
        sheet.doubt(DoubtKind::Incomplete, detail);
    }
    let transfer =
        report.after("Transfer/sec:").map(|size| report.read("Transfer/sec", size, size_of)).transpose()?;
    let (threads, connections) = threads_and_connections(report)?;
    sheet.put_some("threads", "1", threads.map(approx));
    let broken = socket.connect.saturating_add(socket.read).saturating_add(socket.write);
    HttpRun {
        succeeded: responses - bad_status,
        failed: bad_status.saturating_add(broken),
        elapsed,
        rate: Some((rate, responses)),
        latency: latency(report)?,
        bytes_per_s: transfer.flatten().map(|figure| figure.value),
        concurrency: connections,
        errors: socket.kinds(),
        ..HttpRun::default()
    }
    .write(&mut sheet);
    sheet.finish(name)
}

fn size_of(text: &str) -> Option<Figure> {
    number::with_unit(text, &BINARY_SIZES)
}

/// `2 threads and 10 connections`
fn threads_and_connections(report: Report<'_>) -> Result<(Option<u64>, Option<u64>), ParseError> {
    let Some(line) = report.lines().find(|line| line.contains(" threads and ")) else {
        return Ok((None, None));
    };
    let count = |word: Option<&str>| {
        word.map(|word| number::count(word).ok_or_else(|| report.bad("threads and connections", line)))
            .transpose()
    };
    Ok((count(word_before(line, " threads and "))?, count(word_before(line, " connections"))?))
}

/// `Socket errors: connect 0, read 4291, write 0, timeout 4`, there only if any is not zero.
#[derive(Default)]
struct SocketErrors<'t> {
    line: Option<&'t str>,
    connect: u64,
    read: u64,
    write: u64,
    timeout: u64,
}

impl<'t> SocketErrors<'t> {
    fn read(report: Report<'t>) -> Result<Self, ParseError> {
        let Some(line) = report.after("Socket errors:") else { return Ok(Self::default()) };
        let count = |label: &str| {
            let word = word_after(line, label).unwrap_or_default().trim_end_matches(',');
            number::count(word).ok_or_else(|| report.bad("Socket errors", line))
        };
        Ok(Self {
            line: Some(line),
            connect: count("connect ")?,
            read: count("read ")?,
            write: count("write ")?,
            timeout: count("timeout ")?,
        })
    }

    fn kinds(&self) -> Vec<(&'static str, u64)> {
        if self.line.is_none() {
            return Vec::new();
        }
        vec![("connect", self.connect), ("read", self.read), ("write", self.write), ("timeout", self.timeout)]
    }
}

/// The row `Latency` of the thread statistics, and the percentiles. Each cell has its own unit.
fn latency(report: Report<'_>) -> Result<Vec<(&'static str, Figure)>, ParseError> {
    let mut found = Vec::new();
    let columns: Vec<_> =
        report.after("Thread Stats").map(|line| line.split_ascii_whitespace().collect()).unwrap_or_default();
    let rows = report.lines().filter(|line| line.starts_with("Latency ") && !line.contains("Distribution"));
    for row in rows {
        let cells: Vec<_> = row.split_ascii_whitespace().skip(1).collect();
        // `-nan%` in the last column: not one latency was recorded, and the zeros before it are no figures.
        if cells.last().is_some_and(|cell| number::is_absent(cell)) {
            continue;
        }
        for (column, name) in [("Avg", "latency_mean_s"), ("Max", "latency_max_s")] {
            let place = columns.iter().position(|known| *known == column);
            if let Some(cell) = place.and_then(|place| cells.get(place)) {
                found.extend(report.read("latency", cell, number::time)?.map(|figure| (name, figure)));
            }
        }
    }
    let table = report.lines().skip_while(|line| !line.starts_with("Latency Distribution")).skip(1);
    for line in table.take_while(|line| line.contains('%')) {
        let Some((percent, value)) = line.split_once('%') else { continue };
        // wrk2 writes `50.000%`.
        if let Some(name) = latency_name_of(percent.trim()) {
            found.extend(report.read("percentile", value.trim(), number::time)?.map(|figure| (name, figure)));
        }
    }
    Ok(found)
}
