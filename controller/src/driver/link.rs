//! The connection to one host's agent: requests that answer with events, and the two tasks that keep it alive.

use std::{pin::Pin, time::Duration};

use drover_connect::{AgentProcess, Connection, LocalOptions, connect_local};
use drover_model::{AttemptId, Name, RunId, TaskEvent, TaskId, TaskSpec};
use drover_proto::{Hello, LeaseRef, Refusal, v1};
use drover_sched::{Event, KnownTask};
use drover_store::Stream;
use tokio::{
    sync::mpsc::{self, UnboundedSender},
    task::AbortHandle,
};
use tonic::{Code, Status, transport::Channel};

use super::{attempt::Outputs, internal_event::InternalEvent};

type Client = v1::agent_client::AgentClient<Channel>;

/// Time without renewal after which another run may take the host.
const LEASE_TTL: Duration = Duration::from_secs(60);
/// Longest wait for the answer to a request that is not expected to take time.
const PATIENCE: Duration = Duration::from_secs(20);

/// A connection that stands, before the host is leased.
pub struct Connected {
    pub client: Client,
    pub hello: Hello,
    /// The agent's process, if none answered and it was started.
    pub child: Option<AgentProcess>,
    pub generation: u64,
}

/// The connection to one host's agent.
pub struct Link {
    host: Name,
    generation: u64,
    client: Client,
    hello: Hello,
    lease: Option<LeaseRef>,
    events: UnboundedSender<InternalEvent>,
    /// Requests that must reach the agent in the order in which they were made.
    lane: UnboundedSender<Request>,
    /// Carries out what is in the lane; ended when the link is dropped.
    worker: AbortHandle,
    /// Watch and heartbeat, for as long as there is a lease.
    listeners: Vec<AbortHandle>,
}

/// A request on its way; gives an event if there is something to say.
type Request = Pin<Box<dyn Future<Output = Option<InternalEvent>> + Send>>;

impl Drop for Link {
    fn drop(&mut self) {
        self.worker.abort();
        self.listeners.iter().for_each(AbortHandle::abort);
    }
}

/// Connects to the agent of this machine, starting one if none answers.
pub fn connect(host: Name, generation: u64, options: LocalOptions, events: UnboundedSender<InternalEvent>) {
    tokio::spawn(async move {
        let event = match connect_local(&options).await {
            Ok(Connection { client, hello, child }) => {
                let connected = Box::new(Connected { client, hello, child, generation });
                InternalEvent::Connected { host, connected }
            }
            Err(error) => InternalEvent::Lost { host, generation, why: chain(&error) },
        };
        let _ = events.send(event);
    });
}

/// An error with its sources, on one line.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        text.push_str(": ");
        text.push_str(&source.to_string());
        next = source.source();
    }
    text
}

impl Link {
    pub fn new(host: Name, connected: Connected, events: UnboundedSender<InternalEvent>) -> Self {
        let Connected { client, hello, generation, .. } = connected;
        let (lane, mut requests) = mpsc::unbounded_channel::<Request>();
        let answers = events.clone();
        let worker = tokio::spawn(async move {
            while let Some(request) = requests.recv().await {
                if let Some(event) = request.await
                    && answers.send(InternalEvent::Answer { generation, event: Box::new(event) }).is_err()
                {
                    return;
                }
            }
        });
        let worker = worker.abort_handle();
        Self { host, generation, client, hello, lease: None, events, lane, worker, listeners: Vec::new() }
    }

    pub fn generation(&self) -> u64 {
        self.generation
    }

    pub fn hello(&self) -> &Hello {
        &self.hello
    }

    pub fn client(&self) -> Client {
        self.client.clone()
    }

    pub fn lease(&self) -> Option<LeaseRef> {
        self.lease
    }

