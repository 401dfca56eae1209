//! What can go wrong when an open store is written or read.

use std::path::{Path, PathBuf};

use drover_model::{AttemptId, IdError, NameError, RunId, SeatsError};
use rusqlite::ErrorCode;

/// Why a store refused or failed an operation. After an error nothing of the operation is stored.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum StoreError {
    #[error("run {0} is not in this store")]
    UnknownRun(RunId),
    #[error("run {0} is already in this store")]
    RunExists(RunId),
    #[error("run {run} has two cells at position {index}")]
    CellExists { run: RunId, index: u32 },
    #[error("attempt {0} names a cell that its run does not have")]
    UnknownCell(AttemptId),
    #[error("attempt {0} has no result in this store")]
    UnknownAttempt(AttemptId),
    #[error("attempt {0} already has a different result, which is kept")]
    AlreadyFinished(AttemptId),
    #[error("`{name}` of attempt {id} is not a finite number")]
    NotFinite { id: AttemptId, name: String },
    #[error("the record of attempt {id} has about {bytes} bytes, {max} are allowed", max = crate::MAX_RECORD_BYTES)]
    TooLarge { id: AttemptId, bytes: usize },
    #[error("{what} is larger than a store can hold")]
    OutOfRange { what: &'static str },
    #[error("the store is open for reading only")]
    ReadOnly,
    #[error("no space left for {}: free some, then go on with `drover resume`", path.display())]
    DiskFull { path: PathBuf, source: rusqlite::Error },
    #[error("{} is in use by another program that writes it: end that program", path.display())]
    Busy { path: PathBuf, source: rusqlite::Error },
    #[error(
        "{} is damaged: keep a copy, then rescue what can be read with `sqlite3 drover.db .recover`", path.display()
    )]
    Corrupt { path: PathBuf, source: rusqlite::Error },
    #[error("cannot use the store {}", path.display())]
    Database { path: PathBuf, source: rusqlite::Error },
    #[error(
        "{what} in the store cannot be understood: it was changed by another program or by a later Drover"
    )]
    Decode { what: String, source: DecodeError },
}

/// Why a stored text does not have the form it was written in.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum DecodeError {
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    #[error(transparent)]
    Id(#[from] IdError),
    #[error(transparent)]
    Name(#[from] NameError),
    #[error(transparent)]
    Seats(#[from] SeatsError),
    #[error("`{0}` is not one of the words expected there")]
    Word(String),
    #[error("{0} is not a number expected there")]
    Number(i64),
}

impl StoreError {
    /// Whether the same operation can succeed later, once the user has done what the message says.
    #[must_use]
    pub fn is_retriable(&self) -> bool {
        matches!(self, Self::DiskFull { .. } | Self::Busy { .. } | Self::Database { .. })
    }

    /// Whether it failed for lack of space.
    #[must_use]
    pub fn is_disk_full(&self) -> bool {
        matches!(self, Self::DiskFull { .. })
    }

    /// Sorts an error of SQLite by what the user can do about it.
    pub(crate) fn from_sqlite(path: &Path, source: rusqlite::Error) -> Self {
        let path = path.to_owned();
        match source.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => Self::DiskFull { path, source },
            Some(ErrorCode::SystemIoFailure) if out_of_space(&source) => Self::DiskFull { path, source },
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Busy { path, source },
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Self::Corrupt { path, source },
            Some(ErrorCode::ReadOnly) => Self::ReadOnly,
            _ => Self::Database { path, source },
        }
    }

    pub(crate) fn decode(what: impl Into<String>, source: impl Into<DecodeError>) -> Self {
        Self::Decode { what: what.into(), source: source.into() }
    }
}

/// SQLite reports a full disk as a plain I/O error where it extends its shared-memory file.
fn out_of_space(source: &rusqlite::Error) -> bool {
    matches!(source, rusqlite::Error::SqliteFailure(error, _)
        if error.extended_code == rusqlite::ffi::SQLITE_IOERR_SHMSIZE)
}
