//! The results folder: where the store, its lock and the raw outputs are. Used by every command that reads or writes
//! results.
//!
//! All paths below it are made of ids and [`Name`]s, which hold no `/` and no `.` of their own, so nothing that a
//! matrix or an agent says leads out of it.

use std::{
    fs::{self, File},
    io::{self, ErrorKind, Read},
    path::{Path, PathBuf},
};

use drover_model::{AttemptId, Name, RunId};

use crate::{LockError, Stream, WriterLock, lock};

/// A results folder that exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResultsDir {
    path: PathBuf,
}

/// Why a results folder, or something in it, cannot be used.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum DirError {
    #[error("{} is not a folder: remove it or name another results folder", path.display())]
    NotADirectory { path: PathBuf },
    #[error("there are no results in {}: run a matrix first, or name the folder that has them", path.display())]
    Missing { path: PathBuf },
    #[error("{} is on a read-only file system: name a results folder that can be written", path.display())]
    ReadOnly { path: PathBuf, source: io::Error },
    #[error("no permission to use {}: change its permissions or name another results folder", path.display())]
    Denied { path: PathBuf, source: io::Error },
    #[error("no space left for {}: free some, or name a results folder on another disk", path.display())]
    DiskFull { path: PathBuf, source: io::Error },
    #[error("cannot use {}", path.display())]
    Io { path: PathBuf, source: io::Error },
}

impl DirError {
    /// Sorts an I/O error by what the user can do about it.
    pub(crate) fn from_io(path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        match source.kind() {
            ErrorKind::NotADirectory => Self::NotADirectory { path },
            ErrorKind::ReadOnlyFilesystem => Self::ReadOnly { path, source },
            ErrorKind::PermissionDenied => Self::Denied { path, source },
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Self::DiskFull { path, source },
            _ => Self::Io { path, source },
        }
    }

    /// Whether it failed for lack of space.
    #[must_use]
    pub fn is_disk_full(&self) -> bool {
        matches!(self, Self::DiskFull { .. })
    }
}

impl ResultsDir {
    /// Opens the folder for writing; makes it, and its parents, where missing.
    ///
    /// # Errors
    /// It is something else than a folder, or cannot be made.
    pub fn create(path: impl Into<PathBuf>) -> Result<Self, DirError> {
        let path = path.into();
        match fs::metadata(&path) {
            Ok(meta) if meta.is_dir() => {}
            Ok(_) => return Err(DirError::NotADirectory { path }),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                fs::create_dir_all(&path).map_err(|error| DirError::from_io(&path, error))?;
                sync_dir(path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new(".")))?;
            }
            Err(error) => return Err(DirError::from_io(&path, error)),
        }
        Ok(Self { path })
    }

    /// Opens the folder for reading.
    ///
    /// # Errors
    /// There is no such folder, or it cannot be read.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, DirError> {
        let path = path.into();
        match fs::metadata(&path) {
            Ok(meta) if meta.is_dir() => Ok(Self { path }),
            Ok(_) => Err(DirError::NotADirectory { path }),
            Err(error) if error.kind() == ErrorKind::NotFound => Err(DirError::Missing { path }),
            Err(error) => Err(DirError::from_io(&path, error)),
        }
    }

    /// The folder itself.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The database.
    #[must_use]
    pub fn db_path(&self) -> PathBuf {
        self.path.join("drover.db")
    }

    /// The lock file.
    #[must_use]
    pub fn lock_path(&self) -> PathBuf {
        self.path.join("drover.lock")
    }

    /// The folder with one folder per run.
    #[must_use]
    pub fn runs_path(&self) -> PathBuf {
        self.path.join("runs")
    }

    /// The folder of a run.
    #[must_use]
    pub fn run_path(&self, run: RunId) -> PathBuf {
        self.runs_path().join(run.to_string())
    }

    /// The log of a run.
    #[must_use]
    pub fn log_path(&self, run: RunId) -> PathBuf {
        self.run_path(run).join("drover.log")
    }

    /// The socket at which the controller of a run is watched while it goes on.
    #[must_use]
    pub fn live_path(&self, run: RunId) -> PathBuf {
        self.run_path(run).join("live.sock")
    }

    /// The folder with the raw outputs of an attempt: `runs/<run>/c3r1a1`.
    #[must_use]
    pub fn attempt_path(&self, attempt: &AttemptId) -> PathBuf {
        self.run_path(attempt.run).join(format!("{}a{}", attempt.trial, attempt.number))
    }

    /// The file with a raw output: `client.0.stdout` in the attempt's folder.
    #[must_use]
    pub fn output_path(&self, attempt: &AttemptId, role: &Name, instance: u32, stream: Stream) -> PathBuf {
        self.attempt_path(attempt).join(format!("{role}.{instance}.{}", stream.as_str()))
    }

    /// Makes the folder of a run, durably; one that exists is left as it is.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn create_run_dir(&self, run: RunId) -> Result<PathBuf, DirError> {
        let path = self.run_path(run);
        if make_dir(&self.runs_path())? {
            sync_dir(&self.path)?;
        }
        if make_dir(&path)? {
            sync_dir(&self.runs_path())?;
        }
        Ok(path)
    }

    /// The bytes of a raw output; `None` if there are none, because the task wrote nothing or its attempt was never
    /// stored.
    ///
    /// # Errors
    /// The file is there and cannot be read.
    pub fn read_output(
        &self,
        attempt: &AttemptId,
        role: &Name,
        instance: u32,
        stream: Stream,
    ) -> Result<Option<Vec<u8>>, DirError> {
        let path = self.output_path(attempt, role, instance, stream);
        match fs::read(&path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(DirError::from_io(&path, error)),
        }
    }

    /// Takes the right to write the store of this folder, for as long as the result lives.
    ///
    /// # Errors
    /// Another process has it (the error names that process), or the lock file cannot be used.
    pub fn lock(&self) -> Result<WriterLock, LockError> {
        lock::take(&self.lock_path())
    }

    /// Who has the right to write the store now, if anybody.
    ///
    /// # Errors
    /// The lock file is there and cannot be used.
    pub fn holder(&self) -> Result<Option<crate::Holder>, LockError> {
        lock::holder(&self.lock_path())
    }
}

/// Makes or empties a file; refuses to follow a symbolic link that somebody put in its place.
pub(crate) fn create_file(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    let no_follow = i32::try_from(rustix::fs::OFlags::NOFOLLOW.bits()).unwrap_or(0);
    File::options().write(true).create(true).truncate(true).custom_flags(no_follow).open(path)
}

/// Makes a folder and says whether it is new.
pub(crate) fn make_dir(path: &Path) -> Result<bool, DirError> {
    match fs::create_dir(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::AlreadyExists && path.is_dir() => Ok(false),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            Err(DirError::NotADirectory { path: path.to_owned() })
        }
        Err(error) => Err(DirError::from_io(path, error)),
    }
}

/// Makes the names in a folder durable.
pub(crate) fn sync_dir(path: &Path) -> Result<(), DirError> {
    File::open(path).and_then(|dir| dir.sync_all()).map_err(|error| DirError::from_io(path, error))
}

/// At most `max` bytes of a small file, as text.
pub(crate) fn read_small(file: &mut File, max: u64) -> io::Result<String> {
    let mut bytes = Vec::new();
    file.take(max).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
