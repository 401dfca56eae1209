//! A model of an agent: what truly happens on a host, whatever the controller believes.

use std::collections::{BTreeMap, BTreeSet};

use drover_model::{AttemptId, EndKind, Name, NgCause, NotStarted, TaskId};
use drover_sched::{Ending, Event, KnownTask, TaskChange};

use crate::rng::Rng;

/// What a task is going to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Fine,
    NotStarted(NotStarted),
    /// Ends by itself, with this status.
    Status(i32),
    /// Is ended by a signal.
    Signal,
    /// Runs for as long as it is to; what its command makes of that varies.
    Spent,
    NotReady,
    Deadline,
    /// The agent never says anything more of it; it may not even obey.
    Silent {
        obeys_kill: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Sent,
    Started,
    Armed,
    Released,
    Ready,
    Ended,
}

#[derive(Debug)]
struct Task {
    state: State,
    service: bool,
    hold: bool,
    fate: Fate,
    /// Asked to stop; `true` to be killed.
    stop: Option<bool>,
    /// The order that released it, and how late it goes, in microseconds.
    may_pass: Option<(u64, u64)>,
}

/// What an agent reports.
#[derive(Clone, Debug)]
pub enum Report {
    Task(TaskId, TaskChange),
    Kernel(AttemptId, NgCause),
}

impl Report {
    fn attempt(&self) -> AttemptId {
        match self {
            Self::Task(task, _) => task.attempt,
            Self::Kernel(attempt, _) => *attempt,
        }
    }

    /// As a controller hears it from this host.
    pub fn event(&self, host: &Name) -> Event {
        match self {
            Self::Task(task, change) => Event::TaskChanged { task: task.clone(), change: change.clone() },
            Self::Kernel(attempt, cause) => Event::KernelFailed {
                host: host.clone(),
                attempt: *attempt,
                cause: *cause,
                detail: "of the world".to_owned(),
            },
        }
    }
}

/// A host and its agent. The spool survives a crash of the agent; a reboot clears it.
#[derive(Debug, Default)]
pub struct Agent {
    pub runs: bool,
    pub boot: u32,
    pub epoch: u64,
    /// What machine it was made, since it booted.
    pub machine: Option<u32>,
    /// It goes down, and boots as this.
    pub next: Option<Option<u32>>,
    /// Connecting fails as long as this is set.
    pub gone: bool,
    /// Another run holds the host.
    pub taken: bool,
    /// Events by sequence number.
    pub spool: BTreeMap<u64, Report>,
    last_seq: u64,
    tasks: BTreeMap<TaskId, Task>,
    /// Attempts that something happened to for which nobody but the world is to blame.
    pub harmed: BTreeSet<AttemptId>,
    /// How tasks truly ended, whatever was forgotten since.
    pub ends: BTreeMap<TaskId, EndKind>,
    /// Tasks that truly did their work for as long as they were to.
    pub spent: BTreeSet<TaskId>,
    /// Tasks that truly were ready.
    pub readied: BTreeSet<TaskId>,
    /// The orders by which tasks truly were released.
    pub released_by: BTreeMap<TaskId, u64>,
}

impl Agent {
    fn say(&mut self, task: &TaskId, change: TaskChange) {
        self.report(Report::Task(task.clone(), change));
    }

    fn report(&mut self, report: Report) {
        self.last_seq += 1;
        self.spool.insert(self.last_seq, report);
    }

    /// The kernel says that it failed, maybe a little after the last task of the attempt has ended.
    pub fn fail_kernel(&mut self, rng: &mut Rng, causes: &[NgCause]) {
        let known: Vec<AttemptId> = self.tasks.keys().map(|task| task.attempt).collect();
        if let Some(attempt) = known.last().copied().filter(|_| self.runs) {
            self.harmed.insert(attempt);
            self.report(Report::Kernel(attempt, causes[rng.below(causes.len())]));
        }
    }

    pub fn known(&self) -> Vec<KnownTask> {
        let known =
            |(id, task): (&TaskId, &Task)| KnownTask { task: id.clone(), ended: task.state == State::Ended };
        self.tasks.iter().map(known).collect()
    }

    pub fn knows(&self, attempt: AttemptId) -> bool {
        self.tasks.keys().any(|task| task.attempt == attempt)
    }

