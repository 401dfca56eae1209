//! The host `local`: an agent of this user on this machine, behind a Unix socket.

use std::{
    ffi::OsString,
    fs::{File, OpenOptions},
    io,
    os::unix::fs::OpenOptionsExt,
    path::PathBuf,
    time::Duration,
};

use drover_agent::{Paths, ensure_private};
use rustix::fs::{FlockOperation, flock};
use tokio::{net::UnixStream, sync::oneshot, time::timeout};

use crate::{
    ConnectError, Connection,
    greet::greet,
    process::{Started, start},
};

/// Longest time to wait for another controller that is starting an agent.
const LOCK_LIMIT: Duration = Duration::from_secs(30);

/// Times that everything is tried when the agent found ends while it is being connected to.
const TRIES: u32 = 3;

/// How to reach the agent of this machine.
#[derive(Clone, Debug)]
pub struct LocalOptions {
    /// Its state directory; [`drover_agent::default_dir`] names the usual one.
    pub agent_dir: PathBuf,
    /// Program and leading arguments that act as the agent, to which its subcommand is added: `drover agent`, or
    /// `drover-agent`.
    pub agent_command: Vec<OsString>,
    /// An agent that is started ends by itself when nobody needed it for this long.
    pub linger: Duration,
}

/// Connects to the agent of this machine; starts one if there is none. Safe to be called by several controllers at once:
/// one of them starts the agent, the others wait for it.
///
/// # Errors
/// See [`ConnectError`]; each says what to do.
pub async fn connect_local(options: &LocalOptions) -> Result<Connection, ConnectError> {
    let paths = Paths::new(ensure_private(&options.agent_dir)?);
    let mut tries = TRIES;
    loop {
        tries -= 1;
        match try_connect(options, &paths).await {
            // It was found and ended meanwhile.
            Err(ConnectError::Transport { .. }) if tries > 0 => {}
            other => return other,
        }
    }
}

async fn try_connect(options: &LocalOptions, paths: &Paths) -> Result<Connection, ConnectError> {
    if let Some(stream) = dial(paths).await? {
        return greet(stream, paths, None).await;
    }
    let lock = lock(paths).await?;
    let mut child = None;
    let stream = match dial(paths).await? {
        Some(stream) => stream,
        None => {
            if let Started::Serving(process) = start(&options.agent_command, paths, options.linger).await? {
                child = Some(process);
            }
            let source = io::ErrorKind::ConnectionRefused.into();
            dial(paths).await?.ok_or_else(|| ConnectError::Socket { path: paths.socket(), source })?
        }
    };
    drop(lock);
    greet(stream, paths, child).await
}

/// Connects to the socket; `None` if nobody listens there.
async fn dial(paths: &Paths) -> Result<Option<UnixStream>, ConnectError> {
    match UnixStream::connect(paths.socket()).await {
        Ok(stream) => Ok(Some(stream)),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) => {
            Ok(None)
        }
        Err(source) => Err(ConnectError::Socket { path: paths.socket(), source }),
    }
}

/// Waits for its turn to start an agent. flock(2) knows no time limit, so a thread waits.
async fn lock(paths: &Paths) -> Result<File, ConnectError> {
    let path = paths.start_lock();
    let fail = |source| ConnectError::Lock { path: path.clone(), source };
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    let file = options.open(&path).map_err(fail)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => return Ok(file),
        Err(rustix::io::Errno::WOULDBLOCK) => {}
        Err(error) => return Err(fail(error.into())),
    }
    let (sender, receiver) = oneshot::channel();
    std::thread::spawn(move || {
        let locked = flock(&file, FlockOperation::LockExclusive);
        let _ = sender.send(locked.map(|()| file));
    });
    match timeout(LOCK_LIMIT, receiver).await {
        Ok(Ok(locked)) => locked.map_err(|error| fail(error.into())),
        _ => Err(ConnectError::Busy { path, waited: LOCK_LIMIT }),
    }
}
