//! The scheduler itself: takes events, keeps the state of the run, gives effects. Called by the driver.

use std::time::Duration;

use drover_model::{AttemptId, Name};

use crate::{Effects, Event, PastAttempt, Plan, PlanError, Progress};

/// The state of one run.
#[derive(Debug)]
pub struct Scheduler {
    plan: Plan,
}

impl Scheduler {
    /// A scheduler that will run the plan from where former controllers left it.
    ///
    /// `past` are the stored attempts, in any order; `journalled` are all attempts in the journal with their hosts, in
    /// the order in which they were journalled (those that are stored are passed over).
    ///
    /// # Errors
    ///
    /// If the plan contradicts itself.
    pub fn new(
        plan: Plan,
        past: impl IntoIterator<Item = PastAttempt>,
        journalled: impl IntoIterator<Item = (AttemptId, Name)>,
    ) -> Result<Self, PlanError> {
        drop((past.into_iter(), journalled.into_iter()));
        Ok(Self { plan })
    }

    /// Takes one event in; appends what is to be done because of it. `now` is the time since the driver's start.
    pub fn step(&mut self, now: Duration, event: Event, effects: &mut Effects) {
        drop((now, event, effects, &self.plan));
    }

    /// The next time at which silence means something; `TimerElapsed` is due then. `None` while nothing is waited for by
    /// time.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Duration> {
        None
    }

    /// Where the run stands.
    #[must_use]
    pub fn progress(&self) -> Progress {
        Progress::default()
    }
}
