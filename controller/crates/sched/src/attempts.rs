//! The attempts that are open, found by their ids. Owned by the scheduler, which looks one up several times a step, among some
//! hundred thousand: so they stay where they are once put, and the hash is a fast one.

use drover_model::{AttemptId, RunId, TrialId};
use rustc_hash::FxHashMap;

use crate::attempt::Attempt;

/// Attempts of one run by id. Never walked through, so that nothing depends on their order.
#[derive(Debug)]
pub(crate) struct Attempts {
    run: RunId,
    /// By trial and number: without the run, which is the same for all, many more fit into the caches of the CPU.
    places: FxHashMap<(TrialId, u32), usize>,
    slots: Vec<Option<Attempt>>,
    /// Places in `slots` without an attempt.
    vacant: Vec<usize>,
}

impl Attempts {
    /// None, of this run.
    pub fn new(run: RunId) -> Self {
        Self { run, places: FxHashMap::default(), slots: Vec::new(), vacant: Vec::new() }
    }

    fn place(&self, id: &AttemptId) -> Option<usize> {
        if id.run == self.run { self.places.get(&(id.trial, id.number)).copied() } else { None }
    }

    /// An attempt, if it is open.
    pub fn get(&self, id: &AttemptId) -> Option<&Attempt> {
        self.slots.get(self.place(id)?)?.as_ref()
    }

    /// An attempt, to change it.
    pub fn get_mut(&mut self, id: &AttemptId) -> Option<&mut Attempt> {
        let place = self.place(id)?;
        self.slots.get_mut(place)?.as_mut()
    }

    /// Takes up an attempt of the run, in place of the one with its id if there is one.
    pub fn insert(&mut self, attempt: Attempt) {
        let (vacant, slots) = (&mut self.vacant, &mut self.slots);
        let place = *self.places.entry((attempt.id.trial, attempt.id.number)).or_insert_with(|| {
            vacant.pop().unwrap_or_else(|| {
                slots.push(None);
                slots.len() - 1
            })
        });
        self.slots[place] = Some(attempt);
    }

    /// Lets go of an attempt.
    pub fn remove(&mut self, id: &AttemptId) -> Option<Attempt> {
        let place = self.place(id)?;
        self.places.remove(&(id.trial, id.number));
        self.vacant.push(place);
        self.slots.get_mut(place)?.take()
    }

    /// Whether none is open.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        attempt::{Origin, Stage},
        past::Draw,
    };

    fn attempt(cell: u32, group: usize) -> Attempt {
        let trial = TrialId { cell, repetition: 1 };
        let id = AttemptId { run: RunId(Default::default()), trial, number: 1 };
        let draw = Draw { trial, number: 1, faults: 0, ngs: 0 };
        Attempt::new(id, draw, group, Origin::Fresh, Stage::Journalling)
    }

    #[test]
    fn expect_every_attempt_under_its_own_id_when_places_are_used_again() {
        let mut attempts = Attempts::new(RunId(Default::default()));
        for cell in 0..8 {
            attempts.insert(attempt(cell, 0));
        }
        for cell in [3, 5] {
            assert_eq!(attempts.remove(&attempt(cell, 0).id).map(|gone| gone.draw.trial.cell), Some(cell));
            assert!(attempts.remove(&attempt(cell, 0).id).is_none());
        }
        for cell in 8..11 {
            attempts.insert(attempt(cell, 0));
        }
        attempts.insert(attempt(9, 7));
        for cell in [0, 1, 2, 4, 6, 7, 8, 9, 10] {
            assert_eq!(attempts.get(&attempt(cell, 0).id).map(|found| found.draw.trial.cell), Some(cell));
            let group = if cell == 9 { 7 } else { 0 };
            assert_eq!(attempts.remove(&attempt(cell, 0).id).map(|gone| gone.group), Some(group));
        }
        assert!(attempts.is_empty());
        assert_eq!(attempts.slots.len(), 9, "as many places as were needed at once");
    }

    #[test]
    fn expect_nothing_when_an_attempt_is_of_another_run() {
        let mut attempts = Attempts::new(RunId(Default::default()));
        attempts.insert(attempt(1, 0));
        let run = "00000000-0000-7000-8000-000000000001".parse().unwrap();
        let other = AttemptId { run, ..attempt(1, 0).id };
        assert!(attempts.get(&other).is_none() && attempts.get_mut(&other).is_none());
        assert!(attempts.remove(&other).is_none() && !attempts.is_empty());
    }
}
