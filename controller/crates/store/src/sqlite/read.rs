//! Reading, and the [`Store`] implementation, whose writing methods are in `write.rs`.

use std::time::Duration;

use drover_model::{
    AttemptId, HostFacts, IdError, Name, NameError, Outcome, RunId, Seats, SeatsError, TrialId,
};
use rusqlite::{Params, Row, params};

use super::{
    SqliteStore,
    codec::{
        Interned, metrics_from_text, names_from_text, state_from_text, values_from_text, verdict_from_text,
    },
    write::Db,
};
use crate::{
    AttemptHistory, AttemptRecord, CellRecord, Change, HostState, Intent, OutcomeCounts, Quarantine, RunName,
    RunRecord, RunResults, RunSummary, Store, StoreError, TaskRecord, error::DecodeError,
};

/// Columns of [`attempt_row`], in its order.
const ATTEMPT: &str =
    "cell, repetition, number, hosts, boot_ids, started_unix_us, elapsed_ns, start_skew_us, is_final,
                       metrics, verdict";
const BY_ID: &str = "run_no = ?1 AND cell = ?2 AND repetition = ?3 AND number = ?4";
const IN_ORDER: &str = "ORDER BY run_no, cell, repetition, number";

/// Why a row could not be read: SQLite, or the text in it.
enum RowError {
    Sqlite(rusqlite::Error),
    Decode(DecodeError),
}

macro_rules! row_error_from {
    ($($error:ty => $variant:ident),*) => {
        $(impl From<$error> for RowError {
            fn from(error: $error) -> Self {
                Self::$variant(error.into())
            }
        })*
    };
}
row_error_from!(
    rusqlite::Error => Sqlite, DecodeError => Decode, serde_json::Error => Decode, IdError => Decode,
    NameError => Decode, SeatsError => Decode
);