    pub fn knows_task(&self, id: &TaskId) -> bool {
        self.tasks.contains_key(id)
    }

    /// From now on every task can be killed.
    pub fn obey(&mut self) {
        for task in self.tasks.values_mut() {
            if let Fate::Silent { obeys_kill } = &mut task.fate {
                *obeys_kill = true;
            }
        }
    }

    /// Attempts with processes on the host.
    pub fn alive(&self) -> BTreeSet<AttemptId> {
        let alive = self.tasks.iter().filter(|(_, task)| task.state != State::Ended);
        alive.map(|(id, _)| id.attempt).collect()
    }

    /// Starts a task, once. Says what is wrong with that, if anything is.
    pub fn start(
        &mut self,
        rng: &mut Rng,
        id: &TaskId,
        service: bool,
        hold: bool,
        faults: usize,
    ) -> Result<(), String> {
        if self.tasks.contains_key(id) {
            return Ok(());
        }
        if let Some(other) = self.alive().into_iter().find(|attempt| *attempt != id.attempt) {
            return Err(format!("{id} starts while {other} runs on the same host"));
        }
        let fate = fate(rng, service, faults);
        if !matches!(fate, Fate::Fine | Fate::Spent) {
            self.harmed.insert(id.attempt);
        }
        self.ends.remove(id);
        self.spent.remove(id);
        self.readied.remove(id);
        self.released_by.remove(id);
        self.tasks
            .insert(id.clone(), Task { state: State::Sent, service, hold, fate, stop: None, may_pass: None });
        Ok(())
    }

    pub fn stop(&mut self, id: &TaskId, kill: bool) {
        if let Some(task) = self.tasks.get_mut(id) {
            task.stop = Some(kill || task.stop == Some(true));
        }
    }

    pub fn release(&mut self, attempt: AttemptId, order: u64, late_us: u64) {
        for (_, task) in self.tasks.iter_mut().filter(|(id, _)| id.attempt == attempt) {
            if task.state == State::Armed && task.may_pass.is_none() {
                task.may_pass = Some((order, late_us));
            }
        }
    }

    pub fn forget(&mut self, attempt: AttemptId) -> Result<(), String> {
        if self.alive().contains(&attempt) {
            return Err(format!("{attempt} is forgotten while it runs"));
        }
        self.tasks.retain(|id, _| id.attempt != attempt);
        self.spool.retain(|_, report| report.attempt() != attempt);
        Ok(())
    }

    /// The agent's process dies; with it, sooner or later, its tasks.
    pub fn crash(&mut self) {
        self.runs = false;
    }

    /// The host reboots: nothing is left but the disk, and here not even that.
    pub fn reboot(&mut self) {
        self.harmed.extend(self.tasks.keys().map(|task| task.attempt));
        self.boot(None);
    }

    /// It boots as what it was to be, unless something goes wrong with that.
    pub fn come_up(&mut self, wrong: bool) {
        self.harmed.extend(self.tasks.keys().map(|task| task.attempt));
        let machine = self.next.flatten().filter(|_| !wrong);
        self.boot(machine);
        self.restart();
    }

    /// It boots, as asked for: nothing is left of what was there.
    pub fn boot(&mut self, machine: Option<u32>) {
        self.runs = false;
        self.boot += 1;
        self.machine = machine;
        self.next = None;
        self.tasks.clear();
        self.spool.clear();
    }

    /// The next agent reaps what the former one left.
    pub fn restart(&mut self) {
        if self.runs {
            return;
        }
        self.runs = true;
        let left: Vec<TaskId> = self
            .tasks
            .iter()
            .filter(|(_, task)| task.state != State::Ended)
            .map(|(id, _)| id.clone())
            .collect();
        for id in left {
            self.harmed.insert(id.attempt);
            self.end(&id, EndKind::AgentLost);
        }
    }

    fn end(&mut self, id: &TaskId, kind: EndKind) {
        self.end_with(id, kind, false);
    }

    fn end_with(&mut self, id: &TaskId, kind: EndKind, spent: bool) {
        if let Some(task) = self.tasks.get_mut(id) {
            task.state = State::Ended;
        }
        self.ends.insert(id.clone(), kind.clone());
        if spent {
            self.spent.insert(id.clone());
        }
        self.say(id, TaskChange::Ended(Ending { kind, leftovers: 0, output_cut: 0, spent }));
    }

