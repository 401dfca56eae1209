//! The life of an attempt from prepared to stored.

use std::time::Duration;

use drover_model::{AttemptId, ErrorCause, Name, Outcome, TaskId, Verdict};

use super::{Scheduler, site};
use crate::{
    CollectOutcome, Effect, Effects, TaskChange,
    attempt::{Attempt, Gate, Origin, Reach, Stage, Status, Storing, Task},
    deaths::death,
    host::HostState,
    past::Draw,
    retry,
    verdict::{self, Failure, Rank},
};

impl Scheduler {
    /// An attempt in the given stage, while its hosts are held.
    pub(super) fn waiting(&mut self, id: AttemptId, stage: Stage) -> Option<&mut Attempt> {
        let lane = self.attempts.get(&id).filter(|attempt| attempt.stage == stage)?.lane?;
        if self.is_held(lane) { self.attempts.get_mut(&id) } else { None }
    }

    pub(super) fn attempt_prepared(&mut self, now: Duration, id: AttemptId, effects: &mut Effects) {
        let running = self.is_running();
        let Some(attempt) = self.waiting(id, Stage::Preparing) else { return };
        if !running && attempt.origin != Origin::Settled {
            attempt.cancel();
        }
        self.advance(now, id, true, effects);
    }

    pub(super) fn attempt_unprepared(
        &mut self,
        now: Duration,
        id: AttemptId,
        verdict: Verdict,
        effects: &mut Effects,
    ) {
        if let Some(attempt) = self.waiting(id, Stage::Preparing) {
            attempt.fail(Failure { rank: Rank::NotStarted, verdict });
            self.advance(now, id, true, effects);
        }
    }

    pub(super) fn task_refused(&mut self, now: Duration, task: &TaskId, why: &str, effects: &mut Effects) {
        self.stray_ended(now, task);
        let index = self.roles.task_index(task);
        let label = index.map(|index| self.roles.task_label(index)).unwrap_or_default();
        let Some((index, attempt)) = index.zip(self.attempts.get_mut(&task.attempt)) else { return };
        if attempt.tasks.get(index).is_some_and(|task| task.status == Status::Sent) {
            attempt.write_off(index, Failure::refused(&format!("start {label}"), why));
            self.advance(now, task.attempt, false, effects);
        }
    }

    /// The driver found out that a running attempt has failed.
    pub(super) fn attempt_failed(
        &mut self,
        now: Duration,
        id: AttemptId,
        verdict: Verdict,
        effects: &mut Effects,
    ) {
        let Some(attempt) = self.attempts.get_mut(&id) else { return };
        let runs = matches!(attempt.stage, Stage::Running | Stage::Stopping);
        // What agents tell of an adopted attempt is heard before it is its turn.
        let may_fail = runs || (attempt.is_adopted() && !attempt.is_over());
        // What is seen of a complete attempt while it is being stopped is our doing.
        if may_fail && !attempt.is_complete() && verdict.outcome().is_failure() {
            attempt.fail(Failure::found(verdict));
            if runs {
                self.advance(now, id, false, effects);
            }
        }
    }

    /// A service can be reached by those that need it, or cannot; then that is the `verdict`.
    pub(super) fn role_reached(
        &mut self,
        now: Duration,
        id: AttemptId,
        role: &Name,
        verdict: Option<Verdict>,
        effects: &mut Effects,
    ) {
        let Some(role) = self.roles.index_of(role) else { return };
        let Some(attempt) = self.attempts.get_mut(&id) else { return };
        if attempt.stage != Stage::Running || attempt.reach.get(role) != Some(&Reach::Asked) {
            return;
        }
        attempt.reach[role] = Reach::Reached;
        if let Some(verdict) = verdict {
            attempt.fail(Failure::unreached(verdict));
        }
        self.advance(now, id, false, effects);
    }

    pub(super) fn barrier_released(
        &mut self,
        now: Duration,
        id: AttemptId,
        error_us: u64,
        effects: &mut Effects,
    ) {
        if let Some(attempt) = self.attempts.get_mut(&id)
            && matches!(attempt.stage, Stage::Running | Stage::Stopping)
        {
            attempt.barrier_released(error_us);
            self.advance(now, id, false, effects);
        }
    }

    pub(super) fn barrier_failed(&mut self, now: Duration, id: AttemptId, why: &str, effects: &mut Effects) {
        if let Some(attempt) = self.attempts.get_mut(&id)
            && matches!(attempt.stage, Stage::Running | Stage::Stopping)
            && matches!(attempt.gate, Gate::Ordered(_))
        {
            attempt.gate = Gate::Idle;
            attempt.fail(Failure::refused("release the barrier", why));
            self.advance(now, id, false, effects);
        }
    }

