//! A command as ready check: runs like a task (contained, in the attempt's folder, with the task's environment), and is
//! gone, with all it started, when the probe is over.

use std::{fs::OpenOptions, io, os::fd::OwnedFd};

use drover_model::TaskSpec;
use drover_supervise::{Child, ExitStatus, InspectError, KillError, Launch, SpawnError};

use super::super::prepare::Prepared;
use crate::{agent::Agent, fd};

/// Runs the command to its end; exit status 0 is success. Cancelled (by the time limit of a probe, or because the task
/// ended), it kills the command.
pub(super) async fn probe(
    agent: &Agent,
    spec: &TaskSpec,
    prepared: &Prepared,
    argv: &[String],
) -> Result<(), CommandError> {
    let argv = agent.own.resolve(argv);
    let name = format!("{}.ready", spec.id);
    let launch = Launch {
        task: &name,
        argv: &argv,
        env: &prepared.env,
        cwd: &prepared.cwd,
        cpus: prepared.cpus.as_ref(),
        hold: false,
        stdout: null()?,
        stderr: null()?,
    };
    let mut child = agent.supervisor.spawn(launch)?;
    let pidfd = child.pidfd().try_clone_to_owned().map_err(CommandError::Io)?;
    let pidfd = fd::watch(pidfd).map_err(CommandError::Io)?;
    drop(pidfd.readable().await.map_err(CommandError::Io)?);
    let status = finish(&mut child)?;
    match status {
        Some(ExitStatus::Exited(0)) => Ok(()),
        Some(ExitStatus::Exited(status)) => Err(CommandError::Status(status)),
        Some(ExitStatus::Signaled(signal)) => Err(CommandError::Signal(signal)),
        None => Err(CommandError::Io(io::ErrorKind::WouldBlock.into())),
    }
}

fn finish(child: &mut Child) -> Result<Option<ExitStatus>, CommandError> {
    let exit = child.try_wait()?;
    if !child.is_gone()? {
        child.kill_tree()?;
    }
    Ok(exit.map(|exit| exit.status))
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
    #[error("cannot be ended")]
    Kill(#[from] KillError),
    #[error("exit status {0}")]
    Status(i32),
    #[error("ended by signal {0}")]
    Signal(i32),
}
