//! The service itself, and what is too small for a file of its own.

use std::{sync::Arc, time::Duration};

use drover_model::RunId;
use drover_proto::{PROTOCOL, v1};
use tonic::{Request, Response, Status, Streaming};

use crate::{
    agent::Agent,
    artifacts::ArtifactStream,
    blobs, boot,
    clock::{monotonic_ns, unix_now},
    cpus,
    evidence::EvidenceStream,
    lease::Ask,
    observe::ObservedStream,
    refused::Refused,
    request::{id, lease_ref},
    streams::{EventStream, OutputStream},
    text::chain,
};

/// Shortest time to live of a lease: less could not be renewed in time on a busy machine.
const MIN_TTL: Duration = Duration::from_secs(1);

/// Longest time to live of a lease: more would keep a host from others for no reason.
const MAX_TTL: Duration = Duration::from_secs(3600);

/// Shortest and longest time between two samples of the sensors.
const MIN_INTERVAL: Duration = Duration::from_millis(100);
const MAX_INTERVAL: Duration = Duration::from_secs(60);

/// Longest text that names a holder, in bytes.
const MAX_HOLDER: usize = 256;

/// Serves the rpcs.
#[derive(Clone, Debug)]
pub struct Service {
    pub(super) agent: Arc<Agent>,
}

impl Service {
    /// Serves for `agent`.
    #[must_use]
    pub fn new(agent: Arc<Agent>) -> Self {
        Self { agent }
    }

    async fn acquire(&self, request: v1::AcquireLeaseRequest) -> Result<v1::Lease, Refused> {
        let run: RunId = id("run", &request.run)?;
        if request.holder.len() > MAX_HOLDER {
            return Err(Refused::Argument("the holder has more than 256 bytes"));
        }
        let ttl = Duration::from_millis(request.ttl_ms).clamp(MIN_TTL, MAX_TTL);
        let now_unix_ms = u64::try_from(unix_now().as_millis()).unwrap_or(u64::MAX);
        let observe = (request.observe_interval_ms > 0)
            .then(|| Duration::from_millis(request.observe_interval_ms).clamp(MIN_INTERVAL, MAX_INTERVAL));
        let ask = Ask { run, holder: request.holder, ttl, observe, now_unix_ms };
        let info = self.agent.registry().acquire(ask)?;
        // Those who watch under an older epoch are to notice.
        self.agent.tell_watchers();
        self.agent.tell_server();
        // What does not come back is said to whoever starts a task.
        if let Err(error) = cpus::put_back(&self.agent, Some(run)).await {
            tracing::error!(error = %chain(&error), "the host is not as it was");
        }
        if let Err(error) = boot::disarm(&self.agent, Some(run)).await {
            tracing::error!(error = %chain(&error), "the host may not boot its usual kernel");
        }
        Ok(info.into())
    }

