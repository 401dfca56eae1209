//! How worlds and controllers begin.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

use drover_model::{Seats, TrialId};
use drover_sched::{BootPolicy, Group, PastAttempt, Plan, PowerPolicy, Reconnect, Scheduler};

use super::{Controller, Link, World};
use crate::{agent::Agent, rng::Rng, shapes};

/// Time for a host to boot.
const WITHIN: Duration = Duration::from_secs(60);

/// Hosts whose power can be cycled. Of a fortune of its own, so that what else happens does not depend on it.
fn power(seed: u64, hosts: usize) -> BTreeMap<usize, PowerPolicy> {
    let mut rng = Rng::new(!seed);
    let has_some = rng.chance(700);
    let chosen: Vec<usize> = (0..hosts).filter(|_| has_some && rng.chance(600)).collect();
    let mut policy =
        || PowerPolicy { within: Duration::from_secs(60), times: 1 + u32::try_from(rng.below(2)).unwrap() };
    chosen.into_iter().map(|host| (host, policy())).collect()
}

/// Hosts that are booted as other machines, instead of being made anew at once. Of a fortune of its own, too.
fn boots(seed: u64, hosts: usize) -> BTreeSet<usize> {
    let mut rng = Rng::new(seed.rotate_left(32) ^ 0xb007);
    let has_some = rng.chance(700);
    (0..hosts).filter(|_| has_some && rng.chance(700)).collect()
}

impl World {
    /// A world with the fortune of its seed; `log` keeps a record of what happens.
    pub fn new(seed: u64, log: bool) -> Self {
        let mut rng = Rng::new(seed);
        let hosts = 1 + [0, 0, 1, 2, 2, 3, 4][rng.below(7)];
        let trials = 1 + rng.below(10);
        let faults = [0, 10, 40, 120][rng.below(4)];
        let pick = |rng: &mut Rng, from: u32, to: u32| {
            from + u32::try_from(rng.below(usize::try_from(to).unwrap())).unwrap()
        };
        let roles = shapes::roles(&mut rng, hosts);
        let trials: Vec<TrialId> = (0..u32::try_from(trials).unwrap())
            .map(|n| TrialId { cell: n / 2, repetition: n % 2 + 1 })
            .collect();
        Self {
            now: Duration::ZERO,
            run: shapes::run(),
            hosts: (0..hosts).map(|host| format!("h{host}").parse().unwrap()).collect(),
            roles,
            groups: shapes::groups(&mut rng, &trials, hosts),
            trials,
            wait_for_hosts: rng.chance(300),
            machines: seed % 8 == 7,
            retries: pick(&mut rng, 0, 4),
            after_ng: pick(&mut rng, 0, 3),
            window: pick(&mut rng, 1, 5),
            unstored_limit: pick(&mut rng, 1, 4),
            tries: pick(&mut rng, 1, 5),
            power: power(seed, hosts),
            boots: boots(seed, hosts),
            astray: BTreeMap::new(),
            tried: BTreeSet::new(),
            excused: BTreeSet::new(),
            rebooted: BTreeSet::new(),
            faults,
            calm: false,
            agents: (0..hosts).map(|_| Agent::default()).collect(),
            store: BTreeMap::new(),
            journal: Vec::new(),
            reached_roles: BTreeSet::new(),
            given_back: BTreeSet::new(),
            released: BTreeSet::new(),
            calls: 0,
            deaths: BTreeMap::new(),
            harmed: BTreeSet::new(),
            ever_cut_short: false,
            ever_lost: BTreeSet::new(),
            ever_slow: false,
            lives: 0,
            reached: BTreeSet::new(),
            log: log.then(Vec::new),
            rng,
        }
    }

    /// A controller starts, and finds what the former ones left.
    pub(super) fn bear(&mut self) -> Controller {
        self.lives += 1;
        self.given_back.clear();
        self.released.clear();
        self.tried.clear();
        self.excused.clear();
        if self.lives > 8 {
            self.calm_down();
        }
        let lives = self.lives;
        self.note(|| format!("controller {lives} starts"));
        let past =
            self.store.iter().map(|(id, stored)| PastAttempt::new(*id, &stored.verdict, stored.is_final));
        let plan = Plan {
            run: self.run,
            hosts: self.hosts.clone(),
            groups: self
                .groups
                .iter()
                .map(|share| Group { order: share.trials.clone().into(), stay: share.stay, host: share.host })
                .collect(),
            roles: self.roles.clone(),
            retries: self.retries,
            after_ng: self.after_ng,
            journal_window: self.window,
            unstored_limit: self.unstored_limit,
            skew_limit: Duration::from_millis(1),
            reconnect: Reconnect {
                tries: if self.calm { 5 } else { self.tries },
                first_delay: Duration::from_millis(100),
                max_delay: Duration::from_secs(1),
            },
            power: self.power.clone(),
            boots: self
                .boots
                .iter()
                .map(|host| {
                    let (astray, leaves) = (self.astray.contains_key(host), self.astray.get(host).cloned());
                    (*host, BootPolicy { within: WITHIN, astray, leaves: leaves.flatten() })
                })
                .collect(),
            wait_for_hosts: self.wait_for_hosts,
        };
        let journalled = self.journal.iter().map(|(id, seats)| (*id, Seats::clone(seats)));
        let scheduler = Scheduler::new(plan, past, journalled).unwrap();
        Controller {
            scheduler,
            links: self.hosts.iter().map(|_| Link::default()).collect(),
            to_store: VecDeque::new(),
            from_store: VecDeque::new(),
            delivered: Vec::new(),
            late: VecDeque::new(),
            begun: BTreeSet::new(),
            unstored: BTreeSet::new(),
            decided: BTreeSet::new(),
            kernel_failed: BTreeSet::new(),
            failed: BTreeSet::new(),
            killed: BTreeSet::new(),
            holders: vec![None; self.hosts.len()],
            calls: BTreeMap::new(),
            answers: VecDeque::new(),
            cycling: VecDeque::new(),
            cycled: VecDeque::new(),
            cycles: vec![0; self.hosts.len()],
            away: BTreeSet::new(),
            had: BTreeSet::new(),
            interrupts: 0,
            ended: None,
        }
    }
}
