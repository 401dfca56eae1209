//! Connections and leases: hosts come, go, and come back.

use std::time::Duration;

use drover_model::Name;

use super::{Phase, Scheduler, Timer};
use crate::{
    Effects,
    attempt::Stage,
    host::{HostState, Stray},
    verdict::Failure,
};

/// Time after which a lease that another run has is asked for again.
const ASK_AGAIN: Duration = Duration::from_secs(2);

impl Scheduler {
    pub(super) fn host_connected(
        &mut self,
        now: Duration,
        name: &Name,
        boot_id: String,
        effects: &mut Effects,
    ) {
        let Some(index) = self.host_index(name) else { return };
        let host = &mut self.hosts[index];
        if !matches!(host.state, HostState::Connecting | HostState::Making) {
            return;
        }
        if !host.reboot.connected(now, &boot_id) {
            return self.host_lost(now, name, "it has not gone down yet", effects);
        }
        host.ask(effects);
        let intent = host.power.connected();
        let before = host.boot_id.replace(boot_id.clone()).filter(|before| *before != boot_id);
        let current = host.busy.and_then(|lane| self.lanes[lane].current);
        let adopted = host.adopted.iter().map(|(_, id)| *id);
        let there: Vec<_> = current.into_iter().chain(adopted).collect();
        if let Some(before) = before {
            for id in there {
                if let Some(attempt) = self.attempts.get_mut(&id)
                    && (attempt.stage != Stage::Preparing || attempt.is_adopted())
                {
                    attempt.fail(match &intent {
                        Some(why) => Failure::power_cycled(why),
                        None => Failure::reboot(name, &before, &boot_id),
                    });
                }
            }
        }
        self.mark_host_and_lanes(index);
    }

    pub(super) fn host_lost(&mut self, now: Duration, name: &Name, why: &str, effects: &mut Effects) {
        let Some(index) = self.host_index(name) else { return };
        match self.hosts[index].state {
            HostState::Connecting
            | HostState::Making
            | HostState::Leasing
            | HostState::Leased
            | HostState::Restoring
            | HostState::Denied { .. } => {
                if self.is_running() {
                    self.seek(now, index, why, effects);
                } else if self.is_restored_first(index) {
                    self.leave_attempts(now, index, effects);
                    self.seek(now, index, why, effects);
                } else {
                    self.abandon(now, index, effects);
                }
                self.mark_host_and_lanes(index);
            }
            HostState::Releasing => self.is_released(index),
            HostState::Idle
            | HostState::Waiting { .. }
            | HostState::Cycling
            | HostState::Released
            | HostState::GivenUp => {}
        }
    }

    /// Tries to connect again, or gives up.
    fn seek(&mut self, now: Duration, index: usize, why: &str, effects: &mut Effects) {
        let policy = self.reconnect;
        let host = &mut self.hosts[index];
        if !host.reconnect(now, policy, effects) {
            let why = host.reboot.story(&format!("{} is lost: {why}", host.name));
            let was_used = host.boot_id.is_some() || host.reboot.is_astray();
            self.lose(now, index, &why, was_used, effects);
        }
    }

    /// The power of a host was cycled, or could not be.
    pub(super) fn power_cycled(
        &mut self,
        now: Duration,
        name: &Name,
        problem: Option<String>,
        effects: &mut Effects,
    ) {
        let Some(index) = self.host_index(name) else { return };
        let host = &mut self.hosts[index];
        if host.state != HostState::Cycling {
            return;
        }
        match problem {
            None => host.power_cycled(now, effects),
            Some(problem) => {
                let why = host.power.connected().unwrap_or_default();
                let why = format!("{why}; its power could not be cycled: {problem}");
                self.give_up(now, index, &why, true, effects);
            }
        }
        self.mark_host_and_lanes(index);
    }

    /// Nothing was done with the host, or its agent says itself what is wrong: no reason to keep it from others.
    pub(super) fn host_unusable(&mut self, now: Duration, name: &Name, why: &str, effects: &mut Effects) {
        let Some(index) = self.host_index(name) else { return };
        if self.hosts[index].power.until().is_some() || self.hosts[index].reboot.until().is_some() {
            // While it boots, what it says is not its last word.
            return self.host_lost(now, name, why, effects);
        }
        match self.hosts[index].state {
            HostState::Connecting
            | HostState::Making
            | HostState::Leasing
            | HostState::Leased
            | HostState::Restoring
            | HostState::Denied { .. } => {
                let is_astray = self.is_restored_first(index);
                if self.is_running() || is_astray {
                    if !self.is_running() {
                        self.leave_attempts(now, index, effects);
                    }
                    self.give_up(now, index, &format!("{name} cannot be used: {why}"), is_astray, effects);
                } else {
                    self.abandon(now, index, effects);
                }
                self.mark_host_and_lanes(index);
            }
            HostState::Releasing => self.is_released(index),
            HostState::Idle
            | HostState::Waiting { .. }
            | HostState::Cycling
            | HostState::Released
            | HostState::GivenUp => {}
        }
    }

