//! What can be changed in a store once a run is in it: plain data, so that any number of changes can be stored as one.

use drover_model::{AttemptId, HostFacts, Name, RunId, Seats};

use crate::{AttemptRecord, RunState};

/// One change. See [`crate::Store::apply`].
#[derive(Clone, Copy, Debug)]
pub enum Change<'a> {
    /// Where a run stands.
    State {
        /// The run.
        run: RunId,
        /// Its new state.
        state: RunState,
        /// When it ended, in milliseconds since the Unix epoch, UTC; `None` for a run that goes on.
        ended_unix_ms: Option<u64>,
    },
    /// A host took part in a run. Facts given again for the same host replace the older ones; its boot, kernel and number of
    /// CPUs are kept as one more of its states if they differ from the last one.
    Host {
        /// The run.
        run: RunId,
        /// The host.
        name: &'a Name,
        /// What it says of itself.
        facts: &'a HostFacts,
    },
    /// A host is not to be used until somebody has looked at it; what was said of it before is replaced.
    Quarantine(&'a Quarantine),
    /// A host may be used again; nothing changes for one that may be used anyway.
    Release(&'a Name),
    /// Attempts are about to be sent to their hosts. Journalling one again moves it: what was written before is replaced.
    Journal(&'a [Intent]),
    /// An attempt ended. The same record given again changes nothing; a different one for an attempt that already has
    /// a record is refused.
    Finish(&'a AttemptRecord),
    /// The outputs of a finished attempt were parsed again. The record before is kept as a revision.
    Replace(&'a AttemptRecord),
}

/// The intent to run an attempt: journalled before anything of it is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Intent {
    /// The attempt.
    pub id: AttemptId,
    /// The hosts that will run it.
    pub seats: Seats,
    /// When it was decided, in microseconds since the Unix epoch, UTC.
    pub at_unix_us: u64,
}

/// A host that is not to be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quarantine {
    /// The host.
    pub host: Name,
    /// What was seen.
    pub why: String,
    /// Since when, in milliseconds since the Unix epoch, UTC.
    pub since_unix_ms: u64,
}
