//! Orders that concern several hosts at once: each host does its part when the order reaches it; the answer comes when all
//! have, and never if the connection to one of them is lost before.

use std::collections::BTreeSet;

use drover_model::{AttemptId, ErrorCause, MissingCause, Name, Verdict};

use super::{CollectOutcome, Controller, Effect, Event, World};

/// An order under way.
pub struct Call {
    effect: Effect,
    hosts: Vec<usize>,
    /// Those that have not done their part.
    missing: BTreeSet<usize>,
    /// What the first that failed found.
    failed: bool,
}

/// An answer under way, and the hosts that it came from.
pub struct Answer {
    hosts: Vec<usize>,
    event: Event,
}

/// The hosts that an order goes to.
pub fn hosts_of(effect: &Effect) -> Vec<Name> {
    let mut hosts = match effect {
        Effect::ConnectHost { host }
        | Effect::MakeMachine { host, .. }
        | Effect::RestoreMachine { host }
        | Effect::AcquireLease { host }
        | Effect::ReleaseLease { host }
        | Effect::StartTask { host, .. }
        | Effect::StopTask { host, .. }
        | Effect::ForgetAttempts { host, .. } => vec![host.clone()],
        Effect::PrepareAttempt { seats, .. } => seats.hosts().into_iter().cloned().collect(),
        Effect::CheckReach { from, .. } => from.clone(),
        Effect::ReleaseBarrier { hosts, .. } => hosts.clone(),
        Effect::Collect { tasks, .. } => tasks.iter().map(|(host, _)| host.clone()).collect(),
        Effect::CyclePower { .. }
        | Effect::QuarantineHost { .. }
        | Effect::JournalAttempts { .. }
        | Effect::StoreAttempt { .. }
        | Effect::Finish { .. } => vec![],
    };
    hosts.sort();
    hosts.dedup();
    hosts
}

impl Controller {
    /// The hosts of an attempt are free for others.
    pub fn let_go(&mut self, attempt: AttemptId) {
        for holder in self.holders.iter_mut().filter(|holder| **holder == Some(attempt)) {
            *holder = None;
        }
    }

    pub fn next_answer(&mut self) -> Option<Event> {
        self.answers.pop_front().map(|answer| answer.event)
    }

    /// The connection to a host is lost: what was asked of it is not answered.
    pub fn drop_calls(&mut self, host: usize) {
        self.calls.retain(|_, call| !call.hosts.contains(&host));
        self.answers.retain(|answer| !answer.hosts.contains(&host));
    }
}

impl World {
    /// Sends an order on its way to its hosts.
    pub(super) fn send(&mut self, controller: &mut Controller, effect: Effect) {
        let hosts: Vec<usize> = hosts_of(&effect).iter().map(|host| self.index(host)).collect();
        let number = matches!(
            effect,
            Effect::PrepareAttempt { .. }
                | Effect::CheckReach { .. }
                | Effect::ReleaseBarrier { .. }
                | Effect::Collect { .. }
        )
        .then(|| {
            self.calls += 1;
            self.calls
        });
        for host in &hosts {
            controller.links[*host].to_agent.push_back((effect.clone(), number));
        }
        if let Some(number) = number {
            let missing = hosts.iter().copied().collect();
            controller.calls.insert(number, Call { effect, hosts, missing, failed: false });
        }
    }

    /// A host does its part; the last one gives the answer.
    pub(super) fn part_of_call(
        &mut self,
        controller: &mut Controller,
        host: usize,
        order: &Effect,
        number: u64,
    ) {
        let faults = if self.calm { 0 } else { self.faults };
        let mut failed = self.rng.chance(faults / 4);
        match order {
            // Even if nobody waits for the answer any more.
            Effect::ReleaseBarrier { attempt, .. } if !failed => {
                let late_us = if self.rng.chance(faults / 4) { 5000 } else { 3 };
                if late_us > 3 {
                    self.harmed.insert(*attempt);
                }
                self.agents[host].release(*attempt, number, late_us);
            }
            Effect::Collect { attempt, .. } => failed |= !self.agents[host].knows(*attempt),
            _ => {}
        }
        let Some(call) = controller.calls.get_mut(&number) else { return };
        call.failed |= failed;
        call.missing.remove(&host);
        if call.missing.is_empty()
            && let Some(call) = controller.calls.remove(&number)
        {
            let event = self.answer(&call, faults);
            controller.answers.push_back(Answer { hosts: call.hosts, event });
        }
    }