    /// Takes the host for the run, and asks what it has of it.
    pub fn acquire(&self, run: RunId, holder: String) {
        let mut client = self.client.clone();
        let (host, generation) = (self.host.clone(), self.generation);
        self.call(async move {
            let request = v1::AcquireLeaseRequest {
                run: run.to_string(),
                holder,
                ttl_ms: u64::try_from(LEASE_TTL.as_millis()).unwrap_or(u64::MAX),
            };
            let lease = match client.acquire_lease(request).await {
                Ok(reply) => reply.into_inner(),
                Err(status) if Refusal::of(&status) == Some(Refusal::LeaseHeld) => {
                    let why = status.message().to_owned();
                    return InternalEvent::Scheduler(Event::LeaseRefused { host, why });
                }
                Err(status) => return lost(host, generation, &status),
            };
            let reference = v1::LeaseRef { run: lease.run, epoch: lease.epoch };
            let tasks = match client.list_tasks(reference.clone()).await {
                Ok(reply) => reply.into_inner().tasks,
                Err(status) => return lost(host, generation, &status),
            };
            match LeaseRef::try_from(reference) {
                Ok(lease) => {
                    let known = tasks.into_iter().filter_map(|known| {
                        Some(KnownTask { task: known.task.parse().ok()?, ended: known.ended })
                    });
                    InternalEvent::Leased { host, generation, lease, known: known.collect() }
                }
                Err(error) => InternalEvent::Lost { host, generation, why: chain(&error) },
            }
        });
    }

    /// From now on this lease goes with every request; events flow, and the lease is renewed.
    pub fn begin(&mut self, lease: LeaseRef) {
        self.lease = Some(lease);
        let watch = tokio::spawn(watch(
            self.host.clone(),
            self.generation,
            self.client.clone(),
            lease,
            self.events.clone(),
        ));
        let heartbeat = tokio::spawn(heartbeat(
            self.host.clone(),
            self.generation,
            self.client.clone(),
            lease,
            self.events.clone(),
        ));
        self.listeners.extend([watch.abort_handle(), heartbeat.abort_handle()]);
    }

    /// The lease was given back: nothing goes with it any more.
    pub fn released(&mut self) {
        self.lease = None;
    }

    /// Gives the host back. Nothing more is heard of it: the agent ends its event stream.
    pub fn release(&mut self) {
        self.listeners.drain(..).for_each(|listener| listener.abort());
        let mut client = self.client.clone();
        let (host, lease) = (self.host.clone(), self.reference());
        self.in_order(async move {
            if let Err(status) = client.release_lease(lease).await {
                tracing::warn!("the lease of {host} could not be given back: {}", status.message());
            }
            Some(InternalEvent::Scheduler(Event::LeaseReleased { host }))
        });
    }

    /// Reserves ports for an attempt.
    pub fn reserve_ports(&self, attempt: AttemptId, count: u32) {
        let mut client = self.client.clone();
        let (host, generation, lease) = (self.host.clone(), self.generation, self.reference());
        self.call(async move {
            let request = v1::ReservePortsRequest { lease: Some(lease), attempt: attempt.to_string(), count };
            match client.reserve_ports(request).await {
                Ok(reply) => {
                    let ports = reply.into_inner().ports;
                    let ports = ports.into_iter().filter_map(|port| u16::try_from(port).ok()).collect();
                    InternalEvent::PortsReserved { attempt, ports }
                }
                Err(status) if is_refusal(&status) => InternalEvent::Scheduler(Event::AttemptUnprepared {
                    attempt,
                    verdict: drover_model::Verdict::Error {
                        cause: drover_model::ErrorCause::PortTaken,
                        detail: status.message().to_owned(),
                    },
                }),
                Err(status) => lost(host, generation, &status),
            }
        });
    }

