//! Carries out what the scheduler decided. Each effect is a call that does not wait, or is answered at once.

use std::time::Duration;

use drover_matrix::{ExitStatuses, Matrix};
use drover_model::{AttemptId, ErrorCause, Name, RunId, TaskId, Verdict};
use drover_sched::{
    CollectOutcome, Effect, Event, Order, Plan, Reconnect, RoleKind, RoleShape, StatusPolicy,
};
use drover_store::{AttemptRecord, Command, Intent, OutputBody, RawOutput, Stream};

use super::{
    TaskOutput,
    attempt::{LiveAttempt, Outputs, Summary},
    collect::{collect, describe},
    drive::{Driver, Submitted},
    link, prepare,
};
use crate::time::unix_us;

/// Attempts journalled ahead, so that short trials need not wait for the disk one by one.
const JOURNAL_WINDOW: u32 = 64;
/// Attempts over on their hosts and not yet stored.
const UNSTORED_LIMIT: u32 = 16;
/// Largest start skew that raises no doubt.
const SKEW_LIMIT: Duration = Duration::from_millis(1);
/// Time an agent has to report what it does by itself at a deadline.
const MARGIN: Duration = Duration::from_secs(30);

/// The agent of this machine is started again, not waited for: when that fails three times, it will not succeed.
const RECONNECT: Reconnect =
    Reconnect { tries: 3, first_delay: Duration::from_millis(200), max_delay: Duration::from_secs(1) };

/// The plan of a matrix for the scheduler.
pub fn schedule(matrix: &Matrix, run: RunId, order: Order, hosts: Vec<Name>) -> Plan {
    let roles = matrix.roles();
    let shape = |role: &drover_matrix::Role| RoleShape {
        name: role.name.clone(),
        kind: if role.is_service() { RoleKind::Service } else { RoleKind::Awaited },
        after: role
            .after
            .iter()
            .filter_map(|name| roles.iter().position(|other| other.name == *name))
            .collect(),
        instances: 1,
        status: match &role.status {
            ExitStatuses::Any => StatusPolicy::Any,
            ExitStatuses::These(list) => StatusPolicy::OneOf(list.clone()),
        },
        backstop: role.timeout + role.stop.grace + MARGIN,
        stop_backstop: role.stop.grace + MARGIN,
    };
    let policy = matrix.policy();
    Plan {
        run,
        order,
        hosts,
        roles: roles.iter().map(shape).collect(),
        retries: policy.retries,
        after_ng: policy.after_ng,
        journal_window: JOURNAL_WINDOW,
        unstored_limit: UNSTORED_LIMIT,
        skew_limit: SKEW_LIMIT,
        reconnect: RECONNECT,
    }
}

impl Driver {
    /// Carries out one effect; gives the answer if there is one already.
    pub(super) fn perform(&mut self, effect: Effect) -> Option<Event> {
        match effect {
            Effect::ConnectHost { host } => {
                self.links.remove(&host);
                self.generation += 1;
                link::connect(host, self.generation, self.agent.clone(), self.events.clone());
                None
            }
            Effect::AcquireLease { host } => {
                self.links.get(&host)?.acquire(self.run, self.holder.clone());
                None
            }
            Effect::ReleaseLease { host } => match self.links.get_mut(&host) {
                Some(link) => {
                    link.release();
                    None
                }
                None => Some(Event::LeaseReleased { host }),
            },
            Effect::JournalAttempts { attempts } => self.journal(attempts),
            Effect::PrepareAttempt { attempt, host } => self.begin(attempt, &host),
            Effect::StartTask { host, task, hold } => self.start(&host, task, hold),
            Effect::ReleaseBarrier { host, attempt } => {
                self.links.get(&host)?.open_barrier(attempt);
                None
            }
            Effect::StopTask { host, task, kill } => {
                self.links.get(&host)?.stop(&task, kill);
                None
            }
            Effect::Collect { host, attempt, tasks } => self.collect(&host, attempt, &tasks),
            Effect::StoreAttempt {
                attempt,
                host,
                verdict,
                is_final,
                begun,
                ended,
                start_skew_us,
                with_outputs,
            } => {
                let elapsed = ended.saturating_sub(begun);
                let begun_us = u64::try_from(begun.as_micros()).unwrap_or(u64::MAX);
                let started_unix_us = self.clock_unix_us.saturating_add(begun_us);
                let host = host.unwrap_or_else(local);
                self.store(Ending {
                    attempt,
                    host,
                    verdict,
                    is_final,
                    started_unix_us,
                    elapsed,
                    start_skew_us,
                    with_outputs,
                })
            }
            Effect::ForgetAttempts { host, attempts } => {
                self.links.get(&host)?.forget(attempts);
                None
            }
            Effect::Finish { ended, progress } => {
                self.finished = Some((ended, progress));
                None
            }
        }
    }

