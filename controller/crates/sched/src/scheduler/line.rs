//! What is begun: lanes stand in line at their hosts, and the first in line at all of them begins its next attempt, on all
//! hosts at once. Turns are numbered through, so no lane waits for ever, and none waits for another in a circle.

use std::time::Duration;

use super::{Scheduler, site};
use crate::{
    Effect, Effects,
    attempt::{Origin, Stage},
    host::HostState,
    verdict::Failure,
};

impl Scheduler {
    /// Lets a lane stand in line if it could begin an attempt, and leave if it could not.
    pub(super) fn line_up(&mut self, lane: usize) {
        let turn = self.next_turn_of(lane);
        match (self.lanes[lane].turn, turn) {
            (None, Some(turn)) => {
                self.lanes[lane].turn = Some(turn);
                for position in 0..self.lanes[lane].crew.members.len() {
                    let host = self.lanes[lane].crew.members[position];
                    self.hosts[host].line.insert((turn, lane));
                    self.mark_host(host);
                }
            }
            (Some(_), None) => self.leave_line(lane),
            _ => {}
        }
    }

    /// The turn that a lane has, or gets now. Former controllers' attempts come before all others, in the order of the
    /// journal. Once the run ends early, only those that a host knows of already are gone on with.
    fn next_turn_of(&mut self, lane: usize) -> Option<u64> {
        let entry = &self.lanes[lane];
        if entry.current.is_some() || entry.unstored.len() >= self.unstored_limit {
            return None;
        }
        let attempt = self.attempts.get(entry.queue.front()?)?;
        let may_begin = attempt.stage == Stage::Queued && (self.is_running() || attempt.is_adopted());
        let is_ours = |host: &usize| self.hosts[*host].state == HostState::Leased;
        if !may_begin || !entry.crew.members.iter().all(is_ours) {
            return None;
        }
        if attempt.is_adopted() {
            return Some(attempt.place);
        }
        Some(entry.turn.unwrap_or_else(|| {
            self.next_turn += 1;
            self.next_turn - 1
        }))
    }

    /// Takes a lane out of the line.
    pub(super) fn leave_line(&mut self, lane: usize) {
        let Some(turn) = self.lanes[lane].turn.take() else { return };
        for position in 0..self.lanes[lane].crew.members.len() {
            let host = self.lanes[lane].crew.members[position];
            self.hosts[host].line.remove(&(turn, lane));
            self.mark_host(host);
        }
    }

    /// Begins the next attempt of the lane that is first in line at this host, if it is first everywhere and all its hosts
    /// are free.
    pub(super) fn begin_at(&mut self, now: Duration, host: usize, effects: &mut Effects) {
        let Some(first) = self.hosts[host].line.first().copied() else { return };
        let (_, lane) = first;
        let entry = &self.lanes[lane];
        let Some(id) = entry.queue.front().copied() else { return };
        let Some(attempt) = self.attempts.get_mut(&id) else { return };
        let place = if attempt.is_adopted() { attempt.place } else { u64::MAX };
        let may_begin = |host: &usize| {
            let host = &self.hosts[*host];
            host.is_free()
                && host.line.first() == Some(&first)
                && host.adopted.first().is_none_or(|(adopted, _)| place <= *adopted)
        };
        if !entry.crew.members.iter().all(may_begin) {
            return;
        }
        let went_on = |host: &usize| self.hosts[*host].latest > Some(place);
        if attempt.is_adopted() && entry.crew.members.iter().any(went_on) {
            attempt.origin = Origin::Settled;
        }
        attempt.lay_out(&self.roles);
        attempt.stage = Stage::Preparing;
        attempt.begun = now;
        attempt.miss_what_was_lost(&self.roles);
        let group = &self.groups[attempt.group];
        let home = group.seats.as_ref().or_else(|| Some(&self.lanes[group.lane?].crew.seats));
        if let Some(home) = home.filter(|home| group.tie.stay && **home != entry.crew.seats) {
            attempt.fail(Failure::elsewhere(home));
        }
        let enough = self.deaths.enough(id.trial.cell).filter(|_| !attempt.is_adopted());
        if let Some(cause) = enough {
            attempt.fail(Failure::died_too_often(cause));
        }
        let seats = entry.crew.seats.clone();
        self.leave_line(lane);
        self.lanes[lane].queue.pop_front();
        self.lanes[lane].current = Some(id);
        for position in 0..self.lanes[lane].crew.members.len() {
            let host = self.lanes[lane].crew.members[position];
            self.hosts[host].busy = Some(lane);
            self.hosts[host].adopted.remove(&(place, id));
        }
        self.mark_lane(lane);
        if enough.is_some() {
            self.advance(now, id, true, effects);
        } else {
            effects.push(Effect::PrepareAttempt { attempt: id, seats });
        }
    }

    /// The current attempt of a lane does not need its hosts any more.
    pub(super) fn free_hosts(&mut self, lane: usize) {
        self.lanes[lane].current = None;
        for position in 0..self.lanes[lane].crew.members.len() {
            let host = self.lanes[lane].crew.members[position];
            if self.hosts[host].busy == Some(lane) {
                self.hosts[host].busy = None;
                self.mark_host(host);
            }
        }
        self.mark_lane(lane);
    }

    /// An attempt is not to be gone on with before others any more.
    pub(super) fn drop_adopted(&mut self, lane: usize, place: u64, id: drover_model::AttemptId) {
        for position in 0..self.lanes[lane].crew.members.len() {
            let host = self.lanes[lane].crew.members[position];
            if self.hosts[host].adopted.remove(&(place, id)) {
                self.mark_host(host);
            }
        }
    }

    /// Lets an attempt do what it can now; collects it when its tasks are over.
    pub(super) fn advance(
        &mut self,
        now: Duration,
        id: drover_model::AttemptId,
        prepared: bool,
        effects: &mut Effects,
    ) {
        let Some(attempt) = self.attempts.get_mut(&id) else { return };
        let Some(lane) = attempt.lane else { return };
        let site = site!(self, lane, now);
        if prepared {
            attempt.run(site);
        }
        if attempt.advance(site, effects) {
            attempt.ended = now;
            self.free_hosts(lane);
            self.collect(id, effects);
        }
        self.mark_lane(lane);
    }
}
