//! The one trait behind which results are kept. Its contract is the conformance suite in `tests/store`, which runs on
//! every implementation.

use drover_model::{AttemptId, HostFacts, Name, RunId};

use crate::{
    AttemptHistory, AttemptRecord, CellRecord, Change, FindError, Intent, Quarantine, RunName, RunRecord,
    RunResults, RunState, RunSummary, StoreError, TaskRecord, find::find,
};

/// Keeps runs. When a method that writes has returned `Ok`, what it wrote survives the end of the process and, on a
/// store that is on disk, a loss of power; after an error nothing of it is stored.
///
/// Attempts come back as [`crate::bounded`] left them.
pub trait Store: Send {
    /// Stores a new run, in state [`RunState::Open`], with all its cells, excluded ones included.
    ///
    /// # Errors
    /// [`StoreError::RunExists`], [`StoreError::CellExists`], or the store cannot be written.
    fn create_run(
        &mut self,
        run: &RunRecord,
        cells: &mut dyn Iterator<Item = CellRecord>,
    ) -> Result<(), StoreError>;

    /// Stores changes in their order: all of them, durably, or none.
    ///
    /// # Errors
    /// The first change that is refused says why; or the store cannot be written.
    fn apply(&mut self, changes: &[Change<'_>]) -> Result<(), StoreError>;

    /// All runs, oldest first: in the order in which they were created, whatever the clock said.
    ///
    /// # Errors
    /// The store cannot be read.
    fn run_names(&self) -> Result<Vec<RunName>, StoreError>;

    /// All runs with their counts, in the same order.
    ///
    /// # Errors
    /// The store cannot be read.
    fn runs(&self) -> Result<Vec<RunSummary>, StoreError>;

    /// Everything of a run except the attempts' tasks, whose lists are empty: enough for tables, and fast.
    ///
    /// # Errors
    /// [`StoreError::UnknownRun`], or the store cannot be read.
    fn load_table(&self, run: RunId) -> Result<RunResults, StoreError>;

    /// Everything of a run.
    ///
    /// # Errors
    /// [`StoreError::UnknownRun`], or the store cannot be read.
    fn load(&self, run: RunId) -> Result<RunResults, StoreError>;

    /// The tasks of one finished attempt.
    ///
    /// # Errors
    /// [`StoreError::UnknownAttempt`], or the store cannot be read.
    fn load_tasks(&self, attempt: &AttemptId) -> Result<Vec<TaskRecord>, StoreError>;

    /// A run as it was planned.
    ///
    /// # Errors
    /// [`StoreError::UnknownRun`], or the store cannot be read.
    fn load_run(&self, run: RunId) -> Result<RunRecord, StoreError>;

    /// Attempts that were journalled, in the order in which that was decided last: where each ran, or may still run after a
    /// controller was killed.
    ///
    /// # Errors
    /// [`StoreError::UnknownRun`], or the store cannot be read.
    fn journalled(&self, run: RunId) -> Result<Vec<Intent>, StoreError>;

    /// Hosts that are not to be used, by name; of all runs.
    ///
    /// # Errors
    /// The store cannot be read.
    fn quarantined(&self) -> Result<Vec<Quarantine>, StoreError>;

    /// Finished attempts by cell, repetition and number.
    ///
    /// # Errors
    /// [`StoreError::UnknownRun`], or the store cannot be read.
    fn history(&self, run: RunId) -> Result<Vec<AttemptHistory>, StoreError>;

    /// Whether an attempt has a result.
    ///
    /// # Errors
    /// The store cannot be read.
    fn is_finished(&self, attempt: &AttemptId) -> Result<bool, StoreError>;

    /// The records of an attempt that were replaced, oldest first.
    ///
    /// # Errors
    /// The store cannot be read.
    fn revisions(&self, attempt: &AttemptId) -> Result<Vec<AttemptRecord>, StoreError>;

    /// Stores where a run stands. See [`Change::State`].
    ///
    /// # Errors
    /// As [`Store::apply`].
    fn set_state(
        &mut self,
        run: RunId,
        state: RunState,
        ended_unix_ms: Option<u64>,
    ) -> Result<(), StoreError> {
        self.apply(&[Change::State { run, state, ended_unix_ms }])
    }

    /// Stores a host of a run. See [`Change::Host`].
    ///
    /// # Errors
    /// As [`Store::apply`].
    fn record_host(&mut self, run: RunId, name: &Name, facts: &HostFacts) -> Result<(), StoreError> {
        self.apply(&[Change::Host { run, name, facts }])
    }

    /// Stores the intent to run attempts. See [`Change::Journal`].
    ///
    /// # Errors
    /// As [`Store::apply`].
    fn journal(&mut self, intents: &[Intent]) -> Result<(), StoreError> {
        self.apply(&[Change::Journal(intents)])
    }

    /// Stores an attempt that ended. See [`Change::Finish`].
    ///
    /// # Errors
    /// As [`Store::apply`].
    fn finish_attempt(&mut self, record: &AttemptRecord) -> Result<(), StoreError> {
        self.apply(&[Change::Finish(record)])
    }

    /// Replaces the record of a finished attempt. See [`Change::Replace`].
    ///
    /// # Errors
    /// As [`Store::apply`].
    fn replace_measurement(&mut self, record: &AttemptRecord) -> Result<(), StoreError> {
        self.apply(&[Change::Replace(record)])
    }

    /// The run that `wanted` means: `last`, or the beginning of an id (hyphens and case do not matter).
    ///
    /// # Errors
    /// No run fits, or several do; or the store cannot be read.
    fn find_run(&self, wanted: &str) -> Result<RunId, FindError> {
        find(&self.run_names()?, wanted)
    }
}
