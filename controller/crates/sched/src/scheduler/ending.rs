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
        self.interruptions = self.interruptions.saturating_add(1);
        match &mut self.phase {
            Phase::Ending { kill, .. } => *kill = true,
            Phase::Closing(_) => return self.hurry(now, effects),
            Phase::Finished => return,
            Phase::Opening | Phase::Running => {
                self.phase = Phase::Ending { why: Ended::Interrupted, kill: false };
            }
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
        if self.store_is_lost() || matches!(self.phase, Phase::Closing(_)) {
            return;
        }
        let kill = self.kills();
        self.phase = Phase::Ending { why: Ended::StoreFailed { why, disk_full }, kill };
        // What former controllers began may run: it is stopped like what this one began.
        self.leave_all_open(|attempt| {
            let may_run = attempt.is_adopted() || matches!(attempt.stage, Stage::Running | Stage::Stopping);
            attempt.is_over() || !may_run
        });
        self.wind_down(now, effects);
    }

    /// Stops what runs and drops what was not begun: it stays in the journal for a later controller.
    fn wind_down(&mut self, now: Duration, effects: &mut Effects) {
        for group in &mut self.groups {
            group.redraws.clear();
        }
        self.leave_all_open(|attempt| attempt.lane.is_none() && !attempt.is_being_stored());
        for index in 0..self.hosts.len() {
            match self.hosts[index].state {
                HostState::Idle
                | HostState::Connecting
                | HostState::Making
                | HostState::Waiting { .. }
                | HostState::Cycling
                | HostState::Leasing
                | HostState::Denied { .. } => {
                    if self.is_restored_first(index) {
                        self.leave_attempts(now, index, effects);
                    } else {
                        self.abandon(now, index, effects);
                    }
                }
                HostState::Leased
                | HostState::Restoring
                | HostState::Releasing
                | HostState::Released
                | HostState::GivenUp => {}
            }
        }
        for lane in 0..self.lanes.len() {
            self.stop_lane(now, lane, effects);
        }
    }

    fn stop_lane(&mut self, now: Duration, lane: usize, effects: &mut Effects) {
        for id in Vec::from(self.lanes[lane].queue.clone()) {
            if !self.attempts.get(&id).is_some_and(Attempt::is_adopted) {
                self.leave_open(id);
            }
        }
        self.leave_line(lane);
        self.mark_lane(lane);
        let Some(id) = self.lanes[lane].current else { return };
        let Some(attempt) = self.attempts.get_mut(&id) else { return };
        if attempt.origin == Origin::Settled {
            return;
        }
        attempt.cancel();
        // Nothing was sent yet, so there is no need to wait for the answer.
        let unsent = attempt.stage == Stage::Preparing && !attempt.is_adopted();
        self.advance(now, id, unsent, effects);
    }

    fn leave_all_open(&mut self, chosen: impl Fn(&Attempt) -> bool) {
        let lanes = self.lanes.iter();
        let seated = lanes.flat_map(|lane| lane.queue.iter().chain(&lane.current).chain(&lane.unstored));
        let chosen: Vec<AttemptId> = seated
            .chain(&self.unseated)
            .filter(|id| self.attempts.get(id).is_some_and(&chosen))
            .copied()
            .collect();
        for id in chosen {
            self.leave_open(id);
        }
    }

    /// Lets go of an attempt without a verdict: a later controller finds it in the journal.
    pub(super) fn leave_open(&mut self, id: AttemptId) {
        let Some(attempt) = self.forget_attempt(id) else { return };
        self.unseated.remove(&id);
        let Some(lane) = attempt.lane else { return };
        self.drop_adopted(lane, attempt.place, id);
        if self.lanes[lane].remove(id) {
            self.free_hosts(lane);
        }
        self.mark_lane(lane);
    }

    /// Whether nothing is left to do. No event can give it anything more to do then.
    fn is_done(&self) -> bool {
        let strays = || self.strays.values().any(|host| self.hosts[*host].state == HostState::Leased);
        self.attempts.is_empty()
            && match self.phase {
                Phase::Running => self.groups.iter().all(crate::group::Trials::is_drained),
                Phase::Ending { .. } => true,
                Phase::Opening | Phase::Closing(_) | Phase::Finished => false,
            }
            && !strays()
    }

    /// Gives the hosts back when nothing is left to do, and finishes when they are given back, as what they were.
    pub(super) fn finish_if_done(&mut self, effects: &mut Effects) {
        if self.is_done() {
            self.give_hosts_back(effects);
            let ended = match std::mem::replace(&mut self.phase, Phase::Finished) {
                Phase::Ending { why, .. } => why,
                _ if self.left > 0 => Ended::HostsUnavailable { why: self.last_loss.clone() },
                _ => Ended::Complete,
            };
            self.phase = Phase::Closing(ended);
        }
        if self.awaited == 0
            && let Phase::Closing(ended) = &self.phase
        {
            effects.push(Effect::Finish { ended: ended.clone(), progress: self.progress });
            self.phase = Phase::Finished;
        }
    }
}
