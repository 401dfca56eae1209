//! The scheduler itself: the state of the run, and which part of it takes which event in. Called by the driver.
//!
//! The parts: `inherit` (what former controllers left), `hosts` (connections and leases), `losses` (hosts that are given up),
//! `machines` (those that are made for an attempt), `leaving` (hosts that are given back),
//! `adopt` (what an agent knows), `life` (attempts from prepared to stored), `seating` (which lanes there are), `dispatch`
//! (what is drawn and journalled), `line` (what is begun), `ending` (interruption, failure of the store, finish).
//!
//! No step looks at all hosts, lanes or attempts: what an event touches is marked, and what is marked is looked at before the
//! step ends.

mod adopt;
mod dispatch;
mod ending;
mod hosts;
mod inherit;
mod leaving;
mod life;
mod line;
mod losses;
mod machines;
mod seating;

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use drover_model::{AttemptId, Name, RunId, Seats, TaskId, Verdict};

use crate::{
    Effects, Ended, Event, PastAttempt, Plan, PlanError, Progress, Reconnect,
    attempts::Attempts,
    deaths::Deaths,
    group::Trials,
    host::Host,
    lane::Lane,
    pack::{Rules, Stock},
    past::Past,
    retry::Limits,
    roles::{Roles, check_names},
    verdict::Failure,
};

/// The state of one run.
///
/// Maps by hash are only ever looked up, never walked through, so that nothing depends on their order.
#[derive(Debug)]
pub struct Scheduler {
    run: RunId,
    roles: Roles,
    limits: Limits,
    journal_window: usize,
    unstored_limit: usize,
    skew_limit: Duration,
    reconnect: Reconnect,
    wait_for_hosts: bool,

    hosts: Vec<Host>,
    host_by_name: HashMap<Name, usize>,
    /// How hosts are chosen for roles, and those that are left to choose from.
    rules: Rules,
    stock: Stock,
    /// Tasks that run without an attempt that waits for them, with their hosts.
    strays: BTreeMap<TaskId, usize>,

    lanes: Vec<Lane>,
    /// Places in `lanes` of lanes that are gone.
    vacant: Vec<usize>,
    /// Lanes that take attempts, by their seats.
    lane_by_seats: HashMap<Arc<Seats>, usize>,
    common_lanes: usize,
    /// Common lanes without work.
    hungry: BTreeSet<usize>,
    /// Lanes that neither have nor expect anything.
    spent: BTreeSet<usize>,
    /// Common lanes by the number of their attempts that may go elsewhere.
    longest: BTreeSet<(usize, Reverse<usize>)>,
    next_turn: u64,

    groups: Vec<Trials>,
    /// The group whose trials may run anywhere.
    common: Option<usize>,
    /// Groups that wait for a lane: any, one with their host, the one that they are bound to.
    waiting: VecDeque<usize>,
    waiting_by_host: BTreeMap<usize, VecDeque<usize>>,
    waiting_bound: VecDeque<usize>,
    /// Groups with trials that no hosts can be had for.
    stranded: VecDeque<usize>,
    /// Hosts or groups came or went: lanes may be made.
    reseat: bool,
    /// No further lane can be made for trials that may run anywhere, until some other is dissolved.
    is_full: bool,

    /// Attempts that are drawn and not stored: some for each lane, whatever the size of the plan.
    attempts: Attempts,
    /// Those without a lane.
    unseated: BTreeSet<AttemptId>,
    past: Past,
    deaths: Deaths,
    progress: Progress,
    /// Trials that are left without a final verdict because no hosts remain.
    left: u64,
    /// What became of the last host that was given up.
    last_loss: String,

    /// What is due when.
    timers: BTreeSet<(Duration, Timer)>,
    marked_lanes: Vec<usize>,
    marked_hosts: Vec<usize>,
    /// Hosts that the end of the run waits for.
    awaited: usize,
    /// How often the user asked to stop.
    interruptions: u32,
    phase: Phase,
}

