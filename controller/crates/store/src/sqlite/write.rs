//! Writing: every statement that changes a store on disk. Called by [`SqliteStore`]'s methods of the trait, inside one
//! transaction each.

use std::path::Path;

use drover_model::{AttemptId, HostFacts, Name, RunId};
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};
use serde::Serialize;

use super::{
    SqliteStore,
    codec::{metrics_to_text, names_to_text, state_to_text, verdict_to_text},
};
use crate::{
    AttemptRecord, CellRecord, Change, HostState, Intent, Quarantine, RunRecord, RunState, StoreError,
    TaskRecord,
    limits::{admit, fits_column},
};

/// A connection, and the path for messages.
#[derive(Clone, Copy)]
pub(super) struct Db<'a> {
    pub(super) conn: &'a Connection,
    pub(super) path: &'a Path,
}

impl SqliteStore {
    pub(super) fn db(&self) -> Db<'_> {
        Db { conn: &self.conn, path: &self.path }
    }

    /// Does `work` and commits it; or leaves everything as it was.
    fn in_transaction(
        &mut self,
        work: impl FnOnce(Db<'_>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        if self.lock.is_none() {
            return Err(StoreError::ReadOnly);
        }
        let path = &self.path;
        let failed = |source| StoreError::from_sqlite(path, source);
        let tx: Transaction<'_> =
            self.conn.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
        work(Db { conn: &tx, path })?;
        tx.commit().map_err(failed)
    }

    pub(super) fn insert_run(
        &mut self,
        run: &RunRecord,
        cells: &mut dyn Iterator<Item = CellRecord>,
    ) -> Result<(), StoreError> {
        self.in_transaction(|db| db.insert_run(run, cells))
    }

    pub(super) fn apply_all(&mut self, changes: &[Change<'_>]) -> Result<(), StoreError> {
        self.in_transaction(|db| changes.iter().try_for_each(|change| db.change(*change)))
    }
}

