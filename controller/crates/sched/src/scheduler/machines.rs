//! Machines that are made for an attempt: another kernel, other CPUs. The attempt is in the journal and waits to be prepared;
//! that is the recorded intent to boot, so that the new boot is none that nobody asked for. And machines that die.

use std::time::Duration;

use drover_model::{AttemptId, Name, Verdict};

use super::Scheduler;
use crate::{
    Effect, Effects,
    attempt::{Attempt, Stage},
    host::HostState,
    verdict::{Failure, Rank},
};

impl Scheduler {
    /// These hosts of an attempt that waits to be prepared are other machines than its cell asks for.
    pub(super) fn machines_needed(
        &mut self,
        now: Duration,
        id: AttemptId,
        hosts: &[Name],
        effects: &mut Effects,
    ) {
        let hosts: Vec<usize> = hosts.iter().filter_map(|host| self.host_index(host)).collect();
        let running = self.is_running();
        let Some(attempt) = self.waiting(id, Stage::Preparing) else { return };
        if attempt.is_adopted() {
            attempt.fail(Failure::agent_lost("the attempt", "its host is another machine by now"));
        } else if !running {
            attempt.cancel();
        }
        if attempt.is_decided() {
            self.advance(now, id, true, effects);
        } else {
            attempt.machines = hosts;
            self.make_machines(id, effects);
        }
    }

    /// Has the machines made that an attempt needs, once all is stored that those have which they are now: their agents forget
    /// it with the boot, and a controller that is killed before would find it nowhere.
    pub(super) fn make_machines(&mut self, id: AttemptId, effects: &mut Effects) {
        let Some(attempt) = self.waiting(id, Stage::Preparing) else { return };
        let hosts = std::mem::take(&mut attempt.machines);
        if hosts.iter().any(|host| self.has_unstored(*host)) {
            self.attempts.get_mut(&id).into_iter().for_each(|attempt| attempt.machines = hosts.clone());
            return;
        }
        for host in hosts {
            self.hosts[host].state = HostState::Making;
            self.hosts[host].reboot.leave();
            effects.push(Effect::MakeMachine { host: self.hosts[host].name.clone(), attempt: id });
            self.mark_host_and_lanes(host);
        }
    }

    /// Whether an attempt that is over on the host is not stored yet.
    fn has_unstored(&self, host: usize) -> bool {
        let unstored = self.hosts[host].lanes.iter().flat_map(|lane| &self.lanes[*lane].unstored);
        let mut open = unstored.filter_map(|id| self.attempts.get(id));
        open.any(Attempt::is_over)
    }

    /// An attempt of this lane is stored: whoever waited for its machines can have them.
    pub(super) fn let_machines_be_made(&mut self, lane: usize, effects: &mut Effects) {
        for position in 0..self.lanes[lane].crew.members.len() {
            let host = self.lanes[lane].crew.members[position];
            let next = self.hosts[host].busy.and_then(|lane| self.lanes[lane].current);
            let waits = |id: &AttemptId| self.attempts.get(id).is_some_and(|next| !next.machines.is_empty());
            if let Some(next) = next.filter(waits) {
                self.make_machines(next, effects);
            }
        }
    }

    /// The machine cannot be had. The host is connected to as what it can be.
    pub(super) fn machine_refused(
        &mut self,
        now: Duration,
        name: &Name,
        id: AttemptId,
        verdict: Verdict,
        effects: &mut Effects,
    ) {
        let Some(index) = self.host_index(name) else { return };
        if self.hosts[index].state != HostState::Making {
            return;
        }
        if self.is_running() || self.is_restored_first(index) {
            self.hosts[index].connect(effects);
        } else {
            self.abandon(now, index, effects);
        }
        self.mark_host_and_lanes(index);
        if let Some(attempt) = self.attempts.get_mut(&id)
            && attempt.stage == Stage::Preparing
            && !attempt.is_adopted()
        {
            attempt.machines.clear();
            attempt.fail(Failure { rank: Rank::WrongCpus, verdict });
            // Nothing was sent yet, so there is no need to wait for the host.
            self.advance(now, id, true, effects);
        }
    }

    /// The host goes down, as it was asked to.
    pub(super) fn host_rebooting(&mut self, now: Duration, name: &Name) {
        let Some(index) = self.host_index(name) else { return };
        let policy = self.reconnect;
        let host = &mut self.hosts[index];
        if matches!(host.state, HostState::Making | HostState::Restoring) {
            host.rebooting(now, policy);
            self.mark_host_and_lanes(index);
        }
    }

    /// The machine that a host was has died; the news that it is lost, or back as another one, comes after this.
    pub(super) fn host_died(&mut self, name: &Name, verdict: &Verdict) {
        let Some(index) = self.host_index(name) else { return };
        let lanes = self.hosts[index].lanes.iter();
        let open: Vec<AttemptId> = lanes
            .flat_map(|lane| {
                let lane = &self.lanes[*lane];
                lane.current.iter().chain(&lane.unstored).copied().collect::<Vec<_>>()
            })
            .collect();
        for id in open {
            if let Some(attempt) = self.attempts.get_mut(&id)
                && matches!(attempt.stage, Stage::Running | Stage::Stopping | Stage::Collecting)
            {
                attempt.fail(Failure { rank: Rank::Died, verdict: verdict.clone() });
            }
        }
    }
}
