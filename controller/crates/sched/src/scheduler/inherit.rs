//! The start of a run: its groups, and what former controllers left of them.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use drover_model::{AttemptId, Seats, TrialId};

use super::{Phase, Scheduler};
use crate::{
    Effects, Group, Order, PlanError, RoleShape,
    attempt::{Attempt, Origin, Stage},
    crew::Crew,
    group::{Tie, Trials},
    lane::LaneKind,
    pack::From,
    past::Draw,
    verdict::Failure,
};

impl Scheduler {
    /// Takes up the groups of the plan; those whose trials may run anywhere become one. Makes sure that each can be given
    /// hosts.
    pub(super) fn take_groups(&mut self, groups: Vec<Group>, shapes: &[RoleShape]) -> Result<(), PlanError> {
        let no_seats =
            |(role, why): (usize, String)| PlanError::NoSeats { role: shapes[role].name.clone(), why };
        let mut common: Vec<Order> = Vec::new();
        for group in groups {
            if let Some(host) = group.host.filter(|host| *host >= self.hosts.len()) {
                let why = format!("its group has host number {host}, and the plan has {}", self.hosts.len());
                return Err(no_seats((0, why)));
            }
            let tie = Tie { stay: group.stay, host: group.host.filter(|_| self.rules.has_pinned()) };
            self.rules.choose(&self.stock, From::All, tie.host).map_err(no_seats)?;
            if tie.stay || tie.host.is_some() {
                self.groups.push(Trials::new(group.order, tie));
            } else {
                common.push(group.order);
            }
        }
        if !common.is_empty() {
            self.common = Some(self.groups.len());
            let tie = Tie { stay: false, host: None };
            self.groups.push(Trials::new(Order::lazy(common.into_iter().flatten()), tie));
        }
        Ok(())
    }

    /// Takes up what former controllers journalled.
    pub(super) fn inherit_all(&mut self, journalled: impl IntoIterator<Item = (AttemptId, Seats)>) {
        let mut known: HashSet<Arc<Seats>> = HashSet::new();
        let mut numbered: HashMap<TrialId, Arc<Seats>> = HashMap::new();
        let mut open: Vec<(AttemptId, Draw, Arc<Seats>)> = Vec::new();
        for (id, seats) in journalled.into_iter().filter(|(id, _)| id.run == self.run) {
            let seats = match known.get(&seats) {
                Some(seats) => Arc::clone(seats),
                None => {
                    let seats = Arc::new(seats);
                    known.insert(Arc::clone(&seats));
                    seats
                }
            };
            if self.past.has_number(id) {
                numbered.insert(id.trial, seats);
            } else if let Some(draw) = self.past.open(id) {
                open.push((id, draw, seats));
            }
        }
        let group_of = self.sort_by_group(&numbered, &open);
        // Where a group that is tied to hosts goes on: where it has numbers, or where it was journalled last.
        let mut homes: BTreeMap<usize, Arc<Seats>> = BTreeMap::new();
        for (id, _, seats) in &open {
            homes.insert(group_of.get(&id.trial).copied().unwrap_or_default(), Arc::clone(seats));
        }
        for (group, home) in &mut homes {
            if let Some(seats) = &self.groups[*group].seats {
                *home = Arc::clone(seats);
            }
        }
        for (place, (id, draw, seats)) in (0..).zip(open) {
            let group = group_of.get(&id.trial).copied().unwrap_or_default();
            let is_home = homes.get(&group) == Some(&seats);
            let mut attempt = Attempt::new(id, draw, group, Origin::Inherited, Stage::Queued);
            attempt.place = place;
            self.inherit(attempt, &seats, is_home);
            self.next_turn = place + 1;
        }
    }

    /// Finds the groups of open trials, and where groups that stay have numbers. Orders are read through only where that is
    /// of use.
    fn sort_by_group(
        &mut self,
        numbered: &HashMap<TrialId, Arc<Seats>>,
        open: &[(AttemptId, Draw, Arc<Seats>)],
    ) -> HashMap<TrialId, usize> {
        let mut group_of = HashMap::new();
        let nothing = open.is_empty() && numbered.is_empty();
        if nothing || (self.groups.len() == 1 && self.common.is_some()) {
            return group_of;
        }
        let open: HashSet<TrialId> = open.iter().map(|(id, ..)| id.trial).collect();
        for (index, group) in self.groups.iter_mut().enumerate() {
            for trial in group.read_all() {
                if open.contains(&trial) {
                    group_of.insert(trial, index);
                }
                if group.tie.stay && group.seats.is_none() {
                    group.seats = numbered.get(&trial).cloned();
                }
            }
        }
        group_of
    }

    /// Takes up one attempt that a former controller journalled, on a lane with its seats.
    fn inherit(&mut self, mut attempt: Attempt, seats: &Arc<Seats>, is_home: bool) {
        let (id, group) = (attempt.id, attempt.group);
        self.groups[group].open += 1;
        attempt.lane = self.lane_by_seats.get(seats).copied().or_else(|| {
            let crew = Crew::of_seats(&self.roles, &self.host_by_name, seats)?;
            let unused = self.stock.are_unused(&crew.members);
            let tie = self.groups[group].tie;
            let kind = match tie.host {
                _ if !is_home && tie.stay => LaneKind::Bound,
                Some(host) => LaneKind::Pinned(host),
                None if !unused => LaneKind::Bound,
                None if tie.stay => LaneKind::Staying,
                None => LaneKind::Common,
            };
            Some(self.add_lane(crew, kind))
        });
        match attempt.lane {
            Some(lane) => {
                self.lanes[lane].push(id);
                if is_home && !self.groups[group].is_common() {
                    self.attach(group, lane);
                }
            }
            None => {
                self.unseated.insert(id);
            }
        }
        self.attempts.insert(attempt);
    }

    /// The run is in the store: sees to the attempts of former controllers, and lets groups look for hosts.
    pub(super) fn open(&mut self, now: Duration, effects: &mut Effects) {
        self.phase = Phase::Running;
        for lane in 0..self.lanes.len() {
            self.wake(lane, effects);
            self.mark_lane(lane);
        }
        for group in 0..self.groups.len() {
            if self.groups[group].lane.is_none() {
                self.unseat(group, false);
            }
        }
        let homeless: Vec<AttemptId> = self.unseated.iter().copied().collect();
        for id in homeless {
            self.store_unfinished(now, id, Failure::host_lost("it is not among the hosts any more"), effects);
        }
    }
}
