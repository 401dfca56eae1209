//! Footnotes: why a cell has a mark, with the evidence. Reasons that differ in figures only share one note, so that a
//! saturated client is said once and not fifty times.

use std::collections::{BTreeSet, HashMap};

use drover_model::{EndKind, Outcome};
use drover_store::{AttemptRecord, TaskRecord};

use crate::trials::{Reason, Trial};

/// Notes printed at most; further reasons are counted together.
pub(crate) const MOST_NOTES: usize = 50;
/// Different wordings of one reason shown at most.
const MOST_DETAILS: usize = 3;
/// Cells described one by one in a note at most.
const MOST_CELLS: usize = 4;
/// Tasks whose last lines are shown, and lines of each.
const MOST_TASKS: usize = 2;
const MOST_LINES: usize = 4;

/// One footnote.
#[derive(Clone, Debug)]
pub(crate) struct Note {
    pub(crate) outcome: Outcome,
    pub(crate) cause: &'static str,
    /// The first few wordings, as recorded; one for a suspect number, whose wordings differ in figures only.
    pub(crate) details: Vec<String>,
    /// Whether there are wordings that are not shown.
    pub(crate) varies: bool,
    /// Trials with this reason.
    pub(crate) trials: usize,
    /// Trials of the cells that have it.
    pub(crate) of_trials: usize,
    /// Cells that have it.
    pub(crate) cells: usize,
    /// What happened besides in cells whose trials differ, one line for each of the first few.
    pub(crate) mixed: Vec<String>,
    /// How many further cells differ.
    pub(crate) mixed_more: usize,
    /// Last lines of the tasks of the first trial with this reason, each led by the task's name.
    pub(crate) tail: Vec<String>,
}

/// Collects notes while a table is built, in the order of first mention.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    list: Vec<Note>,
    by_reason: HashMap<(Outcome, &'static str, String), usize>,
}

impl Notes {
    /// The notes that a cell's trials call for, as numbers from 1. `mixed` says what the other trials did, if they
    /// differ; it is kept with the cell's failures.
    pub(crate) fn of_trials(&mut self, trials: &[Trial<'_>], mixed: Option<&str>) -> Vec<usize> {
        let mut mentioned = BTreeSet::new();
        for trial in trials {
            for reason in trial.reasons() {
                let (at, note) = self.note(&reason);
                note.trials += 1;
                if note.tail.is_empty()
                    && matches!(reason.outcome, Outcome::Ng | Outcome::Error)
                    && let Some(attempt) = trial.speaker()
                {
                    note.tail = tail(attempt);
                }
                if mentioned.insert(at) {
                    note.cells += 1;
                    note.of_trials += trials.len();
                    if let Some(mixed) = mixed.filter(|_| reason.outcome == Outcome::Ng) {
                        note.add_mixed(mixed);
                    }
                }
            }
        }
        numbers(&mentioned)
    }

    /// The note for a reason that concerns a whole cell, as a number from 1.
    pub(crate) fn of_cell(&mut self, reason: &Reason<'_>, trials: usize) -> Vec<usize> {
        let (at, note) = self.note(reason);
        note.cells += 1;
        note.trials += trials;
        note.of_trials += trials;
        numbers(&BTreeSet::from([at]))
    }

    pub(crate) fn into_list(self) -> Vec<Note> {
        self.list
    }

    fn note(&mut self, reason: &Reason<'_>) -> (usize, &mut Note) {
        let key = (reason.outcome, reason.cause, without_figures(&reason.detail));
        let at = *self.by_reason.entry(key).or_insert(self.list.len());
        if at == self.list.len() {
            self.list.push(Note::new(reason));
        }
        let note = &mut self.list[at];
        note.add_detail(reason);
        (at, note)
    }
}

impl Note {
    fn new(reason: &Reason<'_>) -> Self {
        Self {
            outcome: reason.outcome,
            cause: reason.cause,
            details: Vec::new(),
            varies: false,
            trials: 0,
            of_trials: 0,
            cells: 0,
            mixed: Vec::new(),
            mixed_more: 0,
            tail: Vec::new(),
        }
    }

    fn add_detail(&mut self, reason: &Reason<'_>) {
        if self.details.iter().any(|known| *known == reason.detail) {
            return;
        }
        let most = if matches!(reason.outcome, Outcome::Ng | Outcome::Error) { MOST_DETAILS } else { 1 };
        if self.details.len() < most {
            self.details.push(reason.detail.clone().into_owned());
        } else {
            self.varies = true;
        }
    }

    fn add_mixed(&mut self, line: &str) {
        if self.mixed.len() < MOST_CELLS {
            self.mixed.push(line.to_owned());
        } else {
            self.mixed_more += 1;
        }
    }
}

/// Note numbers for print; those beyond the limit share the number after it.
fn numbers(mentioned: &BTreeSet<usize>) -> Vec<usize> {
    let printed: BTreeSet<usize> = mentioned.iter().map(|at| at.min(&MOST_NOTES) + 1).collect();
    printed.into_iter().collect()
}

/// The wording of a detail with every run of digits and decimal points replaced by one `0`.
fn without_figures(detail: &str) -> String {
    let mut wording = String::with_capacity(detail.len());
    let mut in_figure = false;
    for c in detail.chars() {
        let figure = c.is_ascii_digit() || (in_figure && matches!(c, '.' | ','));
        if !figure {
            wording.push(c);
        } else if !in_figure {
            wording.push('0');
        }
        in_figure = figure;
    }
    wording
}

/// The last lines of an attempt's tasks, those that ended badly first.
fn tail(attempt: &AttemptRecord) -> Vec<String> {
    let ended_well =
        |task: &&TaskRecord| matches!(task.end, Some(EndKind::Exited(0) | EndKind::Stopped(Some(_))));
    let mut tasks: Vec<&TaskRecord> =
        attempt.tasks.iter().filter(|task| !task.tail.trim().is_empty()).collect();
    tasks.sort_by_key(ended_well);
    let mut shown = Vec::new();
    for task in tasks.into_iter().take(MOST_TASKS) {
        let mut lines: Vec<&str> =
            task.tail.lines().rev().filter(|line| !line.trim().is_empty()).take(MOST_LINES).collect();
        lines.reverse();
        shown.extend(lines.into_iter().map(|line| format!("{}.{}| {line}", task.role, task.instance)));
    }
    shown
}
