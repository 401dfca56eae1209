//! The course of a soak: what its loads report becomes points, marks and failures, in the order in which it happened. Pure, and
//! the same whenever the reports arrive: a controller that goes on with what another one began reads all of them again, and
//! passes over what is on disk already.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use drover_matrix::{Matrix, Role, RoleSamples, Soak, SoakUntil};
use drover_model::{Doubt, ErrorCause, Name, NgCause, TaskEvent, TaskEventKind, TaskId, Verdict};
use drover_store::MarkKind;

use super::{
    judge::{Judge, Judged},
    merge::Merge,
    reading::{BadRound, Reading},
    sweep::{Occasion, Sweep},
    task_clock::TaskClock,
    thin::Thinner,
};
use crate::time::brief;

/// Kinds of doubt that are kept.
const MOST_DOUBTS: usize = 16;

/// What is on disk of a soak that another controller began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OnDisk {
    /// When the load began, in microseconds since the Unix epoch.
    pub begun_unix_us: Option<u64>,
    /// The last round of which there is a point, and when that was.
    pub last_point: Option<(u64, u64)>,
    /// When the last mark of each kind was.
    pub last_marks: BTreeMap<MarkKind, u64>,
}

/// What the course of a soak shows. Times are microseconds since the Unix epoch.
#[derive(Clone, Debug, PartialEq)]
pub enum Finding {
    /// To be kept in the series.
    Point { at_unix_us: u64, round: u64, values: Vec<(Name, f64)> },
    /// To be kept in the timeline.
    Mark { at_unix_us: u64, kind: MarkKind, text: String },
    /// The primary metric, so long after the begin; also of points that are not kept.
    Value { elapsed: Duration, value: f64 },
    /// The attempt has failed.
    Failed { at_unix_us: u64, verdict: Verdict },
}

/// What a load reports, once its place in time is known.
#[derive(Debug)]
pub(super) enum Item {
    Found(Reading),
    Bad(BadRound),
    Stalled(String),
    Mark(MarkKind, String),
}

/// A task that loads the services.
#[derive(Debug)]
pub(super) struct LoadTask {
    pub(super) id: TaskId,
    /// Its role's place in the matrix.
    pub(super) role: usize,
    /// It waits at a barrier first.
    held: bool,
    /// `None` before it began.
    pub(super) clock: Option<TaskClock>,
    pub(super) cpus: String,
    /// Last report that was read.
    seq: u64,
    stalled: bool,
}

/// The course of one attempt.
#[derive(Debug)]
pub struct Course {
    pub(super) matrix: Arc<Matrix>,
    pub(super) soak: Soak,
    pub(super) loads: Vec<LoadTask>,
    pub(super) merge: Merge<Item>,
    sweep: Sweep<Reading>,
    judge: Judge,
    thinner: Thinner,
    on_disk: OnDisk,
    begun_unix_us: Option<u64>,
    /// Reports so far.
    number: u64,
    /// Points so far, those that were not kept included.
    points: u64,
    bad_rounds: u64,
    first_bad: Option<String>,
    /// It has failed: what comes until all is stopped is judged no more.
    has_failed: bool,
    doubts: Vec<Doubt>,
}

impl Course {
    /// A soak of which nothing was heard yet. `tasks` are those of all roles that load.
    pub fn new(matrix: &Arc<Matrix>, soak: Soak, tasks: Vec<TaskId>, on_disk: OnDisk) -> Self {
        let load = |id: TaskId| {
            let role = matrix.roles().iter().position(|role| role.name == id.role).unwrap_or_default();
            let held = is_held(matrix, role);
            LoadTask { id, role, held, clock: None, cpus: String::new(), seq: 0, stalled: false }
        };
        let loads: Vec<LoadTask> = tasks.into_iter().map(load).collect();
        Self {
            matrix: Arc::clone(matrix),
            soak,
            merge: Merge::new(loads.len()),
            sweep: Sweep::new(loads.len()),
            judge: Judge::new(matrix),
            loads,
            thinner: Thinner::new(soak.every, on_disk.last_point.map(|(_, at)| at)),
            begun_unix_us: on_disk.begun_unix_us,
            on_disk,
            number: 0,
            points: 0,
            bad_rounds: 0,
            first_bad: None,
            has_failed: false,
            doubts: Vec::new(),
        }
    }

    /// The load that a task is, if it is one.
    pub fn load_of(&self, task: &TaskId) -> Option<usize> {
        self.loads.iter().position(|load| load.id == *task)
    }

    /// What to call a load.
    pub fn label(&self, load: usize) -> String {
        let Some(task) = self.loads.get(load) else { return String::new() };
        let several = self.loads.iter().filter(|other| other.role == task.role).count() > 1;
        if several { format!("{}.{}", task.id.role, task.id.instance) } else { task.id.role.to_string() }
    }

    /// When the load began, in microseconds since the Unix epoch.
    pub fn begun_unix_us(&self) -> Option<u64> {
        self.begun_unix_us
    }

