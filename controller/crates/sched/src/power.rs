//! The last rung before a host is given up: it is switched off and on, if that can be done, and sought for a while. Owned by its
//! host.

use std::time::Duration;

use crate::PowerPolicy;

/// What may be done about a host that is lost, and what was done.
#[derive(Debug, Default)]
pub(crate) struct Power {
    policy: Option<PowerPolicy>,
    /// Times that its power was cycled.
    cycles: u32,
    /// Why it was cycled last, until the host is connected again: its new boot is what was asked for.
    intent: Option<String>,
    /// Until when it has to be ours again, after that.
    until: Option<Duration>,
}

impl Power {
    /// Nothing was done yet.
    pub fn new(policy: Option<PowerPolicy>) -> Self {
        Self { policy, ..Self::default() }
    }

    /// Takes note that the power is being cycled, if that may be done: not twice for one loss, and not more often than the plan
    /// says.
    pub fn cycle(&mut self, why: &str) -> bool {
        let may = self.until.is_none() && self.policy.is_some_and(|policy| self.cycles < policy.times);
        if may {
            self.cycles += 1;
            self.intent = Some(why.to_owned());
        }
        may
    }

    /// It was cycled: the host has some time to come back.
    pub fn cycled(&mut self, now: Duration) {
        self.until = self.policy.map(|policy| now.saturating_add(policy.within));
    }

    /// Until when the host has to come back, if its power was cycled.
    pub fn until(&self) -> Option<Duration> {
        self.until
    }

    /// The host is connected. Gives why its boot may have changed, if we asked for that.
    pub fn connected(&mut self) -> Option<String> {
        self.intent.take()
    }

    /// The host is ours again.
    pub fn came_back(&mut self) {
        self.until = None;
    }

    /// Why the host is given up, with what was done about it.
    pub fn story(&self, why: &str) -> String {
        let Some(policy) = self.policy.filter(|_| self.cycles > 0) else { return why.to_owned() };
        match self.until {
            Some(_) => {
                let within = policy.within.as_secs();
                format!("{why}; its power was cycled, and it was not back within {within} s")
            }
            None => {
                format!("{why}; its power was cycled {} times in this run, which is all it may", self.cycles)
            }
        }
    }
}