    /// Starts a task. Only a refusal answers; success shows in the task's events.
    pub fn start(&self, task: TaskSpec) {
        let mut client = self.client.clone();
        let (host, generation, lease) = (self.host.clone(), self.generation, self.reference());
        self.in_order(async move {
            let id = task.id.clone();
            let request = v1::StartTaskRequest { lease: Some(lease), task: Some(task.into()) };
            let status = client.start_task(request).await.err()?;
            Some(if is_refusal(&status) {
                InternalEvent::Scheduler(Event::TaskRefused { task: id, why: status.message().to_owned() })
            } else {
                lost(host, generation, &status)
            })
        });
    }

    /// Opens the barrier of an attempt.
    pub fn open_barrier(&self, attempt: AttemptId) {
        let mut client = self.client.clone();
        let (host, generation, lease) = (self.host.clone(), self.generation, self.reference());
        self.in_order(async move {
            let attempt_text = attempt.to_string();
            let request =
                v1::ReleaseBarrierRequest { lease: Some(lease), attempt: attempt_text, at_monotonic_ns: 0 };
            let status = client.release_barrier(request).await.err()?;
            Some(if is_refusal(&status) {
                let why = status.message().to_owned();
                InternalEvent::Scheduler(Event::BarrierFailed { attempt, why })
            } else {
                lost(host, generation, &status)
            })
        });
    }

    /// Asks a task to end.
    pub fn stop(&self, task: &TaskId, kill: bool) {
        let mut client = self.client.clone();
        let (host, generation) = (self.host.clone(), self.generation);
        let request = v1::StopTaskRequest { lease: Some(self.reference()), task: task.to_string(), kill };
        self.in_order(async move {
            let status = client.stop_task(request).await.err()?;
            if is_refusal(&status) {
                tracing::warn!("the agent of {host} refused to stop a task: {}", status.message());
                return None;
            }
            Some(lost(host, generation, &status))
        });
    }

    /// Tells the agent that attempts are stored.
    pub fn forget(&self, attempts: Vec<AttemptId>) {
        let mut client = self.client.clone();
        let (host, generation) = (self.host.clone(), self.generation);
        let request = v1::ForgetRequest {
            lease: Some(self.reference()),
            attempts: attempts.iter().map(ToString::to_string).collect(),
        };
        self.in_order(async move {
            Some(match client.forget(request).await {
                Ok(_) => InternalEvent::Scheduler(Event::AttemptsForgotten { host, attempts }),
                Err(status) => lost(host, generation, &status),
            })
        });
    }

    /// Fetches the outputs that did not travel with their events.
    pub fn fetch(&self, attempt: AttemptId, wanted: Vec<(TaskId, Stream)>) {
        let client = self.client.clone();
        let (host, generation, lease) = (self.host.clone(), self.generation, self.reference());
        self.call(async move {
            let outputs = match fetch_all(client, lease, wanted).await {
                Ok(outputs) => Ok(outputs),
                Err(status) if is_refusal(&status) => {
                    Err(format!("an output could not be fetched from the agent: {}", status.message()))
                }
                Err(status) => return lost(host, generation, &status),
            };
            InternalEvent::Fetched { attempt, outputs }
        });
    }

    fn reference(&self) -> v1::LeaseRef {
        self.lease.map(Into::into).unwrap_or_default()
    }

    /// Runs a request whose answer is an event.
    fn call(&self, request: impl Future<Output = InternalEvent> + Send + 'static) {
        let (events, generation) = (self.events.clone(), self.generation);
        tokio::spawn(async move {
            let event = Box::new(request.await);
            let _ = events.send(InternalEvent::Answer { generation, event });
        });
    }

    /// Runs a request after those made before it.
    fn in_order(&self, request: impl Future<Output = Option<InternalEvent>> + Send + 'static) {
        // The worker ends with the link only.
        let _ = self.lane.send(Box::pin(request));
    }
}

