//! The store without a disk: for tests of what is built on [`Store`], and for runs whose results nobody keeps.

use std::{collections::BTreeMap, sync::Arc};

use drover_model::{AttemptId, HostFacts, Name, RunId};

use crate::{
    AttemptHistory, AttemptRecord, CellRecord, Change, HostState, Intent, OutcomeCounts, Quarantine, RunName,
    RunRecord, RunResults, RunState, RunSummary, Store, StoreError, TaskRecord,
    limits::{admit, fits_column},
};

/// Keeps runs in memory.
#[derive(Clone, Debug, Default)]
pub struct MemoryStore {
    runs: Vec<Run>,
    quarantined: BTreeMap<Name, Quarantine>,
}

/// Cheap to clone, so that a group of changes can be tried on a copy.
#[derive(Clone, Debug)]
struct Run {
    record: Arc<RunRecord>,
    cells: Arc<[CellRecord]>,
    state: RunState,
    ended_unix_ms: Option<u64>,
    hosts: Vec<(Name, Arc<HostFacts>)>,
    host_states: Vec<HostState>,
    /// With a number that grows with every entry.
    journal: BTreeMap<AttemptId, (u64, Intent)>,
    journal_no: u64,
    attempts: BTreeMap<AttemptId, Arc<AttemptRecord>>,
    /// Replaced records, oldest first.
    revisions: BTreeMap<AttemptId, Vec<Arc<AttemptRecord>>>,
}

impl MemoryStore {
    /// An empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn run(&self, id: RunId) -> Result<&Run, StoreError> {
        self.runs.iter().find(|run| run.record.id == id).ok_or(StoreError::UnknownRun(id))
    }
}

fn run_mut(runs: &mut [Run], id: RunId) -> Result<&mut Run, StoreError> {
    runs.iter_mut().find(|run| run.record.id == id).ok_or(StoreError::UnknownRun(id))
}

fn change(store: &mut MemoryStore, change: Change<'_>) -> Result<(), StoreError> {
    let runs = &mut store.runs;
    match change {
        Change::Quarantine(quarantine) => {
            fits_column(quarantine.since_unix_ms, "the time of a quarantine")?;
            store.quarantined.insert(quarantine.host.clone(), quarantine.clone());
        }
        Change::Release(host) => drop(store.quarantined.remove(host)),
        Change::State { run, state, ended_unix_ms } => {
            let run = run_mut(runs, run)?;
            fits_column(ended_unix_ms.unwrap_or(0), "the end time of a run")?;
            (run.state, run.ended_unix_ms) = (state, ended_unix_ms);
        }
        Change::Host { run, name, facts } => {
            let run = run_mut(runs, run)?;
            let state = HostState::of(name, facts);
            if run.host_states.iter().rfind(|known| known.host == *name) != Some(&state) {
                run.host_states.push(state);
            }
            let facts = Arc::new(facts.clone());
            match run.hosts.iter_mut().find(|(known, _)| known == name) {
                Some((_, old)) => *old = facts,
                None => run.hosts.push((name.clone(), facts)),
            }
        }
        Change::Journal(intents) => {
            for intent in intents {
                run_mut(runs, intent.id.run)?.journal(intent)?;
            }
        }
        Change::Finish(record) => run_mut(runs, record.id.run)?.finish(record)?,
        Change::Replace(record) => run_mut(runs, record.id.run)?.replace(record)?,
    }
    Ok(())
}

impl Run {
    fn has_cell(&self, id: &AttemptId) -> Result<(), StoreError> {
        let found = self.cells.binary_search_by_key(&id.trial.cell, |cell| cell.index).is_ok();
        if found { Ok(()) } else { Err(StoreError::UnknownCell(*id)) }
    }

    fn journal(&mut self, intent: &Intent) -> Result<(), StoreError> {
        self.has_cell(&intent.id)?;
        fits_column(intent.at_unix_us, "the time of an intent")?;
        self.journal_no += 1;
        self.journal.insert(intent.id, (self.journal_no, intent.clone()));
        Ok(())
    }

    fn finish(&mut self, record: &AttemptRecord) -> Result<(), StoreError> {
        let record = admit(record)?;
        self.has_cell(&record.id)?;
        match self.attempts.get(&record.id) {
            Some(known) if **known == *record => Ok(()),
            Some(_) => Err(StoreError::AlreadyFinished(record.id)),
            None => {
                self.attempts.insert(record.id, Arc::new(record.into_owned()));
                Ok(())
            }
        }
    }

    fn replace(&mut self, record: &AttemptRecord) -> Result<(), StoreError> {
        let record = admit(record)?;
        let known = self.attempts.get_mut(&record.id).ok_or(StoreError::UnknownAttempt(record.id))?;
        if **known != *record {
            let old = std::mem::replace(known, Arc::new(record.into_owned()));
            self.revisions.entry(old.id).or_default().push(old);
        }
        Ok(())
    }

    fn name(&self) -> RunName {
        let record = &self.record;
        RunName {
            id: record.id,
            name: record.name.clone(),
            started_unix_ms: record.started_unix_ms,
            state: self.state,
        }
    }

