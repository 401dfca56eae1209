//! The near end of an ssh session: starts an agent for a controller that is elsewhere (`start`), and passes its bytes on
//! to the agent's socket where the ssh server does not do that itself (`bridge`).
//!
//! Both say over standard output when they are ready, in a line that is told from a login shell's greetings.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read, Write},
    net::Shutdown,
    os::{
        fd::{AsFd, BorrowedFd},
        unix::{fs::OpenOptionsExt, net::UnixStream},
    },
    path::{Path, PathBuf},
    process::{ChildStdout, Command, ExitStatus, Stdio},
    thread,
    time::Duration,
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{FlockOperation, flock},
};

use crate::{
    dir::{DirError, Paths, ensure_private},
    own::OwnCommand,
    server::{EXIT_TAKEN, READY_LINE},
};

/// What the lines begin with that are meant for the controller.
pub const BRIDGE_MARK: &str = "::drover::";

/// Longest time for an agent to start, in seconds; it has to end what an earlier one left behind.
const START_LIMIT_S: i64 = 20;

/// Copies between standard input and output and the socket of the agent in `dir`, until either side ends.
///
/// # Errors
/// When no agent serves there, or standard output is gone.
pub fn bridge(dir: &Path) -> Result<(), BridgeError> {
    let paths = Paths::new(ensure_private(dir)?);
    let fail = |source| BridgeError::Connect { path: paths.socket(), source };
    let socket = UnixStream::connect(paths.socket()).map_err(fail)?;
    let to_socket = socket.try_clone().map_err(fail)?;
    say_ready()?;
    // Without the buffers of `std::io`.
    let raw = |fd: BorrowedFd<'_>| fd.try_clone_to_owned().map(File::from).map_err(BridgeError::Copy);
    let (stdin, stdout) = (raw(io::stdin().as_fd())?, raw(io::stdout().as_fd())?);
    // It ends with the process, which does not wait for it: nothing may ever come from standard input.
    thread::spawn(move || {
        let _ = copy(stdin, &to_socket);
        let _ = to_socket.shutdown(Shutdown::Both);
    });
    match copy(&socket, stdout) {
        // Either the agent closed the connection, or the controller is gone.
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(BridgeError::Copy(error)),
    }
}

fn copy(mut from: impl Read, mut to: impl Write) -> io::Result<()> {
    let mut bytes = vec![0; 64 << 10];
    loop {
        match from.read(&mut bytes) {
            Ok(0) => return Ok(()),
            Ok(count) => to.write_all(bytes.get(..count).unwrap_or_default())?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Starts an agent in a session of its own, unless one serves in `dir`. Returns when it serves.
///
/// # Errors
/// When the agent cannot be executed, or ends instead of serving; why, it has written to standard error.
pub fn start(dir: &Path, linger: Duration, own: OwnCommand) -> Result<(), BridgeError> {
    let paths = Paths::new(ensure_private(dir)?);
    if UnixStream::connect(paths.socket()).is_err() {
        let _lock = lock(&paths)?;
        // Another controller may have started one while this one waited for the lock.
        if UnixStream::connect(paths.socket()).is_err() {
            start_serving(paths.root(), linger, own)?;
        }
    }
    say_ready()
}

fn lock(paths: &Paths) -> Result<File, BridgeError> {
    let path = paths.start_lock();
    let fail = |source| BridgeError::Lock { path: path.clone(), source };
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    let file = options.open(&path).map_err(fail)?;
    // Whoever holds it has a time limit.
    flock(&file, FlockOperation::LockExclusive).map_err(|error| fail(error.into()))?;
    Ok(file)
}

fn start_serving(dir: &Path, linger: Duration, own: OwnCommand) -> Result<(), BridgeError> {
    // The file may have been replaced or removed meanwhile.
    let program = std::env::current_exe().ok().filter(|program| program.exists());
    let program = program.unwrap_or_else(|| PathBuf::from("/proc/self/exe"));
    let mut command = Command::new(program);
    command.args(own.prefix).args(["serve", "--detach", "--linger"]);
    command.arg(format!("{}ms", linger.as_millis())).arg("--dir").arg(dir);
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().map_err(BridgeError::Spawn)?;
    let said = child.stdout.take().map(says_ready).unwrap_or(Ok(false));
    match said {
        Ok(true) => return Ok(()),
        Ok(false) => {}
        Err(error) => {
            // It may have ended just now, which is as good.
            let _ = child.kill();
            return Err(BridgeError::Spawn(error));
        }
    }
    let status = child.wait().map_err(BridgeError::Spawn)?;
    // One that was started by hand serves as well.
    if status.code() == Some(i32::from(EXIT_TAKEN)) { Ok(()) } else { Err(BridgeError::Start { status }) }
}

/// Whether it says that it serves; it ends its output either way.
fn says_ready(mut stdout: ChildStdout) -> io::Result<bool> {
    let limit = Timespec { tv_sec: START_LIMIT_S, tv_nsec: 0 };
    if poll(&mut [PollFd::new(&stdout, PollFlags::IN)], Some(&limit))? == 0 {
        let why = format!("it did not begin to serve within {START_LIMIT_S} s and was killed");
        return Err(io::Error::new(io::ErrorKind::TimedOut, why));
    }
    let mut line = vec![0; READY_LINE.len()];
    Ok(stdout.read_exact(&mut line).is_ok() && line == READY_LINE.as_bytes())
}

fn say_ready() -> Result<(), BridgeError> {
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{BRIDGE_MARK} ready").and_then(|()| stdout.flush()).map_err(BridgeError::Copy)
}

/// Why a controller cannot be brought to an agent.
#[derive(Debug, thiserror::Error)]
pub enum BridgeError {
    /// The state directory cannot be used.
    #[error(transparent)]
    Dir(#[from] DirError),
    /// No agent serves.
    #[error("cannot connect to the agent at `{}`", path.display())]
    Connect {
        /// The socket.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Standard output or the socket failed.
    #[error("cannot pass the agent's answers on")]
    Copy(#[source] io::Error),
    /// The lock that keeps two controllers from starting two agents cannot be had.
    #[error("cannot lock `{}`", path.display())]
    Lock {
        /// The lock file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The agent's program cannot be executed.
    #[error("cannot start the agent")]
    Spawn(#[source] io::Error),
    /// The agent ended instead of serving.
    #[error("the agent ended instead of serving ({status})")]
    Start {
        /// How.
        status: ExitStatus,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expect_the_socket_named_when_no_agent_serves() {
        let dir = tempfile::tempdir().unwrap();
        let error = bridge(&dir.path().join("agent")).unwrap_err().to_string();
        assert!(error.contains("agent.sock"), "{error}");
    }
}
