//! Notices loads that give nothing for too long, whatever their processes do. Times are those of the controller's clock. Pure.

use std::time::Duration;

/// What an agent sees of a task that does nothing comes first: it can say what the task waits for.
const SLACK: Duration = Duration::from_secs(2);

/// When each load last gave something.
#[derive(Debug)]
pub struct Silence {
    allowed: Duration,
    /// `None` while it is not expected to give anything.
    last: Vec<Option<Duration>>,
    /// Hosts that cannot be heard.
    away: usize,
}

impl Silence {
    /// So many loads, each of which has to give something within `allowed`.
    pub fn new(loads: usize, allowed: Duration) -> Self {
        Self { allowed: allowed + SLACK, last: vec![None; loads], away: 0 }
    }

    /// A load began, or gave something.
    pub fn broken(&mut self, load: usize, now: Duration) {
        if let Some(last) = self.last.get_mut(load) {
            *last = Some(now);
        }
    }

    /// A load is over.
    pub fn over(&mut self, load: usize) {
        if let Some(last) = self.last.get_mut(load) {
            *last = None;
        }
    }

    /// A host cannot be heard: silence means nothing.
    pub fn host_away(&mut self) {
        self.away += 1;
    }

    /// A host can be heard again; what was said meanwhile is on its way.
    pub fn host_back(&mut self, now: Duration) {
        self.away = self.away.saturating_sub(1);
        self.last.iter_mut().flatten().for_each(|last| *last = now);
    }

    /// When silence next means something.
    pub fn due(&self) -> Option<Duration> {
        if self.away > 0 {
            return None;
        }
        self.last.iter().flatten().min().map(|last| *last + self.allowed)
    }

    /// The load that was silent for too long, if one was.
    pub fn too_long(&self, now: Duration) -> Option<usize> {
        if self.away > 0 {
            return None;
        }
        self.last.iter().position(|last| last.is_some_and(|last| last + self.allowed <= now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn expect_the_silent_load_when_others_go_on() {
        let mut silence = Silence::new(2, at(10));
        assert_eq!((silence.due(), silence.too_long(at(1000))), (None, None), "none has begun");
        silence.broken(0, at(1));
        silence.broken(1, at(2));
        assert_eq!(silence.due(), Some(at(13)));
        silence.broken(0, at(9));
        assert_eq!((silence.too_long(at(13)), silence.too_long(at(14))), (None, Some(1)));
        silence.over(1);
        assert_eq!((silence.too_long(at(14)), silence.due()), (None, Some(at(21))));
    }

    #[test]
    fn expect_nothing_while_a_host_is_away_and_the_whole_time_again_when_it_is_back() {
        let mut silence = Silence::new(1, at(10));
        silence.broken(0, at(1));
        silence.host_away();
        silence.host_away();
        silence.host_back(at(50));
        assert_eq!((silence.due(), silence.too_long(at(100))), (None, None));
        silence.host_back(at(100));
        assert_eq!((silence.due(), silence.too_long(at(111))), (Some(at(112)), None));
        assert_eq!(silence.too_long(at(112)), Some(0));
    }
}
