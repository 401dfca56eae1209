//! Requests about tasks: start, release, stop, read their outputs, forget.

use std::{sync::Arc, time::Duration};

use drover_model::{AttemptId, OutputSummary, TaskEnd, TaskId, TaskSpec};
use drover_proto::v1;

use super::Service;
use crate::{
    barrier,
    clock::monotonic_ns,
    refused::Refused,
    registry::Admission,
    request::{at, id, lease_ref, missing},
    streams::OutputStream,
    task::{self, LiveTask, Outputs},
};

impl Service {
    pub(super) fn start(&self, request: v1::StartTaskRequest) -> Result<bool, Refused> {
        let lease = lease_ref(request.lease)?;
        let spec = request.task.ok_or_else(|| missing("task"))?;
        let spec = TaskSpec::try_from(spec).map_err(|error| at("task", error))?;
        let outputs = Arc::new(Outputs::new(&self.agent.dir.paths.outputs(), &spec.id, spec.output_limit));
        let mut registry = self.agent.registry();
        registry.check(lease)?;
        // A task that is known does not need its blobs any more.
        let named = spec.files.iter().filter_map(|file| file.blob.as_ref());
        let named = named.filter(|_| !registry.knows(&spec.id));
        let pins = self.agent.blobs.pin(named)?;
        let (live, orders) = LiveTask::new(spec.hold, spec.output_limit, Arc::clone(&outputs), pins);
        let admission = registry.admit(lease, &spec.id, live)?;
        drop(registry);
        match admission {
            Admission::Known => return Ok(true),
            Admission::Ended => self.agent.tell_watchers(),
            Admission::Accepted => {
                self.agent.observatory.begin(&self.agent, spec.id.attempt);
                self.agent.tell_server();
                tokio::spawn(task::run(Arc::clone(&self.agent), spec, outputs, orders));
            }
        }
        Ok(false)
    }

    pub(super) fn release_barrier(&self, request: v1::ReleaseBarrierRequest) -> Result<u32, Refused> {
        let lease = lease_ref(request.lease)?;
        let attempt: AttemptId = id("attempt", &request.attempt)?;
        let ahead = request.at_monotonic_ns.saturating_sub(monotonic_ns());
        if Duration::from_nanos(ahead) > barrier::MAX_AHEAD {
            return Err(Refused::Argument("the barrier's instant is more than 10 minutes ahead"));
        }
        let registry = self.agent.registry();
        registry.check(lease)?;
        let of_attempt = registry.all_live().filter(|(task, _)| task.attempt == attempt);
        let gates: Vec<_> = of_attempt.filter_map(|(_, live)| live.gate()).collect();
        drop(registry);
        let released = u32::try_from(gates.len()).unwrap_or(u32::MAX);
        barrier::open_at(request.at_monotonic_ns, gates).map_err(Refused::Barrier)?;
        Ok(released)
    }

    pub(super) fn stop(&self, request: v1::StopTaskRequest) -> Result<(), Refused> {
        let lease = lease_ref(request.lease)?;
        let task: TaskId = id("task", &request.task)?;
        let registry = self.agent.registry();
        registry.check(lease)?;
        match registry.live(&task) {
            Some(live) if request.kill => live.kill(),
            Some(live) => live.stop(),
            None => {}
        }
        Ok(())
    }

    pub(super) fn fetch(&self, request: v1::FetchRequest) -> Result<OutputStream, Refused> {
        let stderr = match request.stream() {
            v1::Stream::Stdout => false,
            v1::Stream::Stderr => true,
            v1::Stream::Unspecified => return Err(missing("stream")),
        };
        let lease = lease_ref(request.lease)?;
        let task: TaskId = id("task", &request.task)?;
        let registry = self.agent.registry();
        registry.check(lease)?;
        let opened = match registry.live(&task) {
            Some(live) => Ok(live.outputs.reader(stderr)),
            None => {
                let (entry, end) = registry.known(&task)?;
                let Some(summary) = end.and_then(|end| summary(end, stderr)) else {
                    return Ok(OutputStream::inline(Vec::new()));
                };
                if let Some(inline) = summary.inline {
                    return Ok(OutputStream::inline(inline));
                }
                let outputs = self.agent.dir.paths.outputs();
                Outputs::reopen(&outputs, &task, stderr, entry.output_limit, &summary)
            }
        };
        let kept = opened.map_err(|source| Refused::Output { task, source })?;
        Ok(OutputStream::file(kept))
    }

    pub(super) async fn forget(&self, request: v1::ForgetRequest) -> Result<(), Refused> {
        let lease = lease_ref(request.lease)?;
        let attempts = request.attempts.iter().map(|text| id("attempts", text));
        let attempts: Vec<AttemptId> = attempts.collect::<Result<_, _>>()?;
        let (mut folders, mut outputs, mut forgotten) = (Vec::new(), Vec::new(), Vec::new());
        let mut result = Ok(());
        {
            let mut registry = self.agent.registry();
            registry.check(lease)?;
            for attempt in attempts {
                let tasks = registry.tasks_of(attempt);
                match registry.forget(lease, attempt) {
                    Ok(true) => {
                        forgotten.push(attempt);
                        folders.push(self.agent.dir.paths.work().join(attempt.to_string()));
                        outputs.extend(tasks);
                    }
                    Ok(false) => {}
                    Err(error) => result = Err(error),
                }
            }
        }
        self.agent.observatory.forget(&forgotten);
        for attempt in &forgotten {
            task::remove(&self.agent.dir.paths.observed().join(attempt.to_string()));
        }
        let dir = self.agent.dir.paths.outputs();
        // What is small goes at once; a folder with contents may take a while, so a thread removes it.
        folders.retain(|folder| std::fs::remove_dir(folder).is_err());
        outputs.iter().filter(|(_, files)| *files).for_each(|(task, _)| Outputs::remove(&dir, task));
        if !folders.is_empty() {
            let removal =
                tokio::task::spawn_blocking(move || folders.iter().for_each(|path| task::remove(path)));
            if let Err(error) = removal.await {
                tracing::error!(%error, "attempt folders are not removed");
            }
        }
        result
    }
}

/// What an end event says of a stream.
fn summary(event: v1::TaskEvent, stderr: bool) -> Option<OutputSummary> {
    let Some(v1::task_event::Kind::Ended(end)) = event.kind else { return None };
    let end = TaskEnd::try_from(end).ok()?;
    Some(if stderr { end.stderr } else { end.stdout })
}
