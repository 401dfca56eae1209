//! What the client found in each interval, for those who follow a long run. A thread of its own takes it from the threads
//! that work, one interval after the other; together the intervals are the whole run.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::client::ClientError;
use crate::engine::Findings;
use crate::latency::LatencyError;
use crate::report::{ClientReport, write};
use crate::sys::usage_of_self;

/// Findings of one thread in the present interval.
#[derive(Debug)]
pub(crate) struct Interval(Mutex<Findings>);

impl Interval {
    /// Nothing so far.
    pub(crate) fn new() -> Result<Self, LatencyError> {
        Findings::new().map(|findings| Self(Mutex::new(findings)))
    }

    /// To count in it.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Findings> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A line of standard output.
#[derive(Debug, Serialize)]
struct Line {
    progress: ClientReport,
}

/// Writes a line for each interval of length `every`, and for what is left of one when `over` is closed. `report` makes the
/// report of an interval from its findings, its length and the CPU time that was used in it.
pub(crate) fn follow(
    every: Duration,
    intervals: &[Interval],
    over: &Receiver<()>,
    report: impl Fn(&Findings, Duration, Duration) -> Result<ClientReport, ClientError>,
) -> Result<(), ClientError> {
    let (mut begin, mut cpu) = (Instant::now(), usage_of_self().cpu);
    let mut due = begin + every;
    let mut sum = Findings::new()?;
    loop {
        let ended = over.recv_timeout(due.saturating_duration_since(Instant::now()));
        (sum.tally, sum.last_end) = Default::default();
        sum.latencies.clear();
        for interval in intervals {
            let mut found = interval.lock();
            sum.merge(&found);
            (found.tally, found.last_end) = Default::default();
            found.latencies.clear();
        }
        let (now, used) = (Instant::now(), usage_of_self().cpu);
        let progress = report(&sum, now - begin, used.saturating_sub(cpu))?;
        write(&Line { progress }, &mut io::stdout().lock())?;
        if ended != Err(RecvTimeoutError::Timeout) {
            return Ok(());
        }
        (begin, cpu) = (now, used);
        // An interval that could not be reported in time is longer, and the next one shorter.
        due = (due + every).max(now);
    }
}
