//! The orders that an attempt gives for its tasks: start, release, stop, and all of them again after a lost connection.
//! Called by the scheduler after everything that changes what is known of a task, while the host is held.

use std::time::Duration;

use drover_model::Name;

use crate::{
    Effect, Effects, KnownTask, RoleKind,
    attempt::{Attempt, Origin, Stage, Status},
    roles::{Role, Roles},
    verdict::Failure,
};

/// Where and when an attempt gives orders.
#[derive(Clone, Copy)]
pub(crate) struct Site<'a> {
    pub roles: &'a Roles,
    pub host: &'a Name,
    pub now: Duration,
    /// Stop without grace.
    pub kill: bool,
}

impl Attempt {
    /// Starts its tasks, or goes on with those that its host knows of.
    pub fn run(&mut self, at: Site<'_>) {
        self.stage = Stage::Running;
        for task in 0..self.tasks.len() {
            self.allow_time(at, task);
        }
    }

    /// Does whatever can be done now. `true` when all its tasks are over: it is to be collected.
    pub fn advance(&mut self, at: Site<'_>, effects: &mut Effects) -> bool {
        if self.stage == Stage::Running && (self.is_decided() || self.origin == Origin::Settled) {
            self.stage = Stage::Stopping;
        }
        match self.stage {
            Stage::Running => {
                self.start_tasks(at, effects);
                self.release_barrier(at, effects);
                false
            }
            Stage::Stopping => {
                self.stop_tasks(at, effects);
                !self.tasks.iter().any(|task| task.is_alive())
            }
            _ => false,
        }
    }

    /// Starts every role whose turn has come. Only one barrier is closed at a time, because a release opens it for all
    /// tasks of the attempt that are held at that moment.
    fn start_tasks(&mut self, at: Site<'_>, effects: &mut Effects) {
        for (_, role) in at.roles.iter() {
            let pending = role.tasks().any(|task| self.tasks[task].status == Status::Pending);
            if !pending || !role.shape.after.iter().all(|dep| self.is_satisfied(at.roles.role(*dep))) {
                continue;
            }
            if role.held() && self.other_barrier_is_closed(at.roles, role) {
                continue;
            }
            for task in
                role.tasks().filter(|task| self.tasks[*task].status == Status::Pending).collect::<Vec<_>>()
            {
                self.tasks[task].status = Status::Sent;
                self.allow_time(at, task);
                self.order_start(at, task, effects);
            }
        }
    }

    fn order_start(&self, at: Site<'_>, task: usize, effects: &mut Effects) {
        effects.push(Effect::StartTask {
            host: at.host.clone(),
            task: at.roles.task_id(self.id, task),
            hold: at.roles.role_of(task).held(),
        });
    }

    /// Whether roles that come after this one may start.
    fn is_satisfied(&self, role: &Role) -> bool {
        let wanted = match role.shape.kind {
            RoleKind::Service => Status::Ready,
            RoleKind::Awaited => Status::Over,
        };
        self.tasks[role.tasks()].iter().all(|task| task.status == wanted)
    }

    fn other_barrier_is_closed(&self, roles: &Roles, role: &Role) -> bool {
        roles.iter().filter(|(index, other)| other.held() && !role.barrier.contains(index)).any(
            |(_, other)| {
                let statuses = self.tasks[other.tasks()].iter().map(|task| task.status);
                statuses.into_iter().any(|status| status > Status::Pending && status < Status::Released)
            },
        )
    }

    /// Opens the barrier once all tasks of a group have arrived.
    fn release_barrier(&mut self, at: Site<'_>, effects: &mut Effects) {
        let waits = at.roles.iter().filter(|(_, role)| role.held()).any(|(_, role)| {
            let all_at_least = |least: Status| {
                let mut tasks = role.barrier.iter().flat_map(|role| at.roles.role(*role).tasks());
                tasks.all(|task| self.tasks[task].status >= least)
            };
            all_at_least(Status::Armed) && !all_at_least(Status::Released)
        });
        if waits && !self.barrier_ordered {
            effects.push(Effect::ReleaseBarrier { host: at.host.clone(), attempt: self.id });
        }
        self.barrier_ordered = waits;
    }

    /// Stops what runs, in reverse order: a role once nothing that comes after it runs any more. All at once to kill.
    fn stop_tasks(&mut self, at: Site<'_>, effects: &mut Effects) {
        for (_, role) in at.roles.iter().rev() {
            let mut dependents = role.dependents.iter().flat_map(|other| at.roles.role(*other).tasks());
            if at.kill || !dependents.any(|task| self.tasks[task].is_alive()) {
                for task in role.tasks() {
                    self.stop_task(at, task, effects);
                }
            }
        }
    }

    fn stop_task(&mut self, at: Site<'_>, task: usize, effects: &mut Effects) {
        let entry = &mut self.tasks[task];
        let ordered = entry.stop.is_some_and(|kill| kill || !at.kill);
        if entry.is_alive() && !ordered {
            entry.stop = Some(at.kill);
            self.allow_time(at, task);
            self.order_stop(at, task, effects);
        }
    }

    /// Repeats the order to stop that a task was given, if it was given one.
    pub fn order_stop(&self, at: Site<'_>, task: usize, effects: &mut Effects) {
        if let Some(kill) = self.tasks[task].stop {
            effects.push(Effect::StopTask {
                host: at.host.clone(),
                task: at.roles.task_id(self.id, task),
                kill,
            });
        }
    }

    /// From now on the agent has as long to speak of the task as it would need at worst.
    fn allow_time(&mut self, at: Site<'_>, task: usize) {
        let shape = &at.roles.role_of(task).shape;
        let entry = &mut self.tasks[task];
        let allowed = if entry.stop.is_some() { shape.stop_backstop } else { shape.backstop };
        entry.deadline = at.now.saturating_add(allowed);
    }

    /// After a lost connection: compares with what the agent knows, and gives again every order that may be lost.
    pub fn resume(&mut self, at: Site<'_>, known: &[KnownTask], effects: &mut Effects) {
        let is_known: Vec<bool> = {
            let mut is_known = vec![false; self.tasks.len()];
            for task in known.iter().filter_map(|known| at.roles.task_index(&known.task)) {
                is_known[task] = true;
            }
            is_known
        };
        for (task, known) in is_known.iter().enumerate() {
            if self.tasks[task].is_alive() && self.tasks[task].status > Status::Sent && !known {
                let label = at.roles.task_label(task);
                self.write_off(task, Failure::agent_lost(&label, "the agent no longer knows of it"));
            }
        }
        let may_start = self.stage == Stage::Running && !self.is_decided();
        for (task, known) in is_known.iter().enumerate() {
            if !self.tasks[task].is_alive() {
                continue;
            }
            self.allow_time(at, task);
            match (known, may_start) {
                (true, _) => {
                    self.tasks[task].status = self.tasks[task].status.max(Status::Known);
                    self.order_stop(at, task, effects);
                }
                (false, true) => self.order_start(at, task, effects),
                (false, false) => self.tasks[task].status = Status::Over,
            }
        }
        self.barrier_ordered = false;
    }
}