impl Db<'_> {
    /// All rows of a query.
    fn rows<T>(
        &self,
        what: &str,
        sql: &str,
        columns: impl Params,
        mut read: impl FnMut(&Row<'_>) -> Result<T, RowError>,
    ) -> Result<Vec<T>, StoreError> {
        let all = || -> Result<Vec<T>, RowError> {
            let mut statement = self.conn.prepare_cached(sql)?;
            let mut rows = statement.query(columns)?;
            let mut all = Vec::new();
            while let Some(row) = rows.next()? {
                all.push(read(row)?);
            }
            Ok(all)
        };
        all().map_err(|error| match error {
            RowError::Sqlite(source) => self.failed(source),
            RowError::Decode(source) => StoreError::decode(what, source),
        })
    }

    pub(super) fn attempt_exists(&self, run_no: i64, id: &AttemptId) -> Result<bool, StoreError> {
        let sql = format!("SELECT 1 FROM attempts WHERE {BY_ID}");
        let columns = params![run_no, id.trial.cell, id.trial.repetition, id.number];
        let found = self.conn.prepare_cached(&sql).and_then(|mut statement| statement.exists(columns));
        found.map_err(|source| self.failed(source))
    }

    /// One finished attempt with its tasks.
    pub(super) fn attempt(&self, run_no: i64, id: &AttemptId) -> Result<AttemptRecord, StoreError> {
        let sql = format!(
            "SELECT {ATTEMPT}, tasks FROM attempts JOIN attempt_tasks USING (tasks_no) WHERE {BY_ID}"
        );
        let columns = params![run_no, id.trial.cell, id.trial.repetition, id.number];
        let mut interned = Interned::default();
        let rows = self.rows(&format!("attempt {id}"), &sql, columns, |row| {
            full_attempt_row(row, id.run, &mut interned)
        })?;
        rows.into_iter().next().ok_or(StoreError::UnknownAttempt(*id))
    }

    fn run_record(&self, run: RunId) -> Result<RunRecord, StoreError> {
        let run_no = self.run_no(run)?;
        let what = format!("the plan of run {run}");
        let records = self.rows(&what, "SELECT record FROM runs WHERE run_no = ?1", [run_no], |row| {
            Ok(serde_json::from_str::<RunRecord>(text(row, 0)?)?)
        })?;
        let mut record = records.into_iter().next().ok_or(StoreError::UnknownRun(run))?;
        let select = "SELECT path, contents FROM matrix_files WHERE run_no = ?1 ORDER BY position";
        record.matrix_files = self.rows(&what, select, [run_no], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(record)
    }

    fn results(&self, run: RunId, with_tasks: bool) -> Result<RunResults, StoreError> {
        let run_no = self.run_no(run)?;
        let mut interned = Interned::default();
        let select = "SELECT state, ended_unix_ms FROM runs WHERE run_no = ?1";
        let states = self.rows(&format!("the state of run {run}"), select, [run_no], |row| {
            Ok((state_from_text(text(row, 0)?)?, optional_unsigned(row, 1)?))
        })?;
        let (state, ended_unix_ms) = states.into_iter().next().ok_or(StoreError::UnknownRun(run))?;
        let select = "SELECT name, facts FROM hosts WHERE run_no = ?1 ORDER BY host_no";
        let hosts = self.rows(&format!("a host of run {run}"), select, [run_no], |row| {
            Ok((text(row, 0)?.parse::<Name>()?, serde_json::from_str::<HostFacts>(text(row, 1)?)?))
        })?;
        let select = "SELECT name, boot_id, kernel_release, kernel_version, cpus FROM host_states
                      WHERE run_no = ?1 ORDER BY state_no";
        let host_states = self.rows(&format!("a state of a host of run {run}"), select, [run_no], |row| {
            Ok(HostState {
                host: text(row, 0)?.parse()?,
                boot_id: row.get(1)?,
                kernel_release: row.get(2)?,
                kernel_version: row.get(3)?,
                cpus: row.get(4)?,
            })
        })?;
        let select = "SELECT cell, key, axis_values, excluded FROM cells WHERE run_no = ?1 ORDER BY cell";
        let cells = self.rows(&format!("a cell of run {run}"), select, [run_no], |row| {
            let key = text(row, 1)?.parse()?;
            let values = values_from_text(text(row, 2)?, &mut interned)?;
            Ok(CellRecord { index: row.get(0)?, key, values, excluded: row.get(3)? })
        })?;
        let what = format!("an attempt of run {run}");
        let attempts = if with_tasks {
            // CROSS JOIN keeps this order of the tables: along the attempts, each with one look-up.
            let select = format!(
                "SELECT {ATTEMPT}, tasks FROM attempts CROSS JOIN attempt_tasks USING (tasks_no)
                 WHERE run_no = ?1 {IN_ORDER}"
            );
            self.rows(&what, &select, [run_no], |row| full_attempt_row(row, run, &mut interned))?
        } else {
            let select = format!("SELECT {ATTEMPT} FROM attempts WHERE run_no = ?1 {IN_ORDER}");
            self.rows(&what, &select, [run_no], |row| attempt_row(row, run, &mut interned))?
        };
        let run = self.run_record(run)?;
        Ok(RunResults { run, state, ended_unix_ms, hosts, host_states, cells, attempts })
    }

    fn summaries(&self) -> Result<Vec<RunSummary>, StoreError> {
        let select =
            "SELECT id, name, started_unix_ms, ended_unix_ms, state, planned_trials, excluded_cells, run_no
                      FROM runs ORDER BY run_no";
        let runs = self.rows("a run", select, [], |row| {
            let summary = RunSummary {
                id: text(row, 0)?.parse()?,
                name: row.get(1)?,
                started_unix_ms: unsigned(row, 2)?,
                ended_unix_ms: optional_unsigned(row, 3)?,
                state: state_from_text(text(row, 4)?)?,
                planned_trials: unsigned(row, 5)?,
                excluded_cells: unsigned(row, 6)?,
                counts: OutcomeCounts::default(),
            };
            Ok((summary, row.get::<_, i64>(7)?))
        })?;
        runs.into_iter()
            .map(|(summary, run_no)| Ok(RunSummary { counts: self.counts(run_no)?, ..summary }))
            .collect()
    }

    /// Outcomes of the last final attempt of each trial.
    fn counts(&self, run_no: i64) -> Result<OutcomeCounts, StoreError> {
        // Beside an aggregate `max`, SQLite takes the other columns from the row that has the maximum.
        let select = "SELECT outcome, count(*) FROM (
                          SELECT outcome, max(number) FROM attempts WHERE run_no = ?1 AND is_final = 1
                          GROUP BY cell, repetition
                      ) GROUP BY outcome";
        let counted = self.rows("the outcome of an attempt", select, [run_no], |row| {
            Ok((outcome(text(row, 0)?)?, unsigned(row, 1)?))
        })?;
        let mut counts = OutcomeCounts::default();
        counted.into_iter().for_each(|(outcome, count)| counts.add(outcome, count));
        Ok(counts)
    }
}

