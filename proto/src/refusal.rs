//! Why an agent refused a request, in a form that a controller can act on.
//!
//! gRPC codes are too coarse for that: several refusals are `FAILED_PRECONDITION`. The agent therefore adds the kind of
//! refusal to the status as metadata; the message of the status stays the text for people.

use tonic::{Code, Status, metadata::MetadataValue};

/// Metadata key of a status that holds [`Refusal::as_str`].
pub const REFUSAL_KEY: &str = "drover-refusal";

/// Kinds of refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// The peers speak different versions of the contract.
    Protocol,
    /// Another run holds the host.
    LeaseHeld,
    /// The run and epoch of the request are not those of the present lease: another controller took over.
    StaleLease,
    /// Not while tasks run.
    TasksRunning,
    /// Something on the host could not be put back; it takes no new tasks.
    Quarantined,
    /// CPUs of the host come and go just now, or it is about to boot.
    Changing,
    /// The host cannot have so many CPUs online.
    Cpus,
    /// The host cannot boot that kernel once, or cannot be rebooted.
    Boot,
    /// The agent does not know the task.
    UnknownTask,
    /// The output cannot be read, or is kept no more.
    NoOutput,
    /// The artifact is not there, is no regular file, or shrank.
    NoArtifact,
    /// The agent does not have the blob.
    UnknownBlob,
    /// The agent holds as much as it may; forget attempts first.
    Full,
    /// No port is free.
    NoPorts,
    /// The agent is ending.
    Ending,
    /// The agent cannot write its own files.
    Storage,
}

impl Refusal {
    const ALL: [Self; 16] = [
        Self::Protocol,
        Self::LeaseHeld,
        Self::StaleLease,
        Self::TasksRunning,
        Self::Quarantined,
        Self::Changing,
        Self::Cpus,
        Self::Boot,
        Self::UnknownTask,
        Self::NoOutput,
        Self::NoArtifact,
        Self::UnknownBlob,
        Self::Full,
        Self::NoPorts,
        Self::Ending,
        Self::Storage,
    ];

    /// The word on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Protocol => "protocol",
            Self::LeaseHeld => "lease-held",
            Self::StaleLease => "stale-lease",
            Self::TasksRunning => "tasks-running",
            Self::Quarantined => "quarantined",
            Self::Changing => "changing",
            Self::Cpus => "cpus",
            Self::Boot => "boot",
            Self::UnknownTask => "unknown-task",
            Self::NoOutput => "no-output",
            Self::NoArtifact => "no-artifact",
            Self::UnknownBlob => "unknown-blob",
            Self::Full => "full",
            Self::NoPorts => "no-ports",
            Self::Ending => "ending",
            Self::Storage => "storage",
        }
    }

    /// The gRPC code that goes with it.
    #[must_use]
    pub fn code(self) -> Code {
        match self {
            Self::LeaseHeld => Code::AlreadyExists,
            Self::Protocol
            | Self::StaleLease
            | Self::TasksRunning
            | Self::Quarantined
            | Self::Cpus
            | Self::Boot => Code::FailedPrecondition,
            Self::UnknownTask | Self::NoOutput | Self::NoArtifact | Self::UnknownBlob => Code::NotFound,
            Self::Full | Self::NoPorts => Code::ResourceExhausted,
            Self::Ending | Self::Changing => Code::Unavailable,
            Self::Storage => Code::Internal,
        }
    }

    /// The status that an agent answers with.
    #[must_use]
    pub fn status(self, message: impl Into<String>) -> Status {
        let mut status = Status::new(self.code(), message);
        status.metadata_mut().insert(REFUSAL_KEY, MetadataValue::from_static(self.as_str()));
        status
    }

    /// The kind of refusal that a status carries; `None` for transport errors and the like.
    #[must_use]
    pub fn of(status: &Status) -> Option<Self> {
        let word = status.metadata().get(REFUSAL_KEY)?.to_str().ok()?;
        Self::ALL.into_iter().find(|kind| kind.as_str() == word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expect_the_kind_back_when_it_travelled_in_a_status() {
        for kind in Refusal::ALL {
            assert_eq!(Refusal::of(&kind.status("text")), Some(kind));
        }
        assert_eq!(Refusal::of(&Status::internal("text")), None);
    }
}
