//! The table of memtier_benchmark; see `memtier`.

use super::memtier::{KB, Row, SECTIONS, Stats};
use crate::{
    ParseError,
    http::latency_name_of,
    number::{self, Figure},
    sheet::Sheet,
    text::{Report, Text},
};

/// Columns are named by the header; `---` stands where a row has no figure. `Totals` is the last row.
pub(super) fn read(text: &Text<'_>, sheet: &mut Sheet) -> Result<Stats, ParseError> {
    let preferred = text.body().lines().any(|line| line.starts_with(SECTIONS[0]));
    let report = text.report(if preferred { SECTIONS[0] } else { SECTIONS[1] }, sheet)?;
    let header =
        report.require("header of the table", report.lines().find(|line| line.starts_with("Type ")))?;
    // Names hold single spaces, the gaps between them are wider.
    let columns: Vec<_> = header.split("  ").map(str::trim).filter(|name| !name.is_empty()).skip(1).collect();

    let mut stats = Stats::default();
    let rows = report.lines().skip_while(|line| !line.starts_with("Type ")).skip(2);
    for line in rows.take_while(|line| !line.is_empty()) {
        let mut cells = line.split_ascii_whitespace();
        let Some(kind) = cells.next() else { continue };
        let cells: Vec<_> = cells.collect();
        if cells.len() != columns.len() {
            return Err(report.bad("row of another number of columns than the header", line));
        }
        stats.rows.push((kind.to_owned(), row(report, &columns, &cells)?));
        if kind == "Totals" {
            break;
        }
    }
    // These stand above the table: `4         Threads`.
    for line in text.body().lines().map(str::trim) {
        let Some((number, label)) = line.split_once(' ') else { continue };
        let target = match label.trim() {
            "Threads" => &mut stats.threads,
            "Connections per thread" => &mut stats.connections_per_thread,
            _ => continue,
        };
        *target = Some(number::count(number).ok_or_else(|| report.bad(label.trim(), number))?);
    }
    Ok(stats)
}

fn row(report: Report<'_>, columns: &[&str], cells: &[&str]) -> Result<Row, ParseError> {
    let mut row = Row::default();
    for (column, cell) in columns.iter().zip(cells) {
        if *cell == "---" {
            continue;
        }
        let Some(figure) = report.read(column, cell, number::plain)? else { continue };
        let Figure { value, .. } = figure;
        match *column {
            "Ops/sec" => row.ops_per_s = Some(figure),
            "Hits/sec" => row.hits_per_s = Some(value),
            "Misses/sec" => row.misses_per_s = Some(value),
            "KB/sec" => row.bytes_per_s = Some(value * KB),
            "Avg. Latency" | "Latency" => row.latency.push(("latency_mean_s", value / 1e3)),
            other => {
                let name = other.strip_prefix('p').and_then(|rest| rest.strip_suffix(" Latency"));
                row.latency.extend(name.and_then(latency_name_of).map(|name| (name, value / 1e3)));
            }
        }
    }
    Ok(row)
}
