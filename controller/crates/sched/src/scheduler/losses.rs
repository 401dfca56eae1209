//! Hosts whose power is cycled or that are given up while the run goes on, and hosts that are not waited for when it ends.

use std::{sync::Arc, time::Duration};

use drover_model::AttemptId;

use super::{Scheduler, site};
use crate::{
    Effect, Effects,
    attempt::{Origin, Stage},
    host::{HostState, Stray},
    verdict::Failure,
};

impl Scheduler {
    /// The host is not found any more, or does not end what it should. If its power can be cycled that is tried first: what ran
    /// there is lost, what waits for it waits on. If not, it is given up.
    pub(super) fn lose(
        &mut self,
        now: Duration,
        index: usize,
        why: &str,
        quarantine: bool,
        effects: &mut Effects,
    ) {
        if !self.hosts[index].cycle(why, effects) {
            let why = self.hosts[index].power.story(why);
            return self.give_up(now, index, &why, quarantine, effects);
        }
        if let Some(lane) = self.hosts[index].busy
            && let Some(id) = self.lanes[lane].current
            && let Some(attempt) = self.attempts.get_mut(&id)
            // One that was not sent yet is begun when the host is back.
            && (attempt.stage != Stage::Preparing || attempt.is_adopted())
        {
            attempt.lose_host(site!(self, lane, now), index, Failure::power_cycled(why));
            self.advance(now, id, false, effects);
        }
        self.mark_host_and_lanes(index);
    }

    /// The host is not coming back in this run: what it was given moves elsewhere, or ends. In quarantine, nobody else should
    /// use it either.
    pub(super) fn give_up(
        &mut self,
        now: Duration,
        index: usize,
        why: &str,
        quarantine: bool,
        effects: &mut Effects,
    ) {
        self.hosts[index].state = HostState::GivenUp;
        self.settle(index);
        self.stock.remove(&self.rules, index);
        self.drop_strays(index);
        why.clone_into(&mut self.last_loss);
        if quarantine {
            let host = self.hosts[index].name.clone();
            effects.push(Effect::QuarantineHost { host, why: why.to_owned() });
        }
        let lanes: Vec<usize> = self.hosts[index].lanes.iter().copied().collect();
        for lane in &lanes {
            self.leave_line(*lane);
            self.give_back(*lane);
            self.dissolve(*lane);
        }
        for lane in lanes {
            self.end_on_lost_host(now, lane, index, why, effects);
        }
        self.mark_host_and_lanes(index);
    }

    /// What waits on a lane and was sent nowhere goes back to its group.
    fn give_back(&mut self, lane: usize) {
        let queue = std::mem::take(&mut self.lanes[lane].queue);
        for id in queue.into_iter().rev() {
            let is_fresh = self.attempts.get(&id).is_some_and(|attempt| attempt.origin == Origin::Fresh);
            if !is_fresh {
                self.lanes[lane].queue.push_front(id);
            } else if let Some(attempt) = self.forget_attempt(id) {
                self.groups[attempt.group].redraws.push_front(attempt.draw);
            }
        }
    }

    fn end_on_lost_host(
        &mut self,
        now: Duration,
        lane: usize,
        host: usize,
        why: &str,
        effects: &mut Effects,
    ) {
        for id in Vec::from(self.lanes[lane].queue.clone()) {
            let Some(group) = self.attempts.get(&id).map(|attempt| attempt.group) else { continue };
            self.end_elsewhere(now, id, host, effects);
            // It may have run there: its number is not used elsewhere, and its results are not thrown away unless that
            // lets the run go on.
            if self.can_be_seated(group) {
                self.store_unfinished(now, id, Failure::host_lost(why), effects);
            } else {
                self.left = self.left.saturating_add(1);
                self.leave_open(id);
            }
        }
        let unstored = self.lanes[lane].unstored.clone();
        if let Some(id) = self.lanes[lane].current
            && let Some(attempt) = self.attempts.get_mut(&id)
        {
            attempt.lose_host(site!(self, lane, now), host, Failure::host_lost(why));
            self.advance(now, id, false, effects);
        }
        for id in unstored {
            if let Some(attempt) = self.attempts.get_mut(&id)
                && attempt.stage == Stage::Collecting
            {
                attempt.fail(Failure::host_lost(why));
                self.order_collect(id, effects);
            }
        }
    }

    /// Does not wait for a host any more. What it still has stays in the journal and on its agent; what belongs to it and
    /// runs elsewhere is ended.
    pub(super) fn abandon(&mut self, now: Duration, index: usize, effects: &mut Effects) {
        self.hosts[index].state = HostState::Released;
        self.settle(index);
        self.leave_attempts(now, index, effects);
    }

    /// Lets go of what a host still has, while the run ends.
    pub(super) fn leave_attempts(&mut self, now: Duration, index: usize, effects: &mut Effects) {
        self.drop_strays(index);
        let lanes: Vec<usize> = self.hosts[index].lanes.iter().copied().collect();
        for lane in lanes {
            let entry = &self.lanes[lane];
            let open = entry.queue.iter().chain(&entry.current).chain(&entry.unstored);
            for id in open.copied().collect::<Vec<_>>() {
                if self.attempts.get(&id).is_some_and(|attempt| !attempt.is_being_stored()) {
                    self.end_elsewhere(now, id, index, effects);
                    self.leave_open(id);
                }
            }
        }
        self.mark_host_and_lanes(index);
    }

    /// Kills the tasks of an attempt on its other hosts: nothing will wait for them.
    fn end_elsewhere(&mut self, now: Duration, id: AttemptId, host: usize, effects: &mut Effects) {
        let Some(attempt) = self.attempts.get(&id) else { return };
        let Some(lane) = attempt.lane else { return };
        let crew = Arc::clone(&self.lanes[lane].crew);
        let is_alive = |task: &usize| attempt.tasks[*task].is_alive();
        let alive: Vec<usize> = (0..attempt.tasks.len()).filter(is_alive).collect();
        for task in alive {
            let there = crew.of_task[task];
            if there != host && self.hosts[there].state == HostState::Leased {
                let deadline = now.saturating_add(self.longest_stop());
                let stray = Stray { task: self.roles.task_id(id, task), deadline, is_stored: false };
                self.add_stray(there, stray, effects);
            }
        }
    }
}
