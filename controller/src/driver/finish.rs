//! The end of an attempt: what its tasks left is fetched, read, and stored.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use drover_matrix::Matrix;
use drover_model::{AttemptId, Doubt, DoubtKind, ErrorCause, Name, Seats, TaskId, Verdict};
use drover_sched::{CollectOutcome, Event};
use drover_store::{AttemptRecord, Command, RawOutput, Stream};

use super::{
    Collected, TaskOutput,
    attempt::{ArtifactWish, Fetched, FetchedArtifact, LiveAttempt, Outputs, Summary, Wanted},
    collect::{collect, describe},
    drive::Driver,
    link, observed,
    setup::local,
    stored::Submitted,
};

/// Room for the note that stands where an output was cut, in bytes.
const GAP_NOTE: u64 = 4096;

impl Driver {
    /// Looks for outputs that did not travel with their events; collects at once if there are none.
    pub(super) fn collect(&mut self, id: AttemptId, tasks: &[(Name, TaskId)]) -> Option<Event> {
        self.verify_machines(id);
        let attempt = self.attempts.get_mut(&id)?;
        attempt.waits_for_machines = false;
        let mut inline = Outputs::new();
        let mut wanted: BTreeMap<&Name, Wanted> = BTreeMap::new();
        for (host, task) in tasks {
            let Some(live) = attempt.tasks.get_mut(task) else { continue };
            live.host.get_or_insert_with(|| host.clone());
            let role = self.matrix.roles().iter().find(|role| role.name == task.role);
            if let Some(role) = role.filter(|role| !role.artifacts.is_empty()) {
                // Tasks of one attempt share their folder on a host.
                let wishes = &mut wanted.entry(host).or_default().artifacts;
                if !wishes.iter().any(|wish: &ArtifactWish| wish.task.role == task.role) {
                    let (patterns, limit) = (role.artifacts.clone(), role.artifact_limit);
                    wishes.push(ArtifactWish { task: task.clone(), patterns, limit });
                }
            }
            let limit = role.map_or(0, |role| role.output);
            let Some(end) = live.end.as_mut() else { continue };
            for (stream, output) in [(Stream::Stdout, &mut end.stdout), (Stream::Stderr, &mut end.stderr)] {
                match output.inline.take() {
                    Some(bytes) => drop(inline.insert((task.clone(), stream), bytes)),
                    None if output.kept > 0 && !attempt.outputs.contains_key(&(task.clone(), stream)) => {
                        let kept = output.kept.min(limit).saturating_add(GAP_NOTE);
                        wanted.entry(host).or_default().outputs.push((task.clone(), stream, kept));
                    }
                    None => {}
                }
            }
        }
        attempt.outputs.append(&mut inline);
        for (host, _) in tasks {
            if attempt.observed.get(host).is_some_and(|observed| observed.sampled) {
                wanted.entry(host).or_default().samples = true;
            }
        }
        if wanted.is_empty() {
            return self.collected(id);
        }
        for (host, wanted) in wanted {
            let link = self.links.get(host)?;
            // One that was asked on this connection will answer.
            if attempt.fetching.insert(host.clone(), link.generation()) == Some(link.generation()) {
                continue;
            }
            attempt.artifacts.retain(|artifact| artifact.host != *host);
            link.fetch(id, wanted, self.results.clone());
        }
        None
    }

    /// What a host had to send is here; collects when all hosts have sent theirs.
    pub(super) fn fetched(
        &mut self,
        id: AttemptId,
        host: &Name,
        fetched: Result<Fetched, (ErrorCause, String)>,
    ) -> Option<Event> {
        let attempt = self.attempts.get_mut(&id)?;
        attempt.fetching.remove(host)?;
        match fetched {
            Ok(mut fetched) => {
                attempt.outputs.append(&mut fetched.outputs);
                attempt.artifacts.append(&mut fetched.artifacts);
                attempt.observed.entry(host.clone()).or_default().judged = fetched.judged;
            }
            Err(failed) => {
                attempt.fetching.clear();
                let failed = Some(failed);
                let outcome = CollectOutcome { failed, ..CollectOutcome::default() };
                return Some(Event::Collected { attempt: id, outcome });
            }
        }
        if attempt.fetching.is_empty() { self.collected(id) } else { None }
    }

