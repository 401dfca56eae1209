//! What a task needs before it starts, its start, and its end.

use std::time::Duration;

use drover_model::{AttemptId, ErrorCause, ReadyCheck, TaskId, TaskSpec, Verdict};
use drover_proto::{Refusal, v1};
use drover_sched::Event;
use tokio::time::timeout;

use super::{InternalEvent, Link, PATIENCE, failed, is_refusal, lost, stage::stage};

impl Link {
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
                    InternalEvent::PortsReserved { attempt, host, ports }
                }
                Err(status) => failed(host, generation, &status, |detail| {
                    let cause = match Refusal::of(&status) {
                        Some(Refusal::NoPorts) => ErrorCause::PortTaken,
                        // It cannot take note of what it reserves.
                        Some(Refusal::Storage | Refusal::Full) => ErrorCause::DiskFull,
                        _ => ErrorCause::Internal,
                    };
                    let verdict = Verdict::Error { cause, detail };
                    InternalEvent::Scheduler(Event::AttemptUnprepared { attempt, verdict })
                }),
            }
        });
    }

    /// Starts a task. Only a refusal answers; success shows in the task's events.
    pub fn start(&self, mut task: TaskSpec) {
        let mut client = self.client.clone();
        let (host, generation, lease) = (self.host.clone(), self.generation, self.reference());
        self.in_order(async move {
            let id = task.id.clone();
            let started = async {
                stage(&mut client, &lease, &mut task).await?;
                let request = v1::StartTaskRequest { lease: Some(lease), task: Some(task.into()) };
                client.start_task(request).await
            };
            let status = started.await.err()?;
            Some(failed(host, generation, &status, |why| {
                InternalEvent::Scheduler(Event::TaskRefused { task: id, why })
            }))
        });
    }

    /// Opens the barrier of an attempt at once: all its held tasks are here.
    pub fn open_barrier(&self, attempt: AttemptId) {
        let mut client = self.client.clone();
        let (host, generation, lease) = (self.host.clone(), self.generation, self.reference());
        self.in_order(async move {
            let attempt_text = attempt.to_string();
            let request =
                v1::ReleaseBarrierRequest { lease: Some(lease), attempt: attempt_text, at_monotonic_ns: 0 };
            let status = client.release_barrier(request).await.err()?;
            Some(failed(host, generation, &status, |why| {
                InternalEvent::Scheduler(Event::BarrierFailed { attempt, why })
            }))
        });
    }

    /// Asks whether a service can be reached from here.
    pub fn check_reach(&self, attempt: AttemptId, role: usize, checks: Vec<ReadyCheck>, within: Duration) {
        let mut client = self.client.clone();
        let (host, generation) = (self.host.clone(), self.generation);
        let request = v1::CheckReachRequest {
            lease: Some(self.reference()),
            checks: checks.into_iter().map(Into::into).collect(),
            within_us: u64::try_from(within.as_micros()).unwrap_or(u64::MAX),
        };
        self.call(async move {
            match client.check_reach(request).await {
                Ok(reply) => {
                    InternalEvent::Reached { attempt, role, host, problem: reply.into_inner().problem }
                }
                Err(status) => failed(host.clone(), generation, &status, |why| InternalEvent::Reached {
                    attempt,
                    role,
                    host,
                    problem: Some(why),
                }),
            }
        });
    }

    /// Asks whether the agent is there, for the sake of a task that says nothing.
    pub fn probe(&self, task: &TaskId) {
        let (mut client, task) = (self.client.clone(), task.clone());
        let (host, generation) = (self.host.clone(), self.generation);
        self.call(async move {
            match timeout(PATIENCE, client.probe_clock(v1::ProbeClockRequest {})).await {
                Ok(Ok(_)) => InternalEvent::Answers { task },
                Ok(Err(status)) => lost(host, generation, &status),
                Err(_) => {
                    let why = format!("the agent did not answer for {} s", PATIENCE.as_secs());
                    InternalEvent::Lost { host, generation, why }
                }
            }
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
            match client.forget(request).await {
                Ok(_) => Some(InternalEvent::Scheduler(Event::AttemptsForgotten { host, attempts })),
                Err(status) if is_refusal(&status) => {
                    // The agent is told again on the next connection.
                    tracing::warn!("the agent of {host} does not forget: {}", status.message());
                    None
                }
                Err(status) => Some(lost(host, generation, &status)),
            }
        });
    }
}
