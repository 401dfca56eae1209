//! What the records of a spool add up to. Pure: the file feeds it record by record, when it is read back and when it
//! grows, so a restarted agent ends up with the same state as the one that was killed.

use std::collections::BTreeMap;

use drover_model::{AttemptId, LeaseEpoch, RunId, TaskId};
use drover_proto::v1;

use super::{
    record::{Note, Record},
    shed,
};
use crate::lease::Grant;

/// Where an event is kept.
#[derive(Clone, Debug)]
pub(super) enum Place {
    /// In the file.
    File {
        /// Offset of its frame.
        at: u64,
        /// Length of its frame.
        length: usize,
    },
    /// In memory, because the file could not take it.
    Memory(Box<v1::TaskEvent>),
}

impl Place {
    /// Bytes taken in the file.
    pub(super) fn bytes(&self) -> u64 {
        match self {
            Self::File { length, .. } => u64::try_from(*length).unwrap_or(u64::MAX),
            Self::Memory(_) => 0,
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Slot {
    pub(super) attempt: AttemptId,
    /// Bytes of it that can be left out.
    pub(super) spare: usize,
    pub(super) place: Place,
}

/// What is known of an attempt.
#[derive(Clone, Debug, Default)]
pub struct AttemptEntry {
    /// Ports reserved for it.
    pub ports: Vec<u16>,
    /// Its tasks, in the order in which they were accepted.
    pub tasks: Vec<TaskEntry>,
    /// When something was last recorded of it, in microseconds since the Unix epoch.
    pub touched_unix_us: u64,
    /// When something was first recorded of it, in microseconds since the Unix epoch; 0 if that is not known.
    pub begun_unix_us: u64,
    /// Numbers of its events.
    seqs: Vec<u64>,
}

/// What is known of a task.
#[derive(Clone, Debug)]
pub struct TaskEntry {
    /// Which.
    pub id: TaskId,
    /// Its process existed.
    pub started: bool,
    /// Bytes kept of each of its outputs.
    pub output_limit: u64,
    /// Whether there may be files with its output: not if all of it travelled with its end event.
    pub output_files: bool,
    /// Sequence number of its end, once there is one.
    pub end: Option<u64>,
}

/// The state that the records add up to.
#[derive(Clone, Debug)]
pub struct Index {
    /// Sequence number of the next event.
    pub next_seq: u64,
    /// Highest epoch ever given.
    pub epoch: LeaseEpoch,
    /// Who holds the host.
    pub grant: Option<Grant>,
    /// How many tasks are known.
    pub tasks: usize,
    /// Attempts that are not forgotten.
    pub attempts: BTreeMap<AttemptId, AttemptEntry>,
    pub(super) events: BTreeMap<u64, Slot>,
}

impl Default for Index {
    fn default() -> Self {
        Self {
            next_seq: 1,
            epoch: LeaseEpoch::default(),
            grant: None,
            tasks: 0,
            attempts: BTreeMap::new(),
            events: BTreeMap::new(),
        }
    }
}

impl Index {
    /// Whether a task was accepted and is not forgotten.
    #[must_use]
    pub fn knows(&self, task: &TaskId) -> bool {
        self.task(task).is_some()
    }

    /// What is known of a task.
    #[must_use]
    pub fn task(&self, task: &TaskId) -> Option<&TaskEntry> {
        self.attempts.get(&task.attempt)?.tasks.iter().find(|entry| entry.id == *task)
    }

    /// Tasks that were accepted and whose end was not recorded.
    pub fn open_tasks(&self) -> impl Iterator<Item = &TaskEntry> {
        self.attempts.values().flat_map(|attempt| &attempt.tasks).filter(|task| task.end.is_none())
    }

    /// Some bytes of the spool could not be read: whatever numbers were given out in there, greater ones come next.
    pub(super) fn allow_for(&mut self, bytes: u64) {
        self.next_seq = self.next_seq.saturating_add(bytes);
        self.epoch.0 = self.epoch.0.saturating_add(bytes);
    }

    /// The places of a run's events from `from_seq` on.
    pub(super) fn of_run(&self, run: RunId, from_seq: u64) -> impl Iterator<Item = (u64, &Slot)> {
        self.events
            .range(from_seq..)
            .filter(move |(_, slot)| slot.attempt.run == run)
            .map(|(seq, slot)| (*seq, slot))
    }

    /// Takes a record in. Returns whether it makes sense; one that does not is left out.
    pub(super) fn apply(&mut self, record: &Record, place: Place) -> bool {
        match record {
            Record::Event(event) => return self.apply_event(event, place),
            Record::Note(Note::Head { next_seq, epoch }) => {
                self.next_seq = self.next_seq.max(*next_seq);
                self.epoch = self.epoch.max(*epoch);
            }
            Record::Note(Note::Lease(grant)) => {
                self.epoch = self.epoch.max(grant.info.epoch);
                self.grant = Some(grant.clone());
            }
            Record::Note(Note::Free) => self.grant = None,
            Record::Note(Note::Accepted { task, output_limit, at_unix_us }) => {
                self.touch(task.attempt, *at_unix_us);
                self.entry(task).output_limit = *output_limit;
            }
            Record::Note(Note::Ports { attempt, ports, at_unix_us }) => {
                self.touch(*attempt, *at_unix_us).ports.extend(ports);
            }
            Record::Note(Note::Forgotten(attempt)) => {
                self.forget(*attempt);
            }
        }
        true
    }

    /// Leaves an attempt out. Returns how many bytes of the file its events took.
    pub(super) fn forget(&mut self, attempt: AttemptId) -> u64 {
        let Some(entry) = self.attempts.remove(&attempt) else { return 0 };
        self.tasks = self.tasks.saturating_sub(entry.tasks.len());
        let slots = entry.seqs.iter().filter_map(|seq| self.events.remove(seq));
        slots.map(|slot| slot.place.bytes()).sum()
    }

    fn apply_event(&mut self, event: &v1::TaskEvent, place: Place) -> bool {
        if let Some(v1::task_event::Kind::Host(host)) = &event.kind {
            let Ok(attempt) = host.attempt.parse::<AttemptId>() else { return false };
            self.touch(attempt, event.at_unix_us).seqs.push(event.seq);
            return self.keep(event, attempt, place);
        }
        let Ok(task) = event.task.parse::<TaskId>() else { return false };
        self.touch(task.attempt, event.at_unix_us).seqs.push(event.seq);
        let entry = self.entry(&task);
        match &event.kind {
            Some(v1::task_event::Kind::Started(_)) => entry.started = true,
            Some(v1::task_event::Kind::Ended(end)) => {
                entry.end = Some(event.seq);
                entry.output_files =
                    ![&end.stdout, &end.stderr].iter().all(|output| travels(output.as_ref()));
            }
            _ => {}
        }
        self.keep(event, task.attempt, place)
    }

    fn keep(&mut self, event: &v1::TaskEvent, attempt: AttemptId, place: Place) -> bool {
        self.next_seq = self.next_seq.max(event.seq.saturating_add(1));
        self.events.insert(event.seq, Slot { attempt, spare: shed::spare(event), place });
        true
    }

    fn touch(&mut self, attempt: AttemptId, at_unix_us: u64) -> &mut AttemptEntry {
        let entry = self.attempts.entry(attempt).or_default();
        entry.touched_unix_us = entry.touched_unix_us.max(at_unix_us);
        if entry.begun_unix_us == 0 {
            entry.begun_unix_us = at_unix_us;
        }
        entry
    }

    fn entry(&mut self, task: &TaskId) -> &mut TaskEntry {
        let tasks = &mut self.attempts.entry(task.attempt).or_default().tasks;
        let at = tasks.iter().position(|entry| entry.id == *task).unwrap_or_else(|| {
            self.tasks += 1;
            tasks.push(TaskEntry {
                id: task.clone(),
                started: false,
                output_limit: 0,
                output_files: true,
                end: None,
            });
            tasks.len() - 1
        });
        &mut tasks[at]
    }

    /// The notes that, written before the events, make a new spool with the same state.
    pub(super) fn notes(&self) -> Vec<Note> {
        let mut notes = vec![Note::Head { next_seq: self.next_seq, epoch: self.epoch }];
        notes.extend(self.grant.clone().map(Note::Lease));
        for (attempt, entry) in &self.attempts {
            // Events, which come after these, say when it was last touched.
            let at_unix_us = if entry.seqs.is_empty() { entry.touched_unix_us } else { entry.begun_unix_us };
            if !entry.ports.is_empty() {
                notes.push(Note::Ports { attempt: *attempt, ports: entry.ports.clone(), at_unix_us });
            }
            notes.extend(entry.tasks.iter().map(|task| Note::Accepted {
                task: task.id.clone(),
                output_limit: task.output_limit,
                at_unix_us,
            }));
        }
        notes
    }
}

/// Whether all that was kept of an output is in its summary.
fn travels(output: Option<&v1::OutputSummary>) -> bool {
    output.is_some_and(|output| output.inline.is_some())
}
