//! The rpcs of `drover.v1.Agent`: messages in, registry called, messages out. Semantics are documented in
//! `proto/drover/v1/agent.proto`.

use std::{sync::Arc, time::Duration};

use drover_model::{AttemptId, OutputSummary, RunId, TaskEnd, TaskId, TaskSpec};
use drover_proto::{ConversionError, LeaseRef, PROTOCOL, Problem, v1};
use tonic::{Request, Response, Status};

use crate::{
    agent::Agent,
    barrier,
    lease::Ask,
    refused::Refused,
    registry::Admission,
    streams::{EventStream, OutputStream},
    task::{self, LiveTask, Outputs},
    text::{monotonic_ns, unix_now},
};

/// Shortest time to live of a lease: less could not be renewed in time on a busy machine.
const MIN_TTL: Duration = Duration::from_secs(1);

/// Longest time to live of a lease: more would keep a host from others for no reason.
const MAX_TTL: Duration = Duration::from_secs(3600);

/// Longest text that names a holder, in bytes.
const MAX_HOLDER: usize = 256;

/// Serves the rpcs.
#[derive(Clone, Debug)]
pub struct Service {
    agent: Arc<Agent>,
}

impl Service {
    /// Serves for `agent`.
    #[must_use]
    pub fn new(agent: Arc<Agent>) -> Self {
        Self { agent }
    }

    fn start(&self, request: v1::StartTaskRequest) -> Result<bool, Refused> {
        let lease = lease_ref(request.lease)?;
        let spec = request.task.ok_or_else(|| missing("task"))?;
        let spec = TaskSpec::try_from(spec).map_err(|error| at("task", error))?;
        let outputs = Arc::new(Outputs::new(&self.agent.dir.paths.outputs(), &spec.id, spec.output_limit));
        let (live, wish) = LiveTask::new(spec.hold, spec.output_limit, Arc::clone(&outputs));
        let admission = self.agent.registry().admit(lease, &spec.id, live)?;
        match admission {
            Admission::Known => return Ok(true),
            Admission::Ended => self.agent.tell_watchers(),
            Admission::Accepted => {
                self.agent.tell_server();
                tokio::spawn(task::run(Arc::clone(&self.agent), spec, outputs, wish));
            }
        }
        Ok(false)
    }

    fn acquire(&self, request: v1::AcquireLeaseRequest) -> Result<v1::Lease, Refused> {
        let run: RunId = id("run", &request.run)?;
        if request.holder.len() > MAX_HOLDER {
            return Err(Refused::Argument("the holder has more than 256 bytes"));
        }
        let ttl = Duration::from_millis(request.ttl_ms).clamp(MIN_TTL, MAX_TTL);
        let now_unix_ms = u64::try_from(unix_now().as_millis()).unwrap_or(u64::MAX);
        let info = self.agent.registry().acquire(Ask { run, holder: request.holder, ttl, now_unix_ms })?;
        // Those who watch under an older epoch are to notice.
        self.agent.tell_watchers();
        self.agent.tell_server();
        Ok(info.into())
    }

    fn release_barrier(&self, request: v1::ReleaseBarrierRequest) -> Result<u32, Refused> {
        let lease = lease_ref(request.lease)?;
        let attempt: AttemptId = id("attempt", &request.attempt)?;
        let registry = self.agent.registry();
        registry.check(lease)?;
        let of_attempt = registry.all_live().filter(|(task, _)| task.attempt == attempt);
        let gates: Vec<_> = of_attempt.filter_map(|(_, live)| live.gate()).collect();
        drop(registry);
        let released = u32::try_from(gates.len()).unwrap_or(u32::MAX);
        tokio::spawn(barrier::open_at(request.at_monotonic_ns, gates));
        Ok(released)
    }

