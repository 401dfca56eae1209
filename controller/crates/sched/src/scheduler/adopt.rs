//! What an agent knows when its host becomes ours: attempts of former controllers are taken over, orders that may have been
//! lost are given again, and what nobody waits for is ended.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use drover_model::{AttemptId, Name, TaskId};

use super::{Scheduler, site};
use crate::{
    Effect, Effects, KnownTask,
    attempt::{Origin, Stage, Status},
    host::{HostState, Stray},
};

/// What an agent knows, by attempt.
type Known = BTreeMap<AttemptId, Vec<KnownTask>>;

impl Scheduler {
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
        self.hosts[host].leased();
        let mut by_attempt = Known::new();
        for task in known.into_iter().filter(|known| known.task.attempt.run == self.run) {
            by_attempt.entry(task.task.attempt).or_default().push(task);
        }
        self.adopt(host, &by_attempt);
        self.clear_away(now, host, &by_attempt, effects);
        self.resume(now, host, &by_attempt, effects);
        self.mark_host_and_lanes(host);
    }

    /// Tasks of an attempt that the agent of a host knows and that belong there.
    fn tasks_there(&self, lane: usize, host: usize, known: Option<&Vec<KnownTask>>) -> Vec<usize> {
        let crew = &self.lanes[lane].crew;
        let tasks = known.into_iter().flatten().filter_map(|known| self.roles.task_index(&known.task));
        tasks.filter(|task| crew.of_task[*task] == host).collect()
    }

    /// Queued attempts that the agent knows tasks of were sent by a former controller. They come first, in the order of the
    /// journal, which is the order in which they were begun there: all but the last are over, which counts when they are
    /// gone on with.
    fn adopt(&mut self, host: usize, known: &Known) {
        let mut adopted: Vec<(u64, AttemptId, usize)> = Vec::new();
        for id in known.keys() {
            if let Some(attempt) = self.attempts.get(id)
                && attempt.stage == Stage::Queued
                && attempt.origin != Origin::Fresh
                && let Some(lane) = attempt.lane
                && self.hosts[host].lanes.contains(&lane)
            {
                adopted.push((attempt.place, *id, lane));
            }
        }
        adopted.sort_unstable();
        let last = adopted.last().map(|(place, ..)| *place);
        self.hosts[host].latest = self.hosts[host].latest.max(last);
        for (place, id, lane) in &adopted {
            let tasks = self.tasks_there(*lane, host, known.get(id));
            let Some(attempt) = self.attempts.get_mut(id) else { continue };
            attempt.adopt(&tasks, &self.roles);
            self.hosts[host].adopted.insert((*place, *id));
            self.leave_line(*lane);
            // Those known to a host come first, each group in its own order.
            let mut queue = Vec::from(std::mem::take(&mut self.lanes[*lane].queue));
            queue.sort_by_key(|id| {
                let attempt = self.attempts.get(id).filter(|attempt| attempt.is_adopted());
                attempt.map_or(u64::MAX, |attempt| attempt.place)
            });
            self.lanes[*lane].queue = queue.into();
            self.lanes[*lane].is_reordered = true;
        }
    }

    /// Kills what runs without an attempt that waits for it, and has forgotten what is stored.
    fn clear_away(&mut self, now: Duration, host: usize, known: &Known, effects: &mut Effects) {
        let deadline = now.saturating_add(self.longest_stop());
        let ordered = self.hosts[host].take_forgetting();
        self.drop_strays(host);
        for (id, tasks) in known {
            let open = self
                .attempts
                .get(id)
                .filter(|attempt| attempt.lane.is_some_and(|lane| self.hosts[host].lanes.contains(&lane)));
            let awaited = |task: &TaskId| {
                let index = self.roles.task_index(task)?;
                let attempt = open.filter(|attempt| !attempt.is_over())?;
                let is_here = self.lanes[attempt.lane?].crew.of_task.get(index) == Some(&host);
                Some(is_here && attempt.tasks.get(index)?.status != Status::Over)
            };
            let strays: Vec<TaskId> = tasks
                .iter()
                .filter(|known| !known.ended && !awaited(&known.task).unwrap_or_default())
                .map(|known| known.task.clone())
                .collect();
            let is_ordered = ordered.contains(id) || self.hosts[host].is_to_forget(*id);
            let stored = open.is_none() && (self.past.is_stored(*id) || is_ordered);
            for task in strays {
                self.add_stray(host, Stray { task, deadline, is_stored: stored }, effects);
            }
            if stored {
                self.hosts[host].stored(now, *id);
            }
        }
    }

    /// Orders again what the attempts on this host wait for.
    fn resume(&mut self, now: Duration, host: usize, known: &Known, effects: &mut Effects) {
        let current = self.hosts[host].busy.and_then(|lane| self.lanes[lane].current);
        let waiting: Vec<AttemptId> = self.hosts[host].adopted.iter().map(|(_, id)| *id).collect();
        for id in current.into_iter().chain(waiting) {
            let Some(lane) = self.attempts.get(&id).and_then(|attempt| attempt.lane) else { continue };
            let tasks = self.tasks_there(lane, host, known.get(&id));
            let Some(attempt) = self.attempts.get_mut(&id) else { continue };
            attempt.resume(site!(self, lane, now), host, &tasks, effects);
            if attempt.stage == Stage::Preparing {
                if self.is_held(lane) {
                    let seats = Arc::clone(&self.lanes[lane].crew.seats);
                    effects.push(Effect::PrepareAttempt { attempt: id, seats });
                }
            } else {
                self.advance(now, id, false, effects);
            }
        }
        let lanes: Vec<usize> = self.hosts[host].lanes.iter().copied().collect();
        for lane in lanes {
            for id in self.lanes[lane].unstored.clone() {
                if self.attempts.get(&id).is_some_and(|attempt| attempt.stage == Stage::Collecting) {
                    self.order_collect(id, effects);
                }
            }
        }
    }

    pub(super) fn longest_stop(&self) -> Duration {
        self.roles.iter().map(|(_, role)| role.shape.stop_backstop).max().unwrap_or_default()
    }
}
