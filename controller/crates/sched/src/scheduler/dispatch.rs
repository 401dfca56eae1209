//! What is drawn and journalled: looked at after every event, for the lanes that it touched.

use std::{sync::Arc, time::Duration};

use drover_model::{AttemptId, MissingCause, Seats, Verdict};

use super::Scheduler;
use crate::{
    Effect, Effects,
    attempt::{Attempt, Origin, Stage, Storing},
    lane::LaneKind,
    past::Draw,
};

/// Attempts that are journalled ahead on all lanes together, about.
const JOURNALLED_AHEAD: usize = 100_000;

impl Scheduler {
    /// Draws, journals and begins whatever can be; ends the run when nothing is left.
    pub(super) fn dispatch(&mut self, now: Duration, effects: &mut Effects) {
        loop {
            let lanes = std::mem::take(&mut self.marked_lanes);
            for lane in &lanes {
                self.lanes[*lane].is_marked = false;
            }
            if self.is_running() {
                for lane in &lanes {
                    self.top_up(*lane, effects);
                }
                self.seat_groups();
                self.serve_common(effects);
                self.report_unavailable(now, effects);
            }
            for lane in &lanes {
                self.line_up(*lane);
                self.set_lane_timer(*lane);
                self.clear_lane(*lane);
            }
            for host in std::mem::take(&mut self.marked_hosts) {
                self.hosts[host].is_marked = false;
                self.give_back_late(host, effects);
                self.set_host_timer(host);
                self.begin_at(now, host, effects);
            }
            if self.marked_lanes.is_empty()
                && self.marked_hosts.is_empty()
                && !(self.reseat && self.is_running())
            {
                break;
            }
        }
        self.finish_if_done(effects);
    }

    /// Attempts that one lane has journalled ahead.
    fn window(&self) -> usize {
        let lanes = self.lanes.len() - self.vacant.len();
        self.journal_window.min(JOURNALLED_AHEAD / lanes.max(1)).max(1)
    }

    /// Draws attempts for a lane whose queue runs low, and journals them.
    fn top_up(&mut self, lane: usize, effects: &mut Effects) {
        let window = self.window();
        if !self.lanes[lane].is_live {
            return;
        }
        if self.lanes[lane].queue.len() <= window / 2 {
            let mut entries = Vec::new();
            while self.lanes[lane].queue.len() < window {
                let Some((group, draw)) = self.draw_for(lane) else { break };
                entries.push(self.enqueue(lane, group, draw, false));
            }
            self.journal(lane, entries, effects);
        }
        self.detach_done(lane);
        let entry = &self.lanes[lane];
        let is_hungry = entry.is_hungry();
        if is_hungry && entry.kind == LaneKind::Common {
            self.hungry.insert(lane);
        } else {
            self.hungry.remove(&lane);
        }
        if is_hungry && self.lanes[lane].is_empty() && self.lanes[lane].groups.is_empty() {
            if self.spent.insert(lane) {
                self.is_full = false;
                self.reseat |= !self.waiting.is_empty();
            }
        } else {
            self.spent.remove(&lane);
        }
        self.note_movable(lane);
    }

    /// Lets go of groups that are worked off.
    fn detach_done(&mut self, lane: usize) {
        let groups = &mut self.groups;
        self.lanes[lane].groups.retain(|group| {
            let group = &mut groups[*group];
            let is_done = group.is_drained() && group.open == 0;
            if is_done {
                group.lane = None;
            }
            !is_done
        });
    }

    fn journal(&mut self, lane: usize, entries: Vec<AttemptId>, effects: &mut Effects) {
        if entries.is_empty() {
            return;
        }
        self.wake(lane, effects);
        let seats = &self.lanes[lane].crew.seats;
        let attempts = entries.into_iter().map(|id| (id, Arc::clone(seats))).collect();
        effects.push(Effect::JournalAttempts { attempts });
    }

    fn enqueue(&mut self, lane: usize, group: usize, draw: Draw, moved: bool) -> AttemptId {
        let id = AttemptId { run: self.run, trial: draw.trial, number: draw.number };
        let mut attempt = Attempt::new(id, draw, group, Origin::Fresh, Stage::Journalling);
        (attempt.lane, attempt.moved) = (Some(lane), moved);
        self.attempts.insert(attempt);
        self.groups[group].open += 1;
        self.lanes[lane].push(id);
        id
    }

    /// The next attempt for a lane: of the groups that it has, of one that it takes on, or of those that run anywhere.
    fn draw_for(&mut self, lane: usize) -> Option<(usize, Draw)> {
        let mut position = 0;
        while let Some(group) = self.lanes[lane].groups.get(position).copied() {
            let entry = &mut self.groups[group];
            if let Some(draw) = entry.draw(&self.past) {
                return Some((group, draw));
            }
            position += 1;
        }
        while let Some(group) = self.next_group(lane) {
            if let Some(draw) = self.groups[group].draw(&self.past) {
                return Some((group, draw));
            }
        }
        let common = self.common.filter(|_| self.lanes[lane].kind == LaneKind::Common)?;
        Some((common, self.groups[common].draw(&self.past)?))
    }

