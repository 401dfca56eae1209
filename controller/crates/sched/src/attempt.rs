//! One attempt: its stage says what it waits for, its tasks what is known of them. The scheduler owns attempts from the
//! draw until they are stored; the orders that an attempt gives are in `orders`.

use std::time::Duration;

use drover_model::{AttemptId, Doubt, EndKind, Verdict};

use crate::{
    Ending, RoleKind, TaskChange,
    past::Draw,
    roles::Roles,
    verdict::{self, Failure, Standing},
};

/// What an attempt waits for.
#[derive(Debug, PartialEq)]
pub(crate) enum Stage {
    /// For its entry in the journal to be durable.
    Journalling,
    /// For its hosts to be ours and free, all at once.
    Queued,
    /// For `AttemptPrepared`.
    Preparing,
    /// For its tasks, which start one after the other.
    Running,
    /// For its tasks to end: it is complete, or has failed. No task is started any more.
    Stopping,
    /// For `Collected`: its hosts are free.
    Collecting,
    /// For `AttemptStored`.
    Storing(Box<Storing>),
}

/// What is being stored.
#[derive(Debug, PartialEq)]
pub(crate) struct Storing {
    pub verdict: Verdict,
    /// The attempt that may follow; `None` makes the verdict final.
    pub next: Option<Draw>,
    pub with_outputs: bool,
}

/// How an attempt came to its hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Drawn by this controller.
    Fresh,
    /// Journalled by a former controller; what its hosts know of it is to be learned.
    Inherited,
    /// Inherited, and a host knows tasks of it: it goes on where it stands.
    Adopted,
    /// Adopted, and one of its hosts went on to a later attempt, or the former controller had begun to end it: it is over, no
    /// further task of it may start.
    Settled,
}

/// What is known of a task, in the order in which it happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Status {
    /// Not sent.
    Pending,
    /// Ordered to start; whether the order arrived is not known.
    Sent,
    /// The agent knows of it.
    Known,
    /// The process exists.
    Started,
    /// It waits at the barrier.
    Armed,
    /// It passed the barrier.
    Released,
    /// It is ready.
    Ready,
    /// It ended, or will never run.
    Over,
}

/// Whether other hosts can reach a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Not asked, as far as anybody can tell.
    Unasked,
    /// Asked; waits for `RoleReached`.
    Asked,
    /// They can.
    Reached,
}

/// The barrier of an attempt: one at a time is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gate {
    /// Not ordered to open.
    Idle,
    /// Ordered to open; waits for `BarrierReleased`. The first role of those that are held.
    Ordered(usize),
    /// It may have been opened on some of its hosts, or on all: their reports will tell. If they do not until then, the
    /// attempt is void.
    Unsure(Duration),
}

/// One task of an attempt.
#[derive(Debug)]
pub(crate) struct Task {
    pub status: Status,
    /// When silence about it means that the agent is lost.
    pub deadline: Duration,
    /// The order to stop that it was given: `true` to kill.
    pub stop: Option<bool>,
    /// Its agent knew of it before this controller sent anything.
    pub inherited: bool,
    was_ready: bool,
    pub late_us: Option<u64>,
    ending: Option<Ending>,
}

impl Task {
    /// Whether it was ordered to start and has not ended.
    pub fn is_alive(&self) -> bool {
        self.status > Status::Pending && self.status < Status::Over
    }
}

/// One attempt.
#[derive(Debug)]
pub(crate) struct Attempt {
    pub id: AttemptId,
    pub draw: Draw,
    /// Index of its group.
    pub group: usize,
    /// Index of its lane; `None` if no hosts could be had.
    pub lane: Option<usize>,
    /// Place in the journal among the inherited ones.
    pub place: u64,
    /// It was taken from the queue of another lane: once is enough.
    pub moved: bool,
    pub origin: Origin,
    pub stage: Stage,
    pub begun: Duration,
    pub ended: Duration,
    /// By task index; empty until it is begun or adopted.
    pub tasks: Vec<Task>,
    /// By role; empty like `tasks`.
    pub reach: Vec<Reach>,
    pub gate: Gate,
    /// First roles of the barriers that agents have been told to open, with the error of the clocks in microseconds.
    pub opened: Vec<(usize, u64)>,
    /// Hosts that are to be made other machines before it can be prepared.
    pub machines: Vec<usize>,
    /// A host of it was given up: what runs elsewhere is killed.
    pub lost_member: bool,
    failure: Option<Failure>,
    /// All awaited tasks are over and all services were ready, without failure.
    complete: bool,
}

