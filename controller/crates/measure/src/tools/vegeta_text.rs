//! The text report of vegeta; see `vegeta`.

use super::vegeta::Attack;
use crate::{
    ParseError,
    number::{self, Figure},
    sheet::Sheet,
    text::{Report, Text, between},
};

/// Each line is a title, names of its columns in brackets, and the values with commas between.
pub(super) fn read(text: &Text<'_>, sheet: &mut Sheet) -> Result<Attack, ParseError> {
    let report = text.report("Requests ", sheet)?;
    let row = |title: &str| -> Result<Vec<(&str, &str)>, ParseError> {
        let line = report.require(title, report.after(title))?;
        let names = between(line, "[", "]").unwrap_or_default();
        let values = line.split_once(']').map_or("", |(_, values)| values);
        Ok(names.split(',').map(str::trim).zip(values.split(", ").map(str::trim)).collect())
    };
    let requests = row("Requests ")?;
    let duration = row("Duration ")?;
    let mut attack = Attack {
        requests: needed(report, &requests, "total", number::count)?,
        rate: get(report, &requests, "rate", number::plain)?,
        attack_s: needed(report, &duration, "attack", number::time)?,
        wait_s: get(report, &duration, "wait", number::time)?.unwrap_or_default(),
        bytes_in: get(report, &row("Bytes In ")?, "total", number::count)?,
        ..Attack::default()
    };
    let latencies = row("Latencies ")?;
    for (column, name) in [
        ("mean", "latency_mean_s"),
        ("50", "latency_p50_s"),
        ("90", "latency_p90_s"),
        ("95", "latency_p95_s"),
        ("99", "latency_p99_s"),
        ("max", "latency_max_s"),
    ] {
        attack.latency.extend(get(report, &latencies, column, number::time)?.map(|figure| (name, figure)));
    }
    let success = row("Success ")?;
    attack.success = get(report, &success, "ratio", percentage)?;

    let codes = report.require("Status Codes", report.after("Status Codes "))?;
    for pair in codes.split_once(']').map_or("", |(_, pairs)| pairs).split_ascii_whitespace() {
        let parsed =
            pair.split_once(':').and_then(|(code, n)| Some((number::count(code)?, number::count(n)?)));
        attack.statuses.push(parsed.ok_or_else(|| report.bad("Status Codes", pair))?);
    }
    // The last part; without its title the output is cut.
    report.require("Error Set", report.after("Error Set:"))?;
    Ok(attack)
}

fn get<T>(
    report: Report<'_>,
    row: &[(&str, &str)],
    column: &str,
    read: impl FnOnce(&str) -> Option<T>,
) -> Result<Option<T>, ParseError> {
    let cell = row.iter().find_map(|(name, value)| (*name == column).then_some(*value));
    cell.map_or(Ok(None), |cell| report.read(column, cell, read))
}

fn needed<T>(
    report: Report<'_>,
    row: &[(&str, &str)],
    column: &str,
    read: impl FnOnce(&str) -> Option<T>,
) -> Result<T, ParseError> {
    let value = get(report, row, column, read)?;
    report.require(column, value)
}

/// `55.42%`
fn percentage(text: &str) -> Option<Figure> {
    text.strip_suffix('%').and_then(number::plain).map(|figure| figure.over(100.0))
}
