//! The scheduler itself: the state of the run, and which part of it takes which event in. Called by the driver.
//!
//! The parts: `hosts` (connections and leases), `life` (attempts from prepared to stored), `dispatch` (what is drawn,
//! journalled and begun), `ending` (interruption, failure of the store, finish).

mod dispatch;
mod ending;
mod hosts;
mod life;

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use drover_model::{AttemptId, Name, RunId};

use crate::{
    Effects, Ended, Event, Order, PastAttempt, Plan, PlanError, Progress, Reconnect,
    attempt::{Attempt, Origin, Stage},
    host::Host,
    past::{Draw, Past},
    retry::Limits,
    roles::{Roles, check_names},
};

/// The state of one run.
#[derive(Debug)]
pub struct Scheduler {
    run: RunId,
    roles: Roles,
    limits: Limits,
    journal_window: usize,
    unstored_limit: usize,
    skew_limit: Duration,
    reconnect: Reconnect,

    hosts: Vec<Host>,
    /// Attempts that are drawn and not stored: some for each host, whatever the size of the plan.
    attempts: BTreeMap<AttemptId, Attempt>,
    /// Attempts whose tasks are over and that are not stored.
    unstored: usize,
    /// Draws that come before those from the order.
    redraws: VecDeque<Draw>,
    order: Order,
    /// Nothing is left in the order.
    exhausted: bool,
    past: Past,
    progress: Progress,
    /// Trials that are left without a final verdict because no host remains.
    left: u64,
    /// What became of the last host that was given up.
    last_loss: String,
    phase: Phase,
}

/// What the run as a whole is up to.
#[derive(Debug, PartialEq, Eq)]
enum Phase {
    /// Waits for `RunOpened`.
    Opening,
    /// Works off the plan.
    Running,
    /// Ends early; `kill`: the user does not want to wait for tasks to stop in their own time.
    Ending { why: Ended, kill: bool },
    /// `Finish` was given.
    Finished,
}

impl Scheduler {
    /// A scheduler that will run the plan from where former controllers left it.
    ///
    /// `past` are the stored attempts, in any order; `journalled` are the attempts in the journal with their hosts, in the
    /// order in which they were journalled (those that are stored are passed over).
    ///
    /// # Errors
    ///
    /// If the plan contradicts itself.
    pub fn new(
        plan: Plan,
        past: impl IntoIterator<Item = PastAttempt>,
        journalled: impl IntoIterator<Item = (AttemptId, Name)>,
    ) -> Result<Self, PlanError> {
        if plan.hosts.is_empty() {
            return Err(PlanError::NoHost);
        }
        check_names(plan.hosts.iter())?;
        let mut progress = Progress::default();
        let mut scheduler = Self {
            run: plan.run,
            roles: Roles::new(plan.roles)?,
            limits: Limits { retries: plan.retries, after_ng: plan.after_ng },
            journal_window: usize::try_from(plan.journal_window.max(1)).unwrap_or(usize::MAX),
            unstored_limit: usize::try_from(plan.unstored_limit.max(1)).unwrap_or(usize::MAX),
            skew_limit: plan.skew_limit,
            reconnect: plan.reconnect,
            hosts: plan.hosts.into_iter().map(Host::new).collect(),
            attempts: BTreeMap::new(),
            unstored: 0,
            redraws: VecDeque::new(),
            order: plan.order,
            exhausted: false,
            past: Past::new(past, &mut progress),
            progress,
            left: 0,
            last_loss: String::new(),
            phase: Phase::Opening,
        };
        for (attempt, host) in journalled {
            scheduler.inherit(attempt, &host);
        }
        Ok(scheduler)
    }

