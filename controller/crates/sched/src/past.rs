//! What former controllers did: how often each trial was tried. Made by `Scheduler::new`, asked whenever a trial is drawn.

use std::collections::BTreeSet;

use drover_model::{AttemptId, Outcome, TrialId};

use crate::{PastAttempt, Progress};

/// The next try at a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Draw {
    pub trial: TrialId,
    /// Number of the attempt to make, from 1.
    pub number: u32,
    /// Earlier attempts that ended by a fault of ours.
    pub faults: u32,
    /// Earlier attempts that ended `ng`.
    pub ngs: u32,
}

/// Stored attempts, summed up by trial.
#[derive(Debug, Default)]
pub(crate) struct Past {
    /// Sorted by trial.
    trials: Vec<Tried>,
    /// Trials with an attempt in the journal that is not stored: it goes on under its own number.
    open: BTreeSet<TrialId>,
}

#[derive(Clone, Copy, Debug)]
struct Tried {
    draw: Draw,
    is_final: bool,
    /// The number of the attempt that has a number to show, if one has.
    numbered: Option<u32>,
}

impl Past {
    /// Sums up the stored attempts, given in any order.
    pub fn new(past: impl IntoIterator<Item = PastAttempt>, progress: &mut Progress) -> Self {
        let mut trials: Vec<Tried> = past
            .into_iter()
            .map(|attempt| {
                progress.count(attempt.outcome, attempt.is_final);
                Tried {
                    draw: Draw {
                        trial: attempt.id.trial,
                        number: attempt.id.number,
                        faults: u32::from(attempt.retriable),
                        ngs: u32::from(attempt.outcome == Outcome::Ng),
                    },
                    is_final: attempt.is_final,
                    numbered: attempt.outcome.has_number().then_some(attempt.id.number),
                }
            })
            .collect();
        trials.sort_unstable_by_key(|tried| tried.draw.trial);
        trials.dedup_by(|later, kept| {
            let same = later.draw.trial == kept.draw.trial;
            if same {
                kept.draw.number = kept.draw.number.max(later.draw.number);
                kept.draw.faults = kept.draw.faults.saturating_add(later.draw.faults);
                kept.draw.ngs = kept.draw.ngs.saturating_add(later.draw.ngs);
                kept.is_final |= later.is_final;
                kept.numbered = kept.numbered.or(later.numbered);
            }
            same
        });
        trials.shrink_to_fit();
        Self { trials, open: BTreeSet::new() }
    }

    fn find(&self, trial: TrialId) -> Option<&Tried> {
        let at = self.trials.binary_search_by_key(&trial, |tried| tried.draw.trial).ok()?;
        self.trials.get(at)
    }

    /// The next attempt of a trial; `None` if it has its final verdict.
    fn next_of(&self, trial: TrialId) -> Option<Draw> {
        match self.find(trial) {
            None => Some(Draw { trial, number: 1, faults: 0, ngs: 0 }),
            Some(tried) if tried.is_final => None,
            Some(tried) => Some(Draw { number: tried.draw.number.saturating_add(1), ..tried.draw }),
        }
    }

    /// Takes up a journalled attempt: its draw if it is the next one of its trial, `None` if it is stored, or no attempt
    /// of its trial can follow.
    pub fn open(&mut self, attempt: AttemptId) -> Option<Draw> {
        let draw = self.next_of(attempt.trial).filter(|draw| draw.number == attempt.number)?;
        self.open.insert(attempt.trial).then_some(draw)
    }

    /// The attempt to make when a trial's turn has come; `None` if it has its verdict, or is open already.
    pub fn draw(&self, trial: TrialId) -> Option<Draw> {
        if self.open.contains(&trial) { None } else { self.next_of(trial) }
    }

    /// Whether this attempt is stored with a number to show.
    pub fn has_number(&self, attempt: AttemptId) -> bool {
        self.find(attempt.trial).is_some_and(|tried| tried.numbered == Some(attempt.number))
    }

    /// Whether former controllers stored this attempt.
    pub fn is_stored(&self, attempt: AttemptId) -> bool {
        self.find(attempt.trial).is_some_and(|tried| attempt.number <= tried.draw.number)
    }
}

#[cfg(test)]
mod tests {
    use drover_model::RunId;

    use super::*;

    fn id(cell: u32, number: u32) -> AttemptId {
        let run: RunId = "00000000-0000-0000-0000-000000000001".parse().unwrap();
        AttemptId { run, trial: TrialId { cell, repetition: 1 }, number }
    }

    fn stored(cell: u32, number: u32, outcome: Outcome, is_final: bool) -> PastAttempt {
        PastAttempt {
            id: id(cell, number),
            outcome,
            retriable: outcome == Outcome::Error,
            is_final,
            died: None,
        }
    }

    #[test]
    fn expect_the_next_number_and_the_counts_when_a_trial_was_tried_before() {
        let mut progress = Progress::default();
        let mut past = Past::new(
            [
                stored(5, 2, Outcome::Ng, false),
                stored(7, 1, Outcome::Ok, true),
                stored(5, 1, Outcome::Error, false),
            ],
            &mut progress,
        );
        let trial = |cell| TrialId { cell, repetition: 1 };
        assert_eq!(past.draw(trial(5)), Some(Draw { trial: trial(5), number: 3, faults: 1, ngs: 1 }));
        assert_eq!(past.draw(trial(7)), None);
        assert_eq!(past.draw(trial(9)).map(|draw| draw.number), Some(1));
        assert_eq!((progress.ok, progress.passing), (1, 2));

        assert_eq!(past.open(id(5, 2)), None, "it is stored");
        assert_eq!(past.open(id(5, 3)).map(|draw| draw.ngs), Some(1));
        assert_eq!(past.open(id(5, 3)), None, "it is open already");
        assert_eq!(past.draw(trial(5)), None, "its open attempt goes on instead");
        assert!(past.is_stored(id(5, 2)) && !past.is_stored(id(5, 3)) && !past.is_stored(id(9, 1)));
    }
}
