//! Makes a task's process.

use std::{io, os::fd::OwnedFd, time::Instant};

use drover_machine::CounterReader;
use drover_model::{Counters, NotStarted, TaskSpec};
use drover_supervise::{Child, CpuSet, Launch};
use tokio::{io::unix::AsyncFd, sync::watch};

use super::{
    Stop, Unstarted, Wish, cpus,
    output::Pipes,
    prepare::{Prepared, prepare},
};
use crate::{agent::Agent, fd, text::chain};

/// A task whose process was just made.
#[derive(Debug)]
pub(super) struct Fresh {
    pub(super) prepared: Prepared,
    pub(super) child: Child,
    /// Readable when the first process has ended.
    pub(super) exited: AsyncFd<OwnedFd>,
    pub(super) pipes: Pipes,
    /// CPUs that it may use.
    pub(super) cpus: CpuSet,
    /// Machine-wide counters right before the start, if the task asks for them.
    pub(super) counters: Option<Counters>,
    pub(super) at: Instant,
}

/// Starts a task, unless it is to be stopped already.
pub(super) fn start(
    agent: &Agent,
    spec: &TaskSpec,
    wish: &watch::Receiver<Wish>,
) -> Result<Fresh, Unstarted> {
    if wish.borrow().stop != Stop::No {
        let detail = "it was stopped before it was started".to_owned();
        return Err(Unstarted { cause: NotStarted::Cancelled, detail });
    }
    let prepared = prepare(agent, spec)?;
    let (pipes, [stdout, stderr]) = Pipes::new().map_err(no_descriptors)?;
    let name = spec.id.to_string();
    let counters = count(agent, spec);
    let at = Instant::now();
    let child = agent.supervisor.spawn(Launch {
        task: &name,
        argv: &prepared.argv,
        env: &prepared.env,
        cwd: &prepared.cwd,
        cpus: prepared.cpus.as_ref(),
        hold: spec.hold,
        stdout,
        stderr,
    })?;
    let exited = child.pidfd().try_clone_to_owned().and_then(fd::watch).map_err(no_descriptors)?;
    // Where CPUs were asked for, the start has proven that it has these; by now it may have chosen others.
    let cpus = prepared.cpus.clone().unwrap_or_else(|| cpus::of_first_process(&child, &spec.id));
    Ok(Fresh { prepared, child, exited, pipes, cpus, counters, at })
}

/// Machine-wide counters as they are now, if the task asks for them.
pub(super) fn count(agent: &Agent, spec: &TaskSpec) -> Option<Counters> {
    let reader: &CounterReader = agent.counters.as_ref().filter(|_| spec.counters)?;
    reader.read().inspect_err(|error| tracing::warn!(error = %chain(error), "counters")).ok()
}

fn no_descriptors(error: io::Error) -> Unstarted {
    Unstarted { cause: NotStarted::Other, detail: format!("no descriptors for its output: {error}") }
}