impl Attempt {
    /// An attempt that nothing is known of.
    pub fn new(id: AttemptId, draw: Draw, group: usize, origin: Origin, stage: Stage) -> Self {
        Self {
            id,
            draw,
            group,
            lane: None,
            place: 0,
            moved: false,
            origin,
            stage,
            begun: Duration::ZERO,
            ended: Duration::ZERO,
            tasks: Vec::new(),
            reach: Vec::new(),
            gate: Gate::Idle,
            opened: Vec::new(),
            machines: Vec::new(),
            lost_member: false,
            failure: None,
            complete: false,
        }
    }

    /// Makes room for its tasks.
    pub fn lay_out(&mut self, roles: &Roles) {
        if self.tasks.is_empty() {
            self.tasks.extend((0..roles.task_count()).map(|_| Task {
                status: Status::Pending,
                deadline: Duration::MAX,
                stop: None,
                inherited: false,
                was_ready: false,
                late_us: None,
                ending: None,
            }));
            self.reach = vec![Reach::Unasked; roles.count()];
        }
    }

    /// Whether an agent knew of it before this controller sent anything.
    pub fn is_adopted(&self) -> bool {
        matches!(self.origin, Origin::Adopted | Origin::Settled)
    }

    /// Whether its verdict is on its way to the store.
    pub fn is_being_stored(&self) -> bool {
        matches!(self.stage, Stage::Storing(_))
    }

    /// Whether it was sent nowhere and may go to other hosts.
    pub fn is_movable(&self) -> bool {
        self.origin == Origin::Fresh && self.stage == Stage::Queued && !self.moved
    }

    /// Whether nothing is expected of its tasks any more.
    pub fn is_over(&self) -> bool {
        matches!(self.stage, Stage::Collecting | Stage::Storing(_))
    }

    /// Takes it over from a former controller: these tasks are known to one of its hosts.
    pub fn adopt(&mut self, tasks: &[usize], roles: &Roles) {
        if self.origin == Origin::Inherited {
            self.origin = Origin::Adopted;
        }
        self.lay_out(roles);
        for task in tasks {
            let task = &mut self.tasks[*task];
            if task.status < Status::Known {
                (task.status, task.inherited) = (Status::Known, true);
            }
        }
    }

    /// When an adopted attempt goes on: what its tasks were started after must be known as well, or its agent has lost it.
    pub fn miss_what_was_lost(&mut self, roles: &Roles) {
        if !self.is_adopted() {
            return;
        }
        let is_pending = |attempt: &Self, task: &usize| attempt.tasks[*task].status == Status::Pending;
        for (_, role) in roles.iter() {
            if role.tasks().all(|task| is_pending(self, &task)) {
                continue;
            }
            for task in role.shape.after.iter().flat_map(|dep| roles.role(*dep).tasks()) {
                if is_pending(self, &task) {
                    self.write_off(task, Failure::unknown(&roles.task_label(task)));
                }
            }
        }
    }

    /// The strongest failure so far.
    pub fn stated_failure(&self) -> Option<&Verdict> {
        self.failure.as_ref().map(|failure| &failure.verdict)
    }

    /// Whether it has failed.
    pub fn has_failed(&self) -> bool {
        self.failure.is_some()
    }

    /// Whether it did what it should.
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// Whether a failure, or its completion, has decided it.
    pub fn is_decided(&self) -> bool {
        self.failure.is_some() || self.complete
    }

    /// Takes note of a failure; the strongest counts, among equals the first.
    pub fn fail(&mut self, failure: Failure) {
        if self.failure.as_ref().is_none_or(|present| failure.rank < present.rank) {
            self.failure = Some(failure);
        }
    }

    /// The user's interruption ends it, unless it is decided already.
    pub fn cancel(&mut self) {
        if !self.is_decided() {
            self.fail(Failure::cancelled());
        }
    }

