//! hey.
//!
//! It exits with 0 whatever happened; statuses and errors are counted here. It keeps the first million results only:
//! beyond that its distribution and its rate contradict each other, which raises a doubt.

use drover_model::Measurement;

use crate::{
    Input, ParseError,
    http::{HttpRun, add_error, error_kind, latency_name},
    number::{self, Figure, approx},
    sheet::Sheet,
    text::{Report, Text, between},
};

const ADVICE: &str = "use `measure: hey` with hey's plain output (no -o csv)";

pub(super) fn parse(input: &Input<'_>) -> Result<Measurement, ParseError> {
    let text = Text::whole_lines(input, "hey", ADVICE);
    let mut sheet = Sheet::default();
    let report = text.report("Summary:", &mut sheet)?;

    let elapsed = report.require("Total:", report.figure("Total:")?)?;
    let rate = report.require("Requests/sec:", report.figure("Requests/sec:")?)?;
    let distribution = Distribution::read(report)?;
    // `Total data` is of bodies only, and there only if one had a length.
    let bytes = report.count("Total data:")?;
    let completed = distribution.succeeded.saturating_add(distribution.failed);
    let bytes_per_s = bytes.filter(|_| elapsed.value > 0.0).map(|bytes| {
        let seconds = if rate.value > 0.0 { approx(completed) / rate.value } else { elapsed.value };
        approx(bytes) / seconds
    });
    sheet.report("Requests/sec", rate.value);
    HttpRun {
        succeeded: distribution.succeeded,
        failed: distribution.failed,
        elapsed,
        rate: Some((rate, completed)),
        latency: latency(report)?,
        bytes_per_s,
        errors: distribution.errors,
        ..HttpRun::default()
    }
    .write(&mut sheet);
    sheet.finish(text.parser)
}

/// `[200]  500 responses` below `Status code distribution:`, and `[20]  message` below `Error distribution:`.
#[derive(Default)]
struct Distribution {
    succeeded: u64,
    failed: u64,
    errors: Vec<(&'static str, u64)>,
}

impl Distribution {
    fn read(report: Report<'_>) -> Result<Self, ParseError> {
        #[derive(PartialEq)]
        enum Part {
            Before,
            Statuses,
            Errors,
        }
        let mut found = Self::default();
        let mut part = Part::Before;
        let mut blank = 0;
        for line in report.lines() {
            match line {
                "Status code distribution:" => (part, blank) = (Part::Statuses, 0),
                "Error distribution:" => (part, blank) = (Part::Errors, 0),
                "" => blank += 1,
                _ => {}
            }
            let Some(number) = between(line, "[", "]").filter(|_| line.starts_with('[')) else { continue };
            let behind = line.split_once(']').map_or("", |(_, behind)| behind.trim());
            let read = |word: &str| number::count(word).ok_or_else(|| report.bad("distribution", line));
            match part {
                // The histogram of response times has brackets too, not at the beginning of its lines.
                Part::Before => {}
                Part::Statuses => {
                    let responses = read(behind.strip_suffix(" responses").unwrap_or(behind))?;
                    let good = (100..400).contains(&read(number)?);
                    let sum = if good { &mut found.succeeded } else { &mut found.failed };
                    *sum = sum.saturating_add(responses);
                }
                Part::Errors => {
                    let errors = read(number)?;
                    found.failed = found.failed.saturating_add(errors);
                    add_error(&mut found.errors, error_kind(behind), errors);
                }
            }
        }
        // The output ends with blank lines: one behind the errors, more than one behind the statuses if there are no
        // errors. Before them the distribution may not be complete.
        let complete = match part {
            Part::Before => false,
            Part::Statuses => blank >= 2,
            Part::Errors => blank >= 1,
        };
        report.require("end of the status code distribution", complete.then_some(()))?;
        Ok(found)
    }
}

fn latency(report: Report<'_>) -> Result<Vec<(&'static str, Figure)>, ParseError> {
    let mut found = Vec::new();
    for (label, name) in [("Average:", "latency_mean_s"), ("Slowest:", "latency_max_s")] {
        found.extend(report.figure(label)?.map(|figure| (name, figure)));
    }
    for line in report.lines() {
        let Some((percent, seconds)) = line.split_once("% in ") else { continue };
        let Some(name) = latency_name(percent.trim()) else { continue };
        let seconds = seconds.strip_suffix(" secs").unwrap_or(seconds);
        found.extend(
            report.read("latency distribution", seconds, number::plain)?.map(|figure| (name, figure)),
        );
    }
    Ok(found)
}
