//! Holds a host for a moment, to try what only a task can tell: ports, and whether a command is there.

use std::time::Duration;

use drover_connect::Connection;
use drover_model::{
    AttemptId, EndKind, Name, NotStarted, RunId, StopPolicy, TaskEvent, TaskEventKind, TaskId, TaskSpec,
    TrialId,
};
use drover_proto::v1::{self, agent_client::AgentClient};
use tonic::{Status, transport::Channel};

/// Time without renewal after which another run may take the host.
const TTL: Duration = Duration::from_secs(30);
/// Longest time for a command that does nothing.
const DEADLINE: Duration = Duration::from_secs(10);

/// A host that is held.
pub struct Trial {
    client: AgentClient<Channel>,
    lease: v1::LeaseRef,
    run: RunId,
    tasks: u32,
}

/// Why something could not be tried.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    /// The agent refuses, or does not answer.
    #[error("the agent says: {}", .0.message())]
    Agent(#[from] Status),
    /// A command began and did not end as it should.
    #[error("trying a command ended as {0:?}")]
    Ended(EndKind),
    /// The agent stopped to report.
    #[error("the agent reports no more")]
    Silent,
}

impl Trial {
    /// Takes the host.
    pub async fn begin(connection: &Connection) -> Result<Self, TrialError> {
        let mut client = connection.client.clone();
        let run = RunId(uuid::Uuid::now_v7());
        let request = v1::AcquireLeaseRequest {
            run: run.to_string(),
            holder: "drover doctor".to_owned(),
            ttl_ms: u64::try_from(TTL.as_millis()).unwrap_or(u64::MAX),
            observe_interval_ms: 0,
        };
        let lease = client.acquire_lease(request).await?.into_inner();
        let lease = v1::LeaseRef { run: lease.run, epoch: lease.epoch };
        Ok(Self { client, lease, run, tasks: 0 })
    }

    /// Reserves ports, and says how many were had.
    pub async fn reserve(&mut self, count: u32) -> Result<usize, TrialError> {
        let attempt = self.attempt().to_string();
        let request = v1::ReservePortsRequest { lease: Some(self.lease.clone()), attempt, count };
        Ok(self.client.reserve_ports(request).await?.into_inner().ports.len())
    }

    /// Whether a command is found where tasks look for theirs.
    pub async fn has_command(&mut self, command: &str) -> Result<bool, TrialError> {
        let id = TaskId { attempt: self.attempt(), role: role(), instance: self.tasks };
        self.tasks += 1;
        let argv = ["sh", "-c", "command -v -- \"$1\"", "sh", command].map(str::to_owned);
        match self.run(id, argv.into()).await? {
            EndKind::Exited(0) => Ok(true),
            EndKind::Exited(_) | EndKind::NotStarted(NotStarted::NotFound, _) => Ok(false),
            other => Err(TrialError::Ended(other)),
        }
    }

    async fn run(&mut self, id: TaskId, argv: Vec<String>) -> Result<EndKind, TrialError> {
        let task = TaskSpec {
            id: id.clone(),
            argv,
            env: Vec::new(),
            files: Vec::new(),
            ready: Vec::new(),
            ready_within: Duration::ZERO,
            placement: None,
            hold: false,
            deadline: DEADLINE,
            stop: StopPolicy { signal: 15, grace: Duration::ZERO },
            output_limit: 4096,
            ports: Vec::new(),
            counters: false,
            rounds: None,
            progress: false,
            stall: None,
        };
        let request = v1::StartTaskRequest { lease: Some(self.lease.clone()), task: Some(task.into()) };
        self.client.start_task(request).await?;
        let request = v1::WatchRequest { lease: Some(self.lease.clone()), from_seq: 1 };
        let mut events = self.client.watch(request).await?.into_inner();
        while let Some(event) = events.message().await? {
            match TaskEvent::try_from(event) {
                Ok(TaskEvent { task, kind: TaskEventKind::Ended(end), .. }) if task == id => {
                    return Ok(end.kind);
                }
                _ => {}
            }
        }
        Err(TrialError::Silent)
    }

    /// Gives the host back.
    pub async fn end(mut self) -> Result<(), TrialError> {
        let attempts = vec![self.attempt().to_string()];
        let request = v1::ForgetRequest { lease: Some(self.lease.clone()), attempts };
        self.client.forget(request).await?;
        self.client.release_lease(self.lease).await?;
        Ok(())
    }

    fn attempt(&self) -> AttemptId {
        AttemptId { run: self.run, trial: TrialId { cell: 0, repetition: 1 }, number: 1 }
    }
}

#[expect(clippy::expect_used, reason = "the text is a name")]
fn role() -> Name {
    "command".parse().expect("a valid name")
}
