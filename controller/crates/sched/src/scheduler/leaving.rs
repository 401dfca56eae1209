//! Hosts that are given back when everything is done. One that the run may have booted as another machine is made what it was first,
//! and waited for; a user who is in a hurry (the second interruption) does not wait.

use std::time::Duration;

use drover_model::Name;

use super::{Phase, Scheduler};
use crate::{Effect, Effects, host::HostState};

/// Interruptions after which nothing is waited for.
const HURRY: u32 = 2;

impl Scheduler {
    /// Whether a host is not given back, nor let go of, before it is what it was.
    pub(super) fn is_restored_first(&self, index: usize) -> bool {
        self.hosts[index].reboot.is_astray() && self.interruptions < HURRY
    }

    /// Gives all hosts back that are ours, and waits for those that are to be what they were.
    pub(super) fn give_hosts_back(&mut self, effects: &mut Effects) {
        for index in 0..self.hosts.len() {
            match self.hosts[index].state {
                HostState::Leased => self.give_host_back(index, effects),
                HostState::Releasing | HostState::Restoring | HostState::Released | HostState::GivenUp => {}
                HostState::Idle
                | HostState::Connecting
                | HostState::Making
                | HostState::Leasing
                | HostState::Waiting { .. }
                | HostState::Cycling
                | HostState::Denied { .. } => {
                    if self.is_restored_first(index) {
                        self.wait_for(index);
                        self.hosts[index].wake(effects);
                    } else {
                        self.hosts[index].state = HostState::Released;
                    }
                }
            }
            self.set_host_timer(index);
        }
    }

    fn give_host_back(&mut self, index: usize, effects: &mut Effects) {
        self.wait_for(index);
        let is_restored_first = self.is_restored_first(index);
        let host = &mut self.hosts[index];
        host.forget_all(effects);
        if is_restored_first {
            host.state = HostState::Restoring;
            effects.push(Effect::RestoreMachine { host: host.name.clone() });
        } else {
            host.release(effects);
        }
    }

    /// A host that became ours after everything was done.
    pub(super) fn give_back_late(&mut self, index: usize, effects: &mut Effects) {
        let host = &self.hosts[index];
        let is_closing = matches!(self.phase, Phase::Closing(_));
        if is_closing && host.state == HostState::Leased && host.strays.is_empty() {
            self.give_host_back(index, effects);
        }
    }

    /// The host is what it was before the run, or cannot be made that: nobody should use it then.
    pub(super) fn machine_restored(&mut self, name: &Name, problem: Option<String>, effects: &mut Effects) {
        let Some(index) = self.host_index(name) else { return };
        let host = &mut self.hosts[index];
        if host.state != HostState::Restoring {
            return;
        }
        host.reboot.settled();
        if let Some(why) = problem {
            effects.push(Effect::QuarantineHost { host: name.clone(), why });
        }
        host.release(effects);
        self.mark_host(index);
    }

    /// The user does not want to wait any longer for hosts to be what they were.
    pub(super) fn hurry(&mut self, now: Duration, effects: &mut Effects) {
        if self.interruptions < HURRY {
            return;
        }
        for index in 0..self.hosts.len() {
            if !self.hosts[index].is_awaited {
                continue;
            }
            match self.hosts[index].state {
                HostState::Leased | HostState::Restoring => {
                    self.hosts[index].release(effects);
                    self.mark_host(index);
                }
                HostState::Releasing => {}
                _ => self.abandon(now, index, effects),
            }
        }
    }

    fn wait_for(&mut self, index: usize) {
        if !std::mem::replace(&mut self.hosts[index].is_awaited, true) {
            self.awaited += 1;
        }
    }

    /// The end of the run does not wait for this host any more.
    pub(super) fn settle(&mut self, index: usize) {
        if std::mem::take(&mut self.hosts[index].is_awaited) {
            self.awaited = self.awaited.saturating_sub(1);
        }
    }
}
