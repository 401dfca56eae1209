//! What became of the soaks of a run, read from their series on disk: for `report`, and for the end of `run` and `resume`.

mod sensors;

use std::{
    fs::File,
    io::{BufRead, BufReader, Read},
    path::Path,
    time::Duration,
};

use drover_matrix::{Matrix, Soak};
use drover_model::{AttemptId, Name};
use drover_report::soak::{Evidence, EvidenceState, Running, SeriesMetric, SoakResult, SoakSetup, summarise};
use drover_store::{AttemptRecord, ResultsDir, RunResults, SeriesReader, Store};

use super::load::restore;
use crate::{Context, error::Failure, exit::ExitStatus};

/// Longest first lines of evidence that are read, in bytes.
const HEAD: u64 = 4096;

/// The soaks of a run, in the order of their attempts; those that go on come last. None if the run is none.
pub fn soaks(
    results: &RunResults,
    store: &impl Store,
    dir: &ResultsDir,
    context: &Context,
) -> Result<Vec<SoakResult>, Failure> {
    // Without the word there is no such key.
    if !results.run.matrix_text.contains("soak") {
        return Ok(Vec::new());
    }
    let matrix = restore(&results.run, &context.screen)?;
    let Some(soak) = matrix.soak() else { return Ok(Vec::new()) };
    let cells = results.cells.iter().filter(|cell| cell.excluded.is_none()).count();
    let planned = soak.cell_time(u64::try_from(cells).unwrap_or(u64::MAX));
    let metrics: Vec<SeriesMetric> = results.run.metrics.iter().map(SeriesMetric::of).collect();
    let reading = Reading { dir, matrix: &matrix, soak, planned, metrics: &metrics };
    let mut list = Vec::new();
    for attempt in &results.attempts {
        let tasks = store.load_tasks(&attempt.id).map_err(|error| Failure::infrastructure(&error))?;
        let attempt = AttemptRecord { tasks, ..attempt.clone() };
        list.extend(reading.result(attempt.id, &attempt.hosts, Some(&attempt))?);
    }
    let journalled = store.journalled(results.run.id).map_err(|error| Failure::infrastructure(&error))?;
    let is_stored = |id: &AttemptId| results.attempts.iter().any(|attempt| attempt.id == *id);
    for intent in journalled.iter().filter(|intent| !is_stored(&intent.id)) {
        let hosts: Vec<Name> = intent.seats.hosts().into_iter().cloned().collect();
        list.extend(reading.result(intent.id, &hosts, None)?);
    }
    Ok(list)
}

struct Reading<'a> {
    dir: &'a ResultsDir,
    matrix: &'a Matrix,
    soak: &'a Soak,
    planned: Duration,
    metrics: &'a [SeriesMetric],
}

impl Reading<'_> {
    /// What became of an attempt; `None` if it was never begun.
    fn result(
        &self,
        id: AttemptId,
        hosts: &[Name],
        record: Option<&AttemptRecord>,
    ) -> Result<Option<SoakResult>, Failure> {
        let reader = SeriesReader::open(self.dir, &id).map_err(|error| Failure::infrastructure(&error))?;
        let Some(reader) = reader else { return Ok(None) };
        let mut sensors = Vec::new();
        for host in hosts {
            let at = (hosts.len() > 1).then_some(host);
            let path = self.dir.sensors_path(&id, host);
            let found = sensors::series(&path, at, self.matrix);
            sensors.extend(found.map_err(|error| {
                let text = format!("cannot read {}: {error}", path.display());
                Failure::new(ExitStatus::Infrastructure, text)
            })?);
        }
        let us = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let setup = SoakSetup {
            started_unix_us: record.map_or(0, |record| record.started_unix_us),
            ended_unix_us: record.map(|record| record.started_unix_us.saturating_add(us(record.elapsed))),
            planned: self.planned,
            every: self.soak.every,
            warm_up: self.soak.warm_up,
            verdict: record.map(|record| &record.verdict),
            metrics: self.metrics,
            sensors: &sensors,
        };
        let series = summarise(&reader, &setup).map_err(|error| Failure::infrastructure(&error))?;
        Ok(Some(SoakResult {
            attempt: id,
            planned: self.planned,
            verdict: record.map(|record| record.verdict.clone()),
            evidence: self.evidence(id, hosts),
            running: record.map(Running::of).unwrap_or_default(),
            series,
        }))
    }

    /// What was kept of all hosts; of one that has nothing, there is nothing.
    fn evidence(&self, id: AttemptId, hosts: &[Name]) -> Evidence {
        let mut evidence = Evidence::default();
        let mut states = Vec::new();
        for host in hosts {
            let path = self.dir.evidence_path(&id, host);
            let state = state_of(&path);
            states.push(state.unwrap_or_default());
            if state.is_some() {
                evidence.paths.push(path.display().to_string());
            }
        }
        let all = |wanted: EvidenceState| states.iter().all(|state| *state == wanted);
        evidence.state = if all(EvidenceState::None) {
            EvidenceState::None
        } else if all(EvidenceState::Complete) {
            EvidenceState::Complete
        } else {
            EvidenceState::Partial
        };
        evidence
    }
}

/// What a file of evidence says of itself; `None` if there is no such file.
fn state_of(path: &Path) -> Option<EvidenceState> {
    let head = BufReader::new(File::open(path).ok()?.take(HEAD));
    let word = head.lines().map_while(Result::ok).find_map(|line| {
        let word = line.strip_prefix("evidence: ")?;
        [EvidenceState::Complete, EvidenceState::Partial].into_iter().find(|state| state.as_str() == word)
    });
    Some(word.unwrap_or_default())
}
