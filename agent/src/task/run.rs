//! Runs a task: starts its process and reacts to whatever happens to it, until its tree has to go.

use std::{
    io,
    os::fd::OwnedFd,
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use drover_model::{Counters, NotStarted, TaskEnd, TaskEventKind, TaskId, TaskSpec};
use drover_supervise::{Affinity, Child, CpuSet, Launch};
use rustix::{
    process::Pid,
    thread::{CpuSet as KernelSet, sched_getaffinity},
};
use tokio::{io::unix::AsyncFd, sync::watch};

use super::{
    Stop, Unstarted, Wish,
    end::{self, Finished},
    life::{Effect, Input, Life},
    logwatch::LogWatch,
    output::{Outputs, Pipes},
    prepare::{Prepared, prepare},
    ready::{Probes, ReadyWait},
};
use crate::{
    agent::Agent,
    fd,
    text::{chain, monotonic_ns},
};

/// Runs an accepted task to its end, and records that.
pub async fn run(agent: Arc<Agent>, spec: TaskSpec, outputs: Arc<Outputs>, mut wish: watch::Receiver<Wish>) {
    let certain = CertainEnd { agent: &agent, id: &spec.id };
    let end = match start(&agent, &spec, &wish) {
        Ok(running) => running.run(&agent, &spec, &outputs, &mut wish).await,
        Err(unstarted) => unstarted.into(),
    };
    certain.record(end);
}

/// Gives a task an end even if a bug lets its future panic.
struct CertainEnd<'a> {
    agent: &'a Agent,
    id: &'a TaskId,
}

impl CertainEnd<'_> {
    fn record(self, end: TaskEnd) {
        self.agent.finish(self.id, end);
    }
}

impl Drop for CertainEnd<'_> {
    fn drop(&mut self) {
        // Does nothing after `record`.
        self.agent.finish(self.id, super::lost());
    }
}

/// A task with a process.
struct Running {
    prepared: Prepared,
    child: Child,
    exited: AsyncFd<OwnedFd>,
    pipes: Pipes,
    /// CPUs its processes were last seen to be allowed.
    cpus: CpuSet,
    counters: Option<Counters>,
    started: Instant,
}

fn start(agent: &Agent, spec: &TaskSpec, wish: &watch::Receiver<Wish>) -> Result<Running, Unstarted> {
    if wish.borrow().stop != Stop::No {
        let detail = "it was stopped before it was started".to_owned();
        return Err(Unstarted { cause: NotStarted::Cancelled, detail });
    }
    let system = |error: io::Error| Unstarted {
        cause: NotStarted::Other,
        detail: format!("no descriptors for its output: {error}"),
    };
    let prepared = prepare(agent, spec)?;
    let (pipes, [stdout, stderr]) = Pipes::new().map_err(system)?;
    let name = spec.id.to_string();
    let counters = count(agent, spec);
    let started = Instant::now();
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
    let exited = child.pidfd().try_clone_to_owned().and_then(fd::watch).map_err(system)?;
    let cpus = first_mask(&child, &spec.id);
    if let Some(wanted) = prepared.cpus.as_ref().filter(|wanted| **wanted != cpus) {
        let detail = format!("its process may run on CPUs {cpus}, it asks for {wanted}");
        // Dropping the child kills it.
        return Err(Unstarted { cause: NotStarted::WrongCpus, detail });
    }
    Ok(Running { prepared, child, exited, pipes, cpus, counters, started })
}

/// The CPUs that the first process may use. The kernel still knows them when it has ended already.
fn first_mask(child: &Child, id: &TaskId) -> CpuSet {
    let pid = i32::try_from(child.pid()).ok().and_then(Pid::from_raw);
    match pid.map(|pid| sched_getaffinity(Some(pid))) {
        Some(Ok(mask)) => (0_u32..).take(KernelSet::MAX_CPU).filter(|&cpu| is_set(&mask, cpu)).collect(),
        // A machine with more CPUs than that call knows.
        _ => affinity(child, id).union,
    }
}

fn is_set(mask: &KernelSet, cpu: u32) -> bool {
    usize::try_from(cpu).is_ok_and(|cpu| mask.is_set(cpu))
}

fn count(agent: &Agent, spec: &TaskSpec) -> Option<Counters> {
    let reader = agent.counters.as_ref().filter(|_| spec.counters)?;
    reader.read().inspect_err(|error| tracing::warn!(error = %chain(error), "counters")).ok()
}

fn affinity(child: &Child, id: &TaskId) -> Affinity {
    child.affinity().unwrap_or_else(|error| {
        tracing::warn!(task = %id, error = %chain(&error), "its CPUs cannot be read");
        Affinity::default()
    })
}

/// What the loop waits for.
enum Happened {
    Exited,
    Wish,
    Ready,
    NotReady,
    Time,
}