    /// All that an attempt left is here: reads it, once its machines have said what they are. What a soak comes to, its series tells.
    pub(super) fn collected(&mut self, id: AttemptId) -> Option<Event> {
        if self.waits_for_machines(id) {
            self.attempts.get_mut(&id)?.waits_for_machines = true;
            return None;
        }
        let attempt = self.attempts.get(&id)?;
        if attempt.soak.is_some() {
            return self.soak_over(id);
        }
        let found = collect(&self.matrix, &task_outputs(&self.matrix, attempt));
        Some(self.note_collected(id, found))
    }

    /// Keeps what was found for the record.
    pub(super) fn note_collected(&mut self, id: AttemptId, mut found: Collected) -> Event {
        if let Some(attempt) = self.attempts.get_mut(&id) {
            found.outcome.wrong_machine = attempt.verified.values().find_map(|(_, said)| said.problem());
            found.outcome.doubts.extend(attempt.artifacts.iter().filter_map(not_kept));
            let hosts = attempt.seats.as_ref().map_or(attempt.observed.len(), |seats| seats.hosts().len());
            found.outcome.doubts.extend(observed::doubts(&attempt.observed, hosts));
            observed::weigh(&mut found.outcome, &self.matrix.policy().doubts);
            attempt.collected = Some(found.clone());
        }
        Event::Collected { attempt: id, outcome: found.outcome }
    }

    pub(super) fn store(&mut self, ending: Ending) -> Option<Event> {
        let Ending {
            attempt: id,
            seats,
            verdict,
            is_final,
            started_unix_us,
            elapsed,
            start_skew_us,
            with_outputs,
        } = ending;
        self.close_series(id);
        let attempt = self.attempt_mut(id)?;
        let outputs = if with_outputs { raw_outputs(attempt) } else { Vec::new() };
        let (found, boots) = (attempt.collected.clone(), attempt.boots.clone());
        let boots = if boots.is_empty() { self.boots(seats.as_deref()) } else { boots };
        let (hosts, boot_ids) = boots.into_iter().unzip();
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
            hosts,
            boot_ids,
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

    /// The hosts of an attempt that a former controller begun, as they are now.
    fn boots(&self, seats: Option<&Seats>) -> Vec<(Name, String)> {
        let boot = |host: &Name| self.links.get(host).map(|link| link.hello().facts.boot_id.clone());
        let hosts = seats.map(Seats::hosts).unwrap_or_default();
        hosts.into_iter().map(|host| (host.clone(), boot(host).unwrap_or_default())).collect()
    }
}

/// An attempt that is over.
pub(super) struct Ending {
    pub attempt: AttemptId,
    pub seats: Option<Arc<Seats>>,
    pub verdict: Verdict,
    pub is_final: bool,
    pub started_unix_us: u64,
    pub elapsed: Duration,
    pub start_skew_us: Option<u64>,
    pub with_outputs: bool,
}

/// The tasks of an attempt with their outputs, in the order of the roles.
pub(super) fn task_outputs<'a>(matrix: &'a Matrix, attempt: &'a LiveAttempt) -> Vec<TaskOutput<'a>> {
    let output =
        |task: &TaskId, stream| attempt.outputs.get(&(task.clone(), stream)).map_or(&[][..], Vec::as_slice);
    let mut tasks = Vec::new();
    for (place, role) in matrix.roles().iter().enumerate() {
        let rendered = |instance| attempt.roles.get(place)?.get(usize::try_from(instance).ok()?);
        for (id, task) in attempt.tasks.iter().filter(|(id, _)| id.role == role.name) {
            tasks.push(TaskOutput {
                role,
                instance: id.instance,
                host: task.host.clone().unwrap_or_else(local),
                argv: rendered(id.instance).map(|rendered| rendered.argv.clone()).unwrap_or_default(),
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
        bytes: bytes.clone(),
    });
    raw.collect()
}

/// What is to be said of an artifact that was not kept.
fn not_kept(artifact: &FetchedArtifact) -> Option<Doubt> {
    let problem = artifact.problem.as_ref()?;
    let detail = if artifact.path.is_empty() {
        format!("artifacts of {}: {problem}", artifact.task.role)
    } else {
        format!("artifact `{}` of {} was not kept: {problem}", artifact.path, artifact.task.role)
    };
    Some(Doubt { kind: DoubtKind::OutputCut, detail })
}
