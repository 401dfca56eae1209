//! The ways in which a run ends: worked off, interrupted, without a store.

use std::time::Duration;

use drover_model::AttemptId;

use super::{Phase, Scheduler};
use crate::{
    Effect, Effects, Ended,
    attempt::{Attempt, Origin, Stage},
    host::HostState,
};

impl Scheduler {
    /// The first interruption ends the run in good order, the second kills what still runs.
    pub(super) fn interrupted(&mut self, now: Duration, effects: &mut Effects) {
        match &mut self.phase {
            Phase::Ending { kill, .. } => *kill = true,
            _ => self.phase = Phase::Ending { why: Ended::Interrupted, kill: false },
        }
        self.wind_down(now, effects);
    }

    /// Nothing can be stored any more: ends the run; the agents keep what they hold.
    pub(super) fn end_without_store(
        &mut self,
        now: Duration,
        why: String,
        disk_full: bool,
        effects: &mut Effects,
    ) {
        if self.store_is_lost() {
            return;
        }
        let kill = self.kills();
        self.phase = Phase::Ending { why: Ended::StoreFailed { why, disk_full }, kill };
        self.leave_all_open(|attempt| !matches!(attempt.stage, Stage::Running | Stage::Stopping));
        self.wind_down(now, effects);
    }

    /// Stops what runs and drops what was not begun: it stays in the journal for a later controller.
    fn wind_down(&mut self, now: Duration, effects: &mut Effects) {
        self.redraws.clear();
        self.leave_all_open(|attempt| attempt.host.is_none() && !attempt.is_being_stored());
        for index in 0..self.hosts.len() {
            match self.hosts[index].state {
                HostState::Leased => self.stop_current(now, index, effects),
                HostState::Idle | HostState::Connecting | HostState::Waiting { .. } | HostState::Leasing => {
                    self.abandon(index);
                }
                HostState::Releasing | HostState::Released | HostState::GivenUp => {}
            }
        }
    }

    fn stop_current(&mut self, now: Duration, index: usize, effects: &mut Effects) {
        let queue = std::mem::take(&mut self.hosts[index].queue);
        for id in queue {
            if self.attempts.get(&id).is_some_and(|attempt| attempt.is_adopted()) {
                self.hosts[index].queue.push_back(id);
            } else {
                self.leave_open(id);
            }
        }
        let Some(id) = self.hosts[index].current else { return };
        let Some(attempt) = self.attempts.get_mut(&id) else { return };
        if attempt.origin == Origin::Settled {
            return;
        }
        attempt.cancel();
        // Nothing was sent yet, so there is no need to wait for the answer.
        let unsent = attempt.stage == Stage::Preparing && !attempt.is_adopted();
        self.advance(now, id, unsent, effects);
    }

    /// Does not wait for a host any more. What it still has stays in the journal and on its agent.
    pub(super) fn abandon(&mut self, index: usize) {
        let host = &mut self.hosts[index];
        host.state = HostState::Released;
        host.current = None;
        host.queue.clear();
        host.strays.clear();
        self.leave_all_open(|attempt| attempt.host == Some(index) && !attempt.is_being_stored());
    }

    fn leave_all_open(&mut self, chosen: impl Fn(&Attempt) -> bool) {
        let chosen: Vec<AttemptId> =
            self.attempts.values().filter(|attempt| chosen(attempt)).map(|attempt| attempt.id).collect();
        for id in chosen {
            self.leave_open(id);
        }
    }

    /// Lets go of an attempt without a verdict: a later controller finds it in the journal.
    pub(super) fn leave_open(&mut self, id: AttemptId) {
        let Some(attempt) = self.attempts.remove(&id) else { return };
        if matches!(attempt.stage, Stage::Collecting | Stage::Storing(_)) {
            self.unstored = self.unstored.saturating_sub(1);
        }
        if let Some(host) = attempt.host.and_then(|host| self.hosts.get_mut(host)) {
            host.queue.retain(|queued| *queued != id);
            if host.current == Some(id) {
                host.current = None;
            }
        }
    }

    /// Gives the hosts back when nothing is left to do, and finishes when they are given back.
    pub(super) fn finish_if_done(&mut self, effects: &mut Effects) {
        let drained = !self.is_running() || self.is_drained();
        let strays = self.hosts.iter().any(|host| host.state == HostState::Leased && !host.strays.is_empty());
        if !drained || !self.attempts.is_empty() || strays {
            return;
        }
        for host in &mut self.hosts {
            match host.state {
                HostState::Leased => {
                    host.forget_all(effects);
                    host.state = HostState::Releasing;
                    effects.push(Effect::ReleaseLease { host: host.name.clone() });
                }
                HostState::Idle | HostState::Connecting | HostState::Leasing | HostState::Waiting { .. } => {
                    host.state = HostState::Released;
                }
                HostState::Releasing | HostState::Released | HostState::GivenUp => {}
            }
        }
        if self.hosts.iter().any(|host| host.state == HostState::Releasing) {
            return;
        }
        let ended = match std::mem::replace(&mut self.phase, Phase::Finished) {
            Phase::Ending { why, .. } => why,
            _ if self.left > 0 => Ended::HostsUnavailable { why: self.last_loss.clone() },
            _ => Ended::Complete,
        };
        effects.push(Effect::Finish { ended, progress: self.progress });
    }
}