/// Ends the agent if nobody else needs it, and waits for its process if this controller started it.
pub async fn shut_down(mut client: Client, lease: Option<LeaseRef>, process: Option<AgentProcess>) {
    let request = v1::ShutdownRequest { lease: lease.map(Into::into) };
    let ended = async {
        match (client.shutdown(request).await, process) {
            (Ok(_), Some(mut process)) => drop(process.wait().await),
            (Ok(_), None) => {}
            (Err(status), _) => tracing::debug!("the agent stays: {}", status.message()),
        }
    };
    if tokio::time::timeout(PATIENCE, ended).await.is_err() {
        tracing::warn!("the agent was asked to end and did not within {} s", PATIENCE.as_secs());
    }
}

/// Whether the agent answered and refused; anything else means that the connection is of no use any more.
fn is_refusal(status: &Status) -> bool {
    let fenced = Refusal::of(status) == Some(Refusal::StaleLease);
    let answered = Refusal::of(status).is_some() || status.code() == Code::InvalidArgument;
    answered && !fenced
}

fn lost(host: Name, generation: u64, status: &Status) -> InternalEvent {
    if Refusal::of(status) == Some(Refusal::StaleLease) {
        let why = status.message().to_owned();
        return InternalEvent::Scheduler(Event::LeaseRefused { host, why });
    }
    let why = format!("the connection to the agent broke: {}", status.message());
    InternalEvent::Lost { host, generation, why }
}

async fn watch(
    host: Name,
    generation: u64,
    mut client: Client,
    lease: LeaseRef,
    events: UnboundedSender<InternalEvent>,
) {
    let request = v1::WatchRequest { lease: Some(lease.into()), from_seq: 1 };
    let mut stream = match client.watch(request).await {
        Ok(reply) => reply.into_inner(),
        Err(status) => {
            let _ = events.send(lost(host, generation, &status));
            return;
        }
    };
    loop {
        let event = match stream.message().await {
            Ok(Some(event)) => match TaskEvent::try_from(event) {
                Ok(event) => InternalEvent::TaskReported { event: Box::new(event) },
                Err(error) => {
                    let why = format!("the agent sent an event that makes no sense: {}", chain(&error));
                    InternalEvent::Lost { host: host.clone(), generation, why }
                }
            },
            Ok(None) => {
                let why = "the agent ended its event stream".to_owned();
                InternalEvent::Lost { host: host.clone(), generation, why }
            }
            Err(status) => lost(host.clone(), generation, &status),
        };
        let over = !matches!(event, InternalEvent::TaskReported { .. });
        if events.send(event).is_err() || over {
            return;
        }
    }
}

async fn heartbeat(
    host: Name,
    generation: u64,
    mut client: Client,
    lease: LeaseRef,
    events: UnboundedSender<InternalEvent>,
) {
    let mut beat = tokio::time::interval(LEASE_TTL / 6);
    beat.tick().await;
    loop {
        beat.tick().await;
        let answer = tokio::time::timeout(PATIENCE, client.renew_lease(v1::LeaseRef::from(lease))).await;
        let event = match answer {
            Ok(Ok(_)) => continue,
            Ok(Err(status)) => lost(host, generation, &status),
            Err(_) => {
                let why = format!("the agent did not answer for {} s", PATIENCE.as_secs());
                InternalEvent::Lost { host, generation, why }
            }
        };
        let _ = events.send(event);
        return;
    }
}

async fn fetch_all(
    mut client: Client,
    lease: v1::LeaseRef,
    wanted: Vec<(TaskId, Stream)>,
) -> Result<Outputs, Status> {
    let mut outputs = Outputs::new();
    for (task, stream) in wanted {
        let wire = match stream {
            Stream::Stdout => v1::Stream::Stdout,
            Stream::Stderr => v1::Stream::Stderr,
        };
        let request =
            v1::FetchRequest { lease: Some(lease.clone()), task: task.to_string(), stream: wire.into() };
        let mut chunks = client.fetch(request).await?.into_inner();
        let mut bytes = Vec::new();
        while let Some(chunk) = chunks.message().await? {
            bytes.extend_from_slice(&chunk.data);
        }
        outputs.insert((task, stream), bytes);
    }
    Ok(outputs)
}