    /// Gives lanes without work, and hosts without a lane, trials that may run anywhere: new ones, or half of what waits
    /// longest elsewhere and was sent nowhere.
    fn serve_common(&mut self, effects: &mut Effects) {
        let Some(common) = self.common else { return };
        loop {
            let is_left = self.groups[common].stranded.is_none() && self.groups[common].has_draw(&self.past);
            if !is_left && self.longest.last().is_none_or(|(movable, _)| *movable < 2) {
                return;
            }
            let lane = match self.hungry.pop_first() {
                Some(lane) => lane,
                None if self.is_full => return,
                None => match self.choose_unused(LaneKind::Common) {
                    Some(lane) => lane,
                    None => {
                        self.is_full = true;
                        if is_left && self.common_lanes == 0 && !self.can_be_seated(common) {
                            self.strand(common);
                        }
                        return;
                    }
                },
            };
            let (draws, moved) =
                if is_left { (self.draw_some(common), false) } else { (self.take_from_longest(), true) };
            let entries = draws.into_iter().map(|draw| self.enqueue(lane, common, draw, moved)).collect();
            self.journal(lane, entries, effects);
            self.mark_lane(lane);
        }
    }

    fn draw_some(&mut self, group: usize) -> Vec<Draw> {
        let window = self.window();
        std::iter::from_fn(|| self.groups[group].draw(&self.past)).take(window).collect()
    }

    /// Half of what may go elsewhere, and was sent nowhere, from the lane that has most of that.
    fn take_from_longest(&mut self) -> Vec<Draw> {
        let Some((movable, std::cmp::Reverse(lane))) = self.longest.last().copied() else {
            return Vec::new();
        };
        let mut taken = Vec::new();
        for _ in 0..movable / 2 {
            let Some(id) = self.lanes[lane].queue.pop_back() else { break };
            taken.extend(self.forget_attempt(id).map(|attempt| attempt.draw));
        }
        taken.reverse();
        self.lanes[lane].is_reordered = true;
        self.note_movable(lane);
        self.mark_lane(lane);
        taken
    }

    /// Removes an attempt from the open ones.
    pub(super) fn forget_attempt(&mut self, id: AttemptId) -> Option<Attempt> {
        let attempt = self.attempts.remove(&id)?;
        let group = &mut self.groups[attempt.group];
        group.open = group.open.saturating_sub(1);
        if let Some(lane) = group.lane.filter(|_| group.open == 0) {
            self.mark_lane(lane);
        }
        Some(attempt)
    }

    /// The journal holds these attempts. An answer for other seats than the present ones is stale.
    pub(super) fn attempts_journalled(&mut self, entries: &[(AttemptId, Arc<Seats>)]) {
        for (id, seats) in entries {
            if let Some(attempt) = self.attempts.get_mut(id)
                && attempt.stage == Stage::Journalling
                && let Some(lane) = attempt.lane
                && self.lanes[lane].crew.seats == *seats
            {
                attempt.stage = Stage::Queued;
                self.lanes[lane].is_reordered = true;
                self.mark_lane(lane);
            }
        }
    }

    /// No hosts are left for some trials: each that was never tried gets a verdict that says so and is not final, so that a
    /// later controller can still run it. One that has a verdict, if not a final one, keeps that.
    fn report_unavailable(&mut self, now: Duration, effects: &mut Effects) {
        while let Some(group) = self.stranded.front().copied() {
            if self.unseated.len() >= self.unstored_limit {
                return;
            }
            let Some(draw) = self.groups[group].draw(&self.past) else {
                self.groups[group].waits = false;
                self.stranded.pop_front();
                continue;
            };
            if draw.number > 1 {
                self.left = self.left.saturating_add(1);
                continue;
            }
            let detail = self.groups[group].stranded.clone().unwrap_or_default();
            let verdict = Verdict::Missing { cause: MissingCause::HostUnavailable, detail };
            let storing = Storing { next: self.next_draw(draw, &verdict), verdict, with_outputs: true };
            let id = AttemptId { run: self.run, trial: draw.trial, number: draw.number };
            let mut attempt = Attempt::new(id, draw, group, Origin::Fresh, Stage::Queued);
            (attempt.begun, attempt.ended) = (now, now);
            self.attempts.insert(attempt);
            self.groups[group].open += 1;
            self.unseated.insert(id);
            self.order_store(id, storing, effects);
        }
    }
}