    pub(super) fn lease_refused(&mut self, now: Duration, name: &Name, why: &str, effects: &mut Effects) {
        let Some(index) = self.host_index(name) else { return };
        if matches!(self.hosts[index].state, HostState::Leasing | HostState::Leased | HostState::Restoring) {
            self.hosts[index].was_ours = false;
        }
        match self.hosts[index].state {
            HostState::Leasing | HostState::Leased if self.is_running() && self.wait_for_hosts => {
                self.hosts[index].state = HostState::Denied { until: now.saturating_add(ASK_AGAIN) };
                self.mark_host_and_lanes(index);
            }
            HostState::Leasing | HostState::Leased if self.is_running() => {
                self.give_up(now, index, &format!("{name} is not ours: {why}"), false, effects);
            }
            HostState::Leasing | HostState::Leased | HostState::Restoring => {
                self.abandon(now, index, effects)
            }
            HostState::Releasing => self.is_released(index),
            _ => {}
        }
    }

    pub(super) fn lease_released(&mut self, name: &Name) {
        if let Some(index) = self.host_index(name)
            && self.hosts[index].state == HostState::Releasing
        {
            self.is_released(index);
        }
    }

    fn is_released(&mut self, index: usize) {
        self.hosts[index].state = HostState::Released;
        self.settle(index);
        self.mark_host(index);
    }

    /// Takes note of a task that must end before its host is free, and kills it.
    pub(super) fn add_stray(&mut self, host: usize, stray: Stray, effects: &mut Effects) {
        self.strays.insert(stray.task.clone(), host);
        self.hosts[host].add_stray(stray, effects);
        self.mark_host(host);
    }

    /// A task that nothing waited for has ended, or will never run.
    pub(super) fn stray_ended(&mut self, now: Duration, task: &drover_model::TaskId) {
        if self.strays.is_empty() {
            return;
        }
        if let Some(host) = self.strays.remove(task) {
            self.hosts[host].stray_ended(now, task);
            self.mark_host(host);
        }
    }

    /// What of these runs on the host is not waited for any more.
    pub(super) fn drop_strays(&mut self, host: usize) {
        for stray in std::mem::take(&mut self.hosts[host].strays) {
            self.strays.remove(&stray.task);
        }
    }

    pub(super) fn timer_elapsed(&mut self, now: Duration, effects: &mut Effects) {
        while let Some((due, timer)) = self.timers.first().copied().filter(|(due, _)| *due <= now) {
            self.timers.remove(&(due, timer));
            match timer {
                Timer::Host(host) => {
                    self.hosts[host].timer = None;
                    self.host_is_due(now, host, effects);
                    self.mark_host(host);
                }
                Timer::Lane(lane) => {
                    self.lanes[lane].timer = None;
                    self.check_silence(now, lane, effects);
                    self.mark_lane(lane);
                }
            }
        }
    }

    fn host_is_due(&mut self, now: Duration, index: usize, effects: &mut Effects) {
        match self.hosts[index].state {
            HostState::Waiting { until } if until <= now => self.hosts[index].connect(effects),
            HostState::Denied { until } if until <= now => self.hosts[index].ask(effects),
            HostState::Leased => {
                let Some(stray) = self.hosts[index].strays.iter().find(|stray| stray.deadline <= now) else {
                    return;
                };
                let why = format!("{} does not end {}", self.hosts[index].name, stray.task);
                if self.phase == Phase::Running {
                    self.lose(now, index, &why, true, effects);
                } else if self.is_restored_first(index) {
                    self.leave_attempts(now, index, effects);
                    self.lose(now, index, &why, true, effects);
                } else {
                    self.abandon(now, index, effects);
                }
            }
            _ => {}
        }
    }

    /// Tasks that an agent should have spoken of are taken for lost, and killed in case they are not.
    fn check_silence(&mut self, now: Duration, lane: usize, effects: &mut Effects) {
        let Some(id) = self.lanes[lane].current else { return };
        let Some(attempt) = self.attempts.get_mut(&id) else { return };
        let site = super::site!(self, lane, now);
        attempt.give_up_barrier(site);
        let overdue = attempt.write_off_overdue(&self.roles, now, |task| site.is_held(task));
        for task in overdue {
            let deadline = now.saturating_add(self.roles.role_of(task).shape.stop_backstop);
            let stray = Stray { task: self.roles.task_id(id, task), deadline, is_stored: false };
            self.add_stray(self.lanes[lane].crew.of_task[task], stray, effects);
        }
        self.advance(now, id, false, effects);
    }
}
