//! vegeta, `vegeta report -type=json` or its text report.
//!
//! vegeta sends at a rate, whatever is answered: its `rate` is that of sending and its `duration` that of the attack.
//! Requests are over after `wait` more; that sum is the elapsed time here.

use std::collections::BTreeMap;

use drover_model::Measurement;
use serde::Deserialize;

use super::vegeta_text;
use crate::{
    Input, ParseError,
    http::{HttpRun, error_kind},
    json,
    number::{Figure, approx, count},
    sheet::Sheet,
    text::Text,
};

const ADVICE: &str = "pipe `vegeta attack` into `vegeta report` or `vegeta report -type=json`";

/// What both reports say.
#[derive(Default)]
pub(super) struct Attack {
    pub requests: u64,
    /// Requests per second sent.
    pub rate: Option<Figure>,
    pub attack_s: Figure,
    pub wait_s: Figure,
    pub latency: Vec<(&'static str, Figure)>,
    pub bytes_in: Option<u64>,
    /// Status (0 if there was no response) and how often.
    pub statuses: Vec<(u64, u64)>,
    /// Different messages, without their number; not of the text report, which does not show where their list ends.
    pub errors: Vec<String>,
    pub success: Option<Figure>,
}

pub(super) fn parse(input: &Input<'_>) -> Result<Measurement, ParseError> {
    let text = Text::everything(input, "vegeta", ADVICE);
    let is_text = text.body().lines().any(|line| line.starts_with("Requests ") && line.contains("[total"));
    let mut sheet = Sheet::default();
    let attack = if is_text {
        let text = Text::whole_lines(input, "vegeta", ADVICE);
        vegeta_text::read(&text, &mut sheet)?
    } else {
        json::read::<Document>(&text)?.into_attack()
    };
    write(attack, &mut sheet);
    sheet.finish(text.parser)
}

fn write(attack: Attack, sheet: &mut Sheet) {
    let (mut succeeded, mut failed, mut unanswered) = (0_u64, 0_u64, 0_u64);
    for (status, number) in &attack.statuses {
        let sum = if (100..400).contains(status) { &mut succeeded } else { &mut failed };
        *sum = sum.saturating_add(*number);
        if *status == 0 {
            unanswered = unanswered.saturating_add(*number);
        }
    }
    let sum = approx(succeeded) + approx(failed);
    sheet.check_equal("sum of status codes against requests", sum, approx(attack.requests), 0.0);
    if let Some(success) = attack.success {
        sheet.report("success", success.value);
        let slack = success.half * sum + 1.0;
        sheet.check_equal(
            "success ratio x requests against good ones",
            success.value * sum,
            approx(succeeded),
            slack,
        );
    }
    if let Some(rate) = attack.rate {
        sheet.report("rate", rate.value);
        let sent = rate.value * attack.attack_s.value;
        let slack = rate.half * attack.attack_s.value + rate.value * attack.attack_s.half + 0.01 * sum + 1.0;
        // A single request has no duration to speak of.
        if attack.requests > 1 {
            sheet.check_equal("rate x duration against requests", sent, approx(attack.requests), slack);
        }
    }
    // The messages come without numbers: they name the kind if all are of one. Those of bad statuses begin with them.
    let messages = attack.errors.iter().filter(|message| !message.starts_with(|c: char| c.is_ascii_digit()));
    let mut kinds: Vec<_> = messages.map(|message| error_kind(message)).collect();
    kinds.dedup();
    let mut errors = vec![("unanswered", unanswered)];
    if let ([kind], true) = (kinds.as_slice(), unanswered > 0) {
        errors.push((kind, unanswered));
    }
    let elapsed = attack.attack_s.value + attack.wait_s.value;
    HttpRun {
        succeeded,
        failed,
        elapsed: Figure { value: elapsed, half: attack.attack_s.half + attack.wait_s.half },
        latency: attack.latency,
        bytes_per_s: attack.bytes_in.filter(|_| elapsed > 0.0).map(|bytes| approx(bytes) / elapsed),
        errors,
        ..HttpRun::default()
    }
    .write(sheet);
}

#[derive(Deserialize)]
struct Document {
    latencies: Latencies,
    bytes_in: Option<Bytes>,
    duration: f64,
    #[serde(default)]
    wait: f64,
    requests: u64,
    rate: Option<f64>,
    success: Option<f64>,
    status_codes: BTreeMap<String, u64>,
    #[serde(default)]
    errors: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct Bytes {
    total: u64,
}

/// Nanoseconds.
#[derive(Deserialize)]
struct Latencies {
    mean: Option<f64>,
    #[serde(rename = "50th")]
    p50: Option<f64>,
    #[serde(rename = "90th")]
    p90: Option<f64>,
    #[serde(rename = "95th")]
    p95: Option<f64>,
    #[serde(rename = "99th")]
    p99: Option<f64>,
    max: Option<f64>,
}

impl Document {
    fn into_attack(self) -> Attack {
        let seconds = |nanoseconds: f64| Figure::exact(nanoseconds / 1e9);
        let latencies = [
            ("latency_mean_s", self.latencies.mean),
            ("latency_p50_s", self.latencies.p50),
            ("latency_p90_s", self.latencies.p90),
            ("latency_p95_s", self.latencies.p95),
            ("latency_p99_s", self.latencies.p99),
            ("latency_max_s", self.latencies.max),
        ];
        Attack {
            requests: self.requests,
            rate: self.rate.map(Figure::exact),
            attack_s: seconds(self.duration),
            wait_s: seconds(self.wait),
            latency: latencies
                .into_iter()
                .filter_map(|(name, value)| Some((name, seconds(value?))))
                .collect(),
            bytes_in: self.bytes_in.map(|bytes| bytes.total),
            statuses: self.status_codes.iter().filter_map(|(code, n)| Some((count(code)?, *n))).collect(),
            errors: self.errors.unwrap_or_default(),
            success: self.success.map(Figure::exact),
        }
    }
}