    fn journal(&mut self, attempts: Vec<(AttemptId, Name)>) -> Option<Event> {
        let at_unix_us = unix_us();
        let intents =
            attempts.iter().map(|(id, host)| Intent { id: *id, host: host.clone(), at_unix_us }).collect();
        let token = self.token(Submitted::Journal(attempts));
        let error = self.writer.submit(token, Command::Journal(intents)).err()?;
        self.tokens.remove(&token);
        Some(Event::JournalFailed { why: link::chain(&error), disk_full: false })
    }

    /// Opens the books of an attempt and asks for its ports, if it needs any.
    fn begin(&mut self, id: AttemptId, host: &Name) -> Option<Event> {
        let wanted = prepare::reserved_ports(&self.matrix);
        let link = self.links.get(host)?;
        let facts = &link.hello().facts;
        let Some(planned) = self.matrix.cell(id.trial.cell) else {
            let detail = format!("the matrix has no cell {}", id.trial.cell);
            return Some(Event::AttemptUnprepared { attempt: id, verdict: internal(detail) });
        };
        if let Some(verdict) = prepare::machine_mismatch(&planned.cell, facts) {
            return Some(Event::AttemptUnprepared { attempt: id, verdict });
        }
        let boot_id = facts.boot_id.clone();
        if wanted > 0 {
            link.reserve_ports(id, wanted);
        }
        let attempt = self.attempt_mut(id)?;
        attempt.host = Some(host.clone());
        attempt.boot_id = boot_id;
        let cell = attempt.cell.clone();
        self.progress.begun(id.trial, &cell);
        if wanted > 0 { None } else { Some(self.prepare(id, &[])) }
    }

    /// Renders an attempt, now that its ports are known.
    pub(super) fn prepare(&mut self, id: AttemptId, ports: &[u16]) -> Event {
        let refuse = |verdict| Event::AttemptUnprepared { attempt: id, verdict };
        let Some(endpoints) = prepare::endpoints(&self.matrix, ports) else {
            return refuse(internal("the agent reserved too few ports".to_owned()));
        };
        let Some(attempt) = self.attempts.get_mut(&id) else {
            return refuse(internal("the attempt is not known".to_owned()));
        };
        let link = attempt.host.as_ref().and_then(|host| self.links.get(host));
        let work_dir = link.map_or("", |link| link.hello().work_dir.as_str());
        let roles = self.matrix.roles().len();
        match prepare::render(&self.renderer, roles, &id, &attempt.cell, work_dir, &endpoints) {
            Ok(roles) => {
                attempt.roles = roles;
                Event::AttemptPrepared { attempt: id }
            }
            Err(verdict) => refuse(verdict),
        }
    }

    fn start(&mut self, host: &Name, task: TaskId, hold: bool) -> Option<Event> {
        let role = self.matrix.roles().iter().position(|role| role.name == task.role)?;
        let counters = self.matrix.roles().get(role).is_some_and(|role| role.measure.is_some());
        let attempt = self.attempts.get_mut(&task.attempt)?;
        let spec = attempt.spec(role, &task, hold, counters)?;
        attempt.tasks.entry(task).or_default();
        self.links.get(host)?.start(spec);
        None
    }

    /// Looks for outputs that did not travel with their events; collects at once if there are none.
    fn collect(&mut self, host: &Name, id: AttemptId, tasks: &[TaskId]) -> Option<Event> {
        let attempt = self.attempts.get_mut(&id)?;
        let mut inline = Outputs::new();
        let mut wanted = Vec::new();
        for task in tasks {
            let Some(end) = attempt.tasks.get_mut(task).and_then(|task| task.end.as_mut()) else { continue };
            for (stream, output) in [(Stream::Stdout, &mut end.stdout), (Stream::Stderr, &mut end.stderr)] {
                match output.inline.take() {
                    Some(bytes) => drop(inline.insert((task.clone(), stream), bytes)),
                    None if output.kept > 0 => wanted.push((task.clone(), stream)),
                    None => {}
                }
            }
        }
        attempt.outputs.append(&mut inline);
        if wanted.is_empty() {
            return Some(self.collected(id));
        }
        self.links.get(host)?.fetch(id, wanted);
        None
    }