fn text<'a>(row: &'a Row<'_>, column: usize) -> Result<&'a str, RowError> {
    let value = row.get_ref(column)?;
    value.as_str().map_err(|error| RowError::Sqlite(error.into()))
}

fn optional_text<'a>(row: &'a Row<'_>, column: usize) -> Result<Option<&'a str>, RowError> {
    let value = row.get_ref(column)?;
    value.as_str_or_null().map_err(|error| RowError::Sqlite(error.into()))
}

fn optional_unsigned(row: &Row<'_>, column: usize) -> Result<Option<u64>, RowError> {
    let number: Option<i64> = row.get(column)?;
    Ok(number.map(|number| u64::try_from(number).map_err(|_| DecodeError::Number(number))).transpose()?)
}

fn unsigned(row: &Row<'_>, column: usize) -> Result<u64, RowError> {
    let number: i64 = row.get(column)?;
    Ok(u64::try_from(number).map_err(|_| DecodeError::Number(number))?)
}

fn outcome(text: &str) -> Result<Outcome, DecodeError> {
    [Outcome::Ok, Outcome::Suspect, Outcome::Ng, Outcome::Error, Outcome::Missing]
        .into_iter()
        .find(|outcome| outcome.as_str() == text)
        .ok_or_else(|| DecodeError::Word(text.to_owned()))
}

/// The id in the first three columns.
fn id_row(row: &Row<'_>, run: RunId) -> Result<AttemptId, RowError> {
    let trial = TrialId { cell: row.get(0)?, repetition: row.get(1)? };
    Ok(AttemptId { run, trial, number: row.get(2)? })
}

fn attempt_row(row: &Row<'_>, run: RunId, interned: &mut Interned) -> Result<AttemptRecord, RowError> {
    Ok(AttemptRecord {
        id: id_row(row, run)?,
        hosts: names_from_text(text(row, 3)?, interned)?,
        boot_ids: serde_json::from_str(text(row, 4)?)?,
        started_unix_us: unsigned(row, 5)?,
        elapsed: Duration::from_nanos(unsigned(row, 6)?),
        start_skew_us: optional_unsigned(row, 7)?,
        is_final: row.get(8)?,
        metrics: metrics_from_text(text(row, 9)?, interned)?,
        verdict: verdict_from_text(optional_text(row, 10)?)?,
        tasks: Vec::new(),
    })
}

/// With the tasks in the column after [`ATTEMPT`].
fn full_attempt_row(row: &Row<'_>, run: RunId, interned: &mut Interned) -> Result<AttemptRecord, RowError> {
    Ok(AttemptRecord { tasks: serde_json::from_str(text(row, 11)?)?, ..attempt_row(row, run, interned)? })
}

impl SqliteStore {
    /// Reads from one state of the store, whatever a writer does meanwhile.
    fn snapshot<T>(&self, read: impl FnOnce(Db<'_>) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let db = self.db();
        let _tx = self.conn.unchecked_transaction().map_err(|source| db.failed(source))?;
        read(db)
    }
}

impl Store for SqliteStore {
    fn create_run(
        &mut self,
        run: &RunRecord,
        cells: &mut dyn Iterator<Item = CellRecord>,
    ) -> Result<(), StoreError> {
        self.insert_run(run, cells)
    }

