//! What an agent observes of its machine while an attempt runs on it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{AttemptId, DoubtKind, NgCause, TaskEvent};

/// Anything that an agent reports: the events of tasks and of the host have one numbering.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AgentEvent {
    /// Something happened to a task.
    Task(TaskEvent),
    /// Something happened to the host.
    Host(HostEvent),
}

impl AgentEvent {
    /// Position in the agent's spool, from 1.
    #[must_use]
    pub fn seq(&self) -> u64 {
        match self {
            Self::Task(event) => event.seq,
            Self::Host(event) => event.seq,
        }
    }

    /// The attempt that it belongs to.
    #[must_use]
    pub fn attempt(&self) -> AttemptId {
        match self {
            Self::Task(event) => event.task.attempt,
            Self::Host(event) => event.attempt,
        }
    }
}

/// Something that happened to the host while tasks of an attempt ran on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostEvent {
    /// Position in the agent's spool, from 1.
    pub seq: u64,
    /// The attempt that was observed.
    pub attempt: AttemptId,
    /// When it was seen, in microseconds since the Unix epoch, UTC.
    pub at_unix_us: u64,
    /// What.
    pub kind: HostEventKind,
}

/// What happened to the host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HostEventKind {
    /// Observation began: the header of what follows. Comes again when the attempt got another task after its last one ended.
    Observing {
        /// Time between two samples of the sensors.
        interval: Duration,
        /// What cannot be observed here, each with the reason.
        without: Vec<String>,
    },
    /// The kernel's log has a report.
    Kernel {
        /// Its class, as in the reference table: `SOFT_LOCKUP`.
        class: String,
        /// How bad it is, as in the reference table: `F`, `E`, `W`, ...
        severity: String,
        /// What it means for a verdict.
        hint: KernelHint,
        /// The line that names it, from the message on.
        first_line: String,
        /// The report and some lines from before, with the prefixes of the log.
        excerpt: String,
    },
    /// The kernel's taint changed.
    Tainted {
        /// The mask before.
        before: u64,
        /// The mask now.
        after: u64,
    },
    /// Something was not observed, or is not any more.
    Blind {
        /// What, and why.
        why: String,
    },
}

/// What a report of the kernel means for the verdict of the attempt that it falls into.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KernelHint {
    /// The system under test failed in this way.
    Ng(NgCause),
    /// The number is in doubt.
    Doubt(DoubtKind),
    /// Nothing by itself.
    Nothing,
}

/// How much of the evidence of an attempt could be collected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Completeness {
    /// All of it.
    Complete,
    /// Some.
    Partial,
    /// Nothing that explains anything.
    None,
}

impl Completeness {
    /// The word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Partial => "partial",
            Self::None => "none",
        }
    }
}
