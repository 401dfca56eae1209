//! Searches for a culprit by trying: the first bad value of an order ([`first_bad`]), or the smallest set of toggles that changes the
//! outcome ([`smallest_set`]).
//!
//! Both are pure functions from what was tried so far to what to try next, so that a search goes on from its journal: whoever calls them
//! keeps a list of trials with their outcomes, carries out what is asked for, and appends. A failure may be flaky: how many clean
//! trials make a value good is derived from how often the ends failed ([`confidence`]). Used by `drover bisect`.

mod confidence;
mod order;
mod tally;
mod toggles;

pub use confidence::{CLEAN, chance_of_clean, clean_time_factor, clean_trials};
pub use order::{OrderStep, first_bad};
pub use tally::{Outcome, Policy, Stuck};
pub use toggles::{ToggleStep, Toggles, smallest_set};
