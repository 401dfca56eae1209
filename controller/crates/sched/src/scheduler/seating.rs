//! Which lanes there are: groups are given hosts, lanes are made, and dissolved.

use std::{cmp::Reverse, sync::Arc, time::Duration};

use super::{Scheduler, Timer};
use crate::{
    Effects,
    crew::Crew,
    lane::{Lane, LaneKind},
    pack::From,
};

impl Scheduler {
    /// Makes a lane of these hosts.
    pub(super) fn add_lane(&mut self, crew: Crew, kind: LaneKind) -> usize {
        let crew = Arc::new(crew);
        let index = self.vacant.pop().unwrap_or(self.lanes.len());
        for host in &crew.members {
            self.hosts[*host].lanes.insert(index);
            self.stock.weigh(&self.rules, *host, true);
        }
        self.lane_by_seats.insert(Arc::clone(&crew.seats), index);
        self.common_lanes += usize::from(kind == LaneKind::Common);
        let lane = Lane::new(crew, kind);
        match self.lanes.get_mut(index) {
            Some(vacant) => *vacant = lane,
            None => self.lanes.push(lane),
        }
        self.mark_lane(index);
        index
    }

    /// A lane of hosts chosen by the rules; the one that there is if it has the very same seats.
    fn choose_lane(&mut self, from: From, kind: LaneKind) -> Option<usize> {
        let pin = if let LaneKind::Pinned(host) = kind { Some(host) } else { None };
        let by_role = self.rules.choose(&self.stock, from, pin).ok()?;
        let crew = Crew::new(&self.roles, &by_role, |host| self.hosts[host].name.clone());
        let present = self.lane_by_seats.get(&crew.seats).copied();
        Some(present.unwrap_or_else(|| self.add_lane(crew, kind)))
    }

    /// Whether hosts can be had for the trials of a group, now or when others are done with them.
    pub(super) fn can_be_seated(&self, group: usize) -> bool {
        let group = &self.groups[group];
        match &group.seats {
            Some(seats) => Crew::of_seats(&self.roles, &self.host_by_name, seats)
                .is_some_and(|crew| self.stock.has_all(&crew.members)),
            None => self.rules.choose(&self.stock, From::All, group.tie.host).is_ok(),
        }
    }

    /// Works a group off on a lane.
    pub(super) fn attach(&mut self, group: usize, lane: usize) {
        if self.groups[group].lane != Some(lane) {
            self.groups[group].lane = Some(lane);
            self.lanes[lane].groups.push(group);
            self.spent.remove(&lane);
        }
    }

    /// Lets a group without a lane wait for one; `first`: before others.
    pub(super) fn unseat(&mut self, group: usize, first: bool) {
        let entry = &mut self.groups[group];
        entry.lane = None;
        if entry.waits || (entry.is_common() && entry.stranded.is_none()) {
            return;
        }
        entry.waits = true;
        self.reseat = true;
        let list = if entry.stranded.is_some() {
            &mut self.stranded
        } else if entry.seats.is_some() {
            &mut self.waiting_bound
        } else if let Some(host) = entry.tie.host {
            self.waiting_by_host.entry(host).or_default()
        } else {
            &mut self.waiting
        };
        if first {
            list.push_front(group);
        } else {
            list.push_back(group);
        }
    }

    /// No hosts can be had for a group any more.
    pub(super) fn strand(&mut self, group: usize) {
        let why = match &self.groups[group].seats {
            Some(seats) if self.last_loss.is_empty() => {
                format!("{seats}: not all of these are hosts of this run")
            }
            _ => self.last_loss.clone(),
        };
        self.groups[group].stranded = Some(why);
        self.groups[group].waits = true;
        self.stranded.push_back(group);
    }

    /// Makes connections to the hosts of a lane that has something to do.
    pub(super) fn wake(&mut self, lane: usize, effects: &mut Effects) {
        for host in &self.lanes[lane].crew.members {
            self.hosts[*host].wake(effects);
        }
    }

    /// Gives waiting groups lanes, as far as there are hosts.
    pub(super) fn seat_groups(&mut self) {
        if !std::mem::take(&mut self.reseat) {
            return;
        }
        while let Some(group) = self.waiting_bound.pop_front() {
            self.seat_bound(group);
        }
        for host in self.waiting_by_host.keys().copied().collect::<Vec<_>>() {
            self.seat_pinned(host);
        }
        while let Some(group) = self.waiting.front().copied() {
            if self.groups[group].seats.is_some() {
                self.waiting.pop_front();
                self.seat_bound(group);
            } else if !self.groups[group].has_draw(&self.past) {
                self.waiting.pop_front();
                self.groups[group].waits = false;
            } else if let Some(lane) = self.choose_unused(LaneKind::Staying) {
                self.waiting.pop_front();
                self.groups[group].waits = false;
                self.attach(group, lane);
                self.mark_lane(lane);
            } else if self.can_be_seated(group) {
                break;
            } else {
                self.waiting.pop_front();
                self.strand(group);
            }
        }
    }

    /// A lane of hosts that no lane with work uses.
    pub(super) fn choose_unused(&mut self, kind: LaneKind) -> Option<usize> {
        if let Some(lane) = self.choose_lane(From::Unused, kind) {
            return Some(lane);
        }
        let spent = std::mem::take(&mut self.spent);
        if spent.is_empty() {
            return None;
        }
        for lane in spent {
            self.dissolve(lane);
        }
        self.choose_lane(From::Unused, kind)
    }

