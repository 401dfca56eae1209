//! Notices loads that give nothing for too long, whatever their processes do. Times are those of the controller's clock. Pure.

use std::time::Duration;

/// What an agent sees of a task that does nothing comes first: it can say what the task waits for.
const SLACK: Duration = Duration::from_secs(2);

/// When each load last gave something.
#[derive(Debug)]
pub struct Silence {
    allowed: Duration,
    loads: Vec<Load>,
    /// Hosts that cannot be heard.
    away: usize,
}

#[derive(Clone, Debug, Default)]
struct Load {
    /// `None` while it is not expected to give anything.
    last: Option<Duration>,
    /// It was silent for too long, and its host is asked whether it is there at all.
    asked: bool,
}

impl Silence {
    /// So many loads, each of which has to give something within `allowed`.
    pub fn new(loads: usize, allowed: Duration) -> Self {
        Self { allowed: allowed + SLACK, loads: vec![Load::default(); loads], away: 0 }
    }

    /// A load began, or gave something.
    pub fn broken(&mut self, load: usize, now: Duration) {
        if let Some(load) = self.loads.get_mut(load) {
            *load = Load { last: Some(now), asked: false };
        }
    }

    /// A load is over.
    pub fn over(&mut self, load: usize) {
        if let Some(load) = self.loads.get_mut(load) {
            *load = Load::default();
        }
    }

    /// A host cannot be heard: silence means nothing.
    pub fn host_away(&mut self) {
        self.away += 1;
    }

    /// A host can be heard again; what was said meanwhile is on its way.
    pub fn host_back(&mut self, now: Duration) {
        self.away = self.away.saturating_sub(1);
        for load in self.loads.iter_mut().filter(|load| load.last.is_some()) {
            *load = Load { last: Some(now), asked: false };
        }
    }

    /// When silence next means something.
    pub fn due(&self) -> Option<Duration> {
        let open = self.loads.iter().filter(|load| self.away == 0 && !load.asked);
        open.filter_map(|load| load.last).min().map(|last| last + self.allowed)
    }

    /// Loads that were silent for too long; each once. Whether their hosts can be heard is to be found out: a link that was
    /// cut a moment ago looks the same.
    pub fn too_long(&mut self, now: Duration) -> Vec<usize> {
        if self.due().is_none_or(|due| due > now) {
            return Vec::new();
        }
        let allowed = self.allowed;
        let too_long = |load: &Load| !load.asked && load.last.is_some_and(|last| last + allowed <= now);
        let found = self.loads.iter_mut().enumerate().filter(|(_, load)| too_long(load));
        found
            .map(|(place, load)| {
                load.asked = true;
                place
            })
            .collect()
    }

    /// The host of a load is there: whether the load is silent all the same.
    pub fn is_confirmed(&self, load: usize) -> bool {
        self.away == 0 && self.loads.get(load).is_some_and(|load| load.asked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn expect_the_silent_load_once_when_others_go_on() {
        let mut silence = Silence::new(2, at(10));
        assert_eq!((silence.due(), silence.too_long(at(1000))), (None, vec![]), "none has begun");
        silence.broken(0, at(1));
        silence.broken(1, at(2));
        assert_eq!(silence.due(), Some(at(13)));
        silence.broken(0, at(9));
        assert_eq!((silence.too_long(at(13)), silence.too_long(at(14))), (vec![], vec![1]));
        assert_eq!((silence.too_long(at(15)), silence.due()), (vec![], Some(at(21))));
        assert!(silence.is_confirmed(1) && !silence.is_confirmed(0));
        silence.over(1);
        assert!(!silence.is_confirmed(1));
    }

    #[test]
    fn expect_no_silence_when_a_load_speaks_before_its_host_has_answered() {
        let mut silence = Silence::new(1, at(10));
        silence.broken(0, at(1));
        assert_eq!(silence.too_long(at(13)), [0]);
        silence.broken(0, at(14));
        assert!(!silence.is_confirmed(0));
        assert_eq!(silence.due(), Some(at(26)));
    }

    #[test]
    fn expect_nothing_while_a_host_is_away_and_the_whole_time_again_when_it_is_back() {
        let mut silence = Silence::new(1, at(10));
        silence.broken(0, at(1));
        assert_eq!(silence.too_long(at(13)), [0]);
        silence.host_away();
        assert!(!silence.is_confirmed(0), "it was the link");
        silence.host_away();
        silence.host_back(at(50));
        assert_eq!((silence.due(), silence.too_long(at(100))), (None, vec![]));
        silence.host_back(at(100));
        assert_eq!((silence.due(), silence.too_long(at(111))), (Some(at(112)), vec![]));
        assert_eq!(silence.too_long(at(112)), [0]);
    }
}
