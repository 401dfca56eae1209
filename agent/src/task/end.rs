//! The end of a task that had a process: its tree is proven gone, its output complete, its ports free again.

use std::time::{Duration, Instant};

use drover_machine::CounterReader;
use drover_model::{Counters, EndKind, OutputSummary, TaskEnd, TaskSpec, Usage};
use drover_supervise::{Child, CpuSet, Exit, ExitStatus, ports};

use super::{
    ears::Ears,
    kill::kill,
    life::Life,
    output::{Outputs, Pipes},
    start::count,
};
use crate::{agent::Agent, text::chain};

/// What a task is killed with.
const SIGKILL: i32 = 9;

/// Times that a port is looked at again when it is not free at once; the pauses between double from 1 ms.
const PORT_LOOKS: u32 = 9;

/// A task whose process ended, or has to be killed.
pub(super) struct Finished<'a> {
    pub(super) child: Child,
    /// Ready commands that were still running.
    pub(super) doomed: Vec<Child>,
    pub(super) pipes: Pipes,
    pub(super) ears: &'a Ears,
    pub(super) life: Life,
    /// The tree is to be killed although its first process lives.
    pub(super) killed: bool,
    pub(super) cpus: CpuSet,
    pub(super) counters: Option<Counters>,
    pub(super) started: Instant,
    pub(super) ended: Instant,
}

/// Brings a task, or a round of it, to its end. What became of its outputs is for the caller to say.
pub(super) async fn end(
    agent: &Agent,
    spec: &TaskSpec,
    outputs: &Outputs,
    finished: Finished<'_>,
) -> TaskEnd {
    let Finished { child, doomed, pipes, ears, life, killed, cpus, counters, started, mut ended } = finished;
    for probe in doomed {
        kill(agent, &spec.id, probe).await;
    }
    let (mut child, mut leftovers) =
        if killed || !is_gone(&child, spec) { kill(agent, &spec.id, child).await } else { (Some(child), 0) };
    if killed {
        // What is killed together with its first process was not left over.
        (ended, leftovers) = (Instant::now(), 0);
    }
    let exit = child.as_mut().and_then(|child| status(spec, child));
    pipes.drain(agent, outputs, ears);
    drop(pipes);
    agent.supervisor.reap_strays();
    let counters = counters.and_then(|start| Some(CounterReader::between(&start, &count(agent, spec)?)));
    await_free_ports(spec).await;
    let kind = match exit {
        Some(exit) => life.end_kind(exit.status),
        None if killed => life.end_kind(ExitStatus::Signaled(SIGKILL)),
        None => EndKind::AgentLost,
    };
    TaskEnd {
        kind,
        wall: ended.saturating_duration_since(started),
        usage: exit.map_or_else(Usage::default, |exit| exit.usage),
        stdout: OutputSummary::default(),
        stderr: OutputSummary::default(),
        cpus: cpus.to_string(),
        leftovers,
        counters,
    }
}

fn is_gone(child: &Child, spec: &TaskSpec) -> bool {
    child.is_gone().unwrap_or_else(|error| {
        tracing::warn!(task = %spec.id, error = %chain(&error), "its processes cannot be counted");
        false
    })
}

/// Status and usage of the first process, which has ended.
fn status(spec: &TaskSpec, child: &mut Child) -> Option<Exit> {
    match child.try_wait() {
        Ok(Some(exit)) => return Some(exit),
        Ok(None) => tracing::error!(task = %spec.id, "has no status although it is gone"),
        Err(error) => tracing::error!(task = %spec.id, error = %chain(&error), "has lost its status"),
    }
    None
}

/// Waits until the task's ports are free again, as they are once its processes are gone; the kernel may take a moment.
async fn await_free_ports(spec: &TaskSpec) {
    if spec.ports.is_empty() {
        return;
    }
    let mut pause = Duration::from_millis(1);
    for _ in 0..PORT_LOOKS {
        if ports::check_free(&spec.ports).is_ok() {
            return;
        }
        tokio::time::sleep(pause).await;
        pause *= 2;
    }
    if let Err(error) = ports::check_free(&spec.ports) {
        tracing::warn!(task = %spec.id, error = %chain(&error), "its ports are not free although its processes are gone");
    }
}