    /// Gives a group the lane that it is bound to, whoever else uses its hosts.
    fn seat_bound(&mut self, group: usize) {
        self.groups[group].waits = false;
        if !self.groups[group].has_draw(&self.past) {
            return;
        }
        let Some(seats) = self.groups[group].seats.clone() else { return };
        let crew = Crew::of_seats(&self.roles, &self.host_by_name, &seats);
        match crew.filter(|crew| self.stock.has_all(&crew.members)) {
            Some(crew) => {
                let present = self.lane_by_seats.get(&seats).copied();
                let lane = present.unwrap_or_else(|| self.add_lane(crew, LaneKind::Bound));
                self.attach(group, lane);
                self.mark_lane(lane);
            }
            None => self.strand(group),
        }
    }

    /// Gives the groups with this host a lane, if they have none.
    fn seat_pinned(&mut self, host: usize) {
        let on_it =
            |lane: &usize| self.lanes[*lane].is_live && self.lanes[*lane].kind == LaneKind::Pinned(host);
        let present = self.hosts[host].lanes.iter().copied().find(on_it);
        let lane = present.or_else(|| self.choose_lane(From::All, LaneKind::Pinned(host)));
        match lane.map(|lane| (lane, self.lanes[lane].kind)) {
            // It takes the first of them when it looks for work.
            Some((lane, LaneKind::Pinned(_))) => self.mark_lane(lane),
            Some((lane, _)) => {
                for group in self.waiting_by_host.remove(&host).unwrap_or_default() {
                    self.groups[group].waits = false;
                    self.attach(group, lane);
                }
                self.mark_lane(lane);
            }
            None => {
                for group in self.waiting_by_host.remove(&host).unwrap_or_default() {
                    self.strand(group);
                }
            }
        }
    }

    /// The next group for a lane that has nothing to do.
    pub(super) fn next_group(&mut self, lane: usize) -> Option<usize> {
        let group = match self.lanes[lane].kind {
            LaneKind::Staying => self.waiting.pop_front(),
            LaneKind::Pinned(host) => {
                let waiting = self.waiting_by_host.get_mut(&host)?;
                let group = waiting.pop_front();
                if waiting.is_empty() {
                    self.waiting_by_host.remove(&host);
                }
                group
            }
            LaneKind::Common | LaneKind::Bound => None,
        }?;
        self.groups[group].waits = false;
        if self.groups[group].seats.is_some() {
            self.unseat(group, true);
            return None;
        }
        self.attach(group, lane);
        Some(group)
    }

    /// The lane takes no attempts any more; its hosts are free for others. What is not stored yet stays with it until it is.
    pub(super) fn dissolve(&mut self, lane: usize) {
        if !std::mem::replace(&mut self.lanes[lane].is_live, false) {
            return;
        }
        let crew = Arc::clone(&self.lanes[lane].crew);
        for host in &crew.members {
            self.stock.weigh(&self.rules, *host, false);
        }
        self.lane_by_seats.remove(&crew.seats);
        self.common_lanes -= usize::from(self.lanes[lane].kind == LaneKind::Common);
        self.hungry.remove(&lane);
        self.spent.remove(&lane);
        self.note_movable(lane);
        for group in std::mem::take(&mut self.lanes[lane].groups).into_iter().rev() {
            self.unseat(group, true);
        }
        self.reseat = true;
        self.is_full = false;
        self.mark_lane(lane);
    }

    /// Removes a lane that takes no attempts and has none left.
    pub(super) fn clear_lane(&mut self, lane: usize) {
        let entry = &self.lanes[lane];
        if entry.is_live || entry.is_vacant || !entry.is_empty() {
            return;
        }
        let crew = Arc::clone(&entry.crew);
        for host in &crew.members {
            self.hosts[*host].lanes.remove(&lane);
        }
        self.lanes[lane].is_vacant = true;
        self.vacant.push(lane);
    }

    /// Keeps the list of lanes that others may take attempts from.
    pub(super) fn note_movable(&mut self, lane: usize) {
        let entry = &self.lanes[lane];
        if entry.kind != LaneKind::Common {
            return;
        }
        let is_movable = |id: &drover_model::AttemptId| {
            self.attempts.get(id).is_some_and(crate::attempt::Attempt::is_movable)
        };
        let movable = match (entry.is_live, entry.is_reordered) {
            (false, _) => 0,
            (true, true) => entry.queue.iter().rev().take_while(|id| is_movable(id)).count(),
            (true, false) => entry.movable.min(entry.queue.len()),
        };
        self.lanes[lane].is_reordered = false;
        let entry = &self.lanes[lane];
        if movable != entry.movable {
            self.longest.remove(&(entry.movable, Reverse(lane)));
            if movable > 0 {
                self.longest.insert((movable, Reverse(lane)));
            }
            self.lanes[lane].movable = movable;
        }
    }

    /// Keeps the list of what is due when.
    pub(super) fn set_lane_timer(&mut self, lane: usize) {
        let entry = &self.lanes[lane];
        let heard =
            |task: usize| self.hosts[entry.crew.of_task[task]].state == crate::host::HostState::Leased;
        let current = entry.current.and_then(|id| self.attempts.get(&id));
        let due = current.and_then(|attempt| attempt.next_deadline(heard)).filter(|due| *due < Duration::MAX);
        let before = std::mem::replace(&mut self.lanes[lane].timer, due);
        self.change_timer(Timer::Lane(lane), before, due);
    }

    pub(super) fn set_host_timer(&mut self, host: usize) {
        let due = self.hosts[host].next_deadline();
        let before = std::mem::replace(&mut self.hosts[host].timer, due);
        self.change_timer(Timer::Host(host), before, due);
    }

    fn change_timer(&mut self, timer: Timer, before: Option<Duration>, due: Option<Duration>) {
        if before != due {
            if let Some(before) = before {
                self.timers.remove(&(before, timer));
            }
            if let Some(due) = due {
                self.timers.insert((due, timer));
            }
        }
    }
}