    /// The long outputs are here.
    pub(super) fn collect_fetched(
        &mut self,
        id: AttemptId,
        outputs: Result<Outputs, String>,
    ) -> Option<Event> {
        let attempt = self.attempts.get_mut(&id)?;
        match outputs {
            Ok(mut outputs) => attempt.outputs.append(&mut outputs),
            Err(why) => {
                let failed = Some((ErrorCause::AgentLost, why));
                let outcome = CollectOutcome { failed, ..CollectOutcome::default() };
                return Some(Event::Collected { attempt: id, outcome });
            }
        }
        Some(self.collected(id))
    }

    fn collected(&mut self, id: AttemptId) -> Event {
        let Some(attempt) = self.attempts.get_mut(&id) else {
            return Event::Collected { attempt: id, outcome: CollectOutcome::default() };
        };
        let found = collect(&self.matrix, &task_outputs(&self.matrix, attempt));
        let outcome = found.outcome.clone();
        attempt.collected = Some(found);
        Event::Collected { attempt: id, outcome }
    }

    fn store(&mut self, ending: Ending) -> Option<Event> {
        let Ending {
            attempt: id,
            host,
            verdict,
            is_final,
            started_unix_us,
            elapsed,
            start_skew_us,
            with_outputs,
        } = ending;
        let attempt = self.attempt_mut(id)?;
        let outputs = if with_outputs { raw_outputs(attempt) } else { Vec::new() };
        let boot_id = attempt.boot_id.clone();
        let found = attempt.collected.clone();
        let matrix = self.matrix.clone();
        let attempt = self.attempts.get(&id)?;
        let (metrics, mut tasks) = match found {
            Some(found) => (found.metrics, found.tasks),
            None => (Vec::new(), collect(&matrix, &task_outputs(&matrix, attempt)).tasks),
        };
        let has_number = verdict.outcome().has_number();
        if verdict == Verdict::Ok || !with_outputs {
            tasks.iter_mut().for_each(|task| task.tail.clear());
        }
        let verdict = describe(verdict, &tasks);
        let metrics = if has_number { metrics } else { Vec::new() };
        let value = matrix.metrics().primary().and_then(|primary| {
            let (_, value) = metrics.iter().find(|(name, _)| *name == primary.name)?;
            Some(format!("{} {}", drover_report::format_number(*value), primary.unit))
        });
        let summary = Summary { verdict: verdict.clone(), value, took: elapsed, is_final };
        let record = AttemptRecord {
            id,
            host,
            boot_id,
            started_unix_us,
            elapsed,
            verdict,
            is_final,
            metrics,
            tasks,
            start_skew_us,
        };
        self.attempt_mut(id)?.summary = Some(summary);
        let token = self.token(Submitted::Attempt(id));
        let command = Command::Finish { record: Box::new(record), outputs };
        let error = self.writer.submit(token, command).err()?;
        self.tokens.remove(&token);
        Some(Event::StoreFailed { attempt: id, why: link::chain(&error), disk_full: false })
    }
}

/// An attempt that is over.
struct Ending {
    attempt: AttemptId,
    host: Name,
    verdict: Verdict,
    is_final: bool,
    started_unix_us: u64,
    elapsed: Duration,
    start_skew_us: Option<u64>,
    with_outputs: bool,
}

/// Name of the host that is this machine.
#[expect(clippy::expect_used, reason = "the text is a name")]
pub fn local() -> Name {
    "local".parse().expect("a valid name")
}

fn internal(detail: String) -> Verdict {
    Verdict::Error { cause: ErrorCause::Internal, detail }
}

/// The tasks of an attempt with their outputs, in the order of the roles.
fn task_outputs<'a>(matrix: &'a Matrix, attempt: &'a LiveAttempt) -> Vec<TaskOutput<'a>> {
    let output =
        |task: &TaskId, stream| attempt.outputs.get(&(task.clone(), stream)).map_or(&[][..], Vec::as_slice);
    let mut tasks = Vec::new();
    for (place, role) in matrix.roles().iter().enumerate() {
        for (id, task) in attempt.tasks.iter().filter(|(id, _)| id.role == role.name) {
            tasks.push(TaskOutput {
                role,
                instance: id.instance,
                argv: attempt.roles.get(place).map(|rendered| rendered.argv.clone()).unwrap_or_default(),
                end: task.end.as_ref(),
                cpus: &task.cpus,
                stdout: output(id, Stream::Stdout),
                stderr: output(id, Stream::Stderr),
            });
        }
    }
    tasks
}

fn raw_outputs(attempt: &mut LiveAttempt) -> Vec<RawOutput> {
    let outputs = attempt.outputs.iter();
    let raw = outputs.map(|((task, stream), bytes)| RawOutput {
        role: task.role.clone(),
        instance: task.instance,
        stream: *stream,
        body: OutputBody::Bytes(bytes.clone()),
    });
    raw.collect()
}
