//! Opening a store, for writing (by the holder of the lock) or for reading (by anybody), and telling apart everything
//! that a file called `drover.db` can be.

use std::{
    ffi::OsStr,
    fmt::Write as _,
    fs::{self, File},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    time::Duration,
};

use rusqlite::{Connection, ErrorCode, OpenFlags, config::DbConfig};

use super::schema::{APPLICATION_ID, SCHEMA_VERSION, migrate};
use crate::{DirError, LockError, ResultsDir, StoreError, WriterLock};

/// Another program that reads or copies the file may hold it for a moment.
const BUSY: Duration = Duration::from_secs(5);
/// Of a new store, in bytes. The tasks of an attempt take some 2 KiB: pages of 4 KiB would stay half empty.
const PAGE_SIZE: i32 = 8192;
/// Page cache, in KiB.
const CACHE_KIB: i32 = 16 * 1024;
const STATEMENTS: usize = 32;

/// A store on disk.
#[derive(Debug)]
pub struct SqliteStore {
    pub(super) conn: Connection,
    pub(super) path: PathBuf,
    /// Absent when it is open for reading.
    pub(super) lock: Option<WriterLock>,
}

/// Why a store was not opened.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum OpenError {
    #[error(
        "{} was written by a newer Drover (schema {found}, this one knows {SCHEMA_VERSION}): use that Drover, or \
         name another results folder", path.display()
    )]
    Newer { path: PathBuf, found: i32 },
    #[error(
        "{} was written by an older Drover (schema {found}, this one reads {SCHEMA_VERSION}): any command that writes \
         (`drover run`, `resume`, `reparse`) brings it up to date", path.display()
    )]
    Older { path: PathBuf, found: i32 },
    #[error(
        "{} is a database of another program: move it away, or name another results folder", path.display()
    )]
    Foreign { path: PathBuf },
    #[error("{} is not a database: move it away, or name another results folder", path.display())]
    NotADatabase { path: PathBuf },
    #[error("there are no results in {}: run a matrix first, or name the folder that has them", path.display())]
    Absent { path: PathBuf },
    #[error(
        "{} was not closed by its last writer and cannot be recovered in a folder that is read-only: copy the folder \
         to one that can be written", path.display()
    )]
    NeedsRecovery { path: PathBuf },
    #[error("the file system of {} cannot hold a store (no shared memory for WAL): name a results folder on a local \
             disk", path.display())]
    NoWal { path: PathBuf },
    #[error(transparent)]
    Dir(#[from] DirError),
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What a file says it is.
enum Form {
    /// A store of this version.
    Version(i32),
    /// Nothing yet: a new file, or a writer was killed before it could say.
    Blank,
}

impl SqliteStore {
    /// Locks the folder and opens its store for writing; makes it if there is none.
    ///
    /// # Errors
    /// Another controller writes it, it is not a store this program can write, or the folder cannot be written.
    pub fn open(dir: &ResultsDir) -> Result<Self, OpenError> {
        let lock = dir.lock()?;
        let path = dir.db_path();
        check_kind(&path)?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let store = |source| open_failed(&path, source);
        let mut conn = Connection::open_with_flags(&path, flags).map_err(store)?;
        prepare(&conn).map_err(store)?;
        // Nothing is written into a file before it is known to be a store.
        let version = match form(&conn, &path)? {
            Form::Version(found) if found > SCHEMA_VERSION => return Err(OpenError::Newer { path, found }),
            Form::Version(found) => found,
            Form::Blank => {
                conn.pragma_update(None, "page_size", PAGE_SIZE).map_err(store)?;
                0
            }
        };
        let mode: String =
            conn.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0)).map_err(store)?;
        if !mode.eq_ignore_ascii_case("wal") {
            return Err(OpenError::NoWal { path });
        }
        conn.pragma_update(None, "synchronous", "FULL").map_err(store)?;
        conn.pragma_update(None, "foreign_keys", true).map_err(store)?;
        migrate(&mut conn, version).map_err(store)?;
        if version == 0 {
            crate::results_dir::sync_dir(dir.path())?;
        }
        Ok(Self { conn, path, lock: Some(lock) })
    }

    /// Opens the store for reading. A controller may write it meanwhile: each method sees one consistent state.
    ///
    /// # Errors
    /// There is no store, it is not one that this program can read, or it cannot be read.
    pub fn open_read_only(dir: &ResultsDir) -> Result<Self, OpenError> {
        let path = dir.db_path();
        check_kind(&path)?;
        if fs::metadata(&path).is_ok_and(|meta| meta.len() == 0) || !path.exists() {
            return Err(OpenError::Absent { path: dir.path().to_owned() });
        }
        let (conn, form) = match open_shared(&path) {
            Err(OpenError::Store(StoreError::Database { .. } | StoreError::ReadOnly)) => open_still(&path)?,
            other => other?,
        };
        match form {
            Form::Version(found) if found > SCHEMA_VERSION => Err(OpenError::Newer { path, found }),
            Form::Version(found) if found < SCHEMA_VERSION => Err(OpenError::Older { path, found }),
            Form::Version(_) => Ok(Self { conn, path, lock: None }),
            Form::Blank => Err(OpenError::Absent { path: dir.path().to_owned() }),
        }
    }

    /// Whether it can be written.
    #[must_use]
    pub fn is_writable(&self) -> bool {
        self.lock.is_some()
    }

    /// Reads everything and says what is damaged; empty when all is well. Takes seconds on a large store.
    ///
    /// # Errors
    /// The store cannot be read at all.
    pub fn integrity_check(&self) -> Result<Vec<String>, StoreError> {
        let failed = |source| StoreError::from_sqlite(&self.path, source);
        let mut statement = self.conn.prepare("PRAGMA integrity_check(20)").map_err(failed)?;
        let lines = statement.query_map([], |row| row.get(0)).map_err(failed)?;
        let lines: Vec<String> = lines.collect::<Result<_, _>>().map_err(failed)?;
        Ok(lines.into_iter().filter(|line| line != "ok").collect())
    }
}

