//! What was seen of one candidate, and what it says.

use crate::confidence::clean_trials;

/// What one trial showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The failure was not there.
    Good,
    /// It was.
    Bad,
    /// Nothing could be told: the trial had no valid result.
    Skipped,
}

/// How a search is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Trials of each end before anything else is tried, at least 1.
    pub ends: u32,
    /// Most trials of one candidate.
    pub most: u32,
}

impl Default for Policy {
    fn default() -> Self {
        Self { ends: 3, most: 50 }
    }
}

/// Why a search has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stuck {
    /// The end that should be good has failed.
    GoodEndFails,
    /// The end that should be bad has not failed in any of its trials.
    BadEndPasses,
    /// An end could not be measured.
    EndSkipped {
        /// The good one, or the bad one.
        good: bool,
    },
    /// The bad end fails so rarely that more clean trials than allowed would be needed.
    TooFlaky {
        /// Trials of the bad end that failed.
        failures: u32,
        /// All of them.
        trials: u32,
    },
}

/// Outcomes of one candidate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) good: u32,
    pub(crate) bad: u32,
    pub(crate) skipped: u32,
}

/// What a candidate is, as far as is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    Good,
    Bad,
    Skipped,
    Open,
}

impl Tally {
    pub(crate) fn of(outcomes: impl Iterator<Item = Outcome>) -> Self {
        let mut tally = Self::default();
        for outcome in outcomes {
            match outcome {
                Outcome::Good => tally.good += 1,
                Outcome::Bad => tally.bad += 1,
                Outcome::Skipped => tally.skipped += 1,
            }
        }
        tally
    }

    /// One failure is enough for bad; good takes `clean` trials without one; one that cannot be measured is not tried again.
    pub(crate) fn class(self, clean: u32) -> Class {
        match self {
            Self { bad: 1.., .. } => Class::Bad,
            Self { skipped: 1.., .. } => Class::Skipped,
            Self { good, .. } if good >= clean => Class::Good,
            Self { .. } => Class::Open,
        }
    }
}

/// What the ends say.
pub(crate) enum Ends {
    /// One of them is to be tried: the good one, or the bad one.
    Try { good: bool },
    /// Clean trials that make a candidate good; the failures and trials that say so.
    Clean { trials: u32, failures: u32, of: u32 },
    /// There is nothing to search.
    Stuck(Stuck),
}

/// Judges both ends, each of which is tried so many times first.
pub(crate) fn ends(good: Tally, bad: Tally, policy: Policy) -> Ends {
    let wanted = policy.ends.max(1);
    if good.bad > 0 {
        return Ends::Stuck(Stuck::GoodEndFails);
    }
    for (tally, is_good) in [(good, true), (bad, false)] {
        if tally.skipped > 0 {
            return Ends::Stuck(Stuck::EndSkipped { good: is_good });
        }
        if tally.good + tally.bad < wanted {
            return Ends::Try { good: is_good };
        }
    }
    if bad.bad == 0 {
        return Ends::Stuck(Stuck::BadEndPasses);
    }
    let of = bad.good + bad.bad;
    let Some(trials) = clean_trials(bad.bad, of, policy.most) else {
        return Ends::Stuck(Stuck::TooFlaky { failures: bad.bad, trials: of });
    };
    // The good end itself has to be as clean as anything else that is called good.
    if good.good < trials {
        return Ends::Try { good: true };
    }
    Ends::Clean { trials, failures: bad.bad, of }
}