/// Whose time has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    /// A host is to be connected or asked again, or a stray task on it should have ended.
    Host(usize),
    /// The current attempt of a lane should have been heard of.
    Lane(usize),
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
    /// Everything is done; waits for the hosts to be what they were, and to be given back.
    Closing(Ended),
    /// `Finish` was given.
    Finished,
}

/// Where an attempt gives orders, as a borrow of only those parts of the scheduler that it is made of.
macro_rules! site {
    ($scheduler:expr, $lane:expr, $now:expr) => {
        crate::orders::Site {
            roles: &$scheduler.roles,
            crew: &$scheduler.lanes[$lane].crew,
            hosts: &$scheduler.hosts,
            skew_limit: $scheduler.skew_limit,
            now: $now,
            kill: matches!($scheduler.phase, super::Phase::Ending { kill: true, .. }),
        }
    };
}
use site;

impl Scheduler {
    /// A scheduler that will run the plan from where former controllers left it.
    ///
    /// `past` are the stored attempts, in any order; `journalled` are the attempts in the journal with their hosts, in the
    /// order in which they were journalled. Those that are stored must be among them for groups that stay on their hosts:
    /// they tell where that is.
    ///
    /// # Errors
    ///
    /// If the plan contradicts itself, or its roles cannot be given hosts.
    pub fn new(
        plan: Plan,
        past: impl IntoIterator<Item = PastAttempt>,
        journalled: impl IntoIterator<Item = (AttemptId, Seats)>,
    ) -> Result<Self, PlanError> {
        if plan.hosts.is_empty() {
            return Err(PlanError::NoHost);
        }
        if plan.groups.is_empty() {
            return Err(PlanError::NoGroup);
        }
        check_names(plan.hosts.iter())?;
        let shapes = plan.roles.clone();
        let roles = Roles::new(plan.roles)?;
        let rules = Rules::new(&shapes, plan.hosts.len())?;
        let stock = Stock::new(&rules);
        let mut progress = Progress::default();
        let mut deaths = Deaths::default();
        let past = past.into_iter().inspect(|past| deaths.note(past.id.trial.cell, past.died));
        let past = Past::new(past, &mut progress);
        let mut scheduler = Self {
            run: plan.run,
            roles,
            limits: Limits { retries: plan.retries, after_ng: plan.after_ng },
            journal_window: usize::try_from(plan.journal_window.max(1)).unwrap_or(usize::MAX),
            unstored_limit: usize::try_from(plan.unstored_limit.max(1)).unwrap_or(usize::MAX),
            skew_limit: plan.skew_limit,
            reconnect: plan.reconnect,
            wait_for_hosts: plan.wait_for_hosts,
            host_by_name: plan.hosts.iter().enumerate().map(|(index, name)| (name.clone(), index)).collect(),
            hosts: plan
                .hosts
                .into_iter()
                .enumerate()
                .map(|(index, name)| {
                    Host::new(name, plan.power.get(&index).copied(), plan.boots.get(&index).cloned())
                })
                .collect(),
            rules,
            stock,
            strays: BTreeMap::new(),
            lanes: Vec::new(),
            vacant: Vec::new(),
            lane_by_seats: HashMap::new(),
            common_lanes: 0,
            hungry: BTreeSet::new(),
            spent: BTreeSet::new(),
            longest: BTreeSet::new(),
            next_turn: 0,
            groups: Vec::new(),
            common: None,
            waiting: VecDeque::new(),
            waiting_by_host: BTreeMap::new(),
            waiting_bound: VecDeque::new(),
            stranded: VecDeque::new(),
            reseat: true,
            is_full: false,
            attempts: Attempts::new(plan.run),
            unseated: BTreeSet::new(),
            past,
            deaths,
            progress,
            left: 0,
            last_loss: String::new(),
            timers: BTreeSet::new(),
            marked_lanes: Vec::new(),
            marked_hosts: Vec::new(),
            awaited: 0,
            interruptions: 0,
            phase: Phase::Opening,
        };
        scheduler.take_groups(plan.groups, &shapes)?;
        scheduler.inherit_all(journalled);
        Ok(scheduler)
    }

