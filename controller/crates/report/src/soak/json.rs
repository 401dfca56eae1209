//! Soaks as part of the JSON document.

use drover_model::Verdict;
use schemars::JsonSchema;
use serde::Serialize;

use super::{Event, Gap, MetricSummary, SoakResult, time::rfc3339};

/// One attempt of a soak.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Soak<'a> {
    /// The attempt, as in `attempts`.
    attempt: String,
    /// Position of its cell.
    cell: u32,
    /// `ok`, `suspect`, `ng`, `error`, `missing`; absent while it goes on.
    outcome: Option<&'static str>,
    /// Empty for `ok`.
    cause: &'static str,
    /// How long it was to last.
    planned_s: f64,
    /// How long it held.
    held_s: f64,
    /// When the load began: UTC, RFC 3339.
    begun: Option<String>,
    broke: Option<Seen<'a>>,
    first_bad_sign: Option<Seen<'a>>,
    evidence: Evidence<'a>,
    running: Vec<Running<'a>>,
    metrics: Vec<Metric<'a>>,
    /// Rounds, or lines of a stream, of which there are points.
    rounds: u64,
    rounds_failed: u64,
    /// Times without points, the first ones.
    gaps: Vec<GapOf<'a>>,
    more_gaps: usize,
    /// All times without points together.
    gap_s: f64,
    /// Marks on the way; successive ones of a kind are one.
    timeline: Vec<Happened<'a>>,
    /// Marks in the middle that are not in the timeline.
    more_marks: u64,
    damaged_lines: u64,
}

/// Something that was seen at a time.
#[derive(Debug, Serialize, JsonSchema)]
struct Seen<'a> {
    /// UTC, RFC 3339.
    at: Option<String>,
    /// Seconds since the load began.
    after_s: f64,
    what: &'a str,
}

/// What explains a failure.
#[derive(Debug, Serialize, JsonSchema)]
struct Evidence<'a> {
    /// `complete`, `partial` or `none`.
    state: &'static str,
    paths: &'a [String],
}

/// Instances of a role on a host.
#[derive(Debug, Serialize, JsonSchema)]
struct Running<'a> {
    role: &'a str,
    instances: u32,
    host: &'a str,
}

/// What a metric or a sensor did.
#[derive(Debug, Serialize, JsonSchema)]
struct Metric<'a> {
    name: &'a str,
    unit: &'a str,
    points: u64,
    min: Option<f64>,
    max: Option<f64>,
    median: Option<f64>,
    drift: Option<DriftOf<'a>>,
    /// Medians of successive points: seconds since the load began, and value. At most 600.
    blocks: &'a [(f64, f64)],
}

/// A trend.
#[derive(Debug, Serialize, JsonSchema)]
struct DriftOf<'a> {
    /// Change in an hour, in the unit of the metric.
    per_hour: f64,
    /// Lower end of its 95 % confidence interval.
    low: f64,
    /// Upper end.
    high: f64,
    /// Probability of such a trend by chance.
    p: f64,
    /// The sentence, if it is bad, significant, and large enough to matter.
    finding: Option<&'a str>,
}

/// A time without points.
#[derive(Debug, Serialize, JsonSchema)]
struct GapOf<'a> {
    /// The last point before: UTC, RFC 3339.
    from: Option<String>,
    /// The first point after: UTC, RFC 3339.
    to: Option<String>,
    cause: Option<&'a str>,
}

/// Successive marks of a kind.
#[derive(Debug, Serialize, JsonSchema)]
struct Happened<'a> {
    /// UTC, RFC 3339.
    at: Option<String>,
    /// When the last of them was.
    until: Option<String>,
    kind: &'static str,
    text: &'a str,
    count: u64,
}

impl<'a> Soak<'a> {
    pub(crate) fn of(soak: &'a SoakResult) -> Self {
        let series = &soak.series;
        let progress = &series.progress;
        let seen = |at: u64, what: &'a str| Seen {
            at: rfc3339(at),
            after_s: super::time::between(progress.begun_unix_us, at).as_secs_f64(),
            what,
        };
        Self {
            attempt: soak.attempt.to_string(),
            cell: soak.attempt.trial.cell,
            outcome: soak.verdict.as_ref().map(|verdict| verdict.outcome().as_str()),
            cause: soak.verdict.as_ref().map_or("", Verdict::cause),
            planned_s: soak.planned.as_secs_f64(),
            held_s: progress.held.as_secs_f64(),
            begun: rfc3339(progress.begun_unix_us),
            broke: progress.broke.as_ref().map(|broke| seen(broke.at_unix_us, &broke.what)),
            first_bad_sign: progress.first_bad_sign.as_ref().map(|sign| seen(sign.at_unix_us, &sign.what)),
            evidence: Evidence { state: soak.evidence.state.as_str(), paths: &soak.evidence.paths },
            running: soak
                .running
                .iter()
                .map(|r| Running { role: r.role.as_str(), instances: r.instances, host: r.host.as_str() })
                .collect(),
            metrics: series.metrics.iter().map(Metric::of).collect(),
            rounds: series.rounds,
            rounds_failed: series.rounds_failed,
            gaps: series.gaps.iter().map(GapOf::of).collect(),
            more_gaps: series.more_gaps,
            gap_s: series.gap_time.as_secs_f64(),
            timeline: series.events.iter().map(Happened::of).collect(),
            more_marks: series.more_events,
            damaged_lines: series.damaged_lines,
        }
    }
}

impl<'a> Metric<'a> {
    fn of(metric: &'a MetricSummary) -> Self {
        Self {
            name: &metric.name,
            unit: &metric.unit,
            points: metric.points,
            min: metric.range.map(|(min, _)| min),
            max: metric.range.map(|(_, max)| max),
            median: metric.median,
            drift: metric.drift.as_ref().map(|drift| DriftOf {
                per_hour: drift.per_hour,
                low: drift.low,
                high: drift.high,
                p: drift.p,
                finding: drift.finding.as_deref(),
            }),
            blocks: &metric.blocks,
        }
    }
}

impl<'a> GapOf<'a> {
    fn of(gap: &'a Gap) -> Self {
        let (from, to) = (rfc3339(gap.from_unix_us), rfc3339(gap.to_unix_us));
        Self { from, to, cause: gap.cause.as_deref() }
    }
}

impl<'a> Happened<'a> {
    fn of(event: &'a Event) -> Self {
        Self {
            at: rfc3339(event.first_unix_us),
            until: rfc3339(event.last_unix_us),
            kind: event.kind.as_str(),
            text: &event.text,
            count: event.count,
        }
    }
}
