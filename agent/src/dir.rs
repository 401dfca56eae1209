//! The agent's state directory: closed to other users, and owned by one agent at a time.
//!
//! Other users can list and read nothing of it. They can pass through it (mode 0711) to an attempt's folder whose name
//! they were given: a server that is started by root and gives up its privileges (Apache, PostgreSQL) has to reach its
//! files there.
//!
//! | name | what |
//! |---|---|
//! | `lock` | held with `flock(2)` for as long as the agent lives; holds its process id, for people |
//! | `agent.sock` | where controllers connect; there only while an agent serves |
//! | `agent.log`, `agent.log.1` | the agent's log, bounded |
//! | `spool` | what must survive the agent |
//! | `cpus` | which CPUs to put back; there only while some are offline |
//! | `boot` | which kernel is booted next, and how that is taken back; there only while one is armed, or a reboot was asked for |
//! | `work/ATTEMPT/` | where the tasks of an attempt run |
//! | `blobs/HASH` | contents of files that tasks get copies of |
//! | `outputs/TASK.out`, `.err` | outputs too long for memory |
//! | `observed/ATTEMPT` | what sensors said while an attempt ran |
//!
//! Also called by the controller's side, to find the directory of this user's agent.

use std::{
    fs::{DirBuilder, File, OpenOptions},
    io::{self, Write},
    os::unix::{
        fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
        net::UnixStream,
    },
    path::{Path, PathBuf},
    sync::mpsc,
    time::Duration,
};

use rustix::{
    fs::{FlockOperation, flock},
    process::geteuid,
};

/// Environment variable that names the state directory.
pub const DIR_VARIABLE: &str = "DROVER_AGENT_DIR";

/// Longest path of a Unix socket, in bytes (`sun_path` with its final zero, `unix(7)`).
const MAX_SOCKET_PATH: usize = 107;

/// Longest time to wait for an agent that is ending to let go of the directory.
const HANDOVER: Duration = Duration::from_secs(10);

/// Mode of a directory that others may pass through, and do nothing else with.
const PASSABLE: u32 = 0o711;

/// Mode of a directory that is closed to others.
const CLOSED: u32 = 0o700;

/// Where the agent of this user and machine keeps its state: `$DROVER_AGENT_DIR`, else `/var/tmp/drover-UID`, which is
/// on a local disk and survives a reboot.
#[must_use]
pub fn default_dir() -> PathBuf {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    variable(DIR_VARIABLE).unwrap_or_else(|| PathBuf::from(format!("/var/tmp/drover-{}", geteuid().as_raw())))
}

/// Names of the files in a state directory.
#[derive(Clone, Debug)]
pub struct Paths {
    root: PathBuf,
}

impl Paths {
    /// Those of the directory `root`.
    #[must_use]
    pub fn new(root: PathBuf) -> Self {
        Self { root }
    }

    /// The directory.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Where controllers connect.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.root.join("agent.sock")
    }

    /// The agent's log.
    #[must_use]
    pub fn log(&self) -> PathBuf {
        self.root.join("agent.log")
    }

    /// Held by controllers while they start an agent, so that they do not start two.
    #[must_use]
    pub fn start_lock(&self) -> PathBuf {
        self.root.join("start.lock")
    }

    /// Held by the agent that serves; its process id is in it.
    #[must_use]
    pub fn lock(&self) -> PathBuf {
        self.root.join("lock")
    }

    pub(crate) fn spool(&self) -> PathBuf {
        self.root.join("spool")
    }

    pub(crate) fn cpus(&self) -> PathBuf {
        self.root.join("cpus")
    }

    pub(crate) fn boot(&self) -> PathBuf {
        self.root.join("boot")
    }

    pub(crate) fn work(&self) -> PathBuf {
        self.root.join("work")
    }

    pub(crate) fn blobs(&self) -> PathBuf {
        self.root.join("blobs")
    }

    pub(crate) fn observed(&self) -> PathBuf {
        self.root.join("observed")
    }

    pub(crate) fn outputs(&self) -> PathBuf {
        self.root.join("outputs")
    }
}

/// Makes a state directory at `path`, or checks that the one there is private: a real directory, of this user, of which
/// others can list, read and change nothing.
///
/// # Errors
/// When it cannot be made, or is not private.
pub fn ensure_private(path: &Path) -> Result<PathBuf, DirError> {
    ensure_dir(path, PASSABLE)
}

fn ensure_dir(path: &Path, mode: u32) -> Result<PathBuf, DirError> {
    let fail = |action| move |source| DirError::Io { action, path: path.to_owned(), source };
    let path = std::path::absolute(path).map_err(fail("find"))?;
    DirBuilder::new().recursive(true).mode(mode).create(&path).map_err(fail("make"))?;
    let metadata = path.symlink_metadata().map_err(fail("inspect"))?;
    let unsafe_because = if !metadata.is_dir() {
        Some("is a symbolic link or no directory")
    } else if metadata.uid() != geteuid().as_raw() {
        Some("belongs to another user")
    } else if metadata.mode() & 0o777 & !mode != 0 {
        Some("is open to other users (chmod go-rw it)")
    } else {
        None
    };
    match unsafe_because {
        Some(reason) => Err(DirError::NotPrivate { path, reason }),
        None => Ok(path),
    }
}

