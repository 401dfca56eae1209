//! Short views of stored runs: for `list`, for finding a run by a part of its id, and for `resume`.

use drover_model::{AttemptId, Outcome, RunId, Verdict};

use crate::RunState;

/// What a run is called, and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunName {
    /// Its id.
    pub id: RunId,
    /// Name of its matrix.
    pub name: String,
    /// When it began, in milliseconds since the Unix epoch, UTC.
    pub started_unix_ms: u64,
    /// Where it stands.
    pub state: RunState,
}

/// One line of `list`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunSummary {
    /// Its id.
    pub id: RunId,
    /// Name of its matrix.
    pub name: String,
    /// When it began, in milliseconds since the Unix epoch, UTC.
    pub started_unix_ms: u64,
    /// When it ended, in milliseconds since the Unix epoch, UTC.
    pub ended_unix_ms: Option<u64>,
    /// Where it stands.
    pub state: RunState,
    /// Trials planned: cells that are not excluded, times repetitions.
    pub planned_trials: u64,
    /// Cells that the matrix excludes.
    pub excluded_cells: u64,
    /// Trials that have their last word, by its outcome.
    pub counts: OutcomeCounts,
}

/// How many trials ended with which outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "one field per outcome, documented at `Verdict`")]
pub struct OutcomeCounts {
    pub ok: u64,
    pub suspect: u64,
    pub ng: u64,
    pub error: u64,
    pub missing: u64,
}

impl OutcomeCounts {
    /// The count of one outcome.
    #[must_use]
    pub fn get(&self, outcome: Outcome) -> u64 {
        match outcome {
            Outcome::Ok => self.ok,
            Outcome::Suspect => self.suspect,
            Outcome::Ng => self.ng,
            Outcome::Error => self.error,
            Outcome::Missing => self.missing,
        }
    }

    /// Adds to the count of one outcome.
    pub fn add(&mut self, outcome: Outcome, count: u64) {
        let place = match outcome {
            Outcome::Ok => &mut self.ok,
            Outcome::Suspect => &mut self.suspect,
            Outcome::Ng => &mut self.ng,
            Outcome::Error => &mut self.error,
            Outcome::Missing => &mut self.missing,
        };
        *place = place.saturating_add(count);
    }

    /// Trials that have their last word.
    #[must_use]
    pub fn total(&self) -> u64 {
        [self.ok, self.suspect, self.ng, self.error, self.missing].into_iter().fold(0, u64::saturating_add)
    }
}

/// A finished attempt as `resume` needs it: no times, metrics or tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptHistory {
    /// Which.
    pub id: AttemptId,
    /// What became of it.
    pub verdict: Verdict,
    /// Whether the verdict is the trial's last word.
    pub is_final: bool,
}

impl AttemptHistory {
    /// The first column of its verdict.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        self.verdict.outcome()
    }
}
