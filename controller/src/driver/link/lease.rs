//! Taking a host, keeping it, and giving it back.

use std::time::Duration;

use drover_model::{AgentEvent, Name, RunId};
use drover_proto::{LeaseRef, Refusal, v1};
use drover_sched::{Event, KnownTask};
use tokio::sync::{mpsc::UnboundedSender, watch};

use super::{Client, InternalEvent, Link, PATIENCE, chain, lost};

/// Time without renewal after which another run may take the host.
const LEASE_TTL: Duration = Duration::from_secs(60);

impl Link {
    /// Takes the host for the run, and asks what it has of it. `observe` is the time between two samples of its sensors.
    pub fn acquire(&mut self, run: RunId, holder: String, observe: Option<Duration>) {
        // What is heard under an older lease counts no more.
        self.listeners.drain(..).for_each(|listener| listener.abort());
        let mut client = self.client.clone();
        let (host, generation) = (self.host.clone(), self.generation);
        self.call(async move {
            let request = v1::AcquireLeaseRequest {
                run: run.to_string(),
                holder,
                ttl_ms: in_millis(LEASE_TTL),
                observe_interval_ms: observe.map_or(0, in_millis),
            };
            let lease = match client.acquire_lease(request).await {
                Ok(reply) => reply.into_inner(),
                Err(status) if Refusal::of(&status) == Some(Refusal::LeaseHeld) => {
                    let why = status.message().to_owned();
                    return InternalEvent::Scheduler(Event::LeaseRefused { host, why });
                }
                Err(status) if Refusal::of(&status) == Some(Refusal::Quarantined) => {
                    return InternalEvent::Unusable { host, generation, why: status.message().to_owned() };
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
        let heard = watch::Sender::new(0);
        self.heard = heard.subscribe();
        let watch = tokio::spawn(watch_events(
            self.host.clone(),
            self.generation,
            self.client.clone(),
            lease,
            self.events.clone(),
            heard,
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
}

/// Hands on what the agent reports, and tells others up to which number that was done.
async fn watch_events(
    host: Name,
    generation: u64,
    mut client: Client,
    lease: LeaseRef,
    events: UnboundedSender<InternalEvent>,
    heard: watch::Sender<u64>,
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
        let mut seq = 0;
        let event = match stream.message().await {
            Ok(Some(event)) => match AgentEvent::try_from(event) {
                Ok(event) => {
                    seq = event.seq();
                    reported(host.clone(), event)
                }
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
        if events.send(event).is_err() || seq == 0 {
            return;
        }
        heard.send_replace(seq);
    }
}

fn reported(host: Name, event: AgentEvent) -> InternalEvent {
    match event {
        AgentEvent::Task(event) => InternalEvent::TaskReported { host, event: Box::new(event) },
        AgentEvent::Host(event) => InternalEvent::HostReported { host, event: Box::new(event) },
    }
}

fn in_millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
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
