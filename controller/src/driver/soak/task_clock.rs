//! How long a task has worked when it reports something, told from stamps of its host's clock, which anybody may set
//! meanwhile. Pure, and the same each time that the same reports are read.

use std::time::Duration;

/// A round can seem shorter than it was by this much without anybody having set the clock.
const BLUR: Duration = Duration::from_secs(1);

/// Counts the time of one task.
#[derive(Debug)]
pub struct TaskClock {
    last_unix_us: u64,
    elapsed: Duration,
}

/// What a report says of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    /// Since the task began.
    pub elapsed: Duration,
    /// The clock was set since the report before.
    pub was_set: bool,
}

impl TaskClock {
    /// The task begins at this time of its host's clock, in microseconds since the Unix epoch.
    pub fn new(at_unix_us: u64) -> Self {
        Self { last_unix_us: at_unix_us, elapsed: Duration::ZERO }
    }

    /// The next report. `took` is what of the time since the one before was measured by a clock that is never set, and `most`
    /// the longest time that there can have been between the two.
    pub fn report(&mut self, at_unix_us: u64, took: Option<Duration>, most: Duration) -> Told {
        let took = took.unwrap_or_default();
        let passed = at_unix_us.checked_sub(self.last_unix_us).map(Duration::from_micros);
        let plausible = passed.filter(|passed| *passed + BLUR >= took && *passed <= took + most);
        self.last_unix_us = at_unix_us;
        self.elapsed += plausible.unwrap_or(took);
        Told { elapsed: self.elapsed, was_set: plausible.is_none() }
    }

    /// Time from the begin of the task to its last report.
    pub fn elapsed(&self) -> Duration {
        self.elapsed
    }

    /// Time since the task began, of a report that comes behind the last one and changes nothing.
    pub fn at(&self, at_unix_us: u64) -> Duration {
        self.elapsed + Duration::from_micros(at_unix_us.saturating_sub(self.last_unix_us))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: Duration = Duration::from_secs(60);
    const HOUR: u64 = 3_600_000_000;

    fn seconds(time: Duration) -> u64 {
        time.as_secs()
    }

    #[test]
    fn expect_the_time_since_the_begin_when_nobody_sets_the_clock() {
        let mut clock = TaskClock::new(HOUR);
        let round = Some(Duration::from_secs(9));
        assert_eq!(
            clock.report(HOUR + 10_000_000, round, MOST),
            Told { elapsed: Duration::from_secs(10), was_set: false }
        );
        assert_eq!(seconds(clock.report(HOUR + 12_000_000, None, MOST).elapsed), 12);
        assert_eq!(seconds(clock.at(HOUR + 15_000_000)), 15);
    }

    #[test]
    fn expect_what_a_round_took_when_the_clock_was_set_back_or_ahead() {
        for set in [0, 2 * HOUR] {
            let mut clock = TaskClock::new(HOUR);
            clock.report(HOUR + 10_000_000, Some(Duration::from_secs(10)), MOST);
            let told = clock.report(set + 10_000_000, Some(Duration::from_secs(10)), MOST);
            assert_eq!(told, Told { elapsed: Duration::from_secs(20), was_set: true });
            let told = clock.report(set + 20_000_000, Some(Duration::from_secs(10)), MOST);
            assert_eq!(told, Told { elapsed: Duration::from_secs(30), was_set: false });
        }
    }

    #[test]
    fn expect_time_to_stand_still_when_the_clock_was_set_between_lines() {
        let mut clock = TaskClock::new(HOUR);
        clock.report(HOUR + 1_000_000, None, MOST);
        assert_eq!(clock.report(500, None, MOST), Told { elapsed: Duration::from_secs(1), was_set: true });
        assert_eq!(seconds(clock.report(1_000_500, None, MOST).elapsed), 2);
    }
}