    fn apply(&mut self, changes: &[Change<'_>]) -> Result<(), StoreError> {
        self.apply_all(changes)
    }

    fn run_names(&self) -> Result<Vec<RunName>, StoreError> {
        let select = "SELECT id, name, started_unix_ms, state FROM runs ORDER BY run_no";
        self.db().rows("a run", select, [], |row| {
            Ok(RunName {
                id: text(row, 0)?.parse()?,
                name: row.get(1)?,
                started_unix_ms: unsigned(row, 2)?,
                state: state_from_text(text(row, 3)?)?,
            })
        })
    }

    fn runs(&self) -> Result<Vec<RunSummary>, StoreError> {
        self.snapshot(|db| db.summaries())
    }

    fn load_table(&self, run: RunId) -> Result<RunResults, StoreError> {
        self.snapshot(|db| db.results(run, false))
    }

    fn load(&self, run: RunId) -> Result<RunResults, StoreError> {
        self.snapshot(|db| db.results(run, true))
    }

    fn load_tasks(&self, attempt: &AttemptId) -> Result<Vec<TaskRecord>, StoreError> {
        self.snapshot(|db| match db.run_no(attempt.run) {
            Ok(run_no) => Ok(db.attempt(run_no, attempt)?.tasks),
            Err(StoreError::UnknownRun(_)) => Err(StoreError::UnknownAttempt(*attempt)),
            Err(error) => Err(error),
        })
    }

    fn load_run(&self, run: RunId) -> Result<RunRecord, StoreError> {
        self.snapshot(|db| db.run_record(run))
    }

    fn journalled(&self, run: RunId) -> Result<Vec<Intent>, StoreError> {
        let select = "SELECT cell, repetition, number, seats, at_unix_us FROM journal WHERE run_no = ?1
                      ORDER BY journal_no";
        self.snapshot(|db| {
            db.rows(&format!("the journal of run {run}"), select, [db.run_no(run)?], |row| {
                let seats = text(row, 3)?.parse::<Seats>()?;
                Ok(Intent { id: id_row(row, run)?, seats, at_unix_us: unsigned(row, 4)? })
            })
        })
    }

    fn quarantined(&self) -> Result<Vec<Quarantine>, StoreError> {
        let select = "SELECT host, why, since_unix_ms FROM quarantine ORDER BY host";
        self.db().rows("a quarantined host", select, [], |row| {
            Ok(Quarantine {
                host: text(row, 0)?.parse::<Name>()?,
                why: row.get(1)?,
                since_unix_ms: unsigned(row, 2)?,
            })
        })
    }

    fn history(&self, run: RunId) -> Result<Vec<AttemptHistory>, StoreError> {
        let select = format!(
            "SELECT cell, repetition, number, is_final, verdict FROM attempts WHERE run_no = ?1 {IN_ORDER}"
        );
        self.snapshot(|db| {
            db.rows(&format!("an attempt of run {run}"), &select, [db.run_no(run)?], |row| {
                let verdict = verdict_from_text(optional_text(row, 4)?)?;
                Ok(AttemptHistory { id: id_row(row, run)?, verdict, is_final: row.get(3)? })
            })
        })
    }

    fn is_finished(&self, attempt: &AttemptId) -> Result<bool, StoreError> {
        let db = self.db();
        match db.run_no(attempt.run) {
            Ok(run_no) => db.attempt_exists(run_no, attempt),
            Err(StoreError::UnknownRun(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn revisions(&self, attempt: &AttemptId) -> Result<Vec<AttemptRecord>, StoreError> {
        let db = self.db();
        let run_no = match db.run_no(attempt.run) {
            Ok(run_no) => run_no,
            Err(StoreError::UnknownRun(_)) => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let select = format!("SELECT record FROM attempt_revisions WHERE {BY_ID} ORDER BY revision_no");
        let columns = params![run_no, attempt.trial.cell, attempt.trial.repetition, attempt.number];
        db.rows(&format!("a revision of attempt {attempt}"), &select, columns, |row| {
            Ok(serde_json::from_str(text(row, 0)?)?)
        })
    }
}
