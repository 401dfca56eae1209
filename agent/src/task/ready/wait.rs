//! Waiting for readiness within its time, as one arm of a task's loop.

use std::{
    future::Future,
    pin::Pin,
    time::{Duration, Instant},
};

use tokio::time::Sleep;

use super::Probes;

/// Longest time to wait; a longer one is cut to this (some 30 years), so that it is a point in time.
const MAX_WAIT: Duration = Duration::from_secs(1_000_000_000);

/// Waits for readiness; for ever when there is nothing (more) to wait for.
pub(in crate::task) struct ReadyWait<'a> {
    waiting: Option<Waiting<'a>>,
}

struct Waiting<'a> {
    all_hold: Pin<Box<dyn Future<Output = ()> + Send + 'a>>,
    time_is_up: Pin<Box<Sleep>>,
}

impl<'a> ReadyWait<'a> {
    /// Nothing to wait for.
    pub(in crate::task) fn none() -> Self {
        Self { waiting: None }
    }

    /// Probes the checks of a task that started at `from`.
    pub(in crate::task) fn start(probes: Probes<'a>, from: Instant) -> Self {
        if probes.spec.ready.is_empty() {
            return Self::none();
        }
        let until = from + probes.spec.ready_within.min(MAX_WAIT);
        let time_is_up = Box::pin(tokio::time::sleep_until(until.into()));
        Self { waiting: Some(Waiting { all_hold: Box::pin(probes.all_hold()), time_is_up }) }
    }

    /// Whether all checks held before the time was up.
    pub(in crate::task) async fn outcome(&mut self) -> bool {
        let Some(waiting) = &mut self.waiting else { return std::future::pending().await };
        tokio::select! {
            biased;
            () = waiting.all_hold.as_mut() => true,
            () = waiting.time_is_up.as_mut() => false,
        }
    }
}