/// SQLite would call a folder or a FIFO an unknown error, or wait for it. Its own flag against links refuses a link
/// anywhere in the path, and a results folder may well be reached through one.
fn check_kind(path: &Path) -> Result<(), OpenError> {
    match fs::symlink_metadata(path) {
        Ok(meta) if meta.is_file() => {
            // Whether it may be read at all, with the system's own words if not.
            File::open(path).map(drop).map_err(|error| DirError::from_io(path, error).into())
        }
        Ok(_) => Err(OpenError::NotADatabase { path: path.to_owned() }),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(DirError::from_io(path, error).into()),
    }
}

/// Opens it with the locks and the shared memory that let a writer go on.
fn open_shared(path: &Path) -> Result<(Connection, Form), OpenError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let failed = |source| open_failed(path, source);
    let conn = Connection::open_with_flags(path, flags).map_err(failed)?;
    prepare(&conn).map_err(failed)?;
    let form = form(&conn, path)?;
    Ok((conn, form))
}

/// Opens it where no file beside it can be made. Only right when nothing is left in a write-ahead log, as then nobody
/// writes it either.
fn open_still(path: &Path) -> Result<(Connection, Form), OpenError> {
    let mut wal = path.as_os_str().to_owned();
    wal.push("-wal");
    if fs::metadata(&wal).is_ok_and(|meta| meta.len() > 0) {
        return Err(OpenError::NeedsRecovery { path: path.to_owned() });
    }
    let flags =
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
    let failed = |source| open_failed(path, source);
    let conn = Connection::open_with_flags(immutable_uri(path.as_os_str()), flags).map_err(failed)?;
    prepare(&conn).map_err(failed)?;
    let form = form(&conn, path)?;
    Ok((conn, form))
}

fn immutable_uri(path: &OsStr) -> String {
    let mut uri = String::from("file:");
    for byte in path.as_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' => {
                uri.push(char::from(*byte))
            }
            other => {
                // Writing into a `String` does not fail.
                let _ = write!(uri, "%{other:02X}");
            }
        }
    }
    uri.push_str("?immutable=1");
    uri
}

fn prepare(conn: &Connection) -> rusqlite::Result<()> {
    conn.busy_timeout(BUSY)?;
    conn.set_prepared_statement_cache_capacity(STATEMENTS);
    // A store may come from somebody else: nothing in its schema is run, and damage is looked for.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    conn.pragma_update(None, "cell_size_check", true)?;
    conn.pragma_update(None, "temp_store", "MEMORY")?;
    conn.pragma_update(None, "cache_size", -CACHE_KIB)
}

fn form(conn: &Connection, path: &Path) -> Result<Form, OpenError> {
    let failed = |source| open_failed(path, source);
    let tables: i64 =
        conn.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).map_err(failed)?;
    let number = |name: &str| conn.pragma_query_value(None, name, |row| row.get::<_, i32>(0)).map_err(failed);
    let (application, version) = (number("application_id")?, number("user_version")?);
    match (application, version, tables) {
        (APPLICATION_ID, version, _) => Ok(Form::Version(version)),
        (0, 0, 0) => Ok(Form::Blank),
        _ => Err(OpenError::Foreign { path: path.to_owned() }),
    }
}

fn open_failed(path: &Path, source: rusqlite::Error) -> OpenError {
    match source.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => OpenError::NotADatabase { path: path.to_owned() },
        _ => OpenError::Store(StoreError::from_sqlite(path, source)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expect_every_commit_synced_when_a_store_is_open_for_writing() {
        let root = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(&ResultsDir::create(root.path()).unwrap()).unwrap();
        let text = |name| store.conn.pragma_query_value(None, name, |row| row.get::<_, String>(0)).unwrap();
        let number = |name| store.conn.pragma_query_value(None, name, |row| row.get::<_, i32>(0)).unwrap();
        assert_eq!(text("journal_mode"), "wal");
        // FULL.
        assert_eq!(number("synchronous"), 2);
        assert_eq!((number("foreign_keys"), number("page_size")), (1, PAGE_SIZE));
    }

    #[test]
    fn expect_bytes_escaped_when_a_path_becomes_a_uri() {
        assert_eq!(immutable_uri(OsStr::new("/a b/x?y#%.db")), "file:/a%20b/x%3Fy%23%25.db?immutable=1");
    }
}
