//! Connections and leases: hosts come, go, come back, or are given up.

use std::{collections::BTreeMap, time::Duration};

use drover_model::{AttemptId, Name, TaskId};

use super::Scheduler;
use crate::{
    Effect, Effects, KnownTask,
    attempt::{Origin, Stage, Status},
    host::{HostState, Stray},
    orders::Site,
    verdict::Failure,
};

/// What an agent knows, by attempt.
type Known = BTreeMap<AttemptId, Vec<KnownTask>>;

impl Scheduler {
    pub(super) fn host_connected(&mut self, name: &Name, boot_id: String, effects: &mut Effects) {
        let Some(host) = self.host_index(name).map(|host| &mut self.hosts[host]) else { return };
        if host.state != HostState::Connecting {
            return;
        }
        host.state = HostState::Leasing;
        effects.push(Effect::AcquireLease { host: host.name.clone() });
        let before = host.boot_id.replace(boot_id.clone()).filter(|before| *before != boot_id);
        let current = host.current.and_then(|id| self.attempts.get_mut(&id));
        if let Some((before, attempt)) = before.zip(current)
            && attempt.stage != Stage::Preparing
        {
            attempt.fail(Failure::reboot(&before, &boot_id));
        }
    }

    /// The host is ours: goes on with what it knows of, and orders again what may have been lost.
    pub(super) fn lease_granted(
        &mut self,
        now: Duration,
        name: &Name,
        known: Vec<KnownTask>,
        effects: &mut Effects,
    ) {
        let Some(host) = self.host_index(name) else { return };
        if self.hosts[host].state != HostState::Leasing {
            return;
        }
        self.hosts[host].state = HostState::Leased;
        let mut by_attempt = Known::new();
        for task in known.into_iter().filter(|known| known.task.attempt.run == self.run) {
            by_attempt.entry(task.task.attempt).or_default().push(task);
        }
        self.adopt(host, &by_attempt);
        self.clear_away(now, host, &by_attempt, effects);
        self.resume(now, host, &by_attempt, effects);
    }

    /// Attempts in the queue that the agent knows tasks of were sent by a former controller. They come first, in the
    /// order of the journal, which is the order in which they were begun: all but the last are over.
    fn adopt(&mut self, host: usize, known: &Known) {
        let queue = std::mem::take(&mut self.hosts[host].queue);
        let (adopted, others): (Vec<_>, Vec<_>) = queue.into_iter().partition(|id| known.contains_key(id));
        for (position, id) in adopted.iter().enumerate() {
            if let Some((attempt, tasks)) = self.attempts.get_mut(id).zip(known.get(id)) {
                attempt.adopt(&self.roles, tasks);
                if position + 1 < adopted.len() {
                    attempt.origin = Origin::Settled;
                }
            }
        }
        self.hosts[host].queue = adopted.into_iter().chain(others).collect();
    }

    /// Kills what runs without an attempt that waits for it, and has forgotten what is stored.
    fn clear_away(&mut self, now: Duration, host: usize, known: &Known, effects: &mut Effects) {
        let deadline = now.saturating_add(self.longest_stop());
        let ordered = self.hosts[host].take_forgetting();
        self.hosts[host].strays.clear();
        for (id, tasks) in known {
            let open = self.attempts.get(id).filter(|attempt| attempt.host == Some(host));
            let awaited = |task: &TaskId| {
                let index = self.roles.task_index(task);
                let entry = open.zip(index).and_then(|(attempt, index)| attempt.tasks.get(index));
                entry.is_some_and(|entry| entry.status != Status::Over)
            };
            let strays: Vec<TaskId> = tasks
                .iter()
                .filter(|known| !known.ended && !awaited(&known.task))
                .map(|known| known.task.clone())
                .collect();
            let stored = open.is_none() && (self.past.is_stored(*id) || ordered.contains(id));
            let host = &mut self.hosts[host];
            for task in strays {
                host.add_stray(Stray { task, deadline, is_stored: stored }, effects);
            }
            if stored {
                host.stored(now, *id);
            }
        }
    }

    /// Orders again what the attempts on this host wait for.
    fn resume(&mut self, now: Duration, host: usize, known: &Known, effects: &mut Effects) {
        let kill = self.kills();
        let name = self.hosts[host].name.clone();
        if let Some(id) = self.hosts[host].current
            && let Some(attempt) = self.attempts.get_mut(&id)
        {
            if attempt.stage == Stage::Preparing {
                effects.push(Effect::PrepareAttempt { attempt: id, host: name.clone() });
            } else {
                let site = Site { roles: &self.roles, host: &name, now, kill };
                attempt.resume(site, known.get(&id).map_or(&[], Vec::as_slice), effects);
                self.advance(now, id, false, effects);
            }
        }
        let collecting: Vec<AttemptId> = self
            .attempts
            .values()
            .filter(|attempt| attempt.host == Some(host) && attempt.stage == Stage::Collecting)
            .map(|attempt| attempt.id)
            .collect();
        for id in collecting {
            self.order_collect(id, effects);
        }
    }

