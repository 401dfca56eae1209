//! What stands above and below the tables in every format for people: what was measured, where, when, how completely,
//! and the words of footnotes.

use drover_model::Direction;
use drover_store::{AttemptRecord, RunState};
use jiff::Timestamp;

use crate::{
    functional::functional_hosts,
    machines,
    notes::{MOST_NOTES, Note},
    pivot::{Pivot, Shown},
    trials::mark,
};

/// Hosts described in a heading at most.
const MOST_HOSTS: usize = 8;
/// Lines of one detail that are shown after its first.
const MOST_DETAIL_LINES: usize = 3;

/// `accept: conn_per_s (conn/s, higher is better)`.
pub(crate) fn title(pivot: &Pivot<'_>) -> String {
    let name = &pivot.results.run.name;
    let Some(metric) = pivot.metric else { return name.clone() };
    let better = match metric.better {
        Direction::Higher => "higher is better",
        Direction::Lower => "lower is better",
    };
    let unit = if metric.unit.is_empty() { String::new() } else { format!("{}, ", metric.unit) };
    format!("{name}: {} ({unit}{better})", metric.name)
}

/// Facts about the run, a line each; not yet escaped. `plus_minus` is how the format writes that sign.
pub(crate) fn facts(pivot: &Pivot<'_>, plus_minus: &str) -> Vec<String> {
    let results = pivot.results;
    let run = &results.run;
    let mut lines = Vec::new();
    lines.extend(run.about.lines().find(|line| !line.trim().is_empty()).map(|line| line.trim().to_owned()));
    let state = match results.state {
        RunState::Open => "not ended",
        RunState::Finished => "finished",
        RunState::Interrupted => "interrupted",
    };
    lines.push(format!("run {}, {}, {state}", run.id, date(run.started_unix_ms)));
    for (name, facts) in results.hosts.iter().take(MOST_HOSTS) {
        lines.extend(machines::lines(results, name, facts));
    }
    if let more @ 1.. = results.hosts.len().saturating_sub(MOST_HOSTS) {
        lines.push(format!("and {more} more hosts"));
    }
    if !pivot.fixed.is_empty() {
        let fixed: Vec<String> = pivot.fixed.iter().map(|(axis, value)| format!("{axis}={value}")).collect();
        lines.push(format!("in all cells {}", fixed.join(" ")));
    }
    lines.push(pivot.coverage.to_string());
    lines.extend(skew(&results.attempts));
    let has_numbers = pivot
        .facets
        .iter()
        .flat_map(|facet| &facet.places)
        .flatten()
        .any(|place| matches!(place.shown, Shown::Number { .. }));
    if has_numbers {
        lines.push(match run.repeat {
            0 | 1 => "one trial per cell".to_owned(),
            n => format!(
                "median of n={n} trials {plus_minus} the largest deviation of one; another n is shown"
            ),
        });
    }
    let functional = functional_hosts(results);
    if has_numbers && !functional.is_empty() {
        let hosts = functional.iter().take(MOST_HOSTS).copied().collect::<Vec<_>>().join(", ");
        lines.push(format!(
            "functional only: QEMU translates the instructions of {hosts}; its numbers show that something works, not how fast"
        ));
    }
    if pivot.has_gaps() {
        lines.push("empty places are not part of the matrix".to_owned());
    }
    lines
}

/// How far apart those started that were to start together, over the attempts that gave a number.
fn skew(attempts: &[AttemptRecord]) -> Option<String> {
    let measured = attempts.iter().filter(|attempt| attempt.verdict.outcome().has_number());
    let mut skews: Vec<u64> = measured.filter_map(|attempt| attempt.start_skew_us).collect();
    skews.sort_unstable();
    let (median, max) = (skews.get(skews.len() / 2)?, skews.last()?);
    let ms = |us: u64| format!("{}.{:03} ms", us / 1000, us % 1000);
    Some(format!("started together within {} (median), {} at most", ms(*median), ms(*max)))
}

fn date(unix_ms: u64) -> String {
    let stamp = i64::try_from(unix_ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
    stamp.map_or_else(|| "date unknown".to_owned(), |at| at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string())
}

/// A footnote in plain words, not yet escaped.
pub(crate) struct Words {
    /// `** client-saturated` or `NG lockup`.
    pub(crate) what: String,
    /// First line of the evidence; can be empty.
    pub(crate) detail: String,
    /// `9 of 9 trials in 3 cells`.
    pub(crate) counts: String,
    /// Further lines of evidence.
    pub(crate) lines: Vec<String>,
    /// Last lines of outputs.
    pub(crate) tail: Vec<String>,
}

/// The notes to print with their numbers, at most [`MOST_NOTES`] and one that counts the rest.
pub(crate) fn words(notes: &[Note]) -> Vec<(usize, Words)> {
    let mut list: Vec<(usize, Words)> =
        notes.iter().take(MOST_NOTES).enumerate().map(|(at, note)| (at + 1, of_note(note))).collect();
    if let more @ 1.. = notes.len().saturating_sub(MOST_NOTES) {
        list.push((
            MOST_NOTES + 1,
            Words {
                what: "other reasons".to_owned(),
                detail: "the CSV and JSON exports have all of them".to_owned(),
                counts: format!("{more} more"),
                lines: Vec::new(),
                tail: Vec::new(),
            },
        ));
    }
    list
}

fn of_note(note: &Note) -> Words {
    let cells = if note.cells == 1 { "1 cell".to_owned() } else { format!("{} cells", note.cells) };
    let trials = format!("{} of {} trials", note.trials, note.of_trials);
    let mut counts = match (note.of_trials, note.cells) {
        (0, _) => cells,
        (_, 1) => trials,
        _ => format!("{trials} in {cells}"),
    };
    if note.varies {
        counts.push_str("; figures differ");
    }
    let mut details = note.details.iter().map(|detail| detail.trim());
    let mut first = details.next().unwrap_or_default().lines();
    let detail = first.next().unwrap_or_default().to_owned();
    let mut lines: Vec<String> = first.take(MOST_DETAIL_LINES).map(ToOwned::to_owned).collect();
    lines.extend(details.map(|detail| format!("also: {detail}")));
    lines.extend(note.mixed.iter().cloned());
    if note.mixed_more > 0 {
        lines.push(format!("and {} more cells in which trials passed", note.mixed_more));
    }
    Words {
        what: format!("{} {}", mark(note.outcome), note.cause),
        detail,
        counts,
        lines,
        tail: note.tail.clone(),
    }
}
