//! The connection to one host's agent: requests that answer with events, and the tasks that keep it alive.
//!
//! Requests that must reach the agent in the order in which they were made go through a lane; others run side by side.
//! The parts: `lease` (taking, keeping and giving back the host), `tasks` (ports, starts, stops), `stage` (files by hash), `fetch`
//! (outputs and artifacts), `samples` (what was observed of the host), `boot` (kernels and CPUs), `verify` (what it says of itself).

mod boot;
mod fetch;
mod lease;
mod samples;
mod stage;
mod tasks;
mod verify;

use std::{
    net::IpAddr,
    pin::Pin,
    sync::{Arc, Mutex},
    time::Duration,
};

pub use boot::{BootOrder, BootOutcome};
pub use drover_agent::chain;
use drover_connect::{AgentProcess, Connection, Target};
use drover_model::{HostFacts, Name};
use drover_proto::{Hello, LeaseRef, Refusal, v1};
use drover_sched::Event;
use tokio::{
    sync::{
        mpsc::{self, UnboundedSender},
        watch,
    },
    task::AbortHandle,
};
use tonic::{Code, Status, transport::Channel};

pub use verify::Subject;

use super::{barrier::Member, clock::ClockOffset, internal_event::InternalEvent};

/// Calls an agent.
pub type Client = v1::agent_client::AgentClient<Channel>;

/// Longest wait for the answer to a request that is not expected to take time.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// A connection that stands, before the host is leased.
pub struct Connected {
    pub connection: Connection,
    pub generation: u64,
}

/// The connection to one host's agent.
pub struct Link {
    host: Name,
    generation: u64,
    client: Client,
    /// With what keeps the connection alive.
    connection: Connection,
    lease: Option<LeaseRef>,
    clock: Arc<Mutex<ClockOffset>>,
    events: UnboundedSender<InternalEvent>,
    /// Requests that must reach the agent in the order in which they were made.
    lane: UnboundedSender<Request>,
    /// Carries out what is in the lane; ended when the link is dropped.
    worker: AbortHandle,
    /// Number of the last report of the agent that was handed on, under the present lease.
    heard: watch::Receiver<u64>,
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

/// Connects to a host's agent, starting one where that is our job.
pub fn connect(host: Name, generation: u64, target: Target, events: UnboundedSender<InternalEvent>) {
    tokio::spawn(async move {
        let event = match drover_connect::connect(&target).await {
            Ok(connection) => {
                let connected = Box::new(Connected { connection, generation });
                InternalEvent::Connected { host, connected }
            }
            Err(error) if error.is_permanent() => {
                InternalEvent::Unusable { host, generation, why: chain(&error) }
            }
            Err(error) => InternalEvent::Lost { host, generation, why: chain(&error) },
        };
        let _ = events.send(event);
    });
}

impl Link {
    pub fn new(host: Name, connected: Connected, events: UnboundedSender<InternalEvent>) -> Self {
        let Connected { connection, generation } = connected;
        let (lane, mut requests) = mpsc::unbounded_channel::<Request>();
        let (answers, from) = (events.clone(), host.clone());
        let worker = tokio::spawn(async move {
            while let Some(request) = requests.recv().await {
                if let Some(event) = request.await {
                    let answer =
                        InternalEvent::Answer { host: from.clone(), generation, event: Box::new(event) };
                    if answers.send(answer).is_err() {
                        return;
                    }
                }
            }
        });
        Self {
            host,
            generation,
            client: connection.client.clone(),
            connection,
            lease: None,
            clock: Arc::default(),
            events,
            lane,
            worker: worker.abort_handle(),
            heard: watch::Sender::new(0).subscribe(),
            listeners: Vec::new(),
        }
    }

    pub fn generation(&self) -> u64 {
        self.generation
    }

    pub fn hello(&self) -> &Hello {
        &self.connection.hello
    }

    /// The host says of itself what it has not said before.
    pub fn learn(&mut self, facts: HostFacts) {
        self.connection.hello.facts = facts;
    }

    /// Address at which the host was reached, if it is another machine.
    pub fn peer(&self) -> Option<IpAddr> {
        self.connection.peer
    }

    /// What it takes to open a barrier here.
    pub fn barrier_member(&self) -> Member {
        Member {
            host: self.host.clone(),
            generation: self.generation,
            client: self.client.clone(),
            lease: self.reference(),
            clock: Arc::clone(&self.clock),
        }
    }

    /// What it takes to ask the agent for something in the name of the run; `None` without a lease.
    pub fn caller(&self) -> Option<(Client, v1::LeaseRef)> {
        Some((self.client.clone(), self.lease?.into()))
    }

    /// Ends the agent if nobody else needs it, and waits for its process if this controller started it.
    pub async fn shut_down(mut self) {
        let mut client = self.client.clone();
        if self.hello().host_name.is_some() {
            // A resident agent stays; what is left to do is to let go of the host, if that was not done.
            if let Some(lease) = self.lease {
                let _ = tokio::time::timeout(PATIENCE, client.release_lease(v1::LeaseRef::from(lease))).await;
            }
            return;
        }
        let request = v1::ShutdownRequest { lease: self.lease.map(Into::into) };
        let process: Option<AgentProcess> = self.connection.child.take();
        let ended = async {
            match (client.shutdown(request).await, process) {
                (Ok(_), Some(mut process)) => drop(process.wait().await),
                (Ok(_), None) => {}
                (Err(status), _) => tracing::debug!("the agent stays: {}", status.message()),
            }
        };
        if tokio::time::timeout(PATIENCE, ended).await.is_err() {
            let seconds = PATIENCE.as_secs();
            tracing::warn!("the agent of {} was asked to end and did not within {seconds} s", self.host);
        }
    }

    fn reference(&self) -> v1::LeaseRef {
        self.lease.map(Into::into).unwrap_or_default()
    }

    /// Runs a request whose answer is an event.
    fn call(&self, request: impl Future<Output = InternalEvent> + Send + 'static) {
        let (host, events, generation) = (self.host.clone(), self.events.clone(), self.generation);
        tokio::spawn(async move {
            let event = Box::new(request.await);
            let _ = events.send(InternalEvent::Answer { host, generation, event });
        });
    }

    /// Runs a request after those made before it.
    fn in_order(&self, request: impl Future<Output = Option<InternalEvent>> + Send + 'static) {
        // The worker ends with the link only.
        let _ = self.lane.send(Box::pin(request));
    }
}

/// What a failed request means: `refused` if the agent answered and refused, otherwise that the connection is of no use any
/// more.
pub fn failed(
    host: Name,
    generation: u64,
    status: &Status,
    refused: impl FnOnce(String) -> InternalEvent,
) -> InternalEvent {
    if is_refusal(status) { refused(status.message().to_owned()) } else { lost(host, generation, status) }
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
