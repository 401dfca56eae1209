//! Which attempts are observed now. Shared by the service, which begins observations and waits for their ends, by tasks that end,
//! and by the observers themselves.
//!
//! Most attempts of a matrix of short trials are over before a sensor would be read for a second time. So an observation begins
//! as next to nothing: a place in the kernel's log and the kernel's taint, both looked at again when a task ends. Only an attempt
//! that lasts gets a thread that reads sensors.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak},
    thread,
    time::{Duration, Instant},
};

use drover_model::{AttemptId, HostEventKind};
use tokio::sync::watch;

use super::{kernel::Kernel, observer};
use crate::agent::Agent;

/// Longest time for an observer to write what it has after the last task.
const SETTLE: Duration = Duration::from_secs(5);

/// Sensors of an attempt are read after it has lasted this long, or an interval if that is shorter.
const PATIENCE: Duration = Duration::from_secs(1);

/// The observations.
#[derive(Debug, Default)]
pub struct Observatory {
    /// The way to the kernel's log of an attempt that is over, for the next one.
    spare: Mutex<Option<Kernel>>,
    /// Attempts that get a thread at a time, if they last until then; a tokio task waits for that as long as there are some.
    waiting: Mutex<VecDeque<(Instant, Weak<Observation>)>>,
    running: Mutex<HashMap<AttemptId, Arc<Observation>>>,
    /// What is remembered of attempts until they are forgotten.
    marks: Mutex<HashMap<AttemptId, Mark>>,
}

#[derive(Debug)]
struct Mark {
    /// When its first task came.
    begun: Instant,
    /// The first record of the kernel's log that came after its begin.
    kernel_from: Option<u64>,
}

/// One of them.
#[derive(Debug)]
pub(super) struct Observation {
    pub(super) attempt: AttemptId,
    pub(super) interval: Duration,
    /// What is looked at until there is a thread.
    early: Mutex<Option<Kernel>>,
    /// Something is to be looked at before it is time.
    hurry: Mutex<bool>,
    wake: Condvar,
    over: watch::Sender<bool>,
}

impl Observation {
    fn new(attempt: AttemptId, interval: Duration, kernel: Kernel) -> Self {
        Self {
            attempt,
            interval,
            early: Mutex::new(Some(kernel)),
            hurry: Mutex::new(false),
            wake: Condvar::new(),
            over: watch::Sender::new(false),
        }
    }

    /// Takes what was looked at so far, and says in the spool that sensors are read from now on. `None` if it is over already:
    /// then nobody was told of the sensors, and nobody will ask what they said.
    pub(super) fn take_over(&self, agent: &Agent, mut without: Vec<String>) -> Option<Kernel> {
        let mut early = lock(&self.early);
        if *self.over.borrow() || agent.registry().live_of(self.attempt).next().is_none() {
            return None;
        }
        let kernel = early.take()?;
        without.extend(kernel.missing());
        agent.record_host(self.attempt, HostEventKind::Observing { interval: self.interval, without });
        Some(kernel)
    }

    /// Waits until an instant, or until somebody wants it to look earlier.
    pub(super) fn wait_until(&self, at: Instant) {
        let hurry = lock(&self.hurry);
        let left = at.saturating_duration_since(Instant::now());
        let waited = self.wake.wait_timeout_while(hurry, left, |hurry| !*hurry);
        *waited.unwrap_or_else(PoisonError::into_inner).0 = false;
    }

    fn end(&self) {
        self.over.send_replace(true);
    }
}

impl Observatory {
    /// Begins to observe for an attempt that gets a task, if the lease asks for that and nobody does yet. To be called within a
    /// tokio runtime.
    pub fn begin(&self, agent: &Arc<Agent>, attempt: AttemptId) {
        let Some(interval) = agent.registry().observe() else { return };
        let mut running = lock(&self.running);
        if running.contains_key(&attempt) {
            return;
        }
        let kernel = lock(&self.spare).take().map_or_else(Kernel::open, Kernel::anew);
        let observation = Arc::new(Observation::new(attempt, interval, kernel));
        running.insert(attempt, Arc::clone(&observation));
        drop(running);
        let now = Instant::now();
        let begun = lock(&self.marks).entry(attempt).or_insert(Mark { begun: now, kernel_from: None }).begun;
        let mut waiting = lock(&self.waiting);
        waiting.push_back((begun + interval.min(PATIENCE), Arc::downgrade(&observation)));
        if waiting.len() == 1 {
            tokio::spawn(start_those_that_last(Arc::clone(agent)));
        }
    }

