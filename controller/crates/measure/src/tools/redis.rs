//! redis-benchmark, with `--csv`. One row per test; samples carry the test's name (`set_req_per_s`).

use drover_model::Measurement;

use crate::{
    Input, ParseError,
    number::{self, Figure},
    sheet::{Sheet, sample_name},
    text::Text,
};

const ADVICE: &str = "run redis-benchmark with --csv";

/// Columns of versions before 6.2, which print no header.
const OLD_HEADER: [&str; 2] = ["test", "rps"];

pub(super) fn parse(input: &Input<'_>) -> Result<Measurement, ParseError> {
    let text = Text::whole_lines(input, "redis-benchmark", ADVICE);
    let mut sheet = Sheet::default();
    let mut header = OLD_HEADER.to_vec();
    // Rows have their first field in quotes; anything else is a remark.
    let lines = text.body().lines().map(|line| line.rsplit('\r').next().unwrap_or(line).trim());
    for line in lines.filter(|line| line.starts_with('"')) {
        let fields = fields(&text, line)?;
        if fields.first() == Some(&"test") {
            header = fields;
            continue;
        }
        if fields.len() != header.len() {
            return Err(text.bad("row of another number of columns than the header", line));
        }
        let mut cells = header.iter().zip(&fields);
        let Some((_, test)) = cells.next() else { continue };
        let test = sample_name(test);
        for (column, cell) in cells {
            let (name, unit, divisor) = match *column {
                "rps" => ("req_per_s", "req/s", 1.0),
                "avg_latency_ms" => ("latency_mean_s", "s", 1e3),
                "p50_latency_ms" => ("latency_p50_s", "s", 1e3),
                "p95_latency_ms" => ("latency_p95_s", "s", 1e3),
                "p99_latency_ms" => ("latency_p99_s", "s", 1e3),
                "max_latency_ms" => ("latency_max_s", "s", 1e3),
                _ => continue,
            };
            if number::is_absent(cell) {
                continue;
            }
            let figure = number::plain(cell).ok_or_else(|| text.bad(column, cell))?;
            let Figure { value, .. } = figure.over(divisor);
            sheet.put(format!("{test}_{name}"), unit, value);
        }
    }
    if sheet.is_empty() {
        return Err(text.missing("row such as \"SET\",\"32733.22\""));
    }
    sheet.finish(text.parser)
}

/// `"SET","32733.22"`; a test's name may hold commas, never quotes.
fn fields<'t>(text: &Text<'_>, line: &'t str) -> Result<Vec<&'t str>, ParseError> {
    let inner = line.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    let inner = inner.ok_or_else(|| text.bad("row of quoted fields", line))?;
    Ok(inner.split("\",\"").collect())
}
