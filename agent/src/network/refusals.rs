//! Who was refused, for the log: a scanner must not fill it.

use std::time::{Duration, Instant};

/// Most refusals that are logged one by one in a [`PERIOD`].
const MAX_LOGGED: u32 = 10;

/// Time over which they are counted.
const PERIOD: Duration = Duration::from_secs(60);

/// Counts refusals.
#[derive(Debug)]
pub(super) struct Refusals {
    since: Instant,
    count: u32,
}

/// What to do about one.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    /// Log it.
    pub(super) log: bool,
    /// So many were not logged in the period before, which is over.
    pub(super) unsaid: u32,
}

impl Refusals {
    pub(super) fn new(now: Instant) -> Self {
        Self { since: now, count: 0 }
    }

    /// Counts one more.
    pub(super) fn count(&mut self, now: Instant) -> Verdict {
        let mut unsaid = 0;
        if now.saturating_duration_since(self.since) >= PERIOD {
            unsaid = self.count.saturating_sub(MAX_LOGGED);
            *self = Self::new(now);
        }
        self.count = self.count.saturating_add(1);
        Verdict { log: self.count <= MAX_LOGGED, unsaid }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expect_a_few_logged_and_the_rest_counted_when_many_are_refused() {
        let start = Instant::now();
        let mut refusals = Refusals::new(start);
        let logged = (0..25).filter(|_| refusals.count(start).log).count();
        assert_eq!(logged, 10);
        let later = start + PERIOD;
        assert_eq!(refusals.count(later), Verdict { log: true, unsaid: 15 });
        assert_eq!(refusals.count(later), Verdict { log: true, unsaid: 0 });
    }
}
