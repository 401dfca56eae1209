//! Runs a task: starts its process and reacts to whatever happens to it, until its tree has to go.

use std::{
    os::fd::OwnedFd,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use drover_model::{Counters, EndKind, TaskEnd, TaskEventKind, TaskId, TaskSpec};
use drover_supervise::{Child, CpuSet};
use tokio::{
    io::unix::AsyncFd,
    sync::watch,
    time::{Sleep, sleep_until},
};

use super::{
    Orders, Stop, Unstarted, Wish, cpus,
    ears::Ears,
    end::{self, Finished},
    kill::kill,
    life::{Effect, Input, Life},
    output::{Outputs, Pipes},
    prepare::stage,
    ready::{Probes, ReadyWait},
    rounds,
    stall::{self, Signs, StallWatch},
    start::{Fresh, count, start},
};
use crate::{
    agent::Agent,
    clock::{monotonic_ns, unix_us},
    text::chain,
};

/// Runs an accepted task to its end, and records that.
pub async fn run(agent: Arc<Agent>, spec: TaskSpec, outputs: Arc<Outputs>, mut orders: Orders) {
    let certain = CertainEnd { agent: &agent, id: &spec.id };
    let ears = Ears::new(&spec);
    let job = Job { agent: &agent, spec: &spec, outputs: &outputs, ears: &ears };
    let mut end = match stage(&agent, &spec).await {
        Ok(()) => match spec.rounds {
            Some(wanted) => rounds::run(job, wanted, &mut orders).await,
            None => once(job, &mut orders).await,
        },
        Err(unstarted) => unstarted.into(),
    };
    if !matches!(end.kind, EndKind::NotStarted(..)) {
        [end.stdout, end.stderr] = outputs.finish(&spec.id);
    }
    for lines in ears.take_rest() {
        agent.record(&spec.id, lines);
    }
    certain.record(end);
}

/// A task, or a round of one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job<'a> {
    pub(super) agent: &'a Agent,
    /// What to run. Of a round: held and with ready checks only if it is the first.
    pub(super) spec: &'a TaskSpec,
    pub(super) outputs: &'a Outputs,
    pub(super) ears: &'a Ears,
}

async fn once(job: Job<'_>, orders: &mut Orders) -> TaskEnd {
    match start(job.agent, job.spec, &orders.wish) {
        Ok(fresh) => live(job, Turn::only(job.spec), orders, fresh).await.end,
        Err(unstarted) => unstarted.into(),
    }
}

/// What is special to a round.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    /// Its start is that of the task, and is reported.
    pub(super) first: bool,
    /// Time allowed at the barrier.
    pub(super) patience: Duration,
    /// It is asked to stop after this time, from the given instant on, or from its own start or release.
    pub(super) time: Option<(Option<Instant>, Duration)>,
}

impl Turn {
    /// The only one of a task without rounds.
    fn only(spec: &TaskSpec) -> Self {
        Self { first: true, patience: spec.deadline, time: None }
    }
}

