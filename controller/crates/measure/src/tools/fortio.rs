//! fortio, `fortio load -json -`.
//!
//! Return codes are HTTP statuses, -1 for a socket that broke, or words for gRPC, TCP and UDP.

use std::collections::BTreeMap;

use drover_model::Measurement;
use serde::Deserialize;

use crate::{
    Input, ParseError,
    http::{HttpRun, latency_name},
    json,
    number::{Figure, approx, count},
    sheet::Sheet,
    text::Text,
};

const ADVICE: &str = "run fortio load with `-json -`, which writes its result to standard output";

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Document {
    #[serde(rename = "ActualQPS")]
    actual_qps: Option<f64>,
    #[serde(rename = "RequestedQPS")]
    requested_qps: Option<String>,
    /// Nanoseconds.
    actual_duration: f64,
    num_threads: Option<u64>,
    duration_histogram: Histogram,
    ret_codes: BTreeMap<String, u64>,
    sizes: Option<Histogram>,
}

/// Seconds for durations, bytes for sizes.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Histogram {
    count: u64,
    max: Option<f64>,
    sum: Option<f64>,
    avg: Option<f64>,
    percentiles: Option<Vec<Percentile>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Percentile {
    percentile: f64,
    value: f64,
}

pub(super) fn parse(input: &Input<'_>) -> Result<Measurement, ParseError> {
    let text = Text::everything(input, "fortio", ADVICE);
    let document: Document = json::read(&text)?;
    let mut sheet = Sheet::default();

    let (mut succeeded, mut failed, mut broken) = (0_u64, 0_u64, 0_u64);
    for (code, number) in &document.ret_codes {
        let good = match count(code) {
            Some(status) => (100..400).contains(&status),
            None => matches!(code.as_str(), "OK" | "SERVING"),
        };
        let sum = if good { &mut succeeded } else { &mut failed };
        *sum = sum.saturating_add(*number);
        if code == "-1" {
            broken = broken.saturating_add(*number);
        }
    }
    let histogram = document.duration_histogram;
    let sum = approx(succeeded) + approx(failed);
    sheet.check_equal("sum of return codes against calls", sum, approx(histogram.count), 0.0);

    let mut latency = Vec::new();
    latency.extend(histogram.avg.map(|mean| ("latency_mean_s", Figure::exact(mean))));
    latency.extend(histogram.max.map(|max| ("latency_max_s", Figure::exact(max))));
    for percentile in histogram.percentiles.unwrap_or_default() {
        let name = latency_name(&percentile.percentile.to_string());
        latency.extend(name.map(|name| (name, Figure::exact(percentile.value))));
    }
    let elapsed = document.actual_duration / 1e9;
    let received = document.sizes.and_then(|sizes| sizes.sum).filter(|_| elapsed > 0.0);
    // A number, or the word `max`.
    let asked = document.requested_qps.as_deref().and_then(crate::number::plain);
    sheet.put_some("rate_asked", "req/s", asked.map(|rate| rate.value));
    HttpRun {
        succeeded,
        failed,
        elapsed: Figure::exact(elapsed),
        rate: document.actual_qps.map(|rate| (Figure::exact(rate), histogram.count)),
        latency,
        bytes_per_s: received.map(|bytes| bytes / elapsed),
        concurrency: document.num_threads,
        one_at_a_time: true,
        errors: if broken > 0 { vec![("socket", broken)] } else { Vec::new() },
        ..HttpRun::default()
    }
    .write(&mut sheet);
    sheet.finish(text.parser)
}
