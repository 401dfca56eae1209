//! What the driver keeps of a soak in flight.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use drover_matrix::{Matrix, Soak};
use drover_model::{AttemptId, Name, TaskEvent, TaskEventKind, TaskId};
use drover_store::MarkKind;

use super::{
    course::{Course, Finding, OnDisk},
    host_times::HostTimes,
    silence::Silence,
};

/// A soak in flight.
#[derive(Debug)]
pub struct LiveSoak {
    matrix: Arc<Matrix>,
    soak: Soak,
    loads: Vec<TaskId>,
    stage: Stage,
    host_times: HostTimes,
    /// Marks of what is no load, that wait for the series to be open.
    early_marks: Vec<(u64, MarkKind, String)>,
    pub silence: Silence,
    /// Hosts that cannot be heard.
    pub away: BTreeSet<Name>,
    /// When happened what the scheduler is being told of.
    pub event_unix_us: Option<u64>,
    /// How it was ended before its time.
    pub end: Option<End>,
    pub evidence: Asked,
    /// Orders to stop that wait until the evidence is here: host and task.
    pub held: Vec<(Name, TaskId)>,
    pub closing: Closing,
}

/// Where the series stands.
#[derive(Debug)]
enum Stage {
    /// It is being opened; reports wait.
    Opening(Vec<Report>),
    /// It is written.
    Going(Box<Course>),
}

/// A report of a task.
#[derive(Debug)]
pub struct Report {
    pub host: Name,
    pub event: TaskEvent,
    /// When, by the controller's clock.
    pub at_unix_us: u64,
}

/// How a soak was ended before its time, and when, in microseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Broke(u64),
    Interrupted(u64),
}

/// Whether evidence was asked for.
#[derive(Debug, PartialEq, Eq)]
pub enum Asked {
    Not,
    /// Of these hosts.
    Waiting(BTreeSet<Name>),
    Over,
}

/// Whether the series is whole.
#[derive(Debug, PartialEq)]
pub enum Closing {
    Not,
    /// As soon as it is open.
    Wanted,
    Asked,
    /// With the medians of its metrics.
    Done(BTreeMap<Name, f64>),
}

impl LiveSoak {
    /// A soak of which nothing is known yet.
    pub fn new(matrix: &Arc<Matrix>, soak: Soak, attempt: AttemptId) -> Self {
        let loads = matrix.roles().iter().filter(|role| role.is_load());
        let tasks = loads.flat_map(|role| {
            let id = |instance| TaskId { attempt, role: role.name.clone(), instance };
            (0..role.tasks()).map(id)
        });
        let loads: Vec<TaskId> = tasks.collect();
        Self {
            matrix: Arc::clone(matrix),
            soak,
            stage: Stage::Opening(Vec::new()),
            host_times: HostTimes::default(),
            early_marks: Vec::new(),
            silence: Silence::new(loads.len(), soak.stall),
            loads,
            away: BTreeSet::new(),
            event_unix_us: None,
            end: None,
            evidence: Asked::Not,
            held: Vec::new(),
            closing: Closing::Not,
        }
    }

    /// When something was that a host reports of `at_unix_us`, by the controller's clock, which shows `now_unix_us`.
    pub fn time_of(&mut self, host: &Name, at_unix_us: u64, now_unix_us: u64) -> u64 {
        self.host_times.of(host, at_unix_us, now_unix_us)
    }

    /// A mark of what is no load, as it is to be written: not before the series is open, and not again by a later controller.
    pub fn sign(&mut self, at_unix_us: u64, kind: MarkKind, text: String) -> Option<Finding> {
        match &self.stage {
            Stage::Opening(_) => {
                self.early_marks.push((at_unix_us, kind, text));
                None
            }
            Stage::Going(course) => {
                course.is_new(at_unix_us, kind).then_some(Finding::Mark { at_unix_us, kind, text })
            }
        }
    }

    /// The marks that waited for the series to be open.
    pub fn waiting_marks(&mut self) -> Vec<Finding> {
        let marks = std::mem::take(&mut self.early_marks);
        marks.into_iter().filter_map(|(at, kind, text)| self.sign(at, kind, text)).collect()
    }

    /// The series is open, with this in it. Gives the reports that waited; `None` if it was open before.
    pub fn opened(&mut self, on_disk: OnDisk) -> Option<Vec<Report>> {
        let Stage::Opening(early) = &mut self.stage else { return None };
        let early = std::mem::take(early);
        let course = Course::new(&self.matrix, self.soak, self.loads.clone(), on_disk);
        self.stage = Stage::Going(Box::new(course));
        Some(early)
    }

    /// Its course, once the series is open.
    pub fn course(&self) -> Option<&Course> {
        match &self.stage {
            Stage::Going(course) => Some(course),
            Stage::Opening(_) => None,
        }
    }

    /// A task reports something. Of what is not open yet, it waits.
    pub fn report(&mut self, report: &Report, now: Duration) -> Vec<Finding> {
        let mut findings = Vec::new();
        let Report { host, event, at_unix_us } = report;
        match &mut self.stage {
            Stage::Opening(early) => {
                let (host, event) = (host.clone(), event.clone());
                early.push(Report { host, event, at_unix_us: *at_unix_us });
            }
            Stage::Going(course) => {
                if let Some(load) = course.load_of(&event.task) {
                    if course.report(load, host, event, *at_unix_us, &mut findings) {
                        self.silence.broken(load, now);
                    }
                    if matches!(event.kind, TaskEventKind::Ended(_)) {
                        self.silence.over(load);
                    }
                }
            }
        }
        findings
    }

    /// Nothing more comes.
    pub fn finish(&mut self) -> Vec<Finding> {
        let mut findings = Vec::new();
        if let Stage::Going(course) = &mut self.stage {
            course.finish(&mut findings);
        }
        findings
    }

    /// Tasks that gave nothing for too long; each once.
    pub fn silent(&mut self, now: Duration) -> Vec<TaskId> {
        let silent = self.silence.too_long(now);
        silent.into_iter().filter_map(|load| self.loads.get(load).cloned()).collect()
    }

    /// The host of a task is there: what to say of the task if it gives nothing all the same.
    pub fn confirmed(&mut self, task: &TaskId) -> Option<String> {
        let load = self.loads.iter().position(|load| load == task)?;
        if !self.silence.is_confirmed(load) {
            return None;
        }
        self.silence.over(load);
        let (label, stall) = (self.course()?.label(load), crate::time::brief(self.soak.stall));
        Some(format!("{label} gave no figure for {stall}, seen by the controller"))
    }
}