    fn stop(&self, request: v1::StopTaskRequest) -> Result<(), Refused> {
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

    fn fetch(&self, request: v1::FetchRequest) -> Result<OutputStream, Refused> {
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

    async fn forget(&self, request: v1::ForgetRequest) -> Result<(), Refused> {
        let lease = lease_ref(request.lease)?;
        let attempts = request.attempts.iter().map(|text| id("attempts", text));
        let attempts: Vec<AttemptId> = attempts.collect::<Result<_, _>>()?;
        let (mut folders, mut outputs) = (Vec::new(), Vec::new());
        let mut result = Ok(());
        {
            let mut registry = self.agent.registry();
            registry.check(lease)?;
            for attempt in attempts {
                let tasks = registry.tasks_of(attempt);
                match registry.forget(lease, attempt) {
                    Ok(true) => {
                        folders.push(self.agent.dir.paths.work().join(attempt.to_string()));
                        outputs.extend(tasks);
                    }
                    Ok(false) => {}
                    Err(error) => result = Err(error),
                }
            }
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

    fn shutdown(&self, request: v1::ShutdownRequest) -> Result<(), Refused> {
        let lease = request.lease.map(|lease| lease_ref(Some(lease))).transpose()?;
        self.agent.registry().may_end(lease)?;
        tracing::info!("ends: a controller asked for it");
        self.agent.end(false);
        Ok(())
    }
}

fn missing(field: &str) -> Refused {
    ConversionError { field: field.to_owned(), problem: Problem::Missing }.into()
}

fn at(field: &str, error: ConversionError) -> Refused {
    ConversionError { field: format!("{field}.{}", error.field), problem: error.problem }.into()
}

fn lease_ref(lease: Option<v1::LeaseRef>) -> Result<LeaseRef, Refused> {
    let lease = lease.ok_or_else(|| missing("lease"))?;
    LeaseRef::try_from(lease).map_err(|error| at("lease", error))
}

fn id<T: std::str::FromStr<Err = drover_model::IdError>>(field: &str, text: &str) -> Result<T, Refused> {
    text.parse().map_err(|error: drover_model::IdError| {
        ConversionError { field: field.to_owned(), problem: error.into() }.into()
    })
}

/// What an end event says of a stream.
fn summary(event: v1::TaskEvent, stderr: bool) -> Option<OutputSummary> {
    let Some(v1::task_event::Kind::Ended(end)) = event.kind else { return None };
    let end = TaskEnd::try_from(end).ok()?;
    Some(if stderr { end.stderr } else { end.stdout })
}

type Reply<T> = Result<Response<T>, Status>;

#[tonic::async_trait]
impl v1::agent_server::Agent for Service {
    async fn hello(&self, request: Request<v1::HelloRequest>) -> Reply<v1::HelloReply> {
        let theirs = request.into_inner().protocol;
        if theirs != PROTOCOL {
            return Err(Refused::Protocol { theirs, ours: PROTOCOL }.into());
        }
        Ok(Response::new(self.agent.hello().into()))
    }

    async fn acquire_lease(&self, request: Request<v1::AcquireLeaseRequest>) -> Reply<v1::Lease> {
        Ok(Response::new(self.acquire(request.into_inner())?))
    }

    async fn renew_lease(&self, request: Request<v1::LeaseRef>) -> Reply<v1::Lease> {
        let lease = lease_ref(Some(request.into_inner()))?;
        let info = self.agent.registry().renew(lease)?;
        Ok(Response::new(info.into()))
    }

    async fn release_lease(&self, request: Request<v1::LeaseRef>) -> Reply<v1::ReleaseLeaseReply> {
        let lease = lease_ref(Some(request.into_inner()))?;
        self.agent.registry().release(lease)?;
        self.agent.tell_watchers();
        self.agent.tell_server();
        Ok(Response::new(v1::ReleaseLeaseReply {}))
    }

    async fn list_tasks(&self, request: Request<v1::LeaseRef>) -> Reply<v1::ListTasksReply> {
        let lease = lease_ref(Some(request.into_inner()))?;
        let tasks = self.agent.registry().tasks(lease)?.into_iter();
        let tasks = tasks.map(|task| v1::KnownTask { task: task.id.to_string(), ended: task.end.is_some() });
        Ok(Response::new(v1::ListTasksReply { tasks: tasks.collect() }))
    }

    async fn reserve_ports(&self, request: Request<v1::ReservePortsRequest>) -> Reply<v1::ReservePortsReply> {
        let request = request.into_inner();
        let (lease, attempt) = (lease_ref(request.lease)?, id("attempt", &request.attempt)?);
        let ports = self.agent.registry().reserve(lease, attempt, request.count)?;
        Ok(Response::new(v1::ReservePortsReply { ports: ports.into_iter().map(u32::from).collect() }))
    }

    async fn start_task(&self, request: Request<v1::StartTaskRequest>) -> Reply<v1::StartTaskReply> {
        Ok(Response::new(v1::StartTaskReply { known: self.start(request.into_inner())? }))
    }

    type WatchStream = EventStream;

    async fn watch(&self, request: Request<v1::WatchRequest>) -> Reply<EventStream> {
        let request = request.into_inner();
        let lease = lease_ref(request.lease)?;
        self.agent.registry().check(lease)?;
        Ok(Response::new(EventStream::new(Arc::clone(&self.agent), lease, request.from_seq)))
    }

    async fn release_barrier(
        &self,
        request: Request<v1::ReleaseBarrierRequest>,
    ) -> Reply<v1::ReleaseBarrierReply> {
        let released = Service::release_barrier(self, request.into_inner())?;
        Ok(Response::new(v1::ReleaseBarrierReply { released }))
    }

    async fn stop_task(&self, request: Request<v1::StopTaskRequest>) -> Reply<v1::StopTaskReply> {
        self.stop(request.into_inner())?;
        Ok(Response::new(v1::StopTaskReply {}))
    }

    type FetchStream = OutputStream;

    async fn fetch(&self, request: Request<v1::FetchRequest>) -> Reply<OutputStream> {
        Ok(Response::new(Service::fetch(self, request.into_inner())?))
    }

    async fn forget(&self, request: Request<v1::ForgetRequest>) -> Reply<v1::ForgetReply> {
        Service::forget(self, request.into_inner()).await?;
        Ok(Response::new(v1::ForgetReply {}))
    }

    async fn probe_clock(&self, _: Request<v1::ProbeClockRequest>) -> Reply<v1::ProbeClockReply> {
        let unix_ns = u64::try_from(unix_now().as_nanos()).unwrap_or(u64::MAX);
        Ok(Response::new(v1::ProbeClockReply { monotonic_ns: monotonic_ns(), unix_ns }))
    }

    async fn shutdown(&self, request: Request<v1::ShutdownRequest>) -> Reply<v1::ShutdownReply> {
        Service::shutdown(self, request.into_inner())?;
        Ok(Response::new(v1::ShutdownReply {}))
    }
}
