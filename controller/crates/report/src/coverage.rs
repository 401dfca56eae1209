//! How much of a run was measured, and the exit status that follows from it.

use std::fmt;

use drover_model::Outcome;
use drover_store::RunResults;
use schemars::JsonSchema;
use serde::Serialize;

use crate::trials::{CellOutcome, CellTrials, InconsistentRun, group};

/// Counts of cells and trials by what became of them. Every cell of the matrix is counted once:
/// `cells = measured + ng + error + missing + excluded`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Coverage {
    /// All cells of the matrix.
    pub cells: usize,
    /// Cells with a valid result.
    pub measured: usize,
    /// Those of them that are marked suspect.
    pub suspect: usize,
    /// Cells in which the system under test failed.
    pub ng: usize,
    /// Cells without a result because our side failed.
    pub error: usize,
    /// Cells that were not measured and not excluded.
    pub missing: usize,
    /// Cells that the matrix excludes.
    pub excluded: usize,
    /// Trials of all cells but the excluded ones.
    pub trials: usize,
    /// Trials with a valid result.
    pub trials_measured: usize,
    /// Trials in which the system under test failed.
    pub trials_ng: usize,
    /// Trials in which our side failed.
    pub trials_error: usize,
    /// Trials that were not measured.
    pub trials_missing: usize,
}

/// How a run ended, as far as an exit status tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitStatus {
    /// Every planned trial has a valid number. Suspect ones count as valid: they completed, and a saturated client must
    /// not fail a CI job; the table marks them.
    AllOk,
    /// The system under test failed at least once. Stronger than all others, because it is an answer.
    Ng,
    /// Trials are missing, or nothing was measured at all.
    Incomplete,
    /// Our side failed at least once, the system under test never.
    Infrastructure,
}

impl ExitStatus {
    /// The exit code of the process.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            Self::AllOk => 0,
            Self::Ng => 1,
            Self::Incomplete => 3,
            Self::Infrastructure => 4,
        }
    }
}

/// The exit status that a run deserves. Trials count, not cells: one `ng` in three repetitions is an `ng`.
///
/// # Errors
///
/// If the stored results contradict the stored plan.
pub fn exit_status(results: &RunResults) -> Result<ExitStatus, InconsistentRun> {
    Ok(Coverage::of(results)?.exit_status())
}

impl Coverage {
    /// Counts what became of a run.
    ///
    /// # Errors
    ///
    /// If the stored results contradict the stored plan.
    pub fn of(results: &RunResults) -> Result<Self, InconsistentRun> {
        Ok(Self::of_cells(&group(results)?))
    }

    pub(crate) fn of_cells(cells: &[CellTrials<'_>]) -> Self {
        let mut coverage = Self { cells: cells.len(), ..Self::default() };
        for cell in cells {
            coverage.trials += cell.trials.len();
            coverage.trials_measured += cell.count(Outcome::has_number);
            coverage.trials_ng += cell.count(|outcome| outcome == Outcome::Ng);
            coverage.trials_error += cell.count(|outcome| outcome == Outcome::Error);
            coverage.trials_missing += cell.count(|outcome| outcome == Outcome::Missing);
            match cell.outcome {
                CellOutcome::Number { suspect } => {
                    coverage.measured += 1;
                    coverage.suspect += usize::from(suspect);
                }
                CellOutcome::Ng(_) => coverage.ng += 1,
                CellOutcome::Error(_) => coverage.error += 1,
                CellOutcome::Missing(_) if cell.is_excluded() => coverage.excluded += 1,
                CellOutcome::Missing(_) => coverage.missing += 1,
            }
        }
        coverage
    }

    /// The exit status that follows.
    #[must_use]
    pub fn exit_status(&self) -> ExitStatus {
        if self.trials_ng > 0 {
            ExitStatus::Ng
        } else if self.trials_error > 0 {
            ExitStatus::Infrastructure
        } else if self.trials_missing > 0 || self.trials_measured == 0 {
            ExitStatus::Incomplete
        } else {
            ExitStatus::AllOk
        }
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{} cells measured", self.measured, self.cells)?;
        if self.suspect > 0 {
            write!(f, " ({} suspect)", self.suspect)?;
        }
        let rest =
            [(self.ng, "NG"), (self.error, "ERR"), (self.missing, "missing"), (self.excluded, "excluded")];
        for (count, what) in rest.into_iter().filter(|(count, _)| *count > 0) {
            write!(f, ", {count} {what}")?;
        }
        write!(f, "; {}/{} trials", self.trials_measured, self.trials)
    }
}
