//! oha, with `--output-format json` (older versions: `--json`).
//!
//! Its `successRate` calls every response a success, whatever the status; statuses and errors are counted here.
//! Requests that were under way when the time was up are in its errors (`aborted due to deadline`), but nobody's
//! failure: they are left out.

use std::collections::BTreeMap;

use drover_model::Measurement;
use serde::Deserialize;

use crate::{
    Input, ParseError,
    http::{HttpRun, add_error, error_kind, latency_name},
    json,
    number::{Figure, approx, count},
    sheet::Sheet,
    text::Text,
};

const ADVICE: &str = "run oha with --no-tui --output-format json";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Document {
    summary: Summary,
    #[serde(default)]
    latency_percentiles: BTreeMap<String, Option<f64>>,
    status_code_distribution: BTreeMap<String, u64>,
    error_distribution: BTreeMap<String, u64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Summary {
    success_rate: Option<f64>,
    total: f64,
    slowest: Option<f64>,
    average: Option<f64>,
    requests_per_sec: Option<f64>,
    size_per_sec: Option<f64>,
}

pub(super) fn parse(input: &Input<'_>) -> Result<Measurement, ParseError> {
    let text = Text::everything(input, "oha", ADVICE);
    let document: Document = json::read(&text)?;
    let summary = document.summary;
    let mut sheet = Sheet::default();

    let (mut succeeded, mut failed) = (0_u64, 0_u64);
    for (status, number) in &document.status_code_distribution {
        let good = count(status).is_some_and(|status| (100..400).contains(&status));
        let sum = if good { &mut succeeded } else { &mut failed };
        *sum = sum.saturating_add(*number);
    }
    let responses = succeeded.saturating_add(failed);
    let mut errors = Vec::new();
    let mut aborted = 0_u64;
    for (message, number) in &document.error_distribution {
        if message.contains("deadline") && message.contains("aborted") {
            aborted = aborted.saturating_add(*number);
        } else {
            add_error(&mut errors, error_kind(message), *number);
        }
    }
    failed = errors.iter().fold(failed, |sum, (_, number)| sum.saturating_add(*number));
    let completed = succeeded.saturating_add(failed);

    // What the rate counts depends on the version: with or without the aborted ones.
    let rate = summary.requests_per_sec.map(|rate| {
        let with_aborted = completed.saturating_add(aborted);
        let seen = rate * summary.total;
        let nearer = (seen - approx(with_aborted)).abs() < (seen - approx(completed)).abs();
        (Figure::exact(rate), if nearer { with_aborted } else { completed })
    });
    if let Some(success_rate) = summary.success_rate {
        sheet.report("successRate", success_rate);
        let claimed = success_rate * approx(completed);
        sheet.check_equal("successRate x requests against responses", claimed, approx(responses), 1.0);
    }
    let figure = |value: Option<f64>| value.map(Figure::exact);
    let mut latency = Vec::new();
    latency.extend(figure(summary.average).map(|mean| ("latency_mean_s", mean)));
    latency.extend(figure(summary.slowest).map(|max| ("latency_max_s", max)));
    for (percentile, value) in &document.latency_percentiles {
        let name = percentile.strip_prefix('p').and_then(latency_name);
        latency.extend(name.zip(figure(*value)));
    }
    HttpRun {
        succeeded,
        failed,
        elapsed: Figure::exact(summary.total),
        rate,
        latency,
        bytes_per_s: summary.size_per_sec,
        errors,
        ..HttpRun::default()
    }
    .write(&mut sheet);
    sheet.finish(text.parser)
}
