//! How long trials and boots took in stored runs of a matrix, for the estimate of the next one.

use std::{collections::HashMap, time::Duration};

use drover_model::{CellKey, Name};
use drover_store::{AttemptRecord, ResultsDir, RunResults, SqliteStore, Store};

use crate::Context;

/// Means over all stored runs.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Past {
    /// Of a trial, by cell, without the boot that came before it.
    pub trials: HashMap<CellKey, Duration>,
    /// Of a boot; `None` if there was none.
    pub boot: Option<Duration>,
}

/// An attempt with a number.
#[derive(Clone, Copy, Debug)]
struct Timed {
    key: CellKey,
    elapsed: Duration,
    /// A host of it was booted for it.
    with_boot: bool,
}

#[derive(Default)]
struct Mean {
    sum: Duration,
    count: u32,
}

impl Mean {
    fn add(&mut self, elapsed: Duration) {
        self.sum = self.sum.saturating_add(elapsed);
        self.count = self.count.saturating_add(1);
    }

    fn get(&self) -> Option<Duration> {
        self.sum.checked_div(self.count)
    }
}

impl Past {
    /// Of all stored runs of the matrix of this name.
    pub fn of(matrix: &str, context: &Context) -> Self {
        let dir = ResultsDir::open(&context.global.results).ok();
        let store = dir.and_then(|dir| SqliteStore::open_read_only(&dir).ok());
        let runs = store.as_ref().and_then(|store| store.run_names().ok()).unwrap_or_default();
        let mut all = Vec::new();
        for run in runs.iter().filter(|run| run.name == matrix) {
            if let Some(Ok(results)) = store.as_ref().map(|store| store.load_table(run.id)) {
                timed(&results, &mut all);
            }
        }
        Self::over(&all)
    }

    /// A boot is part of the time of the attempt that needed it: what such attempts took longer than others is the boot.
    fn over(all: &[Timed]) -> Self {
        let mut plain: HashMap<CellKey, Mean> = HashMap::new();
        let mut any = Mean::default();
        for attempt in all.iter().filter(|attempt| !attempt.with_boot) {
            plain.entry(attempt.key).or_default().add(attempt.elapsed);
            any.add(attempt.elapsed);
        }
        let mut boot = Mean::default();
        let usual = any.get();
        for attempt in all.iter().filter(|attempt| attempt.with_boot) {
            let without = plain.get(&attempt.key).and_then(Mean::get).or(usual);
            if let Some(without) = without {
                boot.add(attempt.elapsed.saturating_sub(without));
            }
        }
        let mut trials: HashMap<CellKey, Duration> =
            plain.into_iter().filter_map(|(key, mean)| Some((key, mean.get()?))).collect();
        // Where each trial needed a boot, nothing tells the two apart.
        let boot = boot.get();
        for attempt in all.iter().filter(|attempt| attempt.with_boot) {
            let rest = attempt.elapsed.saturating_sub(boot.unwrap_or_default());
            trials.entry(attempt.key).or_insert(rest);
        }
        Self { trials, boot }
    }
}

/// The attempts of a run that have numbers. One needed a boot if the last one on a host of it found another boot there.
fn timed(results: &RunResults, into: &mut Vec<Timed>) {
    let mut attempts: Vec<&AttemptRecord> = results.attempts.iter().collect();
    attempts.sort_by_key(|attempt| attempt.started_unix_us);
    let mut last: HashMap<&Name, &str> = HashMap::new();
    for attempt in attempts {
        let mut with_boot = false;
        for (host, boot_id) in attempt.hosts.iter().zip(&attempt.boot_ids) {
            let before = last.insert(host, boot_id);
            with_boot |= before.is_some_and(|before| before != boot_id);
        }
        let place = usize::try_from(attempt.id.trial.cell).unwrap_or(usize::MAX);
        if let Some(cell) = results.cells.get(place).filter(|_| attempt.verdict.outcome().has_number()) {
            into.push(Timed { key: cell.key, elapsed: attempt.elapsed, with_boot });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(all: &[(u8, u64, bool)]) -> Past {
        let timed = |(cell, elapsed, with_boot): &(u8, u64, bool)| Timed {
            key: CellKey::of([[*cell].as_slice()]),
            elapsed: Duration::from_secs(*elapsed),
            with_boot: *with_boot,
        };
        Past::over(&all.iter().map(timed).collect::<Vec<_>>())
    }

    fn trial(past: &Past, cell: u8) -> u64 {
        past.trials[&CellKey::of([[cell].as_slice()])].as_secs()
    }

    #[test]
    fn expect_the_boot_told_from_the_trial_when_some_needed_one() {
        let past = seconds(&[(1, 4, false), (1, 14, true), (1, 6, false), (2, 21, true)]);
        // 14 is 9 more than the mean of that cell, 21 is 16 more than that of all.
        assert_eq!(past.boot, Some(Duration::from_millis(12_500)));
        assert_eq!((trial(&past, 1), trial(&past, 2)), (5, 8));
    }

    #[test]
    fn expect_no_boot_when_nothing_tells_it_from_the_trial() {
        let past = seconds(&[(1, 14, true), (2, 16, true)]);
        assert_eq!(past.boot, None);
        assert_eq!((trial(&past, 1), trial(&past, 2)), (14, 16));
        assert_eq!(seconds(&[]), Past::default());
        assert_eq!(seconds(&[(1, 5, false)]).boot, None);
    }
}
