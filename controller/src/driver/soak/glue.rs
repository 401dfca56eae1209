//! The driver's part of a soak while it goes on: reports become points and failures, hosts come and go, loads fall silent.

use std::time::Duration;

use drover_matrix::Weight;
use drover_model::{
    AttemptId, ErrorCause, HostEvent, HostEventKind, KernelHint, Name, NgCause, TaskEvent, TaskEventKind,
    TaskId, Verdict,
};
use drover_sched::{Event, TaskChange};
use drover_store::MarkKind;

use super::{
    super::{drive::Driver, internal_event::InternalEvent},
    course::Finding,
    evidence::{self, Witness},
    live::{Asked, Closing, End, LiveSoak, Report},
    recorder::{Full, Recorded},
};

impl Driver {
    /// The time of the controller's clock in microseconds since the Unix epoch; it goes on evenly whoever sets the clock.
    pub(super) fn now_unix_us(&self) -> u64 {
        let elapsed = u64::try_from(self.clock.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.clock_unix_us.saturating_add(elapsed)
    }

    /// The soak that an open attempt is; its series is opened at its first mention.
    pub(in super::super) fn soak_mut(&mut self, id: AttemptId) -> Option<&mut LiveSoak> {
        let soak = *self.matrix.soak()?;
        if !self.scheduler.is_open(&id) {
            return None;
        }
        let matrix = self.matrix.clone();
        let attempt = self.attempt_mut(id)?;
        if attempt.soak.is_none() {
            attempt.soak = Some(Box::new(LiveSoak::new(&matrix, soak, id)));
            let opened = self.recorder.as_ref().map_or(Err(Full), |recorder| recorder.open(id));
            if let Err(full) = opened {
                self.series_failed(id, full.to_string(), true);
            }
        }
        self.attempts.get_mut(&id)?.soak.as_deref_mut()
    }

    /// The soaks in flight.
    pub(super) fn soaks(&mut self) -> impl Iterator<Item = (AttemptId, &mut LiveSoak)> {
        let soaks = self.attempts.iter_mut();
        soaks.filter_map(|(id, attempt)| Some((*id, attempt.soak.as_deref_mut()?)))
    }

    /// A task of a soak reports something; gives what the scheduler is to be told.
    pub(in super::super) fn soak_reported(&mut self, host: &Name, event: &TaskEvent) -> Event {
        let (now, now_unix_us) = (self.clock.elapsed(), self.now_unix_us());
        let id = event.task.attempt;
        let mut for_scheduler = Event::of_task(event);
        let role = self.matrix.roles().iter().find(|role| role.name == event.task.role);
        if let (Some(times), Some(role)) = (self.soak_times, role)
            && let TaskEventKind::Ended(end) = &event.kind
            && let Event::TaskChanged { change: TaskChange::Ended(ending), .. } = &mut for_scheduler
        {
            ending.spent = times.is_spent(role, end);
        }
        if let Some(attempt) = self.attempt_mut(id) {
            // Of a task that a former controller started, nobody has said where it is.
            attempt.tasks.entry(event.task.clone()).or_default().host.get_or_insert_with(|| host.clone());
        }
        let is_service = self.matrix.role(event.task.role.as_str()).is_some_and(|role| role.is_service());
        let Some(soak) = self.soak_mut(id) else { return for_scheduler };
        let at_unix_us = soak.time_of(host, event.at_unix_us, now_unix_us);
        let report = Report { host: host.clone(), event: event.clone(), at_unix_us };
        let mut findings = soak.report(&report, now);
        if is_service && let Some((kind, text)) = service_news(event, host) {
            findings.extend(soak.sign(at_unix_us, kind, text));
        }
        self.take_findings(id, findings);
        if let Some(soak) = self.soak_mut(id) {
            soak.event_unix_us = Some(at_unix_us);
        }
        for_scheduler
    }

    /// A host reports something of itself.
    pub(in super::super) fn soak_sign(&mut self, host: &Name, event: &HostEvent) {
        let now_unix_us = self.now_unix_us();
        // What means nothing to the matrix is no sign of trouble.
        let weights = &self.matrix.policy().doubts;
        let counts = |hint: &KernelHint| match hint {
            KernelHint::Ng(_) => true,
            KernelHint::Doubt(kind) => weights.of(*kind) != Weight::Ignore,
            KernelHint::Nothing => false,
        };
        let (kind, text) = match &event.kind {
            HostEventKind::Kernel { class, first_line, hint, .. } => {
                let kind = if counts(hint) { MarkKind::Kernel } else { MarkKind::Note };
                (kind, format!("{host}: {class}: {first_line}"))
            }
            HostEventKind::Tainted { before, after } => {
                (MarkKind::Sign, format!("{host}: kernel.tainted was {before} and is {after}"))
            }
            HostEventKind::Observing { .. } | HostEventKind::Blind { .. } => return,
        };
        let Some(soak) = self.soak_mut(event.attempt) else { return };
        let at_unix_us = soak.time_of(host, event.at_unix_us, now_unix_us);
        let finding = soak.sign(at_unix_us, kind, text);
        soak.event_unix_us = Some(at_unix_us);
        self.take_findings(event.attempt, finding.into_iter().collect());
    }

    /// The thread that writes series has something to say.
    pub(in super::super) fn recorded(&mut self, recorded: Recorded) {
        match recorded {
            Recorded::Opened { attempt: id, on_disk } => {
                let (now, now_unix_us) = (self.clock.elapsed(), self.now_unix_us());
                let went_on = !on_disk.last_marks.is_empty();
                let soak = self.attempts.get_mut(&id).and_then(|attempt| attempt.soak.as_deref_mut());
                let Some(soak) = soak else { return };
                let Some(early) = soak.opened(on_disk) else { return };
                let mut findings: Vec<Finding> =
                    early.iter().flat_map(|report| soak.report(report, now)).collect();
                findings.extend(soak.waiting_marks());
                let wanted = soak.closing == Closing::Wanted;
                if went_on {
                    let text = "another controller went on".to_owned();
                    self.mark(id, now_unix_us, MarkKind::ControllerBack, text);
                }
                self.take_findings(id, findings);
                if wanted {
                    self.close_series(id);
                }
            }
            Recorded::Closed { attempt: id, medians } => {
                let attempt = self.attempts.get_mut(&id);
                let Some(soak) = attempt.and_then(|attempt| attempt.soak.as_deref_mut()) else { return };
                soak.closing = Closing::Done(medians.into_iter().collect());
                let answer = self.soak_collected(id);
                answer.into_iter().for_each(|answer| self.feed(answer));
            }
            Recorded::Failed { attempt, why, disk_full } => self.series_failed(attempt, why, disk_full),
        }
    }

    /// The series cannot be written: the attempt has failed.
    fn series_failed(&mut self, id: AttemptId, why: String, disk_full: bool) {
        let cause = if disk_full { ErrorCause::DiskFull } else { ErrorCause::Internal };
        let detail = format!("what was measured cannot be kept: {why}");
        let attempt = self.attempts.get_mut(&id);
        let closing = attempt.and_then(|attempt| Some(&attempt.soak.as_deref()?.closing));
        let event = if matches!(closing, Some(Closing::Wanted | Closing::Asked)) {
            let outcome =
                drover_sched::CollectOutcome { failed: Some((cause, detail)), ..Default::default() };
            Event::Collected { attempt: id, outcome }
        } else {
            Event::AttemptFailed { attempt: id, verdict: Verdict::Error { cause, detail } }
        };
        // The caller may be in the middle of something else.
        let _ = self.events.send(InternalEvent::Scheduler(event));
    }

    /// Keeps what was found, and tells the scheduler of failures.
    pub(super) fn take_findings(&mut self, id: AttemptId, findings: Vec<Finding>) {
        let mut failures = Vec::new();
        let mut kept = Ok(());
        for finding in findings {
            match finding {
                Finding::Point { at_unix_us, round, values } => {
                    let recorder = self.recorder.as_ref();
                    kept = kept.and(recorder.map_or(Ok(()), |to| to.point(id, at_unix_us, round, values)));
                }
                Finding::Mark { at_unix_us, kind, text } => self.mark(id, at_unix_us, kind, text),
                Finding::Value { elapsed, value } => self.show_value(id, elapsed, value),
                Finding::Failed { at_unix_us, verdict } => failures.push((at_unix_us, verdict)),
            }
        }
        if let Err(full) = kept {
            self.series_failed(id, full.to_string(), true);
        }
        for (at_unix_us, verdict) in failures {
            self.fail_soak(id, at_unix_us, verdict);
        }
    }

    pub(super) fn fail_soak(&mut self, id: AttemptId, at_unix_us: u64, verdict: Verdict) {
        if let Some(soak) = self.soak_mut(id) {
            soak.event_unix_us = Some(at_unix_us);
        }
        self.feed(Event::AttemptFailed { attempt: id, verdict });
    }

    pub(super) fn mark(&mut self, id: AttemptId, at_unix_us: u64, kind: MarkKind, text: String) {
        let marked = self.recorder.as_ref().map_or(Ok(()), |to| to.mark(id, at_unix_us, kind, text));
        if let Err(full) = marked {
            self.series_failed(id, full.to_string(), true);
        }
    }

    fn show_value(&mut self, id: AttemptId, elapsed: Duration, value: f64) {
        let (Some(times), Some(primary)) = (self.soak_times, self.matrix.metrics().primary()) else { return };
        let text = format!("{} {}", drover_report::format_number(value), primary.unit);
        let Some(attempt) = self.attempts.get(&id) else { return };
        self.progress.soak(id.trial, &attempt.cell, elapsed, times.load, &text);
    }

    /// A host cannot be heard any more.
    pub(in super::super) fn soak_host_lost(&mut self, host: &Name, why: &str) {
        let at = self.now_unix_us();
        let on_host = |attempt: &super::super::attempt::LiveAttempt| {
            attempt.seats.as_ref().is_some_and(|seats| seats.hosts().contains(&host))
        };
        let mut marks = Vec::new();
        for (id, attempt) in self.attempts.iter_mut().filter(|(_, attempt)| on_host(attempt)) {
            if let Some(soak) = attempt.soak.as_deref_mut()
                && soak.away.insert(host.clone())
            {
                soak.silence.host_away();
                marks.push(*id);
            }
        }
        for id in marks {
            self.mark(id, at, MarkKind::HostLost, format!("{host}: {why}"));
        }
    }

    /// A host can be heard again.
    pub(in super::super) fn soak_host_back(&mut self, host: &Name) {
        let (at, now) = (self.now_unix_us(), self.clock.elapsed());
        let mut marks = Vec::new();
        for (id, soak) in self.soaks() {
            if soak.away.remove(host) {
                soak.silence.host_back(now);
                marks.push(id);
            }
        }
        for id in marks {
            self.mark(id, at, MarkKind::HostBack, host.to_string());
        }
    }

    /// When a silent load next means something, on the driver's clock.
    pub(in super::super) fn soak_due(&self) -> Option<Duration> {
        let soaks = self.attempts.values().filter_map(|attempt| attempt.soak.as_deref());
        soaks.filter_map(|soak| soak.silence.due()).min()
    }

    /// Looks for loads that were silent for too long, and asks their hosts whether they are there.
    pub(in super::super) fn soak_look(&mut self) {
        let now = self.clock.elapsed();
        let silent: Vec<TaskId> = self.soaks().flat_map(|(_, soak)| soak.silent(now)).collect();
        for task in silent {
            let attempt = self.attempts.get(&task.attempt);
            let host = attempt.and_then(|attempt| attempt.tasks.get(&task)?.host.clone());
            host.and_then(|host| self.links.get(&host)).into_iter().for_each(|link| link.probe(&task));
        }
    }

    /// The host of a load that was silent for too long is there.
    pub(in super::super) fn soak_host_answers(&mut self, task: &TaskId) {
        let at = self.now_unix_us();
        let Some(detail) = self.soak_mut(task.attempt).and_then(|soak| soak.confirmed(task)) else { return };
        self.mark(task.attempt, at, MarkKind::Stalled, detail.clone());
        self.fail_soak(task.attempt, at, Verdict::Ng { cause: NgCause::Hang, detail });
    }

    /// Looks which soaks have failed since the last look: their hosts are asked for evidence, and nothing is stopped before.
    pub(in super::super) fn soak_failures(&mut self) {
        let at = self.now_unix_us();
        let mut broken = Vec::new();
        for (id, attempt) in &mut self.attempts {
            let Some(soak) = attempt.soak.as_deref_mut().filter(|soak| soak.end.is_none()) else { continue };
            let Some(verdict) = self.scheduler.failure(id) else { continue };
            let at = soak.event_unix_us.unwrap_or(at);
            if verdict.outcome().is_failure() {
                soak.end = Some(End::Broke(at));
                broken.push(*id);
            } else {
                soak.end = Some(End::Interrupted(at));
            }
        }
        broken.into_iter().for_each(|id| self.ask_for_evidence(id));
    }

    fn ask_for_evidence(&mut self, id: AttemptId) {
        let Some(attempt) = self.attempts.get_mut(&id) else { return };
        let (Some(soak), Some(seats)) = (attempt.soak.as_deref_mut(), &attempt.seats) else { return };
        let mut asked = std::collections::BTreeSet::new();
        for host in seats.hosts().into_iter().filter(|host| !soak.away.contains(*host)) {
            let Some((client, lease)) = self.links.get(host).and_then(|link| link.caller()) else { continue };
            let sysrq = self.hosts.get(host).is_some_and(|setup| setup.sysrq);
            let witness = Witness { host: host.clone(), client, lease, sysrq };
            let (events, results, host) = (self.events.clone(), self.results.clone(), host.clone());
            asked.insert(host.clone());
            tokio::spawn(async move {
                let said = evidence::collect(witness, id, results).await;
                let _ = events.send(InternalEvent::Evidence { attempt: id, host, said });
            });
        }
        soak.evidence = if asked.is_empty() { Asked::Over } else { Asked::Waiting(asked) };
    }

    /// A host has given its evidence, or cannot. With the last one, what waited for it is stopped.
    pub(in super::super) fn evidence_came(&mut self, id: AttemptId, host: &Name, said: String) {
        let at = self.now_unix_us();
        self.mark(id, at, MarkKind::Note, said);
        let Some(attempt) = self.attempts.get_mut(&id) else { return };
        let Some(soak) = attempt.soak.as_deref_mut() else { return };
        let Asked::Waiting(left) = &mut soak.evidence else { return };
        left.remove(host);
        if left.is_empty() {
            soak.evidence = Asked::Over;
            for (host, task) in std::mem::take(&mut soak.held) {
                self.links.get(&host).into_iter().for_each(|link| link.stop(&task, false));
            }
        }
    }

    /// Whether an order to stop a task has to wait for evidence; it is given then.
    pub(in super::super) fn holds_stop(&mut self, host: &Name, task: &TaskId, kill: bool) -> bool {
        let soak = self.attempts.get_mut(&task.attempt).and_then(|attempt| attempt.soak.as_deref_mut());
        let Some(soak) = soak else { return false };
        let waits = !kill && matches!(soak.evidence, Asked::Waiting(_));
        if waits {
            soak.held.push((host.clone(), task.clone()));
        }
        waits
    }
}

/// What a report of a service is worth in the timeline.
fn service_news(event: &TaskEvent, host: &Name) -> Option<(MarkKind, String)> {
    use drover_model::EndKind::{AgentLost, Deadline, Exited, Signaled};
    let task = &event.task;
    let label =
        if task.instance == 0 { task.role.to_string() } else { format!("{}.{}", task.role, task.instance) };
    match &event.kind {
        TaskEventKind::Ended(end) => {
            let how = match end.kind {
                Exited(status) => format!("ended with status {status}"),
                Signaled(signal) => format!("was killed by signal {signal}"),
                Deadline => "ran into its deadline".to_owned(),
                AgentLost => "was lost with its agent".to_owned(),
                _ => return None,
            };
            Some((MarkKind::TaskEnded, format!("{label} on {host} {how}")))
        }
        // Services may have nothing to do; that loads make no progress is told by the loads.
        TaskEventKind::Stalled { for_, what } => {
            let for_ = crate::time::brief(*for_);
            Some((
                MarkKind::Note,
                format!("{label} on {host} wrote nothing and used no CPU for {for_}; {what}"),
            ))
        }
        _ => None,
    }
}
