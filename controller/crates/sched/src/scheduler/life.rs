//! The life of an attempt from prepared to stored.

use std::time::Duration;

use drover_model::{AttemptId, ErrorCause, TaskId, Verdict};

use super::Scheduler;
use crate::{
    CollectOutcome, Effect, Effects, TaskChange,
    attempt::{Attempt, Origin, Stage, Status, Storing},
    host::HostState,
    orders::Site,
    past::Draw,
    retry,
    verdict::{self, Failure, Rank},
};

impl Scheduler {
    /// An attempt in the given stage, while its host is held.
    fn waiting(&mut self, id: AttemptId, stage: Stage) -> Option<&mut Attempt> {
        let attempt = self.attempts.get_mut(&id).filter(|attempt| attempt.stage == stage)?;
        let host = self.hosts.get(attempt.host?)?;
        (host.state == HostState::Leased).then_some(attempt)
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
        let index = self.roles.task_index(task);
        let label = index.map(|index| self.roles.task_label(index)).unwrap_or_default();
        let Some((index, attempt)) = index.zip(self.attempts.get_mut(&task.attempt)) else { return };
        if attempt.tasks.get(index).is_some_and(|task| task.status == Status::Sent) {
            attempt.write_off(index, Failure::refused(&format!("start {label}"), why));
            self.advance(now, task.attempt, false, effects);
        }
    }

    pub(super) fn barrier_failed(&mut self, now: Duration, id: AttemptId, why: &str, effects: &mut Effects) {
        if let Some(attempt) = self.waiting(id, Stage::Running)
            && attempt.barrier_ordered
        {
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
        let Some(before) = attempt.take_in(&self.roles, now, index, change) else { return };
        let Some(host) = attempt.host else { return };
        self.hosts[host].note_progress();
        if before < Status::Started && !ended && self.hosts[host].state == HostState::Leased {
            // An order to stop that overtook the start found nothing to stop.
            let site = Site { roles: &self.roles, host: &self.hosts[host].name, now, kill: false };
            attempt.order_stop(site, index, effects);
        }
        self.advance(now, task.attempt, false, effects);
    }

    /// Lets an attempt do what it can now; collects it when its tasks are over.
    pub(super) fn advance(&mut self, now: Duration, id: AttemptId, prepared: bool, effects: &mut Effects) {
        let kill = self.kills();
        let Some(attempt) = self.attempts.get_mut(&id) else { return };
        let Some(host) = attempt.host.and_then(|host| self.hosts.get_mut(host)) else { return };
        if host.state != HostState::Leased {
            return;
        }
        let site = Site { roles: &self.roles, host: &host.name, now, kill };
        if prepared {
            attempt.run(site);
        }
        if attempt.advance(site, effects) {
            host.current = None;
            attempt.ended = now;
            self.collect(id, effects);
        }
    }

    /// The tasks of an attempt are over: has their outputs fetched, if there are any.
    fn collect(&mut self, id: AttemptId, effects: &mut Effects) {
        if self.store_is_lost() {
            self.leave_open(id);
            return;
        }
        let Some(attempt) = self.attempts.get_mut(&id) else { return };
        attempt.stage = Stage::Collecting;
        self.unstored += 1;
        self.order_collect(id, effects);
    }

    /// Orders to collect, or stores at once what left nothing to collect.
    pub(super) fn order_collect(&mut self, id: AttemptId, effects: &mut Effects) {
        let Some(attempt) = self.attempts.get(&id) else { return };
        let tasks = attempt.tasks_to_collect(&self.roles);
        match attempt.host.and_then(|host| self.hosts.get(host)) {
            Some(host) if !tasks.is_empty() => {
                effects.push(Effect::Collect { host: host.name.clone(), attempt: id, tasks });
            }
            _ => self.decide(id, CollectOutcome::default(), effects),
        }
    }

    pub(super) fn collected(&mut self, id: AttemptId, outcome: CollectOutcome, effects: &mut Effects) {
        if self.waiting(id, Stage::Collecting).is_some() {
            self.decide(id, outcome, effects);
        }
    }

    /// Stores an attempt that will not be collected: it, or its host, is lost.
    pub(super) fn store_unfinished(
        &mut self,
        now: Duration,
        id: AttemptId,
        failure: Failure,
        effects: &mut Effects,
    ) {
        let Some(attempt) = self.attempts.get_mut(&id) else { return };
        attempt.fail(failure);
        if attempt.stage != Stage::Collecting {
            attempt.ended = now;
            if attempt.begun == Duration::ZERO {
                attempt.begun = now;
            }
            self.unstored += 1;
        }
        self.decide(id, CollectOutcome::default(), effects);
    }

    fn decide(&mut self, id: AttemptId, outcome: CollectOutcome, effects: &mut Effects) {
        let Some(attempt) = self.attempts.get(&id) else { return };
        let doubts = attempt.doubts(&self.roles, self.skew_limit);
        let verdict = verdict::decide(attempt.failure(), outcome, doubts);
        let next = self.next_draw(attempt.draw, &verdict);
        self.order_store(id, Storing { verdict, next, with_outputs: true }, effects);
    }

    pub(super) fn next_draw(&self, draw: Draw, verdict: &Verdict) -> Option<Draw> {
        retry::next(draw, verdict, self.limits)
    }

    pub(super) fn order_store(&mut self, id: AttemptId, storing: Storing, effects: &mut Effects) {
        let Some(attempt) = self.attempts.get_mut(&id) else { return };
        effects.push(Effect::StoreAttempt {
            attempt: id,
            host: attempt.host.and_then(|host| self.hosts.get(host)).map(|host| host.name.clone()),
            verdict: storing.verdict.clone(),
            is_final: storing.next.is_none(),
            begun: attempt.begun,
            ended: attempt.ended,
            start_skew_us: attempt.start_skew_us(&self.roles),
            with_outputs: storing.with_outputs,
        });
        attempt.stage = Stage::Storing(Box::new(storing));
    }

    pub(super) fn attempt_stored(&mut self, now: Duration, id: AttemptId, effects: &mut Effects) {
        if !self.attempts.get(&id).is_some_and(Attempt::is_being_stored) {
            return;
        }
        let Some(attempt) = self.attempts.remove(&id) else { return };
        let Stage::Storing(storing) = attempt.stage else { return };
        self.unstored = self.unstored.saturating_sub(1);
        self.progress.count(storing.verdict.outcome(), storing.next.is_none());
        if let Some(host) = attempt.host.and_then(|host| self.hosts.get_mut(host)) {
            host.stored(now, id);
            host.forget_some(now, effects);
        }
        if let Some(draw) = storing.next.filter(|_| self.is_running()) {
            self.redraws.push_back(draw);
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