    /// When the first of those that wait is to get its thread.
    fn next_start(&self) -> Option<Instant> {
        lock(&self.waiting).front().map(|(at, _)| *at)
    }

    /// Takes the first of those that wait; `None` if it is over.
    fn take_waiting(&self) -> Option<Arc<Observation>> {
        let (_, observation) = lock(&self.waiting).pop_front()?;
        observation.upgrade().filter(|observation| !*observation.over.borrow())
    }

    /// A task of the attempt is about to be over: what its observation saw by then has to be known before.
    pub fn task_ends(&self, agent: &Agent, attempt: AttemptId) {
        let observation = lock(&self.running).get(&attempt).cloned();
        if let Some(observation) = observation
            && let Some(kernel) = lock(&observation.early).as_mut()
        {
            kernel.look(agent, attempt, true);
        }
    }

    /// A task of the attempt is over: if it was the last one, the observation ends, at once or by its thread.
    pub fn task_ended(&self, agent: &Agent, attempt: AttemptId) {
        let Some(observation) = lock(&self.running).get(&attempt).cloned() else { return };
        if lock(&observation.early).is_some() {
            self.end_if_idle(agent, attempt);
        } else {
            *lock(&observation.hurry) = true;
            observation.wake.notify_one();
        }
    }

    /// Ends the observation of an attempt if no task of it is left. A task that comes afterwards begins another one.
    pub(super) fn end_if_idle(&self, agent: &Agent, attempt: AttemptId) -> bool {
        let mut running = lock(&self.running);
        let idle = agent.registry().live_of(attempt).next().is_none();
        if idle && let Some(observation) = running.remove(&attempt) {
            observation.end();
            if let Some(kernel) = lock(&observation.early).take() {
                *lock(&self.spare) = Some(kernel);
            }
        }
        idle
    }

    /// Notes where in the kernel's log an attempt began; what was noted first stays.
    pub(super) fn kernel_from(&self, attempt: AttemptId, sequence: u64) {
        if let Some(mark) = lock(&self.marks).get_mut(&attempt) {
            mark.kernel_from.get_or_insert(sequence);
        }
    }

    /// The first record of the kernel's log that came after the begin of an attempt, if this agent knows it.
    #[must_use]
    pub fn kernel_since(&self, attempt: AttemptId) -> Option<u64> {
        lock(&self.marks).get(&attempt)?.kernel_from
    }

    /// Nobody asks for these attempts any more.
    pub fn forget(&self, attempts: &[AttemptId]) {
        let mut marks = lock(&self.marks);
        marks.retain(|attempt, _| !attempts.contains(attempt));
    }

    /// Ends this observation, whatever runs.
    fn remove(&self, observation: &Arc<Observation>) {
        observation.end();
        // The attempt may have another one by now.
        let mut running = lock(&self.running);
        if running.get(&observation.attempt).is_some_and(|present| Arc::ptr_eq(present, observation)) {
            running.remove(&observation.attempt);
        }
    }

    /// Waits until all samples of an attempt without tasks are written.
    pub async fn settled(&self, agent: &Agent, attempt: AttemptId) {
        let observation = lock(&self.running).get(&attempt).cloned();
        if agent.registry().live_of(attempt).next().is_some() {
            return;
        }
        if let Some(observation) = observation {
            let mut over = observation.over.subscribe();
            let _ = tokio::time::timeout(SETTLE, over.wait_for(|over| *over)).await;
        }
    }
}

/// Gives those attempts a thread that last; ends when none waits.
async fn start_those_that_last(agent: Arc<Agent>) {
    while let Some(at) = agent.observatory.next_start() {
        tokio::time::sleep_until(at.into()).await;
        if let Some(observation) = agent.observatory.take_waiting() {
            start_thread(&agent, observation);
        }
    }
}

/// The attempt has lasted: reads its sensors from now on.
fn start_thread(agent: &Arc<Agent>, observation: Arc<Observation>) {
    let (observing, observed) = (Arc::clone(agent), Arc::clone(&observation));
    let observe = move || {
        observer::run(&observing, &observed);
        observing.observatory.remove(&observed);
    };
    if let Err(error) = thread::Builder::new().name("observer".to_owned()).spawn(observe) {
        agent.observatory.remove(&observation);
        let why = format!("nothing is observed: no thread for it: {error}");
        agent.record_host(observation.attempt, HostEventKind::Blind { why });
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