    /// Takes one event in; appends what is to be done because of it. `now` is the time since the driver's start.
    pub fn step(&mut self, now: Duration, event: Event, effects: &mut Effects) {
        match (&self.phase, &event) {
            (Phase::Finished, _) => return,
            (Phase::Opening, Event::RunOpened) => self.open(now, effects),
            (Phase::Opening, Event::Interrupted)
            | (Phase::Running | Phase::Ending { .. } | Phase::Closing(_), _) => {
                self.take_in(now, event, effects);
            }
            (Phase::Opening, _) => return,
        }
        self.dispatch(now, effects);
    }

    fn take_in(&mut self, now: Duration, event: Event, effects: &mut Effects) {
        match event {
            Event::RunOpened => {}
            Event::HostConnected { host, boot_id } => self.host_connected(now, &host, boot_id, effects),
            Event::HostLost { host, why } => self.host_lost(now, &host, &why, effects),
            Event::HostUnusable { host, why } => self.host_unusable(now, &host, &why, effects),
            Event::PowerCycled { host, problem } => self.power_cycled(now, &host, problem, effects),
            Event::HostRebooting { host } => self.host_rebooting(now, &host),
            Event::MachineRestored { host, problem } => self.machine_restored(&host, problem, effects),
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
            Event::MachinesNeeded { attempt, hosts } => self.machines_needed(now, attempt, &hosts, effects),
            Event::MachineRefused { host, attempt, verdict } => {
                self.machine_refused(now, &host, attempt, verdict, effects);
            }
            Event::HostDied { host, verdict } => self.host_died(&host, &verdict),
            Event::TaskRefused { task, why } => self.task_refused(now, &task, &why, effects),
            Event::TaskChanged { task, change } => self.task_changed(now, &task, change, effects),
            Event::KernelFailed { host, attempt, cause, detail } => {
                self.kernel_failed(now, &host, attempt, Failure::kernel(&host, cause, &detail), effects);
            }
            Event::AttemptFailed { attempt, verdict } => {
                self.attempt_failed(now, attempt, verdict, effects);
            }
            Event::RoleReached { attempt, role } => self.role_reached(now, attempt, &role, None, effects),
            Event::RoleUnreached { attempt, role, verdict } => {
                self.role_reached(now, attempt, &role, Some(verdict), effects);
            }
            Event::BarrierReleased { attempt, error_us } => {
                self.barrier_released(now, attempt, error_us, effects);
            }
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
        if self.phase == Phase::Finished { None } else { self.timers.first().map(|(due, _)| *due) }
    }

    /// Where the run stands.
    #[must_use]
    pub fn progress(&self) -> Progress {
        self.progress
    }

    /// Whether an attempt was begun, or is going to be, and is not stored.
    #[must_use]
    pub fn is_open(&self, attempt: &AttemptId) -> bool {
        self.attempts.get(attempt).is_some()
    }

    /// What has failed of an attempt that is open, as far as is known by now.
    #[must_use]
    pub fn failure(&self, attempt: &AttemptId) -> Option<&Verdict> {
        self.attempts.get(attempt)?.stated_failure()
    }

    fn host_index(&self, name: &Name) -> Option<usize> {
        self.host_by_name.get(name).copied()
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

    fn mark_lane(&mut self, lane: usize) {
        if !std::mem::replace(&mut self.lanes[lane].is_marked, true) {
            self.marked_lanes.push(lane);
        }
    }

    fn mark_host(&mut self, host: usize) {
        if !std::mem::replace(&mut self.hosts[host].is_marked, true) {
            self.marked_hosts.push(host);
        }
    }

    /// A host's connection or lease changed: everything that depends on it is looked at again.
    fn mark_host_and_lanes(&mut self, host: usize) {
        self.mark_host(host);
        let lanes: Vec<usize> = self.hosts[host].lanes.iter().copied().collect();
        for lane in lanes {
            self.mark_lane(lane);
        }
    }

    /// Whether all hosts of a lane that were not given up are ours.
    fn is_held(&self, lane: usize) -> bool {
        self.lanes[lane].crew.members.iter().all(|host| self.hosts[*host].is_held_or_gone())
    }
}