    /// Lets one task that can do something do it; `false` if none can.
    pub fn proceed(&mut self, rng: &mut Rng) -> bool {
        if !self.runs {
            return false;
        }
        let movable: Vec<TaskId> =
            self.tasks.iter().filter(|(_, task)| next(task).is_some()).map(|(id, _)| id.clone()).collect();
        if movable.is_empty() {
            return false;
        }
        let id = &movable[rng.below(movable.len())];
        let Some(task) = self.tasks.get_mut(id) else { return false };
        match next(task) {
            None => false,
            Some(Move::To(state, change)) => {
                task.state = state;
                if state == State::Ready {
                    self.readied.insert(id.clone());
                }
                if let (State::Released, Some((order, _))) = (state, task.may_pass) {
                    self.released_by.insert(id.clone(), order);
                }
                self.say(id, change);
                true
            }
            Some(Move::End(kind)) => {
                self.end(id, kind);
                true
            }
            Some(Move::Spend) => {
                let ends = [EndKind::Stopped(Some(0)), EndKind::Exited(1), EndKind::Deadline];
                self.end_with(id, ends[rng.below(3)].clone(), true);
                true
            }
        }
    }
}

enum Move {
    To(State, TaskChange),
    End(EndKind),
    /// Its time is over.
    Spend,
}

/// What a task does next, if it can do something by itself.
fn next(task: &Task) -> Option<Move> {
    let end = |kind| Some(Move::End(kind));
    if let Fate::Silent { obeys_kill } = task.fate {
        let killed = obeys_kill && task.stop == Some(true) && task.state != State::Ended;
        return if killed { end(EndKind::Killed) } else { None };
    }
    match (task.state, task.stop, task.fate) {
        (State::Ended, ..) => None,
        (State::Sent, _, Fate::NotStarted(cause)) => {
            end(EndKind::NotStarted(cause, "of the world".to_owned()))
        }
        (State::Sent, Some(_), _) => end(EndKind::NotStarted(NotStarted::Cancelled, String::new())),
        (State::Sent, None, _) => Some(Move::To(State::Started, TaskChange::Started)),
        // A crash is not called a stop, whatever was ordered meanwhile.
        (State::Started | State::Ready, _, Fate::Signal) if task.service => end(EndKind::Signaled(11)),
        (_, Some(true), _) => end(EndKind::Killed),
        (_, Some(false), _) => end(EndKind::Stopped(Some(0))),
        (State::Started, None, _) if task.hold => Some(Move::To(State::Armed, TaskChange::Armed)),
        (State::Armed, None, _) => {
            let (_, late_us) = task.may_pass?;
            Some(Move::To(State::Released, TaskChange::Released { late_us }))
        }
        (State::Started, None, Fate::NotReady) => end(EndKind::NotReady("tcp".to_owned())),
        (State::Started, None, Fate::Status(status)) if task.service => end(EndKind::Exited(status)),
        (State::Started, None, _) if task.service => Some(Move::To(State::Ready, TaskChange::Ready)),
        (State::Ready, None, _) => None,
        (State::Started | State::Released, None, Fate::Spent) => Some(Move::Spend),
        (State::Started | State::Released, None, fate) => end(match fate {
            Fate::Status(status) => EndKind::Exited(status),
            Fate::Signal => EndKind::Signaled(9),
            Fate::Deadline => EndKind::Deadline,
            _ => EndKind::Exited(0),
        }),
    }
}

fn fate(rng: &mut Rng, service: bool, faults: usize) -> Fate {
    if !rng.chance(faults) {
        return if !service && rng.chance(300) { Fate::Spent } else { Fate::Fine };
    }
    match rng.below(if service { 7 } else { 8 }) {
        0 => Fate::NotStarted(NotStarted::PortTaken),
        1 => Fate::NotStarted(NotStarted::NotFound),
        2 => Fate::NotStarted(NotStarted::WrongCpus),
        3 => Fate::Status(1),
        4 => Fate::Signal,
        5 => Fate::Silent { obeys_kill: rng.chance(700) },
        _ if service => Fate::NotReady,
        _ => Fate::Deadline,
    }
}
