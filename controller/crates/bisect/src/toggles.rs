//! The smallest set of toggles that changes the outcome, by delta debugging: Zeller and Hildebrandt, "Simplifying and isolating
//! failure-inducing input", IEEE Transactions on Software Engineering 28(2), 2002 (algorithm ddmin).

use std::collections::BTreeSet;

use crate::tally::{Class, Ends, Outcome, Policy, Stuck, Tally, ends};

/// Places of the toggles that are on.
pub type Toggles = BTreeSet<usize>;

/// What to do next.
#[derive(Clone, Debug, PartialEq)]
pub enum ToggleStep {
    /// Try with these on and all others off.
    Try(Toggles),
    /// The search is over.
    Found {
        /// These change the outcome, and without any one of them they do not, as far as could be measured.
        set: Toggles,
        /// Of these smaller sets, nothing could be told.
        unmeasured: Vec<Toggles>,
    },
    /// The search cannot be made.
    Stuck(Stuck),
}

/// The next step of a search among `count` toggles, after these trials (what was on, and the outcome, in any order).
///
/// With all off the outcome is one, with all on it is the other; which is which the first trials tell. The set that is found is
/// minimal in the sense of ddmin: no single toggle can be taken out of it.
#[must_use]
pub fn smallest_set(count: usize, policy: Policy, trials: &[(Toggles, Outcome)]) -> ToggleStep {
    let tally = |set: &Toggles| Tally::of(trials.iter().filter(|trial| trial.0 == *set).map(|trial| trial.1));
    let (none, all) = (Toggles::new(), Toggles::from_iter(0..count));
    // Which end is bad shows with its first failure; until then both are tried in turn.
    let (of_none, of_all) = (tally(&none), tally(&all));
    let on_is_good = of_none.bad > 0 || of_all.bad == 0 && of_none.good > of_all.good;
    let (good, bad) = if on_is_good { (of_all, of_none) } else { (of_none, of_all) };
    let clean = match ends(good, bad, policy) {
        Ends::Try { good } => return ToggleStep::Try(if good == on_is_good { all } else { none }),
        Ends::Stuck(why) => return ToggleStep::Stuck(why),
        Ends::Clean { trials, .. } => trials,
    };
    let wanted = if on_is_good { Class::Good } else { Class::Bad };
    let mut search = Search { wanted, clean, tally: &tally, ask: None };
    let found = search.reduce(all);
    match search.ask {
        Some(set) => ToggleStep::Try(set),
        None => {
            let without = found.iter().map(|toggle| less(&found, &Toggles::from([*toggle])));
            let unmeasured = without.filter(|set| tally(set).class(clean) == Class::Skipped).collect();
            ToggleStep::Found { set: found, unmeasured }
        }
    }
}

struct Search<'a, T> {
    wanted: Class,
    clean: u32,
    tally: &'a T,
    /// What has to be tried before the search can go on.
    ask: Option<Toggles>,
}

impl<T: Fn(&Toggles) -> Tally> Search<'_, T> {
    /// Whether these on change the outcome; `None` if that is to be tried first.
    fn changes(&mut self, set: &Toggles) -> Option<bool> {
        match (self.tally)(set).class(self.clean) {
            Class::Open => {
                self.ask = Some(set.clone());
                None
            }
            class => Some(class == self.wanted),
        }
    }

    /// ddmin; stops at the first set that was not tried.
    fn reduce(&mut self, mut set: Toggles) -> Toggles {
        let mut parts = 2;
        while set.len() > 1 {
            let pieces = split(&set, parts);
            let complements = pieces.iter().map(|piece| less(&set, piece));
            // Two pieces are one another's complements.
            let candidates: Vec<(Toggles, usize)> = if parts == 2 {
                pieces.iter().map(|piece| (piece.clone(), 2)).collect()
            } else {
                let shrink = |rest| (rest, (parts - 1).max(2));
                pieces.iter().map(|piece| (piece.clone(), 2)).chain(complements.map(shrink)).collect()
            };
            let mut smaller = None;
            for (candidate, next) in candidates {
                match self.changes(&candidate) {
                    None => return set,
                    Some(true) => {
                        smaller = Some((candidate, next));
                        break;
                    }
                    Some(false) => {}
                }
            }
            match smaller {
                Some((candidate, next)) => {
                    set = candidate;
                    parts = next;
                }
                None if parts < set.len() => parts = (parts * 2).min(set.len()),
                None => return set,
            }
        }
        set
    }
}

/// So many parts of nearly the same size.
fn split(set: &Toggles, parts: usize) -> Vec<Toggles> {
    let all: Vec<usize> = set.iter().copied().collect();
    let parts = parts.clamp(1, all.len().max(1));
    let bound = |part: usize| part * all.len() / parts;
    (0..parts)
        .filter_map(|part| all.get(bound(part)..bound(part + 1)))
        .map(|piece| piece.iter().copied().collect())
        .collect()
}

fn less(set: &Toggles, without: &Toggles) -> Toggles {
    set.difference(without).copied().collect()
}
