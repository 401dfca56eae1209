//! The process of QEMU: started, and waited for, by a thread of its own.
//!
//! It must not outlive the controller, however that ends. The kernel kills a process when the *thread* that started it
//! ends, if the process has asked for that (`PR_SET_PDEATHSIG`); so that thread has to live as long as the process, and
//! waits for it. `setpriv` asks, and the shell then looks whether the controller has died in between.

use std::{
    fs::File,
    io,
    os::{
        fd::OwnedFd,
        unix::process::{CommandExt, ExitStatusExt},
    },
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
    sync::mpsc,
    thread,
};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// Runs what follows, unless the parent is not the process whose number comes first.
const GUARD: &str = r#"[ "$PPID" = "$0" ] || exit 125; exec "$@""#;

/// How QEMU ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// With this exit code.
    Code(i32),
    /// By this signal.
    Signal(i32),
    /// Nobody knows: it could not be waited for.
    Unknown,
}

impl From<ExitStatus> for End {
    fn from(status: ExitStatus) -> Self {
        match (status.code(), status.signal()) {
            (Some(code), _) => Self::Code(code),
            (None, Some(signal)) => Self::Signal(signal),
            (None, None) => Self::Unknown,
        }
    }
}

impl std::fmt::Display for End {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Code(code) => write!(formatter, "exit code {code}"),
            Self::Signal(signal) => write!(formatter, "signal {signal}"),
            Self::Unknown => formatter.write_str("nobody knows how"),
        }
    }
}

/// A running QEMU. Killed when dropped; the thread then collects it.
#[derive(Debug)]
pub(super) struct Process {
    pid: u32,
    handle: OwnedFd,
}

impl Process {
    /// Starts QEMU with `dir` as its working directory and its messages in `log`. `ended` is called by the thread.
    ///
    /// # Errors
    /// When it cannot be started.
    pub(super) fn start(
        qemu: &Path,
        args: Vec<String>,
        dir: &Path,
        log: File,
        ended: impl FnOnce(End) + Send + 'static,
    ) -> io::Result<Self> {
        let (said, hear) = mpsc::channel();
        let (qemu, dir) = (qemu.to_owned(), dir.to_owned());
        thread::Builder::new().name("qemu".to_owned()).spawn(move || {
            let mut child = match command(qemu, args, dir, log).and_then(|mut command| command.spawn()) {
                Ok(child) => child,
                Err(error) => {
                    let _ = said.send(Err(error));
                    return;
                }
            };
            match handle(child.id()) {
                Ok(handle) => {
                    let _ = said.send(Ok(Self { pid: child.id(), handle }));
                }
                Err(error) => {
                    let _ = child.kill();
                    let _ = said.send(Err(error));
                }
            }
            ended(child.wait().map_or(End::Unknown, End::from));
        })?;
        hear.recv().unwrap_or_else(|_| Err(io::Error::other("the thread that starts QEMU has died")))
    }

    /// Its process number.
    pub(super) fn pid(&self) -> u32 {
        self.pid
    }

    /// Ends it by SIGKILL. That it has ended already is fine.
    pub(super) fn kill(&self) {
        let _ = pidfd_send_signal(&self.handle, Signal::KILL);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

fn command(qemu: PathBuf, args: Vec<String>, dir: PathBuf, log: File) -> io::Result<Command> {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--", "sh", "-c", GUARD]);
    command.arg(std::process::id().to_string()).arg(qemu).args(args);
    command.current_dir(dir).process_group(0);
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    Ok(command)
}

fn handle(pid: u32) -> io::Result<OwnedFd> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| io::Error::other("the process has an impossible number"))?;
    Ok(pidfd_open(pid, PidfdFlags::empty())?)
}
