//! Why the agent refuses a request: one error type for all of its rpcs, turned into a gRPC status at the edge.

use std::io;

use drover_machine::boot::WordError;
use drover_model::{AttemptId, RunId, TaskId};
use drover_proto::{ConversionError, Refusal};
use drover_supervise::ports::PortError;
use tonic::Status;

use crate::{
    artifacts::{ArtifactError, PatternError},
    blobs::BlobError,
    boot::KernelError,
    cpus::CpusError,
    lease::LeaseError,
    spool::SpoolError,
    text::chain,
};

/// Why a request is refused.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// The message is malformed.
    #[error(transparent)]
    Message(#[from] ConversionError),
    /// A value that is well formed and makes no sense.
    #[error("{0}")]
    Argument(&'static str),
    /// The task belongs to another run than the lease.
    #[error("task {task} does not belong to run {run}, which holds the lease")]
    ForeignTask {
        /// The task.
        task: TaskId,
        /// The run of the lease.
        run: RunId,
    },
    /// The peers speak different versions of the contract.
    #[error("the controller speaks protocol {theirs}, this agent {ours}; use the same version of both")]
    Protocol {
        /// The controller's.
        theirs: u32,
        /// The agent's.
        ours: u32,
    },
    /// The host is held by someone else.
    #[error(transparent)]
    Lease(#[from] LeaseError),
    /// Tasks run.
    #[error("{0} tasks run; stop them first")]
    TasksRunning(usize),
    /// The agent is ending.
    #[error("the agent is ending; connect again to start a new one")]
    Ending,
    /// Something could not be put back.
    #[error("the host is quarantined: {0}")]
    Quarantined(String),
    /// The host itself is changed.
    #[error("the CPUs of the host, or the kernel that it boots, are just being changed; ask again")]
    Changing,
    /// The CPUs cannot be had.
    #[error(transparent)]
    Cpus(#[from] CpusError),
    /// The kernel cannot be booted.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// A word cannot be passed to a kernel.
    #[error(transparent)]
    Word(#[from] WordError),
    /// A thread that worked on the request ended before it was done.
    #[error("the request was not carried out: {0}")]
    Stopped(String),
    /// No such task.
    #[error("task {0} is not known here, or forgotten")]
    UnknownTask(TaskId),
    /// No such attempt.
    #[error("attempt {0} is not known here, or forgotten")]
    UnknownAttempt(AttemptId),
    /// What was observed cannot be read.
    #[error("cannot read what was observed for attempt {attempt}")]
    Observed {
        /// The attempt.
        attempt: AttemptId,
        /// Why.
        source: io::Error,
    },
    /// The output cannot be read.
    #[error("cannot read the output of task {task}")]
    Output {
        /// The task.
        task: TaskId,
        /// Why.
        source: io::Error,
    },
    /// The patterns of artifacts cannot be used.
    #[error(transparent)]
    Pattern(#[from] PatternError),
    /// The folder of an attempt cannot be searched.
    #[error("cannot list the artifacts of task {task}")]
    Artifacts {
        /// The task.
        task: TaskId,
        /// Why.
        source: io::Error,
    },
    /// The artifact cannot be read.
    #[error(transparent)]
    Artifact(#[from] ArtifactError),
    /// The blob is not taken, or not there.
    #[error(transparent)]
    Blob(#[from] BlobError),
    /// Nothing can wait for a barrier's instant.
    #[error("cannot start a thread that waits for the barrier's instant")]
    Barrier(#[source] io::Error),
    /// No ports.
    #[error(transparent)]
    Ports(#[from] PortError),
    /// The spool cannot take it.
    #[error(transparent)]
    Spool(#[from] SpoolError),
}

impl From<Refused> for Status {
    fn from(refused: Refused) -> Self {
        let text = chain(&refused);
        let kind = match &refused {
            Refused::Message(_)
            | Refused::Argument(_)
            | Refused::ForeignTask { .. }
            | Refused::Pattern(_)
            | Refused::Word(_)
            | Refused::Blob(
                BlobError::TooLarge { .. } | BlobError::WrongSize { .. } | BlobError::WrongHash { .. },
            ) => {
                return Self::invalid_argument(text);
            }
            Refused::Protocol { .. } => Refusal::Protocol,
            Refused::Lease(error) => error.refusal(),
            Refused::TasksRunning(_) => Refusal::TasksRunning,
            Refused::Ending => Refusal::Ending,
            Refused::Quarantined(_)
            | Refused::Cpus(CpusError::NotBack { .. })
            | Refused::Kernel(KernelError::NotBack { .. }) => Refusal::Quarantined,
            Refused::Changing => Refusal::Changing,
            Refused::Cpus(_) => Refusal::Cpus,
            Refused::Kernel(_) => Refusal::Boot,
            Refused::Stopped(_) => return Self::internal(text),
            Refused::UnknownTask(_) | Refused::UnknownAttempt(_) => Refusal::UnknownTask,
            Refused::Output { .. } | Refused::Observed { .. } => Refusal::NoOutput,
            Refused::Ports(_) => Refusal::NoPorts,
            Refused::Artifacts { .. } | Refused::Artifact(_) => Refusal::NoArtifact,
            Refused::Blob(BlobError::Unknown(_)) => Refusal::UnknownBlob,
            Refused::Blob(BlobError::NoRoom { .. }) | Refused::Barrier(_) => Refusal::Full,
            Refused::Blob(error) if error.is_disk_full() => Refusal::Full,
            Refused::Blob(_) => Refusal::Storage,
            Refused::Spool(SpoolError::Full { .. }) => Refusal::Full,
            Refused::Spool(_) => Refusal::Storage,
        };
        kind.status(text)
    }
}