/// A round that is over. Its outputs are not summed up yet.
#[derive(Debug)]
pub(super) struct Lived {
    pub(super) end: TaskEnd,
    /// From when its time counted.
    pub(super) started: Instant,
    pub(super) started_unix_us: u64,
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

/// From the first event of a process to the end of its tree.
pub(super) async fn live(job: Job<'_>, turn: Turn, orders: &mut Orders, fresh: Fresh) -> Lived {
    let Job { agent, spec, outputs, ears } = job;
    let over_at_once =
        |unstarted: Unstarted, at| Lived { end: unstarted.into(), started: at, started_unix_us: unix_us() };
    let Fresh { prepared, child, exited, mut pipes, cpus, counters, at } = fresh;
    orders.list_by(child.census().ok());
    if turn.first {
        agent.record(&spec.id, TaskEventKind::Started { pid: child.pid(), cpus: cpus.to_string() });
    }
    if let Some(key) = child.key() {
        let _ = orders.key.set(key);
    }
    if spec.hold {
        agent.record(&spec.id, TaskEventKind::Armed);
    }
    let (child, missing, doomed) = (Mutex::new(child), Mutex::default(), Mutex::default());
    let probes = Probes {
        agent,
        spec,
        prepared: &prepared,
        child: &child,
        log: &ears.log,
        missing: &missing,
        doomed: &doomed,
    };
    let life = Life::new(spec.hold.then_some(turn.patience), spec.deadline, spec.stop, at);
    let mut running = Running {
        probes,
        ears,
        turn,
        timer: Box::pin(sleep_until(life.wake_at().into())),
        life,
        ready: if spec.hold { ReadyWait::none() } else { ReadyWait::start(probes, at) },
        held: spec.hold,
        started: at,
        started_unix_us: unix_us(),
        stall: None,
        over_at: None,
        cpus,
        counters,
    };
    if !spec.hold {
        running.count_time();
    }
    let over = running.watch(&exited, &mut pipes, outputs, &mut orders.wish).await;
    let ended = Instant::now();
    let (started, started_unix_us) = (running.started, running.started_unix_us);
    let (life, cpus, counters) = running.into_parts();
    let (child, doomed) = (unlocked(child), unlocked(doomed));
    let killed = match over {
        Over::Exited => false,
        Over::MustGo => true,
        Over::NeverRan(unstarted) => {
            kill(agent, &spec.id, child).await;
            orders.list_by(None);
            return over_at_once(unstarted, started);
        }
    };
    let finished = Finished { child, doomed, pipes, ears, life, killed, cpus, counters, started, ended };
    let end = end::end(agent, spec, outputs, finished).await;
    orders.list_by(None);
    Lived { end, started, started_unix_us }
}

fn unlocked<T>(mutex: Mutex<T>) -> T {
    mutex.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Why the loop is over.
enum Over {
    /// The first process has ended.
    Exited,
    /// The tree has to be killed.
    MustGo,
    /// It was released and could not execute its command.
    NeverRan(Unstarted),
}

/// What happened.
enum Happened {
    Exited,
    Wish,
    Ready,
    NotReady,
    Time,
    /// Time of all rounds is over.
    AllTime,
    /// Lines may be reported.
    Lines,
    /// It is to be seen whether the task does something.
    Look,
}

/// A task with a process.
struct Running<'a> {
    probes: Probes<'a>,
    ears: &'a Ears,
    turn: Turn,
    life: Life,
    /// For the next thing that `life` waits for.
    timer: Pin<Box<Sleep>>,
    ready: ReadyWait<'a>,
    /// Waits at the barrier.
    held: bool,
    /// From when its time counts.
    started: Instant,
    /// The same by the UTC clock, in microseconds.
    started_unix_us: u64,
    /// Once its time counts.
    stall: Option<StallWatch>,
    /// When the time of all rounds is over.
    over_at: Option<Instant>,
    /// CPUs its processes were seen to be allowed.
    cpus: CpuSet,
    /// Machine-wide counters at `started`.
    counters: Option<Counters>,
}

impl<'a> Running<'a> {
    async fn watch(
        &mut self,
        exited: &AsyncFd<OwnedFd>,
        pipes: &mut Pipes,
        outputs: &Outputs,
        wish: &mut watch::Receiver<Wish>,
    ) -> Over {
        loop {
            // Output comes last, or a task that writes without pause would be deaf to everything else.
            let look_at = self.stall.as_ref().map(StallWatch::next);
            let happened = tokio::select! {
                biased;
                _ = exited.readable() => Happened::Exited,
                Ok(()) = wish.changed() => Happened::Wish,
                () = self.timer.as_mut() => Happened::Time,
                in_time = self.ready.outcome() => if in_time { Happened::Ready } else { Happened::NotReady },
                () = until(self.over_at.map(Into::into)) => Happened::AllTime,
                () = until(look_at.map(Into::into)) => Happened::Look,
                () = until(self.ears.lines_due()) => Happened::Lines,
                () = pipes.pump(self.probes.agent, outputs, self.ears) => continue,
            };
            let input = match happened {
                Happened::Exited => {
                    if let Err(unstarted) = self.catch_up_with_release(wish).await {
                        return Over::NeverRan(unstarted);
                    }
                    self.cpus = self.cpus.union(&cpus::of_first_process(&self.child(), self.id()));
                    return Over::Exited;
                }
                Happened::Time => Some(Input::Tick),
                Happened::AllTime => {
                    self.over_at = None;
                    Some(Input::Stop)
                }
                Happened::Lines => {
                    if let Some(lines) = self.ears.take_lines() {
                        self.probes.agent.record(self.id(), lines);
                    }
                    None
                }
                Happened::Look => {
                    self.look_for_signs();
                    None
                }
                Happened::Ready => {
                    self.on_ready();
                    None
                }
                Happened::NotReady => Some(self.on_not_ready()),
                Happened::Wish => {
                    let wish = *wish.borrow_and_update();
                    if let Err(unstarted) = self.on_release(wish).await {
                        return Over::NeverRan(unstarted);
                    }
                    match wish.stop {
                        Stop::No => None,
                        Stop::Policy => Some(Input::Stop),
                        Stop::Kill => Some(Input::Kill),
                    }
                }
            };
            if let Some(input) = input
                && self.step(input)
            {
                return Over::MustGo;
            }
        }
    }

