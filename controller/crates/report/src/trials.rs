//! Attempts grouped into trials, and trials into cells: which attempt speaks for a trial, and which outcome for a cell.
//!
//! Used by every format, so that a table, an export and an exit status never disagree.
//!
//! **One word for a cell whose repetitions differ.** The gravest outcome speaks, and nothing is dropped in silence:
//!
//! | trials of the cell | the cell is |
//! |---|---|
//! | at least one `ng` | `ng`, with the gravest cause; its note says how many passed, and with which median |
//! | no `ng`, at least one with a number | a number over those trials; suspect if one was `suspect` or `error`, or passed only after an `ng` attempt |
//! | none with a number, at least one `error` | `error` |
//! | none measured | `missing` |

use std::{borrow::Cow, collections::HashMap};

use drover_model::{AttemptId, DoubtKind, ErrorCause, MissingCause, NgCause, Outcome, Verdict};
use drover_store::{AttemptRecord, CellRecord, RunResults};

/// One repetition of a cell with its attempts.
#[derive(Clone, Debug)]
pub(crate) struct Trial<'a> {
    /// Which repetition, from 1.
    pub(crate) repetition: u32,
    /// All attempts by number; none if the trial was never begun.
    pub(crate) attempts: Vec<&'a AttemptRecord>,
    /// What became of the trial; set when all attempts are known.
    pub(crate) outcome: Outcome,
}

/// Why a trial is not plainly `ok`: one of its doubts, its failure, or its absence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reason<'a> {
    pub(crate) outcome: Outcome,
    pub(crate) cause: &'static str,
    pub(crate) detail: Cow<'a, str>,
}

/// A cell with its trials.
#[derive(Clone, Debug)]
pub(crate) struct CellTrials<'a> {
    pub(crate) cell: &'a CellRecord,
    /// Every planned repetition in order, also those never begun. Empty for an excluded cell.
    pub(crate) trials: Vec<Trial<'a>>,
    /// What the cell is by the rule of this module; set when all attempts are known.
    pub(crate) outcome: CellOutcome,
}

/// What a cell is, over all its trials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CellOutcome {
    /// Has valid numbers; `suspect` ones if marked.
    Number {
        suspect: bool,
    },
    Ng(NgCause),
    Error(ErrorCause),
    Missing(MissingCause),
}

/// A stored result that contradicts the stored plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InconsistentRun {
    /// An attempt of a cell that the run does not have.
    #[error("attempt {attempt} belongs to cell {cell}, which the run does not have")]
    UnknownCell {
        /// The attempt.
        attempt: AttemptId,
        /// The cell it names.
        cell: u32,
    },
    /// Two cells with the same position.
    #[error("the run has two cells with position {0}")]
    SameIndex(u32),
    /// A cell without a value for each axis, or with too many.
    #[error("cell {cell} has {values} values, the run has {axes} axes")]
    Values {
        /// Position of the cell.
        cell: u32,
        /// How many values it has.
        values: usize,
        /// How many axes the run has.
        axes: usize,
    },
}

impl<'a> Trial<'a> {
    fn new(repetition: u32) -> Self {
        Self { repetition, attempts: Vec::new(), outcome: Outcome::Missing }
    }

    /// The attempt that speaks for the trial: the final one, else the latest.
    pub(crate) fn speaker(&self) -> Option<&'a AttemptRecord> {
        self.attempts.iter().rev().find(|attempt| attempt.is_final).or(self.attempts.last()).copied()
    }

    fn find_outcome(&self) -> Outcome {
        match self.speaker().map(|attempt| attempt.verdict.outcome()) {
            None => Outcome::Missing,
            Some(Outcome::Ok) if self.passed_after_ng() => Outcome::Suspect,
            Some(outcome) => outcome,
        }
    }

    /// Everything that keeps the trial from being plainly `ok`.
    pub(crate) fn reasons(&self) -> Vec<Reason<'a>> {
        let Some(attempt) = self.speaker() else {
            return vec![Reason {
                outcome: Outcome::Missing,
                cause: MissingCause::NotRun.as_str(),
                detail: Cow::Borrowed("planned, not reached"),
            }];
        };
        let outcome = attempt.verdict.outcome();
        match &attempt.verdict {
            Verdict::Ok if self.passed_after_ng() => vec![Reason {
                outcome: Outcome::Suspect,
                cause: DoubtKind::PassedOnRetry.as_str(),
                detail: Cow::Borrowed("an earlier attempt was ng"),
            }],
            Verdict::Ok => Vec::new(),
            Verdict::Suspect { doubts } => doubts
                .iter()
                .map(|doubt| Reason {
                    outcome,
                    cause: doubt.kind.as_str(),
                    detail: Cow::Borrowed(doubt.detail.as_str()),
                })
                .collect(),
            Verdict::Ng { detail, .. } | Verdict::Error { detail, .. } | Verdict::Missing { detail, .. } => {
                vec![Reason {
                    outcome,
                    cause: attempt.verdict.cause(),
                    detail: Cow::Borrowed(detail.as_str()),
                }]
            }
        }
    }

    /// The value of a metric, only if the trial's outcome allows numbers.
    pub(crate) fn value(&self, metric: &str) -> Option<f64> {
        let attempt = self.speaker()?;
        valid_metrics(attempt).find(|(name, _)| *name == metric).map(|(_, value)| value)
    }

    /// Whether an attempt before the speaking one was `ng`. The scheduler marks such a pass itself; asked again here,
    /// because a table must not depend on it.
    fn passed_after_ng(&self) -> bool {
        let speaker = self.speaker().map(|attempt| attempt.id.number);
        self.attempts
            .iter()
            .any(|attempt| Some(attempt.id.number) < speaker && attempt.verdict.outcome() == Outcome::Ng)
    }
}