    /// Takes in a report of a load on this host, which happened at `at_unix_us` by the controller's clock. Says whether it shows
    /// progress: that the load began, or found something.
    pub fn report(
        &mut self,
        load: usize,
        host: &Name,
        event: &TaskEvent,
        at_unix_us: u64,
        findings: &mut Vec<Finding>,
    ) -> bool {
        let Some(task) = self.loads.get_mut(load) else { return false };
        if event.seq <= task.seq {
            return false;
        }
        task.seq = event.seq;
        let progress = match &event.kind {
            TaskEventKind::Started { cpus, .. } => {
                task.cpus.clone_from(cpus);
                if task.held { false } else { self.begin(load, event.at_unix_us, at_unix_us, findings) }
            }
            TaskEventKind::Released { .. } => self.begin(load, event.at_unix_us, at_unix_us, findings),
            TaskEventKind::Round { number, end } => self.round(load, host, event.at_unix_us, *number, end),
            TaskEventKind::Lines { at_unix_us, text, dropped } => {
                self.lines(load, *at_unix_us, text, *dropped)
            }
            TaskEventKind::Stalled { for_, what } => {
                let label = self.label(load);
                let text = format!(
                    "{label} made no progress for {}: nothing written and no CPU used, seen by the agent of {host}; {what}",
                    brief(*for_)
                );
                let at =
                    self.loads.get(load).and_then(|task| Some(task.clock.as_ref()?.at(event.at_unix_us)));
                self.merge.push(load, at.unwrap_or_default(), Item::Stalled(text));
                false
            }
            TaskEventKind::Ended(_) => {
                self.merge.close(load);
                false
            }
            TaskEventKind::Armed | TaskEventKind::Ready { .. } => false,
        };
        self.go_on(findings);
        progress
    }

    /// All loads are over, or nothing more will be heard of them.
    pub fn finish(&mut self, findings: &mut Vec<Finding>) {
        self.merge.close_all();
        self.go_on(findings);
        let last = self.loads.iter().filter_map(|task| Some(task.clock.as_ref()?.elapsed())).max();
        let Self { sweep, judge, loads, .. } = self;
        let mut judged = Vec::new();
        sweep.finish(&mut |given, occasion| judged.push(judge.judge(&samples(loads, given), occasion)));
        for one in judged {
            self.take_judged(last.unwrap_or_default(), one, findings);
        }
    }

    /// Rounds that failed, in words; `None` if none did.
    pub fn failed_rounds(&self) -> Option<String> {
        let first = self.first_bad.as_deref()?;
        Some(match self.bad_rounds {
            1 => format!("1 round failed: {first}"),
            many => format!("{many} rounds failed, the first: {first}"),
        })
    }

    /// Points so far, those that were not kept included.
    pub fn points(&self) -> u64 {
        self.points
    }

    /// Reasons to distrust what was found: the first one of each kind.
    pub fn doubts(&self) -> &[Doubt] {
        &self.doubts
    }

    fn begin(&mut self, load: usize, told: u64, at_unix_us: u64, findings: &mut Vec<Finding>) -> bool {
        let Some(task) = self.loads.get_mut(load) else { return false };
        task.clock = Some(TaskClock::new(told));
        if self.begun_unix_us.is_none() {
            self.begun_unix_us = Some(at_unix_us);
            findings.push(Finding::Mark { at_unix_us, kind: MarkKind::Begun, text: String::new() });
        }
        true
    }

    /// What can be put in its place in time is judged.
    fn go_on(&mut self, findings: &mut Vec<Finding>) {
        while let Some((load, elapsed, item)) = self.merge.next() {
            self.number += 1;
            let stalled = self.loads.get_mut(load).map(|task| &mut task.stalled);
            match item {
                Item::Found(reading) => {
                    if stalled.is_some_and(std::mem::take) {
                        let text = format!("{} goes on", self.label(load));
                        self.mark(elapsed, MarkKind::Resumed, text, findings);
                    }
                    self.found(load, elapsed, reading, findings);
                }
                Item::Bad(bad) => self.bad(load, elapsed, &bad, findings),
                Item::Stalled(text) => {
                    stalled.into_iter().for_each(|stalled| *stalled = true);
                    self.mark(elapsed, MarkKind::Stalled, text.clone(), findings);
                    let verdict = Verdict::Ng { cause: NgCause::Hang, detail: text };
                    findings.push(Finding::Failed { at_unix_us: self.at(elapsed), verdict });
                }
                Item::Mark(kind, text) => self.mark(elapsed, kind, text, findings),
            }
        }
    }

    fn found(&mut self, load: usize, elapsed: Duration, reading: Reading, findings: &mut Vec<Finding>) {
        for doubt in &reading.doubts {
            let known = self.doubts.iter().any(|known| known.kind == doubt.kind);
            if !known && self.doubts.len() < MOST_DOUBTS {
                self.doubts.push(doubt.clone());
            }
        }
        let Self { sweep, judge, loads, .. } = self;
        let mut judged = Vec::new();
        sweep.add(load, reading, &mut |given, occasion| {
            judged.push(judge.judge(&samples(loads, given), occasion));
        });
        for one in judged {
            self.take_judged(elapsed, one, findings);
        }
    }

