//! The start barrier of an attempt: when it is ordered to open, what is known of that order, and how far apart the tasks
//! started. Called by `orders`, and by the scheduler for the answers.
//!
//! One host opens the barrier for all its tasks at once, and once: to order it again is harmless. Of several hosts some may
//! open it and others not, when a connection is lost or a controller dies meanwhile. To order it again would then start
//! tasks at different instants, each of them punctually; so it is not ordered again, and the attempt is void unless all
//! tasks turn out to have been released.

use std::time::Duration;

use crate::{
    Effect, Effects,
    attempt::{Attempt, Gate, Stage, Status},
    crew::Crew,
    orders::Site,
    roles::Roles,
    verdict::{Failure, Skew},
};

/// Time in which agents report what happened while nobody listened.
const SETTLE: Duration = Duration::from_secs(2);

impl Attempt {
    /// Tasks of the roles that are held together with this one.
    fn group<'a>(roles: &'a Roles, role: usize) -> impl Iterator<Item = usize> + use<'a> {
        roles.role(role).barrier.iter().flat_map(|member| roles.role(*member).tasks())
    }

    /// The first role of every group that is held together.
    fn groups(roles: &Roles) -> impl Iterator<Item = usize> {
        roles.iter().filter(|(index, role)| role.barrier.first() == Some(index)).map(|(index, _)| index)
    }

    fn all_at_least(&self, roles: &Roles, role: usize, least: Status) -> bool {
        Self::group(roles, role).all(|task| self.tasks[task].status >= least)
    }

    /// Opens the barrier once all tasks of a group have arrived.
    pub(crate) fn release_barrier(&mut self, at: Site<'_>, effects: &mut Effects) {
        let waits = Self::groups(at.roles).find(|role| {
            self.all_at_least(at.roles, *role, Status::Armed)
                && !self.all_at_least(at.roles, *role, Status::Released)
                && self.opened.iter().all(|(opened, _)| opened != role)
        });
        match (self.gate, waits) {
            (Gate::Unsure(_), None) => self.gate = Gate::Idle,
            // A former controller started the tasks of another barrier: so this one was opened, and an order would open that
            // one. The reports are on their way.
            (Gate::Idle, Some(role)) if self.other_barrier_is_closed(at.roles, at.roles.role(role)) => {}
            (Gate::Idle, Some(role)) if at.all_held() => {
                let hosts = at.crew.hosts_of(Self::group(at.roles, role));
                if hosts.len() > 1 && Self::group(at.roles, role).any(|task| self.tasks[task].inherited) {
                    // A former controller may have opened it already.
                    self.gate = Gate::Unsure(at.now.saturating_add(SETTLE));
                } else {
                    self.gate = Gate::Ordered(role);
                    let hosts = hosts.into_iter().map(|host| at.hosts[host].name.clone()).collect();
                    effects.push(Effect::ReleaseBarrier { attempt: self.id, hosts });
                }
            }
            _ => {}
        }
    }

    /// The order to open was given to all agents.
    pub(crate) fn barrier_released(&mut self, error_us: u64) {
        if let Gate::Ordered(role) = self.gate {
            self.opened.push((role, error_us));
            self.gate = Gate::Idle;
        }
    }

    /// The connection to this host was lost, and stands again: an answer may have been lost with it.
    pub(crate) fn doubt_barrier(&mut self, at: Site<'_>, host: usize) {
        match self.gate {
            Gate::Ordered(role) => {
                let hosts = at.crew.hosts_of(Self::group(at.roles, role));
                if hosts == [host] {
                    self.gate = Gate::Idle;
                } else if hosts.contains(&host) {
                    self.gate = Gate::Unsure(at.now.saturating_add(SETTLE));
                }
            }
            Gate::Unsure(_) => self.gate = Gate::Unsure(at.now.saturating_add(SETTLE)),
            Gate::Idle => {}
        }
    }

    /// Voids the attempt when agents have had the time to report that all was released, and have not.
    pub(crate) fn give_up_barrier(&mut self, at: Site<'_>) {
        if let Gate::Unsure(until) = self.gate
            && until <= at.now
            && self.stage == Stage::Running
            && at.all_held()
        {
            self.fail(Failure::skew_unknown());
        }
    }

    /// Whether the error of the clocks is still to be learned, which decides about a sound attempt.
    pub(crate) fn awaits_clock_error(&self, at: Site<'_>) -> bool {
        match self.gate {
            Gate::Ordered(role) if !self.has_failed() => {
                at.crew.hosts_of(Self::group(at.roles, role)).len() > 1
            }
            _ => false,
        }
    }

    /// Voids the attempt if its tasks are known to have started too far apart.
    pub(crate) fn judge_skew(&mut self, at: Site<'_>) {
        let known = |role: &usize| {
            self.opened.iter().any(|(opened, _)| opened == role)
                && self.all_at_least(at.roles, *role, Status::Released)
        };
        // An answer that was lost, or given to a former controller, is not waited for: its error counts as none here, and raises a
        // doubt in the end.
        let worst = Self::groups(at.roles)
            .filter(|role| self.is_complete() || known(role))
            .filter_map(|role| self.skew_of(at.roles, role))
            .max_by_key(|skew| skew.total_us());
        if let Some(skew) = worst
            && u128::from(skew.total_us()) > at.skew_limit.as_micros()
        {
            self.fail(Failure::skew(skew, at.skew_limit));
        }
    }

    fn skew_of(&self, roles: &Roles, role: usize) -> Option<Skew> {
        let late = || Self::group(roles, role).filter_map(|task| self.tasks.get(task)?.late_us);
        let error = self.opened.iter().find(|(opened, _)| *opened == role);
        Some(Skew {
            spread_us: late().max()?.saturating_sub(late().min()?),
            error_us: error.map_or(0, |(_, error_us)| *error_us),
        })
    }

    /// Microseconds between the first and the last release at a barrier, clock error included: of the widest, if there were
    /// several. `None` also if the clock error is not known.
    pub(crate) fn start_skew_us(&self, roles: &Roles, crew: &Crew) -> Option<u64> {
        if self.unknown_skew(roles, crew).is_some() {
            return None;
        }
        Self::groups(roles).filter_map(|role| self.skew_of(roles, role)).map(Skew::total_us).max()
    }

    /// The measured part of a skew whose clock error was never learned: the answer was lost, or given to a former controller.
    pub(crate) fn unknown_skew(&self, roles: &Roles, crew: &Crew) -> Option<u64> {
        let unknown = Self::groups(roles).filter(|role| {
            crew.hosts_of(Self::group(roles, *role)).len() > 1
                && self.opened.iter().all(|(opened, _)| opened != role)
        });
        unknown.filter_map(|role| self.skew_of(roles, role)).map(|skew| skew.spread_us).max()
    }
}
