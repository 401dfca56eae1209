//! Which connection is started when. Shared by the client's threads.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::report::count_to_f64;

/// A connection to be started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Job {
    /// Its number, from 0.
    pub index: u64,
    /// When it is due; `None` in a closed loop, where it is as soon as there is room.
    pub due: Option<Instant>,
}

/// Hands out connections until their number or the time is used up.
#[derive(Debug)]
pub(crate) struct Schedule {
    next: AtomicU64,
    total: u64,
    begin: Instant,
    end: Option<Instant>,
    rate: Option<f64>,
}

impl Schedule {
    /// At most `total` connections, none after `duration`, `rate` of them per second if that is given.
    pub(crate) fn new(
        begin: Instant,
        total: Option<u64>,
        duration: Option<Duration>,
        rate: Option<f64>,
    ) -> Self {
        let end = duration.and_then(|duration| begin.checked_add(duration));
        Self { next: AtomicU64::new(0), total: total.unwrap_or(u64::MAX), begin, end, rate }
    }

    /// The next connection, or `None` if no further one is to be started.
    pub(crate) fn claim(&self, now: Instant) -> Option<Job> {
        let over = |at: Instant| self.end.is_some_and(|end| at >= end);
        // Checked before counting up, so that the counter cannot run away.
        if over(now) || self.next.load(Ordering::Relaxed) >= self.total {
            return None;
        }
        let index = self.next.fetch_add(1, Ordering::Relaxed);
        if index >= self.total {
            return None;
        }
        let Some(rate) = self.rate else { return Some(Job { index, due: None }) };
        // Connection i is due i / rate after the begin, whatever became of the others: a late one does not delay its
        // followers, and its own delay counts as latency (no coordinated omission).
        let after = Duration::try_from_secs_f64(count_to_f64(index) / rate).ok()?;
        let due = self.begin.checked_add(after)?;
        if over(due) { None } else { Some(Job { index, due: Some(due) }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expect_as_many_as_planned_when_the_number_is_given() {
        let now = Instant::now();
        let schedule = Schedule::new(now, Some(3), None, None);
        let jobs: Vec<_> = std::iter::from_fn(|| schedule.claim(now)).collect();
        assert_eq!(jobs, [0, 1, 2].map(|index| Job { index, due: None }));
        assert_eq!(schedule.claim(now), None);
    }

    #[test]
    fn expect_due_times_by_rate_and_none_beyond_the_end() {
        let now = Instant::now();
        let schedule = Schedule::new(now, None, Some(Duration::from_secs(1)), Some(4.0));
        let due: Vec<_> = std::iter::from_fn(|| schedule.claim(now)).filter_map(|job| job.due).collect();
        assert_eq!(due, [0, 250, 500, 750].map(|millis| now + Duration::from_millis(millis)));
    }

    #[test]
    fn expect_none_when_the_time_is_over() {
        let now = Instant::now();
        let schedule = Schedule::new(now, Some(3), Some(Duration::from_secs(1)), None);
        assert!(schedule.claim(now).is_some());
        assert_eq!(schedule.claim(now + Duration::from_secs(1)), None);
    }
}
