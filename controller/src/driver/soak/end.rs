//! The end of a soak: the series is closed and summed up, and the verdict's part that it decides is given.

use std::collections::BTreeMap;

use drover_matrix::{Matrix, Role, RoleSamples};
use drover_model::{AttemptId, Name};
use drover_sched::{CollectOutcome, Event};
use drover_store::{MarkKind, TaskRecord};

use super::{
    super::{Collected, TaskOutput, collect::read_all, drive::Driver, finish::task_outputs},
    live::{Closing, End},
};

impl Driver {
    /// All tasks of a soak are over: closes its series; gives the answer if that was done before.
    pub(in super::super) fn soak_over(&mut self, id: AttemptId) -> Option<Event> {
        let soak = self.attempts.get_mut(&id)?.soak.as_deref_mut()?;
        match soak.closing {
            Closing::Not if soak.course().is_none() => {
                soak.closing = Closing::Wanted;
                None
            }
            Closing::Not => {
                self.close_series(id);
                None
            }
            Closing::Wanted | Closing::Asked => None,
            Closing::Done(_) => self.soak_collected(id),
        }
    }

    /// Writes the last marks, and has the series summed up.
    pub(in super::super) fn close_series(&mut self, id: AttemptId) {
        let planned = self.soak_times.map(|times| times.load).unwrap_or_default();
        let attempt = self.attempts.get_mut(&id);
        let Some(soak) = attempt.and_then(|attempt| attempt.soak.as_deref_mut()) else { return };
        if matches!(soak.closing, Closing::Asked | Closing::Done(_)) {
            return;
        }
        soak.closing = Closing::Asked;
        let findings = soak.finish();
        let begun = soak.course().and_then(super::course::Course::begun_unix_us);
        let end = soak.end;
        self.take_findings(id, findings);
        if let Some(begun) = begun {
            match end {
                Some(End::Broke(at)) => {
                    let verdict = self.scheduler.failure(&id);
                    let text = verdict.map(|verdict| format!("{}: {}", verdict.cause(), verdict.detail()));
                    self.mark(id, at, MarkKind::Broke, text.unwrap_or_default());
                }
                Some(End::Interrupted(at)) => self.mark(id, at, MarkKind::Ended, "interrupted".to_owned()),
                None => {
                    let us = u64::try_from(planned.as_micros()).unwrap_or(u64::MAX);
                    let at = begun.saturating_add(us);
                    self.mark(id, at, MarkKind::Ended, "the time was over".to_owned());
                }
            }
        }
        let closed = self.recorder.as_ref().map(|recorder| recorder.close(id, planned));
        if let Some(Err(full)) = closed {
            tracing::error!("{full}");
        }
    }

    /// The series is whole: what it comes to.
    pub(super) fn soak_collected(&mut self, id: AttemptId) -> Option<Event> {
        let matrix = self.matrix.clone();
        let attempt = self.attempts.get_mut(&id)?;
        let soak = attempt.soak.as_deref()?;
        let Closing::Done(medians) = &soak.closing else { return None };
        let course = soak.course()?;
        let mut found = sum_up(&matrix, &task_outputs(&matrix, attempt), medians);
        found.outcome.check_failed = course.failed_rounds();
        found.outcome.doubts.extend(course.doubts().iter().cloned());
        if course.points() == 0 {
            found.outcome.parse_error =
                Some("no round, and no line, of the whole soak gave a figure".to_owned());
        }
        Some(self.note_collected(id, found))
    }
}

/// The records of all tasks, and the metrics of the soak: medians of its points, and what services told at their end.
fn sum_up(matrix: &Matrix, tasks: &[TaskOutput<'_>], medians: &BTreeMap<Name, f64>) -> Collected {
    // What loads wrote was read on the way.
    let bare = |role: &Role| {
        let measure = role.measure.clone().filter(|_| !role.is_load());
        Role { measure, ..role.clone() }
    };
    let roles: Vec<Role> = tasks.iter().map(|task| bare(task.role)).collect();
    let tasks = tasks.iter().zip(&roles).map(|(task, role)| TaskOutput { role, ..task.clone() });
    let read = read_all(&tasks.collect::<Vec<_>>());
    let has_samples = |record: &&TaskRecord| !record.samples.is_empty();
    let samples = read.records.iter().zip(&read.histograms).filter(|(record, _)| has_samples(record));
    let samples = samples.map(|(record, histogram)| RoleSamples {
        role: &record.role,
        instance: record.instance,
        samples: &record.samples,
        histogram: histogram.as_deref(),
    });
    let samples: Vec<RoleSamples<'_>> = samples.collect();
    let (mut metrics, mut problems) = (Vec::new(), read.problems);
    for (metric, at_end) in matrix.metrics().evaluate_each(&samples) {
        match (medians.get(&metric.name), at_end) {
            (Some(median), _) => metrics.push((metric.name.clone(), *median)),
            (None, Ok(value)) => metrics.push((metric.name.clone(), value)),
            (None, Err(error)) => problems.push(error.to_string()),
        }
    }
    let parse_error = (!problems.is_empty()).then(|| problems.join("; "));
    let outcome = CollectOutcome { parse_error, doubts: read.doubts, ..CollectOutcome::default() };
    Collected { tasks: read.records, metrics, outcome }
}
