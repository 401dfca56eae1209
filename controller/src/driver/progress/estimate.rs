//! The time left, from what trials took so far.

use std::{collections::HashMap, time::Duration};

use drover_model::TrialId;

/// What is left, in time. Cells that were tried tell how long their other trials take; the mean of all stands in for
/// the rest.
#[derive(Debug, Default)]
pub struct Estimate {
    /// Cells with trials left: how many, and how long one took.
    cells: HashMap<u32, (u32, Option<Duration>)>,
    /// Sum over the trials left whose cell was tried.
    known: Duration,
    /// Trials left whose cell was not.
    unknown: u32,
    /// All trials finished.
    done: u32,
    spent: Duration,
}

impl Estimate {
    /// A trial that is to be run.
    pub fn add(&mut self, trial: TrialId) {
        self.cells.entry(trial.cell).or_default().0 += 1;
        self.unknown += 1;
    }

    /// A trial is over, and took this long.
    pub fn finish(&mut self, trial: TrialId, took: Duration) {
        self.done += 1;
        self.spent += took;
        let Some((left, duration)) = self.cells.get_mut(&trial.cell) else { return };
        match *duration {
            Some(old) => self.known = self.known.saturating_sub(old * *left),
            None => self.unknown -= *left,
        }
        *left = left.saturating_sub(1);
        *duration = Some(took);
        self.known += took * *left;
    }

    /// Time left, if anything is known; and how many trials of cells never tried are in it.
    pub fn left(&self) -> Option<(Duration, u32)> {
        let mean = self.spent.checked_div(self.done)?;
        Some((self.known + mean * self.unknown, self.unknown))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trial(cell: u32, repetition: u32) -> TrialId {
        TrialId { cell, repetition }
    }

    #[test]
    fn expect_the_estimate_to_use_each_cells_own_time_when_it_was_tried() {
        let mut estimate = Estimate::default();
        for cell in 0..2 {
            for repetition in 1..=2 {
                estimate.add(trial(cell, repetition));
            }
        }
        assert_eq!(estimate.left(), None);
        estimate.finish(trial(0, 1), Duration::from_secs(1));
        // One more of cell 0 at its own 1 s, two of cell 1 at the mean of 1 s.
        assert_eq!(estimate.left(), Some((Duration::from_secs(3), 2)));
        estimate.finish(trial(1, 1), Duration::from_secs(9));
        assert_eq!(estimate.left(), Some((Duration::from_secs(10), 0)));
        estimate.finish(trial(0, 2), Duration::from_secs(1));
        estimate.finish(trial(1, 2), Duration::from_secs(9));
        assert_eq!(estimate.left(), Some((Duration::ZERO, 0)));
    }
}
