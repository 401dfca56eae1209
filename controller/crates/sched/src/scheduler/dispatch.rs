//! What is drawn, journalled and begun: looked at after every event.

use std::time::Duration;

use drover_model::{AttemptId, MissingCause, Verdict};

use super::{Phase, Scheduler};
use crate::{
    Effect, Effects,
    attempt::{Attempt, Origin, Stage, Storing},
    past::Draw,
    verdict::Failure,
};

impl Scheduler {
    /// The run is in the store: sees to the attempts of former controllers.
    pub(super) fn open(&mut self, now: Duration, effects: &mut Effects) {
        self.phase = Phase::Running;
        for host in self.hosts.iter_mut().filter(|host| !host.queue.is_empty()) {
            host.wake(effects);
        }
        let homeless: Vec<AttemptId> = self
            .attempts
            .values()
            .filter(|attempt| attempt.host.is_none())
            .map(|attempt| attempt.id)
            .collect();
        for id in homeless {
            self.store_unfinished(now, id, Failure::host_lost("it is not among the hosts any more"), effects);
        }
    }

    /// Draws, journals and begins whatever can be; ends the run when nothing is left.
    pub(super) fn dispatch(&mut self, now: Duration, effects: &mut Effects) {
        if self.is_running() {
            if self.has_usable_host() {
                for host in 0..self.hosts.len() {
                    self.top_up(host, effects);
                }
            } else {
                self.report_unavailable(now, effects);
            }
        }
        for host in 0..self.hosts.len() {
            self.begin_next(now, host, effects);
        }
        self.finish_if_done(effects);
    }

    /// Draws attempts for a host whose queue runs low, and journals them.
    fn top_up(&mut self, host: usize, effects: &mut Effects) {
        if !self.hosts[host].is_usable() || self.hosts[host].queue.len() > self.journal_window / 2 {
            return;
        }
        let mut entries = Vec::new();
        while self.hosts[host].queue.len() < self.journal_window {
            let Some(draw) = self.draw() else { break };
            entries.push(self.enqueue(host, draw));
        }
        if self.hosts[host].queue.is_empty() && self.hosts[host].current.is_none() {
            for draw in self.take_from_longest_queue() {
                entries.push(self.enqueue(host, draw));
            }
        }
        if !entries.is_empty() {
            self.hosts[host].wake(effects);
            let name = &self.hosts[host].name;
            let attempts = entries.into_iter().map(|id| (id, name.clone())).collect();
            effects.push(Effect::JournalAttempts { attempts });
        }
    }

    fn enqueue(&mut self, host: usize, draw: Draw) -> AttemptId {
        let id = AttemptId { run: self.run, trial: draw.trial, number: draw.number };
        self.attempts.insert(id, Attempt::new(id, draw, Some(host), Origin::Fresh, Stage::Journalling));
        self.hosts[host].queue.push_back(id);
        id
    }

    /// The next attempt to make, if any is left.
    fn draw(&mut self) -> Option<Draw> {
        if let Some(draw) = self.redraws.pop_front() {
            return Some(draw);
        }
        while !self.exhausted {
            match self.order.next() {
                Some(trial) => {
                    if let Some(draw) = self.past.draw(trial) {
                        return Some(draw);
                    }
                }
                None => self.exhausted = true,
            }
        }
        None
    }

    /// For a host that has nothing to do: half of what waits longest elsewhere and was sent nowhere.
    fn take_from_longest_queue(&mut self) -> Vec<Draw> {
        let Some(longest) = (0..self.hosts.len()).max_by_key(|host| self.hosts[*host].queue.len()) else {
            return Vec::new();
        };
        let mut taken = Vec::new();
        for _ in 0..self.hosts[longest].queue.len() / 2 {
            let Some(id) = self.hosts[longest].queue.back().copied() else { break };
            let movable = self
                .attempts
                .get(&id)
                .filter(|attempt| attempt.stage == Stage::Queued && attempt.origin == Origin::Fresh);
            let Some(draw) = movable.map(|attempt| attempt.draw) else { break };
            self.hosts[longest].queue.pop_back();
            self.attempts.remove(&id);
            taken.push(draw);
        }
        taken.reverse();
        taken
    }

    /// The journal holds these attempts. An answer for another host than the present one is stale.
    pub(super) fn attempts_journalled(&mut self, entries: &[(AttemptId, drover_model::Name)]) {
        for (id, host) in entries {
            let host = self.host_index(host);
            if let Some(attempt) = self.attempts.get_mut(id)
                && attempt.stage == Stage::Journalling
                && attempt.host == host
            {
                attempt.stage = Stage::Queued;
            }
        }
    }

    /// Begins the first attempt of a free host's queue. Once the run ends early, only those that the host knows of
    /// already are gone on with.
    fn begin_next(&mut self, now: Duration, host: usize, effects: &mut Effects) {
        if !self.hosts[host].is_free() || self.unstored >= self.unstored_limit {
            return;
        }
        let running = self.is_running();
        let Some(id) = self.hosts[host].queue.front().copied() else { return };
        let Some(attempt) = self.attempts.get_mut(&id) else { return };
        if attempt.stage != Stage::Queued || !(running || attempt.is_adopted()) {
            return;
        }
        attempt.lay_out(&self.roles);
        attempt.stage = Stage::Preparing;
        attempt.begun = now;
        let host = &mut self.hosts[host];
        host.queue.pop_front();
        host.current = Some(id);
        effects.push(Effect::PrepareAttempt { attempt: id, host: host.name.clone() });
    }

    /// No host is left: every trial that was never tried gets a verdict that says so and is not final, so that a later
    /// controller can still run it. One that has a verdict, if not a final one, keeps that.
    fn report_unavailable(&mut self, now: Duration, effects: &mut Effects) {
        while self.unstored < self.unstored_limit {
            let Some(draw) = self.draw() else { return };
            if draw.number > 1 {
                self.left = self.left.saturating_add(1);
                continue;
            }
            let verdict =
                Verdict::Missing { cause: MissingCause::HostUnavailable, detail: self.last_loss.clone() };
            let storing = Storing { next: self.next_draw(draw, &verdict), verdict, with_outputs: true };
            let id = AttemptId { run: self.run, trial: draw.trial, number: draw.number };
            let mut attempt = Attempt::new(id, draw, None, Origin::Fresh, Stage::Queued);
            attempt.begun = now;
            attempt.ended = now;
            self.attempts.insert(id, attempt);
            self.unstored += 1;
            self.order_store(id, storing, effects);
        }
    }

    /// Every way in which work can be left is exhausted.
    pub(super) fn is_drained(&self) -> bool {
        self.exhausted && self.redraws.is_empty()
    }

    /// Whether any host may still take work.
    pub(super) fn has_usable_host(&self) -> bool {
        self.hosts.iter().any(|host| host.is_usable())
    }
}
