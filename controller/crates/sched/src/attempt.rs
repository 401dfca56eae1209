//! One attempt: its stage says what it waits for, its tasks what is known of them. The scheduler owns attempts from the
//! draw until they are stored; the orders that an attempt gives are in `orders`.

use std::time::Duration;

use drover_model::{AttemptId, Doubt, EndKind, TaskId, Verdict};

use crate::{
    Ending, KnownTask, RoleKind, TaskChange,
    past::Draw,
    roles::Roles,
    verdict::{self, Failure, Standing},
};

/// What an attempt waits for.
#[derive(Debug, PartialEq)]
pub(crate) enum Stage {
    /// For its entry in the journal to be durable.
    Journalling,
    /// For its host to be free.
    Queued,
    /// For `AttemptPrepared`.
    Preparing,
    /// For its tasks, which start one after the other.
    Running,
    /// For its tasks to end: it is complete, or has failed. No task is started any more.
    Stopping,
    /// For `Collected`: its host is free.
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

/// How an attempt came to its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Drawn by this controller.
    Fresh,
    /// Journalled by a former controller; what its host knows of it is to be learned.
    Inherited,
    /// Inherited, and its host knows tasks of it: it goes on where it stands.
    Adopted,
    /// Adopted, and its host went on to a later attempt: it is over, no further task of it may start.
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

/// One task of an attempt.
#[derive(Debug)]
pub(crate) struct Task {
    pub status: Status,
    /// When silence about it means that the agent is lost.
    pub deadline: Duration,
    /// The order to stop that it was given: `true` to kill.
    pub stop: Option<bool>,
    was_ready: bool,
    late_us: Option<u64>,
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
    /// Index of its host; `None` if it could get none.
    pub host: Option<usize>,
    pub origin: Origin,
    pub stage: Stage,
    pub begun: Duration,
    pub ended: Duration,
    /// By task index; empty until it is begun or adopted.
    pub tasks: Vec<Task>,
    /// The barrier was ordered to open, and that order is not known to be lost.
    pub barrier_ordered: bool,
    failure: Option<Failure>,
    /// All awaited tasks are over and all services were ready, without failure.
    complete: bool,
}

impl Attempt {
    /// An attempt that nothing is known of.
    pub fn new(id: AttemptId, draw: Draw, host: Option<usize>, origin: Origin, stage: Stage) -> Self {
        Self {
            id,
            draw,
            host,
            origin,
            stage,
            begun: Duration::ZERO,
            ended: Duration::ZERO,
            tasks: Vec::new(),
            barrier_ordered: false,
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
                was_ready: false,
                late_us: None,
                ending: None,
            }));
        }
    }

    /// Whether its host knew of it before this controller sent anything.
    pub fn is_adopted(&self) -> bool {
        matches!(self.origin, Origin::Adopted | Origin::Settled)
    }

    /// Whether its verdict is on its way to the store.
    pub fn is_being_stored(&self) -> bool {
        matches!(self.stage, Stage::Storing(_))
    }

    /// Takes it over from a former controller: these tasks are known to its host.
    pub fn adopt(&mut self, roles: &Roles, known: &[KnownTask]) {
        self.origin = Origin::Adopted;
        self.lay_out(roles);
        for task in known.iter().filter_map(|known| roles.task_index(&known.task)) {
            self.tasks[task].status = self.tasks[task].status.max(Status::Known);
        }
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
                };
                let role = &roles.role_of(task).shape;
                let failure = verdict::failure_of(role, &roles.task_label(task), &ending.kind, standing);
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
            RoleKind::Awaited => task.status == Status::Over,
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

    /// Writes off the tasks that the agent should have spoken of by `now`; gives them.
    pub fn write_off_overdue(&mut self, roles: &Roles, now: Duration) -> Vec<usize> {
        let overdue: Vec<usize> = (0..self.tasks.len())
            .filter(|task| self.is_listening() && self.tasks[*task].is_alive())
            .filter(|task| self.tasks[*task].deadline <= now)
            .collect();
        for task in &overdue {
            let label = roles.task_label(*task);
            self.write_off(*task, Failure::agent_lost(&label, "the agent did not report its end in time"));
        }
        overdue
    }

    /// When silence of the agent next means something.
    pub fn next_deadline(&self) -> Option<Duration> {
        let alive = self.tasks.iter().filter(|task| self.is_listening() && task.is_alive());
        alive.map(|task| task.deadline).min()
    }

    /// Its tasks that ran and have ended.
    pub fn tasks_to_collect(&self, roles: &Roles) -> Vec<TaskId> {
        let ran = |task: &Task| {
            task.ending.as_ref().is_some_and(|ending| !matches!(ending.kind, EndKind::NotStarted(..)))
        };
        let ran = self.tasks.iter().enumerate().filter(|(_, task)| ran(task));
        ran.map(|(task, _)| roles.task_id(self.id, task)).collect()
    }

    /// Microseconds between the first and the last release at a barrier: of the widest, if there were several.
    pub fn start_skew_us(&self, roles: &Roles) -> Option<u64> {
        let skew_of = |group: &[usize]| {
            let late = || {
                let tasks = group.iter().flat_map(|role| roles.role(*role).tasks());
                tasks.filter_map(|task| self.tasks.get(task)?.late_us)
            };
            Some(late().max()?.saturating_sub(late().min()?))
        };
        roles.iter().filter_map(|(_, role)| skew_of(&role.barrier)).max()
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
    pub fn doubts(&self, roles: &Roles, skew_limit: Duration) -> Vec<Doubt> {
        let endings =
            self.tasks.iter().enumerate().filter_map(|(task, entry)| Some((task, entry.ending.as_ref()?)));
        let of_endings =
            endings.flat_map(|(task, ending)| verdict::doubts_of_ending(&roles.task_label(task), ending));
        verdict::doubt_of_retry(self.draw.ngs)
            .into_iter()
            .chain(verdict::doubt_of_skew(self.start_skew_us(roles), skew_limit))
            .chain(of_endings)
            .collect()
    }
}