    /// Takes up an attempt that a former controller journalled.
    fn inherit(&mut self, id: AttemptId, host: &Name) {
        if id.run != self.run {
            return;
        }
        let Some(draw) = self.past.open(id) else { return };
        let host = self.host_index(host);
        let attempt = Attempt::new(id, draw, host, Origin::Inherited, Stage::Queued);
        self.attempts.insert(id, attempt);
        if let Some(host) = host {
            self.hosts[host].queue.push_back(id);
        }
    }

    /// Takes one event in; appends what is to be done because of it. `now` is the time since the driver's start.
    pub fn step(&mut self, now: Duration, event: Event, effects: &mut Effects) {
        match (&self.phase, &event) {
            (Phase::Finished, _) => return,
            (Phase::Opening, Event::RunOpened) => self.open(now, effects),
            (Phase::Opening, Event::Interrupted) | (Phase::Running | Phase::Ending { .. }, _) => {
                self.take_in(now, event, effects);
            }
            (Phase::Opening, _) => return,
        }
        self.dispatch(now, effects);
    }

    fn take_in(&mut self, now: Duration, event: Event, effects: &mut Effects) {
        match event {
            Event::RunOpened => {}
            Event::HostConnected { host, boot_id } => self.host_connected(&host, boot_id, effects),
            Event::HostLost { host, why } => self.host_lost(now, &host, &why, effects),
            Event::LeaseGranted { host, known } => self.lease_granted(now, &host, known, effects),
            Event::LeaseRefused { host, why } => self.lease_refused(now, &host, &why, effects),
            Event::LeaseReleased { host } => self.lease_released(&host),
            Event::AttemptsForgotten { host, attempts } => {
                if let Some(host) = self.host_index(&host) {
                    self.hosts[host].forgotten(&attempts);
                }
            }
            Event::AttemptsJournalled { attempts } => self.attempts_journalled(&attempts),
            Event::JournalFailed { why, disk_full } => self.end_without_store(now, why, disk_full, effects),
            Event::AttemptPrepared { attempt } => self.attempt_prepared(now, attempt, effects),
            Event::AttemptUnprepared { attempt, verdict } => {
                self.attempt_unprepared(now, attempt, verdict, effects);
            }
            Event::TaskRefused { task, why } => self.task_refused(now, &task, &why, effects),
            Event::TaskChanged { task, change } => self.task_changed(now, &task, change, effects),
            Event::BarrierFailed { attempt, why } => self.barrier_failed(now, attempt, &why, effects),
            Event::Collected { attempt, outcome } => self.collected(attempt, outcome, effects),
            Event::AttemptStored { attempt } => self.attempt_stored(now, attempt, effects),
            Event::StoreFailed { attempt, why, disk_full } => {
                self.store_failed(now, attempt, why, disk_full, effects);
            }
            Event::Interrupted => self.interrupted(now, effects),
            Event::TimerElapsed => self.timer_elapsed(now, effects),
        }
    }

    /// The next time at which silence means something; `TimerElapsed` is due then. `None` while nothing is waited for by
    /// time.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Duration> {
        let of_host = |host: &Host| {
            let running = host.current.filter(|_| host.state == crate::host::HostState::Leased);
            let running = running.and_then(|id| self.attempts.get(&id)?.next_deadline());
            host.next_deadline().into_iter().chain(running).min()
        };
        if self.phase == Phase::Finished { None } else { self.hosts.iter().filter_map(of_host).min() }
    }

    /// Where the run stands.
    #[must_use]
    pub fn progress(&self) -> Progress {
        self.progress
    }

    fn host_index(&self, name: &Name) -> Option<usize> {
        self.hosts.iter().position(|host| host.name == *name)
    }

    fn kills(&self) -> bool {
        matches!(self.phase, Phase::Ending { kill: true, .. })
    }

    fn is_running(&self) -> bool {
        self.phase == Phase::Running
    }

    /// Whether nothing more can be stored.
    fn store_is_lost(&self) -> bool {
        matches!(self.phase, Phase::Ending { why: Ended::StoreFailed { .. }, .. })
    }
}
