//! The schema, as the list of steps that lead to it. A step is never edited once it is released; a change is a new one.

use rusqlite::Connection;

/// `PRAGMA application_id` of a store: "DRVR".
pub(crate) const APPLICATION_ID: i32 = 0x4452_5652;

/// `PRAGMA user_version` of a store that this program writes: the number of [`STEPS`].
pub const SCHEMA_VERSION: i32 = 2;

/// Step `n` leads from version `n` to version `n + 1`.
const STEPS: [&str; 2] = [V1, V2];

/// Structured values are JSON, so that `sqlite3 drover.db` can answer questions that Drover does not.
///
/// Attempts are ordered on disk as tables need them. Their tasks, many times larger, are apart and in order of arrival,
/// so that a table never reads them and a commit appends.
const V1: &str = "
CREATE TABLE runs (
    run_no          INTEGER PRIMARY KEY,
    id              TEXT NOT NULL UNIQUE,
    name            TEXT NOT NULL,
    started_unix_ms INTEGER NOT NULL,
    ended_unix_ms   INTEGER,
    state           TEXT NOT NULL,
    planned_trials  INTEGER NOT NULL,
    excluded_cells  INTEGER NOT NULL,
    record          TEXT NOT NULL
) STRICT;

CREATE TABLE matrix_files (
    run_no   INTEGER NOT NULL REFERENCES runs,
    position INTEGER NOT NULL,
    path     TEXT NOT NULL,
    contents BLOB NOT NULL,
    PRIMARY KEY (run_no, position)
) STRICT;

CREATE TABLE cells (
    run_no      INTEGER NOT NULL REFERENCES runs,
    cell        INTEGER NOT NULL,
    key         TEXT NOT NULL,
    axis_values TEXT NOT NULL,
    excluded    TEXT,
    PRIMARY KEY (run_no, cell)
) STRICT, WITHOUT ROWID;

CREATE TABLE hosts (
    host_no INTEGER PRIMARY KEY,
    run_no  INTEGER NOT NULL REFERENCES runs,
    name    TEXT NOT NULL,
    facts   TEXT NOT NULL,
    UNIQUE (run_no, name)
) STRICT;

CREATE TABLE quarantine (
    host          TEXT PRIMARY KEY,
    why           TEXT NOT NULL,
    since_unix_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE journal (
    journal_no INTEGER PRIMARY KEY,
    run_no     INTEGER NOT NULL,
    cell       INTEGER NOT NULL,
    repetition INTEGER NOT NULL,
    number     INTEGER NOT NULL,
    seats      TEXT NOT NULL,
    at_unix_us INTEGER NOT NULL,
    UNIQUE (run_no, cell, repetition, number),
    FOREIGN KEY (run_no, cell) REFERENCES cells
) STRICT;

CREATE TABLE attempts (
    run_no          INTEGER NOT NULL,
    cell            INTEGER NOT NULL,
    repetition      INTEGER NOT NULL,
    number          INTEGER NOT NULL,
    outcome         TEXT NOT NULL,
    cause           TEXT NOT NULL,
    is_final        INTEGER NOT NULL,
    hosts           TEXT NOT NULL,
    boot_ids        TEXT NOT NULL,
    started_unix_us INTEGER NOT NULL,
    elapsed_ns      INTEGER NOT NULL,
    start_skew_us   INTEGER,
    metrics         TEXT NOT NULL,
    verdict         TEXT,
    tasks_no        INTEGER NOT NULL,
    PRIMARY KEY (run_no, cell, repetition, number),
    FOREIGN KEY (run_no, cell) REFERENCES cells
) STRICT, WITHOUT ROWID;

CREATE INDEX final_attempts ON attempts (run_no, cell, repetition, number, outcome) WHERE is_final = 1;

CREATE TABLE attempt_tasks (
    tasks_no INTEGER PRIMARY KEY,
    tasks    TEXT NOT NULL
) STRICT;

CREATE TABLE attempt_revisions (
    revision_no INTEGER PRIMARY KEY,
    run_no      INTEGER NOT NULL,
    cell        INTEGER NOT NULL,
    repetition  INTEGER NOT NULL,
    number      INTEGER NOT NULL,
    record      TEXT NOT NULL,
    FOREIGN KEY (run_no, cell, repetition, number) REFERENCES attempts
) STRICT;

CREATE INDEX revisions_of_attempt ON attempt_revisions (run_no, cell, repetition, number);
";

/// What hosts were in the course of a run.
const V2: &str = "
CREATE TABLE host_states (
    state_no       INTEGER PRIMARY KEY,
    run_no         INTEGER NOT NULL REFERENCES runs,
    name           TEXT NOT NULL,
    boot_id        TEXT NOT NULL,
    kernel_release TEXT NOT NULL,
    kernel_version TEXT NOT NULL,
    cpus           INTEGER NOT NULL
) STRICT;

CREATE INDEX states_of_host ON host_states (run_no, name, state_no);
";

/// Brings a store of version `from` to [`SCHEMA_VERSION`]. A step that is interrupted has not happened.
pub(crate) fn migrate(conn: &mut Connection, from: i32) -> rusqlite::Result<()> {
    let done = usize::try_from(from).unwrap_or(0);
    for (version, step) in (1i32..).zip(STEPS).skip(done) {
        tracing::debug!(version, "changing the form of the store");
        let tx = conn.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
        tx.execute_batch(step)?;
        tx.pragma_update(None, "application_id", APPLICATION_ID)?;
        tx.pragma_update(None, "user_version", version)?;
        tx.commit()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expect_the_version_to_be_the_number_of_steps() {
        assert_eq!(usize::try_from(SCHEMA_VERSION).unwrap(), STEPS.len());
        let mut conn = Connection::open_in_memory().unwrap();
        migrate(&mut conn, 0).unwrap();
        migrate(&mut conn, SCHEMA_VERSION).unwrap();
        let version: i32 = conn.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap();
        assert_eq!(version, SCHEMA_VERSION);
    }

    #[test]
    fn expect_what_is_there_kept_when_a_store_of_the_first_version_is_opened() {
        let mut conn = Connection::open_in_memory().unwrap();
        conn.execute_batch(V1).unwrap();
        let insert = "INSERT INTO runs VALUES (1, 'a', 'name', 5, NULL, 'open', 2, 0, '{}')";
        conn.execute(insert, []).unwrap();
        migrate(&mut conn, 1).unwrap();
        let select = "SELECT (SELECT count(*) FROM runs), (SELECT count(*) FROM host_states)";
        let counts: (i64, i64) = conn.query_row(select, [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        assert_eq!(counts, (1, 0));
    }
}