    fn longest_stop(&self) -> Duration {
        self.roles.iter().map(|(_, role)| role.shape.stop_backstop).max().unwrap_or_default()
    }

    /// A task that nothing waited for has ended.
    pub(super) fn stray_ended(&mut self, now: Duration, task: &TaskId) {
        for host in &mut self.hosts {
            host.stray_ended(now, task);
        }
    }

    pub(super) fn host_lost(&mut self, now: Duration, name: &Name, why: &str, effects: &mut Effects) {
        let Some(index) = self.host_index(name) else { return };
        let (running, policy) = (self.is_running(), self.reconnect);
        let host = &mut self.hosts[index];
        match host.state {
            HostState::Connecting | HostState::Leasing | HostState::Leased => {
                if !running {
                    self.abandon(index);
                } else if !host.reconnect(now, policy, effects) {
                    self.give_up(now, index, &format!("{name} is lost: {why}"), effects);
                }
            }
            HostState::Releasing => host.state = HostState::Released,
            HostState::Idle | HostState::Waiting { .. } | HostState::Released | HostState::GivenUp => {}
        }
    }

    pub(super) fn lease_refused(&mut self, now: Duration, name: &Name, why: &str, effects: &mut Effects) {
        let Some(index) = self.host_index(name) else { return };
        match self.hosts[index].state {
            HostState::Leasing | HostState::Leased if self.is_running() => {
                self.give_up(now, index, &format!("{name} is not ours: {why}"), effects);
            }
            HostState::Leasing | HostState::Leased => self.abandon(index),
            HostState::Releasing => self.hosts[index].state = HostState::Released,
            _ => {}
        }
    }

    pub(super) fn lease_released(&mut self, name: &Name) {
        if let Some(index) = self.host_index(name)
            && self.hosts[index].state == HostState::Releasing
        {
            self.hosts[index].state = HostState::Released;
        }
    }

    /// The host is not coming back in this run: what it was given moves elsewhere, or ends.
    pub(super) fn give_up(&mut self, now: Duration, index: usize, why: &str, effects: &mut Effects) {
        self.hosts[index].state = HostState::GivenUp;
        self.hosts[index].current = None;
        self.hosts[index].queue.clear();
        self.hosts[index].strays.clear();
        why.clone_into(&mut self.last_loss);
        let others = self.has_usable_host();
        let there: Vec<AttemptId> = self
            .attempts
            .values()
            .filter(|attempt| attempt.host == Some(index))
            .map(|attempt| attempt.id)
            .collect();
        for id in there {
            let Some(attempt) = self.attempts.get(&id) else { continue };
            match (&attempt.stage, attempt.origin) {
                (Stage::Storing(_), _) => {}
                (Stage::Journalling | Stage::Queued, Origin::Fresh) => {
                    self.redraws.push_back(attempt.draw);
                    self.attempts.remove(&id);
                }
                // It may have run there: its number is not used elsewhere, and its results are not thrown away
                // unless that lets the run go on.
                (Stage::Journalling | Stage::Queued, _) if !others => {
                    self.left = self.left.saturating_add(1);
                    self.leave_open(id);
                }
                _ => self.store_unfinished(now, id, Failure::host_lost(why), effects),
            }
        }
    }

    pub(super) fn timer_elapsed(&mut self, now: Duration, effects: &mut Effects) {
        for index in 0..self.hosts.len() {
            match self.hosts[index].state {
                HostState::Waiting { until } if until <= now => self.hosts[index].connect(effects),
                HostState::Leased => self.check_silence(now, index, effects),
                _ => {}
            }
        }
    }

    /// Tasks that the agent should have spoken of are taken for lost, and killed in case they are not.
    fn check_silence(&mut self, now: Duration, index: usize, effects: &mut Effects) {
        if let Some(stray) = self.hosts[index].strays.iter().find(|stray| stray.deadline <= now) {
            let why = format!("{} does not end {}", self.hosts[index].name, stray.task);
            if self.is_running() {
                self.give_up(now, index, &why, effects);
            } else {
                self.abandon(index);
            }
            return;
        }
        let Some(id) = self.hosts[index].current else { return };
        let Some(attempt) = self.attempts.get_mut(&id) else { return };
        let overdue = attempt.write_off_overdue(&self.roles, now);
        if overdue.is_empty() {
            return;
        }
        for task in overdue {
            let deadline = now.saturating_add(self.roles.role_of(task).shape.stop_backstop);
            let stray = Stray { task: self.roles.task_id(id, task), deadline, is_stored: false };
            self.hosts[index].add_stray(stray, effects);
        }
        self.advance(now, id, false, effects);
    }
}
