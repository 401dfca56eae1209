//! The lock that makes one controller at a time the writer of a results folder: `flock(2)` on a file that says who
//! holds it. The kernel gives it back when the holder ends, however it ends; readers do not take it.

use std::{
    fs::{self, File},
    io::{self, ErrorKind, Seek, Write},
    path::{Path, PathBuf},
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use rustix::{
    fs::{FlockOperation, flock},
    io::Errno,
};
use serde::{Deserialize, Serialize};

use crate::{DirError, results_dir::read_small};

/// Longest content of a lock file that is read.
const MAX_CONTENT: u64 = 4096;

/// A lock is tried several times, because [`holder`] takes it for an instant.
const TRIES: u32 = 5;
const TRY_AGAIN: Duration = Duration::from_millis(10);

/// Who writes a store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// Its process.
    pub pid: u32,
    /// Its user.
    pub user: String,
    /// Its machine; a results folder can be on a shared file system.
    pub machine: String,
    /// Since when, in seconds since the Unix epoch, UTC.
    pub since_unix_s: u64,
}

impl std::fmt::Display for Holder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "process {} of user {} on {}", self.pid, self.user, self.machine)?;
        let since = UNIX_EPOCH.checked_add(Duration::from_secs(self.since_unix_s));
        match since {
            Some(since) => write!(f, ", since {}", humantime::format_rfc3339_seconds(since)),
            None => Ok(()),
        }
    }
}

/// Why the right to write was not given.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum LockError {
    #[error("another Drover writes {}: {holder}; wait for it, end it, or name another results folder", dir(path).display())]
    Held { path: PathBuf, holder: Holder },
    #[error("another Drover writes {}, and does not say which; wait for it or name another results folder", dir(path).display())]
    HeldByUnknown { path: PathBuf },
    #[error(transparent)]
    Dir(#[from] DirError),
}

fn dir(lock: &Path) -> &Path {
    lock.parent().unwrap_or(lock)
}

/// The right to write a store. Given back when dropped.
#[derive(Debug)]
pub struct WriterLock {
    file: File,
}

impl Drop for WriterLock {
    fn drop(&mut self) {
        // So that a later reader of the file does not take this process for the holder. The lock itself goes with the
        // file descriptor.
        if let Err(error) = self.file.set_len(0) {
            tracing::debug!(%error, "the lock file keeps the name of this process");
        }
    }
}

/// Takes the lock and writes this process into its file.
pub(crate) fn take(path: &Path) -> Result<WriterLock, LockError> {
    let failed = |error: io::Error| LockError::Dir(DirError::from_io(path, error));
    let mut file =
        File::options().read(true).write(true).create(true).truncate(false).open(path).map_err(failed)?;
    let mut tries = 1;
    loop {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => break,
            Err(Errno::WOULDBLOCK) if tries < TRIES => {
                tries += 1;
                thread::sleep(TRY_AGAIN);
            }
            Err(Errno::WOULDBLOCK) => return Err(held(path, &mut file)),
            Err(error) => return Err(failed(error.into())),
        }
    }
    let text = serde_json::to_string(&this_process()).map_err(|error| failed(error.into()))?;
    file.set_len(0).and_then(|()| file.rewind()).and_then(|()| writeln!(file, "{text}")).map_err(failed)?;
    Ok(WriterLock { file })
}

/// Who holds the lock, without taking it.
pub(crate) fn holder(path: &Path) -> Result<Option<Holder>, LockError> {
    let failed = |error: io::Error| LockError::Dir(DirError::from_io(path, error));
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    // A shared lock, given back at once when the file is closed, so that two who ask do not see each other.
    match flock(&file, FlockOperation::NonBlockingLockShared) {
        Ok(()) => Ok(None),
        Err(Errno::WOULDBLOCK) => match held(path, &mut file) {
            LockError::Held { holder, .. } => Ok(Some(holder)),
            other => Err(other),
        },
        Err(error) => Err(failed(error.into())),
    }
}

fn held(path: &Path, file: &mut File) -> LockError {
    let text = read_small(file, MAX_CONTENT).unwrap_or_default();
    let path = path.to_owned();
    match serde_json::from_str(&text) {
        Ok(holder) => LockError::Held { path, holder },
        Err(_) => LockError::HeldByUnknown { path },
    }
}

fn this_process() -> Holder {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Holder {
        pid: std::process::id(),
        user: user_name(),
        machine: rustix::system::uname().nodename().to_string_lossy().into_owned(),
        since_unix_s: since.as_secs(),
    }
}

/// The name of the real user from the local password file; the number where it is not listed there.
fn user_name() -> String {
    let uid = rustix::process::getuid().as_raw().to_string();
    let passwd = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let name = passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)? == uid).then(|| name.to_owned())
    });
    name.unwrap_or(uid)
}