/// A state directory that belongs to this process until it ends.
#[derive(Debug)]
pub struct StateDir {
    /// Names of the files in it.
    pub paths: Paths,
    /// Keeps the lock.
    _lock: File,
}

impl StateDir {
    /// Makes the directory if needed and takes it. When another agent is just ending, waits for it, at most 10 s.
    ///
    /// # Errors
    /// When the directory is not private, another agent serves it, or a file cannot be made.
    pub fn take(path: &Path) -> Result<Self, DirError> {
        let paths = Paths::new(ensure_private(path)?);
        let length = paths.socket().as_os_str().len();
        if length > MAX_SOCKET_PATH {
            return Err(DirError::TooLong { path: paths.socket(), length });
        }
        let fail = |action, path: &Path| {
            let path = path.to_owned();
            move |source| DirError::Io { action, path, source }
        };
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let lock = options.open(paths.lock()).map_err(fail("open", &paths.lock()))?;
        let mut lock = lock_or_wait(lock, &paths)?;
        ensure_dir(&paths.work(), PASSABLE)?;
        ensure_dir(&paths.outputs(), CLOSED)?;
        ensure_dir(&paths.blobs(), CLOSED)?;
        ensure_dir(&paths.observed(), CLOSED)?;
        // The process id is for people only, so a lock file that cannot be written is no reason to fail.
        let _ = lock.set_len(0).and_then(|()| writeln!(lock, "{}", std::process::id()));
        Ok(Self { paths, _lock: lock })
    }
}

fn lock_or_wait(lock: File, paths: &Paths) -> Result<File, DirError> {
    let fail = |source: io::Error| DirError::Io { action: "lock", path: paths.lock(), source };
    match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => return Ok(lock),
        Err(rustix::io::Errno::WOULDBLOCK) => {}
        Err(error) => return Err(fail(error.into())),
    }
    if UnixStream::connect(paths.socket()).is_ok() {
        let pid = std::fs::read_to_string(paths.lock()).unwrap_or_default().trim().to_owned();
        return Err(DirError::Taken { path: paths.root().to_owned(), pid });
    }
    // It holds the lock and does not listen: it is ending (or starting, then the wait ends with an error). flock(2)
    // knows no time limit, so a thread waits; this process ends if the limit is reached.
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let locked = flock(&lock, FlockOperation::LockExclusive);
        let _ = sender.send(locked.map(|()| lock));
    });
    match receiver.recv_timeout(HANDOVER) {
        Ok(locked) => locked.map_err(|error| fail(error.into())),
        Err(_) => {
            let pid = std::fs::read_to_string(paths.lock()).unwrap_or_default().trim().to_owned();
            Err(DirError::Taken { path: paths.root().to_owned(), pid })
        }
    }
}

/// Why a state directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DirError {
    /// The file system said no.
    #[error("cannot {action} `{}`", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// With what.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Others could read or change what is in it.
    #[error("`{}` {reason}; name another directory with --dir or {DIR_VARIABLE}", path.display())]
    NotPrivate {
        /// The directory.
        path: PathBuf,
        /// What is wrong.
        reason: &'static str,
    },
    /// Another agent has it.
    #[error("an agent already serves `{}` (process {pid})", path.display())]
    Taken {
        /// The directory.
        path: PathBuf,
        /// Process id of the other agent, as it wrote it down.
        pid: String,
    },
    /// The path of its socket is longer than the kernel allows.
    #[error(
        "the socket path `{}` has {length} bytes, {MAX_SOCKET_PATH} are allowed; name a shorter directory with --dir or {DIR_VARIABLE}",
        path.display()
    )]
    TooLong {
        /// The socket.
        path: PathBuf,
        /// Its length in bytes.
        length: usize,
    },
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn expect_a_refusal_when_the_directory_is_not_private() {
        let dir = tempfile::tempdir().unwrap();
        let open = dir.path().join("open");
        std::fs::create_dir(&open).unwrap();
        std::fs::set_permissions(&open, PermissionsExt::from_mode(0o750)).unwrap();
        assert!(StateDir::take(&open).unwrap_err().to_string().contains("chmod go-rw"));
        let link = dir.path().join("link");
        symlink(dir.path(), &link).unwrap();
        assert!(StateDir::take(&link).unwrap_err().to_string().contains("symbolic link"));
    }

    #[test]
    fn expect_the_limit_in_the_message_when_the_socket_path_is_too_long() {
        let dir = tempfile::tempdir().unwrap();
        let error = StateDir::take(&dir.path().join("x".repeat(100))).unwrap_err();
        assert!(error.to_string().contains("107 are allowed"), "{error}");
    }
}