    /// Lets the state machine decide. Returns whether the tree has to be killed.
    fn step(&mut self, input: Input) -> bool {
        let effect = self.life.step(Instant::now(), input);
        self.timer.as_mut().reset(self.life.wake_at().into());
        match effect {
            None => return false,
            Some(Effect::KillTree) => self.look_at_cpus(),
            Some(Effect::Signal(signal)) => {
                self.look_at_cpus();
                if let Err(error) = self.child().signal(signal) {
                    tracing::warn!(task = %self.id(), error = %chain(&error), "cannot be asked to stop");
                }
            }
        }
        effect == Some(Effect::KillTree)
    }

    fn on_ready(&mut self) {
        self.ready = ReadyWait::none();
        self.look_at_cpus();
        let after = self.started.elapsed();
        self.probes.agent.record(self.id(), TaskEventKind::Ready { after });
    }

    fn on_not_ready(&mut self) -> Input {
        self.ready = ReadyWait::none();
        let missing = self.probes.missing.lock().unwrap_or_else(PoisonError::into_inner);
        Input::NotReady(format!("not ready after {:?}: {missing}", self.probes.spec.ready_within))
    }

    /// Lets a held task execute its command, if its barrier has opened.
    async fn on_release(&mut self, wish: Wish) -> Result<(), Unstarted> {
        let Some(at_ns) = wish.release_at_ns.filter(|_| self.held && wish.stop == Stop::No) else {
            return Ok(());
        };
        let Probes { agent, spec, .. } = self.probes;
        self.held = false;
        self.counters = count(agent, spec);
        // Does nothing if it is open.
        self.child().release()?;
        let (now, now_ns) = (Instant::now(), monotonic_ns());
        let opened_ns = wish.opened_ns.unwrap_or(now_ns);
        let since = Duration::from_nanos(now_ns.saturating_sub(opened_ns));
        self.started = now.checked_sub(since).unwrap_or(now);
        self.started_unix_us = unix_us().saturating_sub(u64::try_from(since.as_micros()).unwrap_or_default());
        let late_us = if at_ns == 0 { 0 } else { opened_ns.saturating_sub(at_ns) / 1000 };
        // The others of this barrier open their gates before this one waits for its `exec`.
        tokio::task::yield_now().await;
        agent.record(&spec.id, TaskEventKind::Released { late_us });
        self.child().await_exec()?;
        self.ready = ReadyWait::start(self.probes, self.started);
        self.life.step(self.started, Input::Released);
        self.timer.as_mut().reset(self.life.wake_at().into());
        self.count_time();
        Ok(())
    }

    /// Its time counts from now on.
    fn count_time(&mut self) {
        self.stall = self.probes.spec.stall.map(|limit| StallWatch::new(limit, Instant::now()));
        let (from, time) = match self.turn.time {
            Some((from, time)) => (from.unwrap_or(self.started), time),
            None => return,
        };
        self.over_at = from.checked_add(time);
    }

    /// Reports the task if it does nothing.
    fn look_for_signs(&mut self) {
        let pids = self.child().processes().unwrap_or_default();
        let signs = Signs::read(self.ears.heard(), &pids);
        let quiet = self.stall.as_mut().and_then(|watch| watch.look(Instant::now(), signs));
        if let Some(for_) = quiet {
            let what = stall::describe(&pids);
            tracing::warn!(task = %self.id(), ?for_, what, "does nothing");
            self.probes.agent.record(self.id(), TaskEventKind::Stalled { for_, what });
        }
    }

    /// A short task may be over before it is known here that the barrier's thread has opened its gate; the thread says so
    /// right after.
    async fn catch_up_with_release(&mut self, wish: &mut watch::Receiver<Wish>) -> Result<(), Unstarted> {
        let opened = self.held && self.child().key().is_some_and(|key| key.is_open());
        if !opened {
            return Ok(());
        }
        let told = wish.wait_for(|wish| wish.release_at_ns.is_some()).await.map(|wish| *wish);
        match told {
            Ok(wish) => self.on_release(wish).await,
            Err(_) => Ok(()),
        }
    }

    /// Adds the CPUs that any thread of a placed task may use now. To be called while all of its processes are there. A
    /// thread may have narrowed its own mask; one that may run elsewhere shows.
    fn look_at_cpus(&mut self) {
        if self.probes.prepared.cpus.is_some() {
            self.cpus = self.cpus.union(&cpus::of_all_threads(&self.child(), self.id()));
        }
    }

    fn child(&self) -> MutexGuard<'a, Child> {
        self.probes.child.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn id(&self) -> &'a TaskId {
        &self.probes.spec.id
    }

    /// What the end needs. Drops the probes that still run.
    fn into_parts(self) -> (Life, CpuSet, Option<Counters>) {
        (self.life, self.cpus, self.counters)
    }
}

/// Never returns without an instant.
pub(super) async fn until(at: Option<tokio::time::Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}