    /// The machine that an attempt asks for.
    pub fn machine_of(attempt: AttemptId) -> u32 {
        attempt.trial.cell % 2
    }

    /// Hosts that are other machines than an attempt asks for that no host knows yet.
    fn wrong_machines(&self, call: &Call, attempt: AttemptId) -> Vec<Name> {
        if !self.machines || self.agents.iter().any(|agent| agent.knows(attempt)) {
            return Vec::new();
        }
        let is_wrong = |host: &&usize| self.agents[**host].machine != Some(Self::machine_of(attempt));
        call.hosts.iter().filter(is_wrong).map(|host| self.hosts[*host].clone()).collect()
    }

    /// Whether one of these hosts was tried to boot as that machine, and came back as another.
    fn was_tried(&self, hosts: &[Name], attempt: AttemptId) -> bool {
        let machine = Self::machine_of(attempt);
        hosts.iter().any(|host| self.tried.contains(&(self.index(host), machine)))
    }

    fn answer(&mut self, call: &Call, faults: usize) -> Event {
        let why = || "of the world".to_owned();
        match (&call.effect, call.failed) {
            (Effect::PrepareAttempt { attempt, .. }, false)
                if self.was_tried(&self.wrong_machines(call, *attempt), *attempt) =>
            {
                self.harmed.insert(*attempt);
                let verdict = Verdict::Missing { cause: MissingCause::WrongKernel, detail: why() };
                Event::AttemptUnprepared { attempt: *attempt, verdict }
            }
            (Effect::PrepareAttempt { attempt, .. }, false)
                if !self.wrong_machines(call, *attempt).is_empty() =>
            {
                let hosts = self.wrong_machines(call, *attempt);
                Event::MachinesNeeded { attempt: *attempt, hosts }
            }
            (Effect::PrepareAttempt { attempt, .. }, false) => Event::AttemptPrepared { attempt: *attempt },
            (Effect::PrepareAttempt { attempt, .. }, true) => {
                self.harmed.insert(*attempt);
                let verdict = Verdict::Error { cause: ErrorCause::Template, detail: why() };
                Event::AttemptUnprepared { attempt: *attempt, verdict }
            }
            (Effect::CheckReach { attempt, role, .. }, false) => {
                self.reached_roles.insert((*attempt, role.clone()));
                Event::RoleReached { attempt: *attempt, role: role.clone() }
            }
            (Effect::CheckReach { attempt, role, .. }, true) => {
                self.harmed.insert(*attempt);
                let verdict = Verdict::Error { cause: ErrorCause::Unreachable, detail: why() };
                Event::RoleUnreached { attempt: *attempt, role: role.clone(), verdict }
            }
            (Effect::ReleaseBarrier { attempt, .. }, true) => {
                self.harmed.insert(*attempt);
                Event::BarrierFailed { attempt: *attempt, why: why() }
            }
            (Effect::ReleaseBarrier { attempt, .. }, false) => {
                let error_us = if self.rng.chance(faults / 4) { 5000 } else { 40 };
                if error_us > 40 {
                    self.harmed.insert(*attempt);
                }
                Event::BarrierReleased { attempt: *attempt, error_us }
            }
            (Effect::Collect { attempt, .. }, failed) => {
                let mut outcome = CollectOutcome::default();
                if failed {
                    self.harmed.insert(*attempt);
                    outcome.failed = Some((ErrorCause::AgentLost, "its outputs are gone".to_owned()));
                }
                Event::Collected { attempt: *attempt, outcome }
            }
            (other, _) => Event::HostLost { host: hosts_of(other)[0].clone(), why: why() },
        }
    }
}