    /// Takes in what an agent says of a task. Gives the status it had if that is news, `None` if the report is stale, a
    /// duplicate, or about a task that was never sent.
    pub fn take_in(
        &mut self,
        roles: &Roles,
        now: Duration,
        task: usize,
        change: TaskChange,
        apart: bool,
    ) -> Option<Status> {
        let status = match change {
            TaskChange::Started => Status::Started,
            TaskChange::Armed => Status::Armed,
            TaskChange::Released { .. } => Status::Released,
            TaskChange::Ready => Status::Ready,
            TaskChange::Ended(_) => Status::Over,
        };
        let entry = self.tasks.get_mut(task)?;
        let before = entry.status;
        if before == Status::Pending || before >= status {
            return None;
        }
        entry.status = status;
        match change {
            TaskChange::Started | TaskChange::Armed => {}
            TaskChange::Ready => entry.was_ready = true,
            TaskChange::Released { late_us } => {
                entry.late_us = Some(late_us);
                if entry.stop.is_none() {
                    entry.deadline = now.saturating_add(roles.role_of(task).shape.backstop);
                }
            }
            TaskChange::Ended(ending) => {
                let standing = Standing {
                    complete: self.complete,
                    ready: entry.was_ready,
                    inherited: self.origin != Origin::Fresh,
                    apart,
                };
                let role = &roles.role_of(task).shape;
                let ends_last = match ending.kind {
                    EndKind::Stopped(_) => true,
                    EndKind::Deadline => role.outlasts,
                    _ => false,
                };
                // A former controller ends services last, and their hosts may be heard of first: whether the attempt was
                // complete, the reports of the other hosts will tell.
                let is_last_step =
                    standing.inherited && !standing.complete && role.kind == RoleKind::Service && ends_last;
                let failure = if is_last_step {
                    self.origin = Origin::Settled;
                    None
                } else if ending.spent {
                    None
                } else {
                    verdict::failure_of(role, &roles.task_label(task), &ending.kind, standing)
                };
                entry.ending = Some(ending);
                if let Some(failure) = failure {
                    self.fail(failure);
                }
            }
        }
        self.note_completion(roles);
        Some(before)
    }

    fn note_completion(&mut self, roles: &Roles) {
        let done = |(index, task): (usize, &Task)| match roles.role_of(index).shape.kind {
            RoleKind::Service => task.was_ready,
            // One that never ran, or was written off, has no ending.
            RoleKind::Awaited => task.ending.is_some(),
        };
        self.complete |= self.failure.is_none() && self.tasks.iter().enumerate().all(done);
    }

    /// A task that never ran, or that nothing more will be heard of.
    pub fn write_off(&mut self, task: usize, failure: Failure) {
        self.tasks[task].status = Status::Over;
        self.fail(failure);
    }

    /// Whether its agent is expected to speak of its tasks.
    fn is_listening(&self) -> bool {
        matches!(self.stage, Stage::Running | Stage::Stopping)
    }

    /// Writes off the tasks that the agents should have spoken of by `now`; gives them. Only agents that are `heard`, by
    /// task, can be silent.
    pub fn write_off_overdue(
        &mut self,
        roles: &Roles,
        now: Duration,
        heard: impl Fn(usize) -> bool,
    ) -> Vec<usize> {
        let overdue: Vec<usize> = (0..self.tasks.len())
            .filter(|task| self.is_listening() && self.tasks[*task].is_alive() && heard(*task))
            .filter(|task| self.tasks[*task].deadline <= now)
            .collect();
        for task in &overdue {
            let label = roles.task_label(*task);
            self.write_off(*task, Failure::agent_lost(&label, "the agent did not report its end in time"));
        }
        overdue
    }

    /// When silence next means something, of agents that are `heard`, by task.
    pub fn next_deadline(&self, heard: impl Fn(usize) -> bool) -> Option<Duration> {
        if !self.is_listening() {
            return None;
        }
        let alive = self.tasks.iter().enumerate().filter(|(index, task)| task.is_alive() && heard(*index));
        let gate = match self.gate {
            Gate::Unsure(until) if self.stage == Stage::Running => {
                (0..self.tasks.len()).all(&heard).then_some(until)
            }
            _ => None,
        };
        alive.map(|(_, task)| task.deadline).chain(gate).min()
    }

    /// Its tasks that ran and have ended.
    pub fn tasks_to_collect(&self) -> Vec<usize> {
        let ran = |task: &Task| {
            task.ending.as_ref().is_some_and(|ending| !matches!(ending.kind, EndKind::NotStarted(..)))
        };
        self.tasks.iter().enumerate().filter(|(_, task)| ran(task)).map(|(index, _)| index).collect()
    }

    /// The failure that decides it, if one does.
    pub fn failure(&self) -> Option<Verdict> {
        let undecided = || {
            // Nothing failed and nothing was finished: a former controller ended it half-way.
            let begun = self.tasks.iter().any(|task| task.status != Status::Pending);
            (begun && !self.complete)
                .then(|| Failure::stopped("the attempt", self.origin != Origin::Fresh).verdict)
        };
        self.failure.as_ref().map(|failure| failure.verdict.clone()).or_else(undecided)
    }

    /// What makes its number doubtful, as far as the scheduler saw it.
    pub fn doubts(&self, roles: &Roles) -> Vec<Doubt> {
        let endings =
            self.tasks.iter().enumerate().filter_map(|(task, entry)| Some((task, entry.ending.as_ref()?)));
        let of_endings =
            endings.flat_map(|(task, ending)| verdict::doubts_of_ending(&roles.task_label(task), ending));
        verdict::doubt_of_retry(self.draw.ngs).into_iter().chain(of_endings).collect()
    }
}