impl Running {
    async fn run(
        mut self,
        agent: &Agent,
        spec: &TaskSpec,
        outputs: &Outputs,
        wish: &mut watch::Receiver<Wish>,
    ) -> TaskEnd {
        let mut life = Life::new(spec.hold, spec.deadline, spec.stop, self.started);
        agent.record(&spec.id, TaskEventKind::Started { pid: self.child.pid(), cpus: self.cpus.to_string() });
        if spec.hold {
            agent.record(&spec.id, TaskEventKind::Armed);
        }
        let log = LogWatch::new(&spec.ready);
        let child = Mutex::new(self.child);
        let missing = Mutex::new(String::new());
        let probes =
            Probes { agent, spec, prepared: &self.prepared, child: &child, log: &log, missing: &missing };
        let mut ready = ReadyWait::none();
        if !spec.hold {
            ready = ReadyWait::start(probes, self.started);
        }
        let mut held = spec.hold;
        let mut timer = std::pin::pin!(tokio::time::sleep_until(life.wake_at().into()));
        let killed = loop {
            let happened = tokio::select! {
                biased;
                _ = self.exited.readable() => Happened::Exited,
                Ok(()) = wish.changed() => Happened::Wish,
                () = self.pipes.pump(agent, outputs, &log) => continue,
                in_time = ready.outcome() => if in_time { Happened::Ready } else { Happened::NotReady },
                () = timer.as_mut() => Happened::Time,
            };
            let now = Instant::now();
            let input = match happened {
                Happened::Exited => break false,
                Happened::Ready => {
                    ready = ReadyWait::none();
                    self.cpus = look_again(&self.prepared, &child, &spec.id, self.cpus);
                    agent.record(&spec.id, TaskEventKind::Ready { after: now - self.started });
                    continue;
                }
                Happened::NotReady => {
                    ready = ReadyWait::none();
                    let missing = missing.lock().unwrap_or_else(PoisonError::into_inner).clone();
                    Input::NotReady(format!("not ready after {:?}: {missing}", spec.ready_within))
                }
                Happened::Time => Input::Tick,
                Happened::Wish => {
                    let wish = *wish.borrow_and_update();
                    if let Some(at_ns) = wish.release_at_ns.filter(|_| held && wish.stop == Stop::No) {
                        held = false;
                        self.counters = count(agent, spec);
                        self.started = Instant::now();
                        if let Err(unstarted) = release(agent, &spec.id, &child, at_ns).await {
                            return unstarted.into();
                        }
                        ready = ReadyWait::start(probes, self.started);
                        life.step(self.started, Input::Released);
                        timer.as_mut().reset(life.wake_at().into());
                    }
                    match wish.stop {
                        Stop::No => continue,
                        Stop::Policy => Input::Stop,
                        Stop::Kill => Input::Kill,
                    }
                }
            };
            let effect = life.step(now, input);
            timer.as_mut().reset(life.wake_at().into());
            match effect {
                Some(Effect::KillTree) => break true,
                Some(Effect::Signal(signal)) => {
                    // The last moment at which all processes are certain to be there.
                    self.cpus = look_again(&self.prepared, &child, &spec.id, self.cpus);
                    let child = child.lock().unwrap_or_else(PoisonError::into_inner);
                    if let Err(error) = child.signal(signal) {
                        tracing::warn!(task = %spec.id, error = %chain(&error), "cannot be asked to stop");
                    }
                }
                None => {}
            }
        };
        drop(ready);
        self.cpus = if killed {
            look_again(&self.prepared, &child, &spec.id, self.cpus)
        } else {
            let child = child.lock().unwrap_or_else(PoisonError::into_inner);
            self.cpus.union(&first_mask(&child, &spec.id))
        };
        let child = child.into_inner().unwrap_or_else(PoisonError::into_inner);
        let finished = Finished {
            child,
            pipes: self.pipes,
            log: &log,
            life,
            killed,
            cpus: self.cpus,
            counters: self.counters,
            started: self.started,
            ended: Instant::now(),
        };
        end::end(agent, spec, outputs, finished).await
    }
}

/// The CPUs seen before, and all that any thread of a placed task may use now. A thread may have narrowed its own mask;
/// one that may run elsewhere shows.
fn look_again(prepared: &Prepared, child: &Mutex<Child>, id: &TaskId, before: CpuSet) -> CpuSet {
    if prepared.cpus.is_none() {
        return before;
    }
    before.union(&affinity(&child.lock().unwrap_or_else(PoisonError::into_inner), id).union)
}

/// Lets a held task execute its command.
async fn release(agent: &Agent, id: &TaskId, child: &Mutex<Child>, at_ns: u64) -> Result<(), Unstarted> {
    let lock = || child.lock().unwrap_or_else(PoisonError::into_inner);
    lock().release()?;
    let now_ns = monotonic_ns();
    let late_us = if at_ns == 0 { 0 } else { now_ns.saturating_sub(at_ns) / 1000 };
    // The others of this barrier open their gates before this one waits for its `exec`.
    tokio::task::yield_now().await;
    agent.record(id, TaskEventKind::Released { late_us });
    lock().await_exec()?;
    Ok(())
}
