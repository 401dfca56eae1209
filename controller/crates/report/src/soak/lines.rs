//! A soak in sentences, for text and Markdown; not yet escaped.

use drover_model::Verdict;
use drover_store::{CellRecord, RunResults};

use super::{
    Event, Evidence, Gap, MetricSummary, SoakResult,
    spark::spark,
    time::{between, short, span, stamp},
};
use crate::{
    number::{Decimals, number},
    trials::mark,
};

/// Lines of the timeline at most.
const MOST_LINES: usize = 40;
/// Gaps told one by one at most.
const MOST_GAPS: usize = 5;

/// What is said of one attempt.
pub(super) struct Section {
    /// `NG hang: held 5 h 12 min of 8 h`.
    pub(super) title: String,
    /// Which cell and attempt.
    pub(super) cell: String,
    /// Label and sentence; no label goes on with the one before.
    pub(super) facts: Vec<(&'static str, String)>,
    /// Name of the primary metric, its course, and its scale.
    pub(super) course: Option<Course>,
    /// What happened, in order.
    pub(super) timeline: Vec<Happened>,
}

/// The course of the primary metric.
pub(super) struct Course {
    pub(super) metric: String,
    pub(super) line: String,
    pub(super) scale: String,
}

/// One line of the timeline.
pub(super) struct Happened {
    /// Without zone: it is UTC.
    pub(super) at: String,
    /// Since the load began.
    pub(super) since: String,
    pub(super) what: String,
}

/// `plus_minus` is how the format writes that sign.
pub(super) fn section(results: &RunResults, soak: &SoakResult, plus_minus: &str) -> Section {
    let series = &soak.series;
    let progress = &series.progress;
    let begun = progress.begun_unix_us;
    let mut facts = Vec::new();
    let when = |at: u64| format!("{}, after {}", stamp(at), span(between(begun, at)));
    if let Some(broke) = &progress.broke {
        facts.push(("broke", format!("{}: {}", when(broke.at_unix_us), first_line(&broke.what))));
    } else if let Some(detail) = soak.verdict.as_ref().map(Verdict::detail).filter(|text| !text.is_empty()) {
        facts.push(("verdict", first_line(&detail).to_owned()));
    }
    if let Some(sign) = &progress.first_bad_sign {
        facts.push(("first sign", format!("{}: {}", when(sign.at_unix_us), first_line(&sign.what))));
    }
    facts.extend(labelled("drift", series.metrics.iter().map(|metric| drift(metric, plus_minus))));
    facts.extend(evidence(soak).map(|text| ("evidence", text)));
    facts.extend(running(soak));
    facts.push(("points", points(soak)));
    facts.extend(labelled("gaps", gaps(&series.gaps, series.more_gaps)));
    Section {
        title: title(soak),
        cell: cell(results, soak),
        facts,
        course: course(soak),
        timeline: timeline(&series.events, series.more_events, begun),
    }
}

fn title(soak: &SoakResult) -> String {
    let (held, planned) = (soak.series.progress.held, soak.planned);
    let verdict = match &soak.verdict {
        None => "goes on".to_owned(),
        Some(Verdict::Ok) => "ok".to_owned(),
        Some(verdict) => format!("{} {}", mark(verdict.outcome()), verdict.cause()),
    };
    format!("{verdict}: held {} of {}", span(held), span(planned))
}

fn cell(results: &RunResults, soak: &SoakResult) -> String {
    let trial = soak.attempt.trial;
    let record = results.cells.iter().find(|cell| cell.index == trial.cell);
    let values = |cell: &CellRecord| {
        let pairs = results.run.axes.iter().zip(&cell.values);
        pairs.map(|(axis, value)| format!(" {axis}={value}")).collect::<String>()
    };
    let values = record.map(values).unwrap_or_default();
    format!("c{}{values}, attempt {}", trial.cell, soak.attempt.number)
}

/// The first has the label.
fn labelled(
    label: &'static str,
    lines: impl IntoIterator<Item = String>,
) -> impl Iterator<Item = (&'static str, String)> {
    lines.into_iter().enumerate().map(move |(at, line)| (if at == 0 { label } else { "" }, line))
}

fn first_line(text: &str) -> &str {
    text.trim().lines().next().unwrap_or_default()
}

fn with_unit(text: &str, unit: &str) -> String {
    if unit.is_empty() || unit == "1" { text.to_owned() } else { format!("{text} {unit}") }
}

fn drift(metric: &MetricSummary, plus_minus: &str) -> String {
    let name = &metric.name;
    let Some(drift) = &metric.drift else {
        return format!("{name}: not known, {} points are too few", metric.points);
    };
    if let Some(finding) = &drift.finding {
        return format!("{name} {}", finding.replace('\u{b1}', plus_minus));
    }
    let [per_hour, low, high] = [drift.per_hour, drift.low, drift.high].map(|v| number(v, Decimals::Each));
    format!("{name}: none found, {} per hour (95 %: {low} to {high})", with_unit(&per_hour, &drift.unit))
}

/// Nothing where nothing is to be explained.
fn evidence(soak: &SoakResult) -> Option<String> {
    let well = matches!(soak.verdict, None | Some(Verdict::Ok));
    if well && soak.evidence == Evidence::default() {
        return None;
    }
    let mut text = soak.evidence.state.as_str().to_owned();
    if !soak.evidence.paths.is_empty() {
        text = format!("{text}: {}", soak.evidence.paths.join(", "));
    }
    Some(text)
}

fn running(soak: &SoakResult) -> Option<(&'static str, String)> {
    let list: Vec<String> = soak
        .running
        .iter()
        .map(|running| {
            let times =
                if running.instances == 1 { String::new() } else { format!(" x{}", running.instances) };
            format!("{}{times} on {}", running.role, running.host)
        })
        .collect();
    (!list.is_empty()).then(|| ("running", list.join(", ")))
}

fn points(soak: &SoakResult) -> String {
    let series = &soak.series;
    let count = |n: u64| number_of(n);
    let mut text = format!("{} rounds or lines gave some", count(series.rounds));
    if series.rounds_failed > 0 {
        text.push_str(&format!(", {} rounds failed", count(series.rounds_failed)));
    }
    let held = series.progress.held;
    let covered = held.saturating_sub(series.gap_time).as_secs_f64() / held.as_secs_f64();
    if covered.is_finite() {
        // Not all is not 100 %.
        text.push_str(&format!("; {} % of the time covered", (covered * 100.0).floor()));
    }
    if series.damaged_lines > 0 {
        text.push_str(&format!("; {} damaged lines dropped", count(series.damaged_lines)));
    }
    text
}

fn number_of(n: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "counts of points are far below 2^53")]
    let value = n as f64;
    number(value, Decimals::Fixed(0))
}