    fn bad(&mut self, load: usize, elapsed: Duration, bad: &BadRound, findings: &mut Vec<Finding>) {
        let Self { sweep, judge, loads, .. } = self;
        let mut judged = Vec::new();
        sweep.fail(load, &mut |given, occasion| judged.push(judge.judge(&samples(loads, given), occasion)));
        for one in judged {
            self.take_judged(elapsed, one, findings);
        }
        let detail = bad.text().to_owned();
        let verdict = match bad {
            // A command that never worked is our fault.
            BadRound::Command(_) if self.points == 0 => Verdict::Error { cause: ErrorCause::Script, detail },
            BadRound::Output(_) if self.points == 0 => Verdict::Error { cause: ErrorCause::Parse, detail },
            BadRound::Deadline(_) => Verdict::Ng { cause: NgCause::Timeout, detail },
            BadRound::Command(_) | BadRound::Output(_) => Verdict::Ng { cause: NgCause::CheckFailed, detail },
        };
        self.round_failed(elapsed, bad.text(), verdict, findings);
    }

    fn take_judged(&mut self, elapsed: Duration, judged: Judged, findings: &mut Vec<Finding>) {
        let Judged { occasion, values, unfulfilled, problem } = judged;
        let at_unix_us = self.at(elapsed);
        if let Some(detail) = problem {
            let cause = NgCause::CheckFailed;
            let verdict = if self.points == 0 {
                Verdict::Error { cause: ErrorCause::Parse, detail: detail.clone() }
            } else {
                Verdict::Ng { cause, detail: detail.clone() }
            };
            self.round_failed(elapsed, &detail, verdict, findings);
        }
        if occasion == Occasion::Point && !values.is_empty() {
            self.points += 1;
            let primary = self.matrix.metrics().primary();
            let shown = primary.and_then(|primary| values.iter().find(|(name, _)| *name == primary.name));
            findings.extend(shown.map(|(_, value)| Finding::Value { elapsed, value: *value }));
            let is_new = self.on_disk.last_point.is_none_or(|(last, _)| self.number > last);
            if is_new && self.thinner.keeps(at_unix_us) {
                findings.push(Finding::Point { at_unix_us, round: self.number, values });
            }
        }
        if let Some(text) = unfulfilled {
            let verdict = Verdict::Ng { cause: NgCause::CheckFailed, detail: text.clone() };
            self.round_failed(elapsed, &text, verdict, findings);
        }
    }

    /// Notes a failed round; the first one is the end where the matrix says so, or where nothing ever worked.
    fn round_failed(&mut self, elapsed: Duration, text: &str, verdict: Verdict, findings: &mut Vec<Finding>) {
        if self.has_failed {
            return;
        }
        self.bad_rounds += 1;
        let after = format!("after {}", brief(elapsed));
        self.first_bad.get_or_insert_with(|| format!("{text} ({after})"));
        self.mark(elapsed, MarkKind::RoundFailed, text.to_owned(), findings);
        if self.soak.until == SoakUntil::FirstNg || matches!(verdict, Verdict::Error { .. }) {
            let verdict = match verdict {
                Verdict::Ng { cause, detail } => Verdict::Ng { cause, detail: format!("{detail} ({after})") },
                Verdict::Error { cause, detail } => {
                    Verdict::Error { cause, detail: format!("{detail} (no round before it gave a figure)") }
                }
                other => other,
            };
            self.has_failed = true;
            findings.push(Finding::Failed { at_unix_us: self.at(elapsed), verdict });
        }
    }

    fn mark(&self, elapsed: Duration, kind: MarkKind, text: String, findings: &mut Vec<Finding>) {
        let at_unix_us = self.at(elapsed);
        if self.is_new(at_unix_us, kind) {
            findings.push(Finding::Mark { at_unix_us, kind, text });
        }
    }

    /// Whether a mark is not on disk, written by a former controller.
    pub fn is_new(&self, at_unix_us: u64, kind: MarkKind) -> bool {
        self.on_disk.last_marks.get(&kind).is_none_or(|last| at_unix_us > *last)
    }

    fn at(&self, elapsed: Duration) -> u64 {
        let elapsed = u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX);
        self.begun_unix_us.unwrap_or_default().saturating_add(elapsed)
    }
}

/// What there is of all loads, as metrics take it.
fn samples<'a>(loads: &'a [LoadTask], given: &[(usize, &'a Reading)]) -> Vec<RoleSamples<'a>> {
    let one = |(load, reading): &(usize, &'a Reading)| {
        let task = loads.get(*load)?;
        Some(RoleSamples {
            role: &task.id.role,
            instance: task.id.instance,
            samples: &reading.samples,
            histogram: reading.histogram.as_deref(),
        })
    };
    given.iter().filter_map(one).collect()
}

/// Whether tasks of a role wait at a barrier: several that are awaited start together.
fn is_held(matrix: &Matrix, role: usize) -> bool {
    let Some(this) = matrix.roles().get(role) else { return false };
    let together = matrix.roles().iter().filter(|other| !other.is_service() && other.after == this.after);
    together.map(Role::tasks).fold(0, u32::saturating_add) > 1
}
