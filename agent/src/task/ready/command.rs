//! A command as ready check: runs like a task (contained, in the attempt's folder, with the task's environment), and is
//! gone, with all it started, when the probe is over.

use std::{
    fs::OpenOptions,
    io,
    os::fd::OwnedFd,
    sync::{Mutex, PoisonError},
};

use drover_supervise::{Child, ExitStatus, InspectError, Launch, SpawnError};

use super::Probes;
use crate::{fd, task::kill::kill};

/// Runs the command to its end; exit status 0 is success. Given up (by the time limit of a probe, or because the task
/// ended), it leaves the command with the doomed.
pub(super) async fn probe(probes: &Probes<'_>, argv: &[String]) -> Result<(), CommandError> {
    let Probes { agent, spec, prepared, doomed, .. } = *probes;
    let name = format!("{}.ready", spec.id);
    let before = std::mem::take(&mut *doomed.lock().unwrap_or_else(PoisonError::into_inner));
    for child in before {
        kill(agent, &spec.id, child).await;
    }
    let argv = agent.own.resolve(argv);
    let child = agent.supervisor.spawn(Launch {
        task: &name,
        argv: &argv,
        env: &prepared.env,
        cwd: &prepared.cwd,
        cpus: prepared.cpus.as_ref(),
        hold: false,
        stdout: null()?,
        stderr: null()?,
    })?;
    let pidfd = child.pidfd().try_clone_to_owned().and_then(fd::watch);
    let mut running = Running { child: Some(child), doomed };
    drop(pidfd.map_err(CommandError::Io)?.readable().await.map_err(CommandError::Io)?);
    let Some(mut child) = running.child.take() else { return Err(CommandError::NoStatus) };
    let exit = child.try_wait()?;
    if !child.is_gone()? {
        kill(agent, &spec.id, child).await;
    }
    match exit.map(|exit| exit.status) {
        Some(ExitStatus::Exited(0)) => Ok(()),
        Some(ExitStatus::Exited(status)) => Err(CommandError::Status(status)),
        Some(ExitStatus::Signaled(signal)) => Err(CommandError::Signal(signal)),
        None => Err(CommandError::NoStatus),
    }
}

/// A command that runs; when its probe is given up, it is passed on to be killed.
struct Running<'a> {
    child: Option<Child>,
    doomed: &'a Mutex<Vec<Child>>,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.doomed.lock().unwrap_or_else(PoisonError::into_inner).extend(self.child.take());
    }
}

fn null() -> Result<OwnedFd, CommandError> {
    OpenOptions::new().write(true).open("/dev/null").map(Into::into).map_err(CommandError::Io)
}

/// Why a command does not say that the task is ready.
#[derive(Debug, thiserror::Error)]
pub(super) enum CommandError {
    #[error("cannot be run")]
    Spawn(#[from] SpawnError),
    #[error("cannot be watched")]
    Io(#[source] io::Error),
    #[error("cannot be inspected")]
    Inspect(#[from] InspectError),
    #[error("has no exit status")]
    NoStatus,
    #[error("exit status {0}")]
    Status(i32),
    #[error("ended by signal {0}")]
    Signal(i32),
}