/// The metrics of an attempt that may be shown: none unless its outcome has numbers, and finite ones only.
pub(crate) fn valid_metrics(attempt: &AttemptRecord) -> impl Iterator<Item = (&str, f64)> {
    let metrics = if attempt.verdict.outcome().has_number() { attempt.metrics.as_slice() } else { &[] };
    metrics.iter().filter(|(_, value)| value.is_finite()).map(|(name, value)| (name.as_str(), *value))
}

impl<'a> CellTrials<'a> {
    fn find_outcome(&self) -> CellOutcome {
        let verdicts = || self.trials.iter().filter_map(Trial::speaker).map(|attempt| &attempt.verdict);
        let ng = verdicts().filter_map(|verdict| match verdict {
            Verdict::Ng { cause, .. } => Some(*cause),
            _ => None,
        });
        let error = verdicts().filter_map(|verdict| match verdict {
            Verdict::Error { cause, .. } => Some(*cause),
            _ => None,
        });
        let missing = verdicts().filter_map(|verdict| match verdict {
            Verdict::Missing { cause, .. } => Some(*cause),
            _ => None,
        });
        // The causes are declared from the gravest down.
        let (ng, error) = (ng.min(), error.min());
        if let Some(cause) = ng {
            return CellOutcome::Ng(cause);
        }
        if self.trials.iter().any(|trial| trial.outcome.has_number()) {
            let doubtful = |trial: &Trial<'_>| matches!(trial.outcome, Outcome::Suspect | Outcome::Error);
            return CellOutcome::Number { suspect: self.trials.iter().any(doubtful) };
        }
        if let Some(cause) = error {
            return CellOutcome::Error(cause);
        }
        let planned = if self.is_excluded() { MissingCause::Excluded } else { MissingCause::NotRun };
        CellOutcome::Missing(missing.min().unwrap_or(planned))
    }

    /// Whether the matrix excludes the cell, and it was indeed never tried.
    pub(crate) fn is_excluded(&self) -> bool {
        self.cell.excluded.is_some() && self.trials.is_empty()
    }

    /// The values of a metric, one for each trial that has it.
    pub(crate) fn values(&self, metric: &str) -> impl Iterator<Item = f64> {
        self.trials.iter().filter_map(move |trial| trial.value(metric))
    }

    /// How many trials have an outcome that satisfies a condition.
    pub(crate) fn count(&self, condition: impl Fn(Outcome) -> bool) -> usize {
        self.trials.iter().filter(|trial| condition(trial.outcome)).count()
    }
}

impl CellOutcome {
    /// The first column.
    pub(crate) fn outcome(self) -> Outcome {
        match self {
            Self::Number { suspect: false } => Outcome::Ok,
            Self::Number { suspect: true } => Outcome::Suspect,
            Self::Ng(_) => Outcome::Ng,
            Self::Error(_) => Outcome::Error,
            Self::Missing(_) => Outcome::Missing,
        }
    }

    /// The second column; empty for a number, whose doubts can be several.
    pub(crate) fn cause(self) -> &'static str {
        match self {
            Self::Number { .. } => "",
            Self::Ng(cause) => cause.as_str(),
            Self::Error(cause) => cause.as_str(),
            Self::Missing(cause) => cause.as_str(),
        }
    }

    /// The mark of a cell: empty, `**`, `NG`, `ERR` or `---`.
    pub(crate) fn mark(self) -> &'static str {
        mark(self.outcome())
    }
}

/// The mark that stands for an outcome in tables.
pub(crate) fn mark(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Ok => "",
        Outcome::Suspect => "**",
        Outcome::Ng => "NG",
        Outcome::Error => "ERR",
        Outcome::Missing => "---",
    }
}

/// Groups the attempts of a run by cell and trial. Cells keep their order.
pub(crate) fn group(results: &RunResults) -> Result<Vec<CellTrials<'_>>, InconsistentRun> {
    let axes = results.run.axes.len();
    let mut position = HashMap::with_capacity(results.cells.len());
    let mut cells = Vec::with_capacity(results.cells.len());
    for cell in &results.cells {
        if cell.values.len() != axes {
            return Err(InconsistentRun::Values { cell: cell.index, values: cell.values.len(), axes });
        }
        if position.insert(cell.index, cells.len()).is_some() {
            return Err(InconsistentRun::SameIndex(cell.index));
        }
        let planned = if cell.excluded.is_some() { 0 } else { results.run.repeat };
        let trials = (1..=planned).map(Trial::new).collect();
        cells.push(CellTrials { cell, trials, outcome: CellOutcome::Missing(MissingCause::NotRun) });
    }
    for attempt in &results.attempts {
        let trial = attempt.id.trial;
        let cell = position.get(&trial.cell).and_then(|at| cells.get_mut(*at));
        let unknown = InconsistentRun::UnknownCell { attempt: attempt.id, cell: trial.cell };
        let trials = &mut cell.ok_or(unknown)?.trials;
        let at = match trials.binary_search_by_key(&trial.repetition, |known| known.repetition) {
            Ok(at) => at,
            // More repetitions than planned: kept, since they were measured.
            Err(at) => {
                trials.insert(at, Trial::new(trial.repetition));
                at
            }
        };
        if let Some(known) = trials.get_mut(at) {
            let after = known.attempts.partition_point(|earlier| earlier.id.number <= attempt.id.number);
            known.attempts.insert(after, attempt);
        }
    }
    for cell in &mut cells {
        for trial in &mut cell.trials {
            trial.outcome = trial.find_outcome();
        }
        cell.outcome = cell.find_outcome();
    }
    Ok(cells)
}