    pub(super) fn task_changed(
        &mut self,
        now: Duration,
        task: &TaskId,
        change: TaskChange,
        effects: &mut Effects,
    ) {
        let ended = matches!(change, TaskChange::Ended(_));
        if ended {
            self.stray_ended(now, task);
        }
        let Some(index) = self.roles.task_index(task) else { return };
        let Some(attempt) = self.attempts.get_mut(&task.attempt) else { return };
        let Some(lane) = attempt.lane else { return };
        let is_held = |host: &usize| self.hosts[*host].state == HostState::Leased;
        let apart = !self.lanes[lane].crew.members.iter().all(is_held);
        let Some(before) = attempt.take_in(&self.roles, now, index, change, apart) else { return };
        self.hosts[self.lanes[lane].crew.of_task[index]].note_progress();
        if before < Status::Started && !ended {
            // An order to stop that overtook the start found nothing to stop.
            attempt.order_stop(site!(self, lane, now), index, effects);
        }
        self.advance(now, task.attempt, false, effects);
    }

    /// The kernel of a host failed while an attempt ran there. Too late for one whose verdict is on its way to the store.
    pub(super) fn kernel_failed(
        &mut self,
        now: Duration,
        host: &Name,
        id: AttemptId,
        failure: Failure,
        effects: &mut Effects,
    ) {
        let Some(host) = self.host_index(host) else { return };
        let Some(attempt) = self.attempts.get_mut(&id) else { return };
        let Some(lane) = attempt.lane else { return };
        let of_task = &self.lanes[lane].crew.of_task;
        let ran_there =
            |(task, entry): (usize, &Task)| of_task[task] == host && entry.status > Status::Pending;
        if !attempt.is_being_stored() && attempt.tasks.iter().enumerate().any(ran_there) {
            attempt.fail(failure);
            self.advance(now, id, false, effects);
        }
    }

    /// The tasks of an attempt are over: has their outputs fetched, if there are any.
    pub(super) fn collect(&mut self, id: AttemptId, effects: &mut Effects) {
        if self.store_is_lost() {
            self.leave_open(id);
            return;
        }
        let Some(attempt) = self.attempts.get_mut(&id) else { return };
        attempt.stage = Stage::Collecting;
        if let Some(lane) = attempt.lane {
            self.lanes[lane].unstored.push(id);
        }
        self.order_collect(id, effects);
    }

    /// Orders to collect from the hosts that are left, once all of them are ours; stores at once what left nothing to
    /// collect.
    pub(super) fn order_collect(&mut self, id: AttemptId, effects: &mut Effects) {
        let Some(attempt) = self.attempts.get(&id) else { return };
        let Some(lane) = attempt.lane else { return };
        let crew = &self.lanes[lane].crew;
        let mut tasks = attempt.tasks_to_collect();
        tasks.retain(|task| self.hosts[crew.of_task[*task]].state != HostState::GivenUp);
        if tasks.is_empty() {
            self.decide(id, CollectOutcome::default(), effects);
        } else if self.is_held(lane) {
            let entry =
                |task: usize| (self.hosts[crew.of_task[task]].name.clone(), self.roles.task_id(id, task));
            let tasks = tasks.into_iter().map(entry).collect();
            effects.push(Effect::Collect { attempt: id, tasks });
        }
    }

    pub(super) fn collected(&mut self, id: AttemptId, outcome: CollectOutcome, effects: &mut Effects) {
        if self.waiting(id, Stage::Collecting).is_some() {
            self.decide(id, outcome, effects);
        }
    }

    /// Stores an attempt that was not begun and never will be.
    pub(super) fn store_unfinished(
        &mut self,
        now: Duration,
        id: AttemptId,
        failure: Failure,
        effects: &mut Effects,
    ) {
        let Some(attempt) = self.attempts.get_mut(&id) else { return };
        attempt.fail(failure);
        (attempt.begun, attempt.ended) = (now, now);
        let place = attempt.place;
        if let Some(lane) = attempt.lane {
            self.lanes[lane].remove(id);
            self.lanes[lane].unstored.push(id);
            self.drop_adopted(lane, place, id);
            self.mark_lane(lane);
        }
        self.decide(id, CollectOutcome::default(), effects);
    }

