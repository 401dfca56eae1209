//! The orders that an attempt gives for its tasks: start, release, stop, and all of them again after a lost connection.
//! Called by the scheduler after everything that changes what is known of a task, while the host is held.

use std::time::Duration;

use crate::{
    Effect, Effects, RoleKind,
    attempt::{Attempt, Origin, Reach, Stage, Status},
    crew::Crew,
    host::{Host, HostState},
    roles::{Role, Roles},
    verdict::Failure,
};

/// Where and when an attempt gives orders.
#[derive(Clone, Copy)]
pub(crate) struct Site<'a> {
    pub roles: &'a Roles,
    pub crew: &'a Crew,
    /// All hosts of the run.
    pub hosts: &'a [Host],
    pub skew_limit: Duration,
    pub now: Duration,
    /// Stop without grace.
    pub kill: bool,
}

impl Site<'_> {
    fn host_of(&self, task: usize) -> &Host {
        &self.hosts[self.crew.of_task[task]]
    }

    /// Whether orders reach the host of a task.
    pub fn is_held(&self, task: usize) -> bool {
        self.host_of(task).state == HostState::Leased
    }

    /// Whether orders reach all hosts of the attempt.
    pub fn all_held(&self) -> bool {
        self.crew.members.iter().all(|host| self.hosts[*host].state == HostState::Leased)
    }
}

impl Attempt {
    /// Starts its tasks, or goes on with those that its host knows of.
    pub fn run(&mut self, at: Site<'_>) {
        self.stage = Stage::Running;
        for task in 0..self.tasks.len() {
            self.allow_time(at, task);
        }
    }

    /// Does whatever can be done now. `true` when all its tasks are over: it is to be collected. Only hosts that are ours are
    /// given orders; what others would have been told is made up for when they come back.
    pub fn advance(&mut self, at: Site<'_>, effects: &mut Effects) -> bool {
        if matches!(self.stage, Stage::Running | Stage::Stopping) {
            self.judge_skew(at);
        }
        if self.stage == Stage::Running && (self.is_decided() || self.origin == Origin::Settled) {
            self.stage = Stage::Stopping;
        }
        match self.stage {
            Stage::Running => {
                if at.all_held() {
                    self.start_tasks(at, effects);
                }
                self.release_barrier(at, effects);
                false
            }
            Stage::Stopping => {
                self.stop_tasks(at, effects);
                !self.tasks.iter().any(|task| task.is_alive()) && !self.awaits_clock_error(at)
            }
            _ => false,
        }
    }

    /// Starts every role whose turn has come. Only one barrier is closed at a time, because a release opens it for all
    /// tasks of the attempt that are held at that moment.
    fn start_tasks(&mut self, at: Site<'_>, effects: &mut Effects) {
        for (_, role) in at.roles.iter() {
            if !role.tasks().any(|task| self.tasks[task].status == Status::Pending) {
                continue;
            }
            let satisfied = |attempt: &Self, dep: &usize| attempt.is_satisfied(at.roles.role(*dep));
            if !role.shape.after.iter().all(|dep| satisfied(self, dep)) {
                continue;
            }
            let mut reached = true;
            for dep in &role.shape.after {
                reached &= self.ensure_reached(at, *dep, effects);
            }
            if !reached || (role.held() && self.other_barrier_is_closed(at.roles, role)) {
                continue;
            }
            for task in role.tasks() {
                if self.tasks[task].status == Status::Pending {
                    self.tasks[task].status = Status::Sent;
                    self.allow_time(at, task);
                    self.order_start(at, task, effects);
                }
            }
        }
    }

