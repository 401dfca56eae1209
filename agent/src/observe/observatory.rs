//! Which attempts are observed now. Shared by the service, which begins observations and waits for their ends, and by the
//! observers themselves.

use std::{
    collections::HashMap,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use drover_model::{AttemptId, HostEventKind};
use tokio::sync::watch;

use super::observer;
use crate::agent::Agent;

/// Longest time for an observer to write what it has after the last task.
const SETTLE: Duration = Duration::from_secs(5);

/// The observations.
#[derive(Debug, Default)]
pub struct Observatory {
    running: Mutex<HashMap<AttemptId, Arc<Observation>>>,
    /// The first record of the kernel's log that came after the begin of an attempt.
    kernel_from: Mutex<HashMap<AttemptId, u64>>,
}

/// One of them, as others see it.
#[derive(Debug)]
pub(super) struct Observation {
    /// Something is to be looked at before it is time.
    early: Mutex<bool>,
    wake: Condvar,
    over: watch::Sender<bool>,
}

impl Observation {
    /// Waits until an instant, or until somebody wants it to look earlier.
    pub(super) fn wait_until(&self, at: Instant) {
        let early = lock(&self.early);
        let left = at.saturating_duration_since(Instant::now());
        let waited = self.wake.wait_timeout_while(early, left, |early| !*early);
        *waited.unwrap_or_else(PoisonError::into_inner).0 = false;
    }
}

impl Observatory {
    /// Begins to observe for an attempt that got a task, if the lease asks for that and nobody does yet.
    pub fn begin(&self, agent: &Arc<Agent>, attempt: AttemptId) {
        let Some(interval) = agent.registry().observe() else { return };
        let mut running = lock(&self.running);
        if running.contains_key(&attempt) {
            return;
        }
        let observation = Arc::new(Observation {
            early: Mutex::new(false),
            wake: Condvar::new(),
            over: watch::Sender::new(false),
        });
        running.insert(attempt, Arc::clone(&observation));
        drop(running);
        let observing = Arc::clone(agent);
        let observe = move || {
            observer::run(&observing, attempt, interval, &observation);
            // Also if it could not even begin.
            observing.observatory.remove(attempt);
        };
        if let Err(error) = thread::Builder::new().name("observer".to_owned()).spawn(observe) {
            self.remove(attempt);
            let why = format!("nothing is observed: no thread for it: {error}");
            agent.record_host(attempt, HostEventKind::Blind { why });
        }
    }

    /// Ends an observation if no task of the attempt is left. A task that comes afterwards begins another one.
    pub(super) fn end_if_idle(&self, agent: &Agent, attempt: AttemptId) -> bool {
        let mut running = lock(&self.running);
        let idle = agent.registry().live_of(attempt).next().is_none();
        if idle && let Some(observation) = running.remove(&attempt) {
            observation.over.send_replace(true);
        }
        idle
    }

    /// Notes where in the kernel's log an attempt began; what was noted first stays.
    pub(super) fn kernel_from(&self, attempt: AttemptId, sequence: u64) {
        lock(&self.kernel_from).entry(attempt).or_insert(sequence);
    }

    /// The first record of the kernel's log that came after the begin of an attempt, if it was observed by this agent.
    #[must_use]
    pub fn kernel_since(&self, attempt: AttemptId) -> Option<u64> {
        lock(&self.kernel_from).get(&attempt).copied()
    }

    /// Nobody asks for these attempts any more.
    pub fn forget(&self, attempts: &[AttemptId]) {
        let mut from = lock(&self.kernel_from);
        from.retain(|attempt, _| !attempts.contains(attempt));
    }

    fn remove(&self, attempt: AttemptId) {
        if let Some(observation) = lock(&self.running).remove(&attempt) {
            observation.over.send_replace(true);
        }
    }

    /// A task of the attempt has ended: its observer sees whether it was the last one.
    pub fn look_again(&self, attempt: AttemptId) {
        if let Some(observation) = lock(&self.running).get(&attempt) {
            *lock(&observation.early) = true;
            observation.wake.notify_one();
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