    fn decide(&mut self, id: AttemptId, outcome: CollectOutcome, effects: &mut Effects) {
        let Some(attempt) = self.attempts.get(&id) else { return };
        let (draw, group) = (attempt.draw, attempt.group);
        let crew = attempt.lane.map(|lane| &self.lanes[lane].crew);
        let unknown_skew = crew.and_then(|crew| attempt.unknown_skew(&self.roles, crew));
        let mut doubts = attempt.doubts(&self.roles);
        doubts.extend(unknown_skew.map(verdict::doubt_of_skew));
        let mut verdict = verdict::decide(attempt.failure(), outcome, doubts);
        if verdict.outcome().has_number()
            && self.groups[group].tie.stay
            && let Some(lane) = attempt.lane
        {
            let seats = self.lanes[lane].crew.seats.clone();
            let home = self.groups[group].lane.map(|lane| self.lanes[lane].crew.seats.clone());
            let home = self.groups[group].seats.clone().or(home).unwrap_or_else(|| seats.clone());
            if home == seats {
                self.groups[group].seats = Some(seats);
            } else {
                verdict = Failure::elsewhere(&home).verdict;
            }
        }
        let cell = draw.trial.cell;
        self.deaths.note(cell, death(&verdict));
        // What killed it is its last word.
        let is_last = verdict.outcome() == Outcome::Ng && self.deaths.enough(cell).is_some();
        let next = self.next_draw(draw, &verdict).filter(|_| !is_last);
        self.order_store(id, Storing { verdict, next, with_outputs: true }, effects);
    }

    pub(super) fn next_draw(&self, draw: Draw, verdict: &Verdict) -> Option<Draw> {
        retry::next(draw, verdict, self.limits)
    }

    pub(super) fn order_store(&mut self, id: AttemptId, storing: Storing, effects: &mut Effects) {
        let Some(attempt) = self.attempts.get_mut(&id) else { return };
        let crew = attempt.lane.map(|lane| &self.lanes[lane].crew);
        effects.push(Effect::StoreAttempt {
            attempt: id,
            seats: crew.map(|crew| crew.seats.clone()),
            verdict: storing.verdict.clone(),
            is_final: storing.next.is_none(),
            begun: attempt.begun,
            ended: attempt.ended,
            start_skew_us: crew.and_then(|crew| attempt.start_skew_us(&self.roles, crew)),
            with_outputs: storing.with_outputs,
        });
        attempt.stage = Stage::Storing(Box::new(storing));
    }

    pub(super) fn attempt_stored(&mut self, now: Duration, id: AttemptId, effects: &mut Effects) {
        if !self.attempts.get(&id).is_some_and(Attempt::is_being_stored) {
            return;
        }
        let Some(attempt) = self.forget_attempt(id) else { return };
        let Stage::Storing(storing) = attempt.stage else { return };
        self.unseated.remove(&id);
        self.progress.count(storing.verdict.outcome(), storing.next.is_none());
        if let Some(lane) = attempt.lane {
            self.lanes[lane].unstored.retain(|unstored| *unstored != id);
            for position in 0..self.lanes[lane].crew.members.len() {
                let host = self.lanes[lane].crew.members[position];
                self.hosts[host].stored(now, id);
                self.hosts[host].forget_some(now, effects);
            }
            self.let_machines_be_made(lane, effects);
            self.mark_lane(lane);
        }
        if let Some(draw) = storing.next.filter(|_| self.is_running()) {
            self.groups[attempt.group].redraws.push_back(draw);
            match self.groups[attempt.group].lane {
                Some(lane) => self.mark_lane(lane),
                None => self.unseat(attempt.group, true),
            }
        }
    }

    /// A full disk fails the attempt: its bare verdict is stored instead. Anything else, or that failing too, ends the
    /// run.
    pub(super) fn store_failed(
        &mut self,
        now: Duration,
        id: AttemptId,
        why: String,
        disk_full: bool,
        effects: &mut Effects,
    ) {
        let Some(attempt) = self.attempts.get(&id) else { return };
        let Stage::Storing(storing) = &attempt.stage else { return };
        if disk_full && storing.with_outputs {
            let detail = format!("its results could not be stored: {why}");
            let verdict = Verdict::Error { cause: ErrorCause::DiskFull, detail };
            let next = self.next_draw(attempt.draw, &verdict);
            self.order_store(id, Storing { verdict, next, with_outputs: false }, effects);
        } else {
            self.end_without_store(now, why, disk_full, effects);
        }
    }
}