impl Db<'_> {
    pub(super) fn failed(&self, source: rusqlite::Error) -> StoreError {
        StoreError::from_sqlite(self.path, source)
    }

    pub(super) fn run_no(&self, run: RunId) -> Result<i64, StoreError> {
        let find = || {
            let mut statement = self.conn.prepare_cached("SELECT run_no FROM runs WHERE id = ?1")?;
            statement.query_row([run.to_string()], |row| row.get(0)).optional()
        };
        find().map_err(|source| self.failed(source))?.ok_or(StoreError::UnknownRun(run))
    }

    fn insert_run(
        &self,
        run: &RunRecord,
        cells: &mut dyn Iterator<Item = CellRecord>,
    ) -> Result<(), StoreError> {
        match self.run_no(run.id) {
            Err(StoreError::UnknownRun(_)) => {}
            Ok(_) => return Err(StoreError::RunExists(run.id)),
            Err(error) => return Err(error),
        }
        // The files have a table of their own: as JSON they would take four times their size.
        let record = RunRecord { matrix_files: Vec::new(), ..run.clone() };
        let started = fits_column(run.started_unix_ms, "the start time of a run")?;
        let columns = params![
            run.id.to_string(),
            run.name,
            started,
            state_to_text(RunState::Open),
            json(&record, "a run")?
        ];
        let insert =
            "INSERT INTO runs (id, name, started_unix_ms, state, planned_trials, excluded_cells, record)
                      VALUES (?1, ?2, ?3, ?4, 0, 0, ?5)";
        self.execute(insert, columns)?;
        let run_no = self.conn.last_insert_rowid();
        for (position, (path, contents)) in (0i64..).zip(&run.matrix_files) {
            let insert =
                "INSERT INTO matrix_files (run_no, position, path, contents) VALUES (?1, ?2, ?3, ?4)";
            self.execute(insert, params![run_no, position, path, contents])?;
        }
        let (mut planned, mut excluded) = (0i64, 0i64);
        for cell in cells {
            *(if cell.excluded.is_some() { &mut excluded } else { &mut planned }) += 1;
            self.insert_cell(run.id, run_no, &cell)?;
        }
        let planned = planned.saturating_mul(run.repeat.into());
        let update = "UPDATE runs SET planned_trials = ?2, excluded_cells = ?3 WHERE run_no = ?1";
        self.execute(update, params![run_no, planned, excluded]).map(drop)
    }

    fn insert_cell(&self, run: RunId, run_no: i64, cell: &CellRecord) -> Result<(), StoreError> {
        let values = json(&cell.values, "the values of a cell")?;
        let columns = params![run_no, cell.index, cell.key.to_string(), values, cell.excluded];
        let insert =
            "INSERT INTO cells (run_no, cell, key, axis_values, excluded) VALUES (?1, ?2, ?3, ?4, ?5)
                      ON CONFLICT DO NOTHING";
        match self.execute(insert, columns)? {
            0 => Err(StoreError::CellExists { run, index: cell.index }),
            _ => Ok(()),
        }
    }

    fn change(&self, change: Change<'_>) -> Result<(), StoreError> {
        match change {
            Change::State { run, state, ended_unix_ms } => self.set_state(run, state, ended_unix_ms),
            Change::Host { run, name, facts } => self.record_host(run, name, facts),
            Change::Quarantine(quarantine) => self.quarantine(quarantine),
            Change::Release(host) => self.release(host),
            Change::Journal(intents) => intents.iter().try_for_each(|intent| self.journal(intent)),
            Change::Finish(record) => self.finish(record),
            Change::Replace(record) => self.replace(record),
        }
    }

    fn set_state(&self, run: RunId, state: RunState, ended: Option<u64>) -> Result<(), StoreError> {
        let run_no = self.run_no(run)?;
        let ended = ended.map(|ended| fits_column(ended, "the end time of a run")).transpose()?;
        let update = "UPDATE runs SET state = ?2, ended_unix_ms = ?3 WHERE run_no = ?1";
        self.execute(update, params![run_no, state_to_text(state), ended]).map(drop)
    }

    fn record_host(&self, run: RunId, name: &Name, facts: &HostFacts) -> Result<(), StoreError> {
        let run_no = self.run_no(run)?;
        let insert = "INSERT INTO hosts (run_no, name, facts) VALUES (?1, ?2, ?3)
                      ON CONFLICT (run_no, name) DO UPDATE SET facts = excluded.facts";
        self.execute(insert, params![run_no, name.as_str(), json(facts, "the facts of a host")?])?;
        self.record_state(run_no, &HostState::of(name, facts))
    }

    fn record_state(&self, run_no: i64, state: &HostState) -> Result<(), StoreError> {
        let HostState { host, boot_id, kernel_release, kernel_version, cpus } = state;
        let insert = "INSERT INTO host_states (run_no, name, boot_id, kernel_release, kernel_version, cpus)
                      SELECT ?1, ?2, ?3, ?4, ?5, ?6 WHERE NOT EXISTS (
                          SELECT 1 FROM host_states WHERE state_no = (
                              SELECT max(state_no) FROM host_states WHERE run_no = ?1 AND name = ?2
                          ) AND boot_id = ?3 AND kernel_release = ?4 AND kernel_version = ?5 AND cpus = ?6
                      )";
        let columns = params![run_no, host.as_str(), boot_id, kernel_release, kernel_version, cpus];
        self.execute(insert, columns).map(drop)
    }

    fn quarantine(&self, quarantine: &Quarantine) -> Result<(), StoreError> {
        let since = fits_column(quarantine.since_unix_ms, "the time of a quarantine")?;
        let upsert = "INSERT INTO quarantine (host, why, since_unix_ms) VALUES (?1, ?2, ?3)
                      ON CONFLICT DO UPDATE SET why = excluded.why, since_unix_ms = excluded.since_unix_ms";
        self.execute(upsert, params![quarantine.host.as_str(), quarantine.why, since]).map(drop)
    }

    fn release(&self, host: &Name) -> Result<(), StoreError> {
        self.execute("DELETE FROM quarantine WHERE host = ?1", [host.as_str()]).map(drop)
    }

    fn journal(&self, intent: &Intent) -> Result<(), StoreError> {
        let id = intent.id;
        let run_no = self.run_no(id.run)?;
        let at = fits_column(intent.at_unix_us, "the time of an intent")?;
        // A new row, so that it comes after all others.
        let upsert = "INSERT OR REPLACE INTO journal (run_no, cell, repetition, number, seats, at_unix_us)
                      VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
        let (cell, repetition, number) = (id.trial.cell, id.trial.repetition, id.number);
        let columns = params![run_no, cell, repetition, number, intent.seats.to_string(), at];
        self.execute_in_cell(&id, upsert, columns).map(drop)
    }

    fn finish(&self, record: &AttemptRecord) -> Result<(), StoreError> {
        let record = admit(record)?;
        let id = record.id;
        let run_no = self.run_no(id.run)?;
        if self.attempt_exists(run_no, &id)? {
            let known = self.attempt(run_no, &id)?;
            return if known == *record { Ok(()) } else { Err(StoreError::AlreadyFinished(id)) };
        }
        let tasks_no = self.insert_tasks(&record.tasks)?;
        self.insert_attempt(run_no, &record, tasks_no)
    }

    fn insert_tasks(&self, tasks: &[TaskRecord]) -> Result<i64, StoreError> {
        self.execute(
            "INSERT INTO attempt_tasks (tasks) VALUES (?1)",
            [json(tasks, "the tasks of an attempt")?],
        )?;
        Ok(self.conn.last_insert_rowid())
    }

    fn insert_attempt(&self, run_no: i64, record: &AttemptRecord, tasks_no: i64) -> Result<(), StoreError> {
        let id = record.id;
        let skew =
            record.start_skew_us.map(|skew| fits_column(skew, "the start skew of an attempt")).transpose()?;
        let verdict = encoded(verdict_to_text(&record.verdict), "a verdict")?;
        let columns = params![
            run_no,
            id.trial.cell,
            id.trial.repetition,
            id.number,
            record.verdict.outcome().as_str(),
            record.verdict.cause(),
            record.is_final,
            names_to_text(&record.hosts),
            json(&record.boot_ids, "the boots of an attempt")?,
            fits_column(record.started_unix_us, "the start time of an attempt")?,
            fits_column(record.elapsed.as_nanos(), "the duration of an attempt")?,
            skew,
            encoded(metrics_to_text(&record.metrics), "the metrics of an attempt")?,
            verdict,
            tasks_no,
        ];
        let upsert = "
            INSERT INTO attempts (run_no, cell, repetition, number, outcome, cause, is_final, hosts, boot_ids,
                                  started_unix_us, elapsed_ns, start_skew_us, metrics, verdict, tasks_no)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)
            ON CONFLICT DO UPDATE SET
                outcome = excluded.outcome, cause = excluded.cause, is_final = excluded.is_final,
                hosts = excluded.hosts, boot_ids = excluded.boot_ids, started_unix_us = excluded.started_unix_us,
                elapsed_ns = excluded.elapsed_ns, start_skew_us = excluded.start_skew_us,
                metrics = excluded.metrics, verdict = excluded.verdict, tasks_no = excluded.tasks_no";
        self.execute_in_cell(&id, upsert, columns).map(drop)
    }

    fn replace(&self, record: &AttemptRecord) -> Result<(), StoreError> {
        let record = admit(record)?;
        let id = record.id;
        let run_no = self.run_no(id.run)?;
        let known = self.attempt(run_no, &id)?;
        if known == *record {
            return Ok(());
        }
        let revision = json(&known, "the record of an attempt")?;
        let keep = "INSERT INTO attempt_revisions (run_no, cell, repetition, number, record)
                    VALUES (?1, ?2, ?3, ?4, ?5)";
        self.execute(keep, params![run_no, id.trial.cell, id.trial.repetition, id.number, revision])?;
        let forget = "DELETE FROM attempt_tasks WHERE tasks_no = (SELECT tasks_no FROM attempts
                      WHERE run_no = ?1 AND cell = ?2 AND repetition = ?3 AND number = ?4)";
        self.execute(forget, params![run_no, id.trial.cell, id.trial.repetition, id.number])?;
        let tasks_no = self.insert_tasks(&record.tasks)?;
        self.insert_attempt(run_no, &record, tasks_no)
    }

    fn execute(&self, sql: &str, columns: impl rusqlite::Params) -> Result<usize, StoreError> {
        let done = self.conn.prepare_cached(sql).and_then(|mut statement| statement.execute(columns));
        done.map_err(|source| self.failed(source))
    }

    /// As `execute`, for a row that belongs to a cell: a missing cell is a fault of the caller.
    fn execute_in_cell(
        &self,
        id: &AttemptId,
        sql: &str,
        columns: impl rusqlite::Params,
    ) -> Result<usize, StoreError> {
        let done = self.conn.prepare_cached(sql).and_then(|mut statement| statement.execute(columns));
        let cell_is_missing = |error: &rusqlite::Error| {
            matches!(error, rusqlite::Error::SqliteFailure(error, _)
                if error.extended_code == rusqlite::ffi::SQLITE_CONSTRAINT_FOREIGNKEY)
        };
        done.map_err(|source| {
            if cell_is_missing(&source) { StoreError::UnknownCell(*id) } else { self.failed(source) }
        })
    }
}

fn json<T: Serialize + ?Sized>(value: &T, what: &str) -> Result<String, StoreError> {
    encoded(serde_json::to_string(value), what)
}

fn encoded<T>(text: serde_json::Result<T>, what: &str) -> Result<T, StoreError> {
    text.map_err(|error| StoreError::decode(what, error))
}
