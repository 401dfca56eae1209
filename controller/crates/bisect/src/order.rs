//! The first bad value of an order: everything before it is good, everything from it on is bad.

use crate::{
    confidence::chance_of_clean,
    tally::{Class, Ends, Outcome, Policy, Stuck, Tally, ends},
};

/// What to do next.
#[derive(Clone, Debug, PartialEq)]
pub enum OrderStep {
    /// Try the value at this place.
    Try(usize),
    /// The search is over.
    Found {
        /// Place of the last value that is known to be good.
        last_good: usize,
        /// Place of the first value that is known to be bad; it is the first bad one unless some between could not be measured.
        first_bad: usize,
        /// Chance that the first bad value is not before the places between these two, at least: that no value was called good by
        /// luck.
        confidence: f64,
    },
    /// The search cannot be made.
    Stuck(Stuck),
}

/// The next step of a search among `count` values in their order, of which the first is good and the last bad, after these
/// trials (place and outcome, in any order).
///
/// Each step halves what is left. Values that could not be measured are passed by. Fewer than two values are stuck as if the bad
/// end passed.
#[must_use]
pub fn first_bad(count: usize, policy: Policy, trials: &[(usize, Outcome)]) -> OrderStep {
    let Some(last) = count.checked_sub(1).filter(|last| *last > 0) else {
        return OrderStep::Stuck(Stuck::BadEndPasses);
    };
    let tally = |place: usize| Tally::of(trials.iter().filter(|trial| trial.0 == place).map(|trial| trial.1));
    let (clean, failures, of) = match ends(tally(0), tally(last), policy) {
        Ends::Try { good } => return OrderStep::Try(if good { 0 } else { last }),
        Ends::Stuck(why) => return OrderStep::Stuck(why),
        Ends::Clean { trials, failures, of } => (trials, failures, of),
    };
    let (mut good, mut bad) = (0, last);
    // Only places that were called good can be wrong.
    let mut luck = 0.0;
    loop {
        let Some(place) = middle(good, bad, |place| tally(place).class(clean) == Class::Skipped) else {
            return OrderStep::Found {
                last_good: good,
                first_bad: bad,
                confidence: 1.0 - f64::min(luck, 1.0),
            };
        };
        match tally(place).class(clean) {
            Class::Bad => bad = place,
            Class::Good => {
                luck += chance_of_clean(failures, of, tally(place).good);
                good = place;
            }
            Class::Open | Class::Skipped => return OrderStep::Try(place),
        }
    }
}

/// The place between these two that is nearest to their middle and not passed by.
fn middle(good: usize, bad: usize, passed_by: impl Fn(usize) -> bool) -> Option<usize> {
    let centre = good + (bad - good) / 2;
    (good + 1..bad).filter(|place| !passed_by(*place)).min_by_key(|place| place.abs_diff(centre))
}