    /// Whether roles that come after this one can reach it from where they run; has it found out, if it must be.
    fn ensure_reached(&mut self, at: Site<'_>, role: usize, effects: &mut Effects) -> bool {
        let entry = at.roles.role(role);
        if !entry.shape.reach || self.reach[role] == Reach::Reached {
            return true;
        }
        let own = at.crew.hosts_of(entry.tasks());
        let others = entry.dependents.iter().flat_map(|other| at.roles.role(*other).tasks());
        let mut from = at.crew.hosts_of(others);
        from.retain(|host| !own.contains(host));
        if from.is_empty() {
            self.reach[role] = Reach::Reached;
            return true;
        }
        if self.reach[role] == Reach::Unasked {
            self.reach[role] = Reach::Asked;
            let from = from.into_iter().map(|host| at.hosts[host].name.clone()).collect();
            effects.push(Effect::CheckReach { attempt: self.id, role: entry.shape.name.clone(), from });
        }
        false
    }

    fn order_start(&self, at: Site<'_>, task: usize, effects: &mut Effects) {
        effects.push(Effect::StartTask {
            host: at.host_of(task).name.clone(),
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

    /// Whether tasks are held, or on their way there, that another barrier than that of this role holds.
    pub fn other_barrier_is_closed(&self, roles: &Roles, role: &Role) -> bool {
        roles.iter().filter(|(index, other)| other.held() && !role.barrier.contains(index)).any(
            |(_, other)| {
                let statuses = self.tasks[other.tasks()].iter().map(|task| task.status);
                statuses.into_iter().any(|status| status > Status::Pending && status < Status::Released)
            },
        )
    }

    /// Stops what runs, in reverse order: a role once nothing that comes after it runs any more where orders arrive. All at
    /// once to kill.
    fn stop_tasks(&mut self, at: Site<'_>, effects: &mut Effects) {
        let at = Site { kill: at.kill || self.lost_member, ..at };
        for (_, role) in at.roles.iter().rev() {
            let mut dependents = role.dependents.iter().flat_map(|other| at.roles.role(*other).tasks());
            if at.kill || !dependents.any(|task| self.tasks[task].is_alive() && at.is_held(task)) {
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
        if let Some(kill) = self.tasks[task].stop
            && at.is_held(task)
        {
            effects.push(Effect::StopTask {
                host: at.host_of(task).name.clone(),
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

    /// A connection was lost and stands again: compares with the tasks that its agent knows, and gives again every order
    /// that may be lost.
    pub fn resume(&mut self, at: Site<'_>, host: usize, known: &[usize], effects: &mut Effects) {
        let there: Vec<usize> = (0..self.tasks.len()).filter(|task| at.crew.of_task[*task] == host).collect();
        for task in &there {
            let entry = &self.tasks[*task];
            if entry.is_alive() && entry.status > Status::Sent && !known.contains(task) {
                self.write_off(*task, Failure::unknown(&at.roles.task_label(*task)));
            }
        }
        if !matches!(self.stage, Stage::Running | Stage::Stopping) {
            return;
        }
        let may_start = self.stage == Stage::Running && !self.is_decided();
        for task in there {
            if !self.tasks[task].is_alive() {
                continue;
            }
            self.allow_time(at, task);
            match (known.contains(&task), may_start) {
                (true, _) => {
                    self.tasks[task].status = self.tasks[task].status.max(Status::Known);
                    self.order_stop(at, task, effects);
                }
                (false, true) => self.order_start(at, task, effects),
                (false, false) => self.tasks[task].status = Status::Over,
            }
        }
        self.doubt_barrier(at, host);
        for reach in self.reach.iter_mut().filter(|reach| **reach == Reach::Asked) {
            *reach = Reach::Unasked;
        }
    }

    /// One of its hosts is given up: nothing more will be heard of its tasks, and the others are stopped.
    pub fn lose_host(&mut self, at: Site<'_>, host: usize, failure: Failure) {
        self.fail(failure);
        self.lost_member = true;
        self.stage = Stage::Stopping;
        for task in 0..self.tasks.len() {
            if at.crew.of_task[task] == host {
                self.tasks[task].status = Status::Over;
            }
        }
    }
}