fn gaps(gaps: &[Gap], more: usize) -> Vec<String> {
    let one = |gap: &Gap| {
        let cause = gap.cause.as_deref().map_or("no mark says why", first_line);
        let length = span(between(gap.from_unix_us, gap.to_unix_us));
        format!("{} for {length}: {cause}", stamp(gap.from_unix_us))
    };
    let mut lines: Vec<String> = gaps.iter().take(MOST_GAPS).map(one).collect();
    if let further @ 1.. = gaps.len().saturating_sub(MOST_GAPS) + more {
        lines.push(format!("and {further} more"));
    }
    lines
}

fn course(soak: &SoakResult) -> Option<Course> {
    let progress = &soak.series.progress;
    let metric = soak.series.metrics.iter().find(|metric| metric.primary)?;
    let broke = progress.broke.as_ref().map(|broke| between(progress.begun_unix_us, broke.at_unix_us));
    let drawn = spark(&metric.blocks, soak.planned, broke)?;
    let [low, high] = [drawn.low, drawn.high].map(|value| number(value, Decimals::Each));
    let scale = format!("_ {low} to # {}, over {}", with_unit(&high, &metric.unit), span(soak.planned));
    Some(Course { metric: metric.name.clone(), line: drawn.line, scale })
}

fn timeline(events: &[Event], more: u64, begun: u64) -> Vec<Happened> {
    let line = |event: &Event| {
        let text = first_line(&event.text);
        let colon = if text.is_empty() { "" } else { ": " };
        let times = if event.count == 1 {
            String::new()
        } else {
            format!(" {} times until {}", number_of(event.count), short(event.last_unix_us))
        };
        Happened {
            at: short(event.first_unix_us),
            since: span(between(begun, event.first_unix_us)),
            what: format!("{}{times}{colon}{text}", event.kind),
        }
    };
    let hidden = events.len().saturating_sub(MOST_LINES);
    let (first, last) = if hidden == 0 && more == 0 {
        (events, &[][..])
    } else {
        // Where marks were dropped is in the middle too.
        let half = (events.len() / 2).min(MOST_LINES / 2);
        (events.get(..half).unwrap_or_default(), events.get(events.len() - half..).unwrap_or_default())
    };
    let mut lines: Vec<Happened> = first.iter().map(line).collect();
    let left_out = events.get(first.len()..events.len() - last.len()).unwrap_or_default();
    let left_out = left_out.iter().fold(more, |sum, event| sum.saturating_add(event.count));
    if left_out > 0 {
        let what = format!("{} more marks", number_of(left_out));
        lines.push(Happened { at: String::new(), since: String::new(), what });
    }
    lines.extend(last.iter().map(line));
    lines
}
