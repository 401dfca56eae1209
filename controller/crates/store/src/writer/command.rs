//! What a writer is asked, and what it answers: plain data.

use drover_model::{HostFacts, Name, RunId};

use crate::{AttemptRecord, Change, DirError, Intent, Quarantine, RawOutput, RunState, StoreError};

/// Names a command in the answers. Chosen by who submits it; the writer does not look at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub u64);

/// Something to store: a [`Change`] that owns its data, with the raw outputs that belong to it.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// [`Change::State`].
    State {
        /// The run.
        run: RunId,
        /// Its new state.
        state: RunState,
        /// When it ended, in milliseconds since the Unix epoch, UTC.
        ended_unix_ms: Option<u64>,
    },
    /// [`Change::Host`].
    Host {
        /// The run.
        run: RunId,
        /// The host.
        name: Name,
        /// What it says of itself.
        facts: Box<HostFacts>,
    },
    /// [`Change::Quarantine`].
    Quarantine(Quarantine),
    /// [`Change::Journal`].
    Journal(Vec<Intent>),
    /// [`Change::Finish`], after its outputs are safe.
    Finish {
        /// The attempt.
        record: Box<AttemptRecord>,
        /// What its tasks wrote.
        outputs: Vec<RawOutput>,
    },
    /// [`Change::Replace`].
    Replace(Box<AttemptRecord>),
}

impl Command {
    /// The change to the store.
    #[must_use]
    pub fn change(&self) -> Change<'_> {
        match self {
            Self::State { run, state, ended_unix_ms } => {
                Change::State { run: *run, state: *state, ended_unix_ms: *ended_unix_ms }
            }
            Self::Host { run, name, facts } => Change::Host { run: *run, name, facts },
            Self::Quarantine(quarantine) => Change::Quarantine(quarantine),
            Self::Journal(intents) => Change::Journal(intents),
            Self::Finish { record, .. } => Change::Finish(record),
            Self::Replace(record) => Change::Replace(record),
        }
    }
}

/// An answer of the writer. Every command gets exactly one each time it is submitted.
#[derive(Debug)]
pub enum StoreEvent {
    /// These commands, in this order, are durable.
    Stored(Vec<Token>),
    /// This command is not stored, and nothing of it is. Others submitted after it may be.
    Failed(Box<Failure>),
}

/// A command that was not stored, given back so that it can be submitted again.
#[derive(Debug)]
pub struct Failure {
    /// Its name.
    pub token: Token,
    /// The command itself.
    pub command: Command,
    /// Why.
    pub error: CommandError,
}

/// Why a command was not stored.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "transparent")]
pub enum CommandError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Output(#[from] DirError),
}

impl CommandError {
    /// Whether submitting the command again can help, once the user has done what the message says.
    #[must_use]
    pub fn is_retriable(&self) -> bool {
        match self {
            Self::Store(error) => error.is_retriable(),
            Self::Output(_) => true,
        }
    }

    /// Whether it failed for lack of space.
    #[must_use]
    pub fn is_disk_full(&self) -> bool {
        match self {
            Self::Store(error) => error.is_disk_full(),
            Self::Output(error) => error.is_disk_full(),
        }
    }
}

/// Why a command was not taken. It is given back.
#[derive(Debug, thiserror::Error)]
pub enum SubmitError {
    /// The queue is full; there is room again after the next event.
    #[error("the store is slower than the results arrive")]
    Full(Command),
    /// The writer's thread ended early, by a fault in the callback for events.
    #[error("the thread that writes the store has ended")]
    Closed(Command),
}

/// Why a writer did not end in good order.
#[derive(Debug, thiserror::Error)]
pub enum CloseError {
    /// These commands failed and were not stored by a later try.
    #[error("{} results were not stored", .0.len())]
    Unstored(Vec<Token>),
    /// The writer's thread ended early, by a fault in the callback for events. What it had not yet stored is lost.
    #[error("the thread that writes the store has ended early")]
    Panicked,
}
