//! memtier_benchmark: its JSON (`--json-out-file=/dev/stdout`) or the table it prints.
//!
//! With several runs (`-x`) the average over them is read.

use std::collections::BTreeMap;

use drover_model::{DoubtKind, Measurement};
use serde::Deserialize;
use serde_json::Value;

use super::memtier_text;
use crate::{
    Input, ParseError,
    http::latency_name_of,
    json,
    number::{Figure, approx},
    sheet::Sheet,
    text::Text,
};

const ADVICE: &str =
    "use `measure: memtier` with memtier_benchmark's table or with --json-out-file=/dev/stdout";

/// What either output says of one kind of operation, or of all (`Totals`).
#[derive(Default)]
pub(super) struct Row {
    pub ops_per_s: Option<Figure>,
    pub hits_per_s: Option<f64>,
    pub misses_per_s: Option<f64>,
    /// Name and value in seconds.
    pub latency: Vec<(&'static str, f64)>,
    pub bytes_per_s: Option<f64>,
    pub count: Option<u64>,
    pub connection_errors: Option<u64>,
}

/// All rows, and the size of the load.
#[derive(Default)]
pub(super) struct Stats {
    pub rows: Vec<(String, Row)>,
    pub threads: Option<u64>,
    pub connections_per_thread: Option<u64>,
    pub elapsed_s: Option<f64>,
}

/// Headings of the results that are read, the preferred first.
pub(super) const SECTIONS: [&str; 2] = ["AGGREGATED AVERAGE RESULTS", "ALL STATS"];

/// A kilobyte of memtier's `KB/sec`.
pub(super) const KB: f64 = 1024.0;

pub(super) fn parse(input: &Input<'_>) -> Result<Measurement, ParseError> {
    let text = Text::everything(input, "memtier", ADVICE);
    let mut sheet = Sheet::default();
    let looks_like_json = text.body().lines().any(|line| line.starts_with('{'));
    let stats = if looks_like_json {
        from_json(&text)?
    } else {
        memtier_text::read(&Text::whole_lines(input, "memtier", ADVICE), &mut sheet)?
    };
    write(&text, stats, &mut sheet)?;
    sheet.finish(text.parser)
}

fn write(text: &Text<'_>, stats: Stats, sheet: &mut Sheet) -> Result<(), ParseError> {
    let totals = stats.rows.iter().find(|(kind, _)| kind == "Totals").map(|(_, row)| row);
    let totals = totals.ok_or_else(|| text.missing("row `Totals`"))?;
    if totals.ops_per_s.is_none_or(|ops| ops.value <= 0.0) {
        if let Some(said) = text.complaint() {
            return Err(ParseError::ToolFailed { parser: text.parser, said });
        }
        sheet.doubt(DoubtKind::Incomplete, "not one operation was completed".to_owned());
    }
    for (kind, row) in &stats.rows {
        // A kind that the ratio leaves out is a row of zeros.
        if kind != "Totals" && row.ops_per_s.is_none_or(|ops| ops.value <= 0.0) {
            continue;
        }
        let prefix = if kind == "Totals" { String::new() } else { format!("{}_", kind.to_ascii_lowercase()) };
        let any = row.ops_per_s.is_some_and(|ops| ops.value > 0.0);
        let mut put = |name: &str, unit: &str, value: Option<f64>| {
            sheet.put_some(format!("{prefix}{name}"), unit, value)
        };
        put("ops_per_s", "ops/s", row.ops_per_s.map(|ops| ops.value));
        put("hits_per_s", "ops/s", row.hits_per_s);
        put("misses_per_s", "ops/s", row.misses_per_s);
        put("bytes_per_s", "bytes/s", row.bytes_per_s);
        put("completed", "1", row.count.map(approx));
        put("connection_errors", "1", row.connection_errors.map(approx));
        for (name, value) in row.latency.iter().filter(|(_, value)| any && *value > 0.0) {
            put(name, "s", Some(*value));
        }
    }
    if let (Some(ops), Some(count), Some(elapsed)) = (totals.ops_per_s, totals.count, stats.elapsed_s) {
        // Threads do not end together, and the rate is that of each thread's own time.
        let slack = 0.05 * approx(count) + ops.half * elapsed + ops.value * 0.01;
        sheet.check_equal("ops/sec x duration against operations", ops.value * elapsed, approx(count), slack);
    }
    sheet.put_some("elapsed_s", "s", stats.elapsed_s);
    sheet.put_some("threads", "1", stats.threads.map(approx));
    let connections = stats.threads.zip(stats.connections_per_thread);
    let connections = connections.map(|(threads, each)| threads.saturating_mul(each));
    sheet.put_some("concurrency", "1", connections.map(approx));
    Ok(())
}

#[derive(Deserialize)]
struct RunInformation {
    #[serde(rename = "Threads")]
    threads: Option<u64>,
    #[serde(rename = "Connections per thread")]
    connections: Option<u64>,
}

#[derive(Deserialize)]
struct Runtime {
    #[serde(rename = "Total duration")]
    duration: Option<f64>,
    #[serde(rename = "Time unit")]
    unit: Option<String>,
}

/// Latencies in milliseconds.
#[derive(Deserialize)]
struct JsonRow {
    #[serde(rename = "Count")]
    count: Option<u64>,
    #[serde(rename = "Ops/sec")]
    ops: Option<f64>,
    #[serde(rename = "Hits/sec")]
    hits: Option<f64>,
    #[serde(rename = "Misses/sec")]
    misses: Option<f64>,
    #[serde(rename = "KB/sec")]
    kilobytes: Option<f64>,
    #[serde(rename = "Average Latency")]
    average: Option<f64>,
    /// The mean's older name.
    #[serde(rename = "Latency")]
    latency: Option<f64>,
    #[serde(rename = "Max Latency")]
    max: Option<f64>,
    #[serde(rename = "Percentile Latencies", default)]
    percentiles: BTreeMap<String, Value>,
    #[serde(rename = "Connection Errors")]
    connection_errors: Option<u64>,
}

fn from_json(text: &Text<'_>) -> Result<Stats, ParseError> {
    let document: BTreeMap<String, Value> = json::read(text)?;
    let form = |source: serde_json::Error| ParseError::Form {
        parser: text.parser,
        kind: "JSON",
        found: text.excerpt(),
        advice: ADVICE,
        source: source.into(),
    };
    let section = SECTIONS.iter().find_map(|name| {
        document.iter().find_map(|(key, value)| key.starts_with(name).then_some(value)?.as_object())
    });
    let section = section.ok_or_else(|| text.missing("object `ALL STATS`"))?;
    let mut stats = Stats::default();
    for kind in ["Sets", "Gets", "Waits", "Totals"] {
        if let Some(value) = section.get(kind) {
            let row = JsonRow::deserialize(value).map_err(form)?;
            stats.rows.push((kind.to_owned(), row.into_row()));
        }
    }
    if let Some(value) = section.get("Runtime") {
        let runtime = Runtime::deserialize(value).map_err(form)?;
        let factor = if runtime.unit.as_deref() == Some("MILLISECONDS") { 1e-3 } else { f64::NAN };
        stats.elapsed_s = runtime.duration.map(|duration| duration * factor).filter(|time| time.is_finite());
    }
    if let Some(value) = document.get("run information") {
        let run = RunInformation::deserialize(value).map_err(form)?;
        (stats.threads, stats.connections_per_thread) = (run.threads, run.connections);
    }
    Ok(stats)
}

impl JsonRow {
    fn into_row(self) -> Row {
        let mut latency = Vec::new();
        let mean = self.average.or(self.latency);
        latency.extend(mean.map(|mean| ("latency_mean_s", mean / 1e3)));
        latency.extend(self.max.map(|max| ("latency_max_s", max / 1e3)));
        for (name, value) in &self.percentiles {
            let sample = name.strip_prefix('p').and_then(latency_name_of);
            latency.extend(sample.zip(value.as_f64().map(|milliseconds| milliseconds / 1e3)));
        }
        Row {
            ops_per_s: self.ops.map(Figure::exact),
            hits_per_s: self.hits,
            misses_per_s: self.misses,
            latency,
            bytes_per_s: self.kilobytes.map(|kilobytes| kilobytes * KB),
            count: self.count,
            connection_errors: self.connection_errors,
        }
    }
}
