//! What agents report of tasks: whether they may, and what of it is kept with the attempt.

use drover_model::{Name, TaskEvent, TaskEventKind, TaskId};

use super::{attempt::LiveTask, drive::Driver};

impl Driver {
    /// Whether a task is on this host, as far as is known: what one host says counts for no other.
    pub(super) fn may_report(&self, host: &Name, task: &TaskId) -> bool {
        let Some(role) = self.matrix.roles().iter().position(|role| role.name == task.role) else {
            return false;
        };
        let per_host = self.matrix.roles().get(role).map_or(1, |role| role.instances);
        let seats = self.attempts.get(&task.attempt).and_then(|attempt| attempt.seats.as_ref());
        seats.is_none_or(|seats| seats.host(role, task.instance, per_host) == Some(host))
    }

    /// Keeps what there is to keep of a report.
    pub(super) fn note_task(&mut self, event: TaskEvent) {
        let Some(attempt) = self.attempt_mut(event.task.attempt) else { return };
        let task: &mut LiveTask = attempt.tasks.entry(event.task).or_default();
        match event.kind {
            TaskEventKind::Started { cpus, .. } => task.cpus = cpus,
            TaskEventKind::Ended(end) => task.end = Some(end),
            TaskEventKind::Armed
            | TaskEventKind::Released { .. }
            | TaskEventKind::Ready { .. }
            | TaskEventKind::Round { .. }
            | TaskEventKind::Lines { .. }
            | TaskEventKind::Stalled { .. } => {}
        }
    }
}

/// The name of an event without its outputs, for the log.
pub(super) struct KindOnly<'a>(pub &'a TaskEventKind);

impl std::fmt::Debug for KindOnly<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            TaskEventKind::Ended(end) => write!(f, "Ended({:?})", end.kind),
            TaskEventKind::Round { number, end } => write!(f, "Round({number}, {:?})", end.kind),
            TaskEventKind::Lines { text, .. } => write!(f, "Lines({} bytes)", text.len()),
            other => other.fmt(f),
        }
    }
}