    fn summary(&self) -> RunSummary {
        let RunName { id, name, started_unix_ms, state } = self.name();
        // In order of their numbers, so the last final attempt of a trial wins.
        let last: BTreeMap<_, _> = self
            .attempts
            .values()
            .filter(|attempt| attempt.is_final)
            .map(|attempt| (attempt.id.trial, attempt.verdict.outcome()))
            .collect();
        let mut counts = OutcomeCounts::default();
        last.values().for_each(|outcome| counts.add(*outcome, 1));
        let excluded = self.cells.iter().filter(|cell| cell.excluded.is_some()).count();
        let size = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        RunSummary {
            id,
            name,
            started_unix_ms,
            ended_unix_ms: self.ended_unix_ms,
            state,
            planned_trials: size(self.cells.len() - excluded).saturating_mul(self.record.repeat.into()),
            excluded_cells: size(excluded),
            counts,
        }
    }

    fn results(&self, attempt: impl Fn(&AttemptRecord) -> AttemptRecord) -> RunResults {
        RunResults {
            run: (*self.record).clone(),
            state: self.state,
            ended_unix_ms: self.ended_unix_ms,
            hosts: self.hosts.iter().map(|(name, facts)| (name.clone(), (**facts).clone())).collect(),
            host_states: self.host_states.clone(),
            cells: self.cells.to_vec(),
            attempts: self.attempts.values().map(|record| attempt(record)).collect(),
        }
    }
}

impl Store for MemoryStore {
    fn create_run(
        &mut self,
        run: &RunRecord,
        cells: &mut dyn Iterator<Item = CellRecord>,
    ) -> Result<(), StoreError> {
        if self.run(run.id).is_ok() {
            return Err(StoreError::RunExists(run.id));
        }
        fits_column(run.started_unix_ms, "the start time of a run")?;
        let mut cells: Vec<CellRecord> = cells.collect();
        cells.sort_by_key(|cell| cell.index);
        let twice = cells.windows(2).find_map(|pair| match pair {
            [a, b] if a.index == b.index => Some(a.index),
            _ => None,
        });
        if let Some(index) = twice {
            return Err(StoreError::CellExists { run: run.id, index });
        }
        self.runs.push(Run {
            record: Arc::new(run.clone()),
            cells: cells.into(),
            state: RunState::Open,
            ended_unix_ms: None,
            hosts: Vec::new(),
            host_states: Vec::new(),
            journal: BTreeMap::new(),
            journal_no: 0,
            attempts: BTreeMap::new(),
            revisions: BTreeMap::new(),
        });
        Ok(())
    }

    fn apply(&mut self, changes: &[Change<'_>]) -> Result<(), StoreError> {
        let mut changed = self.clone();
        for one in changes {
            change(&mut changed, *one)?;
        }
        *self = changed;
        Ok(())
    }

    fn run_names(&self) -> Result<Vec<RunName>, StoreError> {
        Ok(self.runs.iter().map(Run::name).collect())
    }

    fn runs(&self) -> Result<Vec<RunSummary>, StoreError> {
        Ok(self.runs.iter().map(Run::summary).collect())
    }

    fn load_table(&self, run: RunId) -> Result<RunResults, StoreError> {
        Ok(self.run(run)?.results(|record| AttemptRecord { tasks: Vec::new(), ..record.clone() }))
    }

    fn load(&self, run: RunId) -> Result<RunResults, StoreError> {
        Ok(self.run(run)?.results(AttemptRecord::clone))
    }

    fn load_tasks(&self, attempt: &AttemptId) -> Result<Vec<TaskRecord>, StoreError> {
        let record = self.run(attempt.run).ok().and_then(|run| run.attempts.get(attempt));
        record.map(|record| record.tasks.clone()).ok_or(StoreError::UnknownAttempt(*attempt))
    }

    fn load_run(&self, run: RunId) -> Result<RunRecord, StoreError> {
        Ok((*self.run(run)?.record).clone())
    }

    fn journalled(&self, run: RunId) -> Result<Vec<Intent>, StoreError> {
        let run = self.run(run)?;
        let mut entries: Vec<&(u64, Intent)> = run.journal.values().collect();
        entries.sort_by_key(|(no, _)| *no);
        Ok(entries.into_iter().map(|(_, intent)| intent.clone()).collect())
    }

    fn quarantined(&self) -> Result<Vec<Quarantine>, StoreError> {
        Ok(self.quarantined.values().cloned().collect())
    }

    fn history(&self, run: RunId) -> Result<Vec<AttemptHistory>, StoreError> {
        let history = |record: &Arc<AttemptRecord>| AttemptHistory {
            id: record.id,
            verdict: record.verdict.clone(),
            is_final: record.is_final,
        };
        Ok(self.run(run)?.attempts.values().map(history).collect())
    }

    fn is_finished(&self, attempt: &AttemptId) -> Result<bool, StoreError> {
        Ok(self.run(attempt.run).is_ok_and(|run| run.attempts.contains_key(attempt)))
    }

    fn revisions(&self, attempt: &AttemptId) -> Result<Vec<AttemptRecord>, StoreError> {
        let revisions = self.run(attempt.run).ok().and_then(|run| run.revisions.get(attempt));
        Ok(revisions.into_iter().flatten().map(|record| (**record).clone()).collect())
    }
}