    fn shutdown(&self, request: v1::ShutdownRequest) -> Result<(), Refused> {
        let lease = request.lease.map(|lease| lease_ref(Some(lease))).transpose()?;
        self.agent.registry().may_end(lease)?;
        tracing::info!("ends: a controller asked for it");
        self.agent.end(false);
        Ok(())
    }
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
        Ok(Response::new(self.acquire(request.into_inner()).await?))
    }

    async fn renew_lease(&self, request: Request<v1::LeaseRef>) -> Reply<v1::Lease> {
        let lease = lease_ref(Some(request.into_inner()))?;
        let info = self.agent.registry().renew(lease)?;
        Ok(Response::new(info.into()))
    }

    async fn release_lease(&self, request: Request<v1::LeaseRef>) -> Reply<v1::ReleaseLeaseReply> {
        let lease = lease_ref(Some(request.into_inner()))?;
        // The host is given back even if something is not as it was; no run can use it then.
        let disarmed = boot::release(&self.agent, lease).await;
        cpus::release(&self.agent, lease).await?;
        disarmed?;
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

    async fn check_reach(&self, request: Request<v1::CheckReachRequest>) -> Reply<v1::CheckReachReply> {
        let problem = Service::check_reach(self, request.into_inner())?.await;
        Ok(Response::new(v1::CheckReachReply { problem }))
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

    async fn missing_blobs(&self, request: Request<v1::MissingBlobsRequest>) -> Reply<v1::MissingBlobsReply> {
        let hashes = Service::missing_blobs(self, request.into_inner())?;
        Ok(Response::new(v1::MissingBlobsReply { hashes }))
    }

    async fn put_blob(&self, request: Request<Streaming<v1::PutBlobChunk>>) -> Reply<v1::PutBlobReply> {
        blobs::receive(&self.agent, request.into_inner()).await?;
        Ok(Response::new(v1::PutBlobReply {}))
    }

    async fn list_artifacts(
        &self,
        request: Request<v1::ListArtifactsRequest>,
    ) -> Reply<v1::ListArtifactsReply> {
        Ok(Response::new(Service::list_artifacts(self, request.into_inner()).await?.into()))
    }

    type FetchArtifactStream = ArtifactStream;

    async fn fetch_artifact(&self, request: Request<v1::FetchArtifactRequest>) -> Reply<ArtifactStream> {
        Ok(Response::new(Service::fetch_artifact(self, request.into_inner())?))
    }

    type FetchObservedStream = ObservedStream;

    async fn fetch_observed(&self, request: Request<v1::FetchObservedRequest>) -> Reply<ObservedStream> {
        Ok(Response::new(Service::fetch_observed(self, request.into_inner()).await?))
    }

    async fn judge(&self, request: Request<v1::JudgeRequest>) -> Reply<v1::JudgeReply> {
        Ok(Response::new(Service::judge(self, request.into_inner()).await?))
    }

    type EvidenceStream = EvidenceStream;

    async fn evidence(&self, request: Request<v1::EvidenceRequest>) -> Reply<EvidenceStream> {
        Ok(Response::new(Service::evidence(self, request.into_inner()).await?))
    }

    async fn forget(&self, request: Request<v1::ForgetRequest>) -> Reply<v1::ForgetReply> {
        Service::forget(self, request.into_inner()).await?;
        Ok(Response::new(v1::ForgetReply {}))
    }

    async fn set_cpus(&self, request: Request<v1::SetCpusRequest>) -> Reply<v1::SetCpusReply> {
        Ok(Response::new(Service::set_cpus(self, request.into_inner()).await?))
    }

    async fn arm_kernel(&self, request: Request<v1::ArmKernelRequest>) -> Reply<v1::ArmKernelReply> {
        Ok(Response::new(Service::arm_kernel(self, request.into_inner()).await?))
    }

    async fn reboot(&self, request: Request<v1::RebootRequest>) -> Reply<v1::RebootReply> {
        Service::reboot(self, request.into_inner()).await?;
        Ok(Response::new(v1::RebootReply {}))
    }

    async fn survey(&self, request: Request<v1::SurveyRequest>) -> Reply<v1::SurveyReply> {
        let ports = request.into_inner().ports;
        let ports: Vec<u16> = ports.into_iter().filter_map(|port| u16::try_from(port).ok()).collect();
        let looking = tokio::task::spawn_blocking(move || crate::survey::survey(&ports)).await;
        let found =
            looking.map_err(|error| Status::internal(format!("the host was not looked at: {error}")))?;
        Ok(Response::new(found.into()))
    }

    async fn probe_clock(&self, _: Request<v1::ProbeClockRequest>) -> Reply<v1::ProbeClockReply> {
        let unix_ns = u64::try_from(unix_now().as_nanos()).unwrap_or(u64::MAX);
        // The one that matters for barriers is read last, right before the answer leaves.
        Ok(Response::new(v1::ProbeClockReply { monotonic_ns: monotonic_ns(), unix_ns }))
    }

    async fn shutdown(&self, request: Request<v1::ShutdownRequest>) -> Reply<v1::ShutdownReply> {
        Service::shutdown(self, request.into_inner())?;
        Ok(Response::new(v1::ShutdownReply {}))
    }
}
