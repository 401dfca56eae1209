//! Boots that the run itself asks for: how long a host may be away, and whether it is still another machine than it was before the
//! run. Owned by its host.

use std::time::Duration;

use crate::BootPolicy;

/// Longest distance of two tries to connect to a host that boots.
const SEEK: Duration = Duration::from_secs(2);

/// What the run has asked of a host that it can boot.
#[derive(Debug, Default)]
pub(crate) struct Reboot {
    within: Option<Duration>,
    /// It may be another machine than before the run.
    astray: bool,
    /// A former controller left it so: it may be booting right now.
    is_inherited: bool,
    /// The boot that is to end.
    leaves: Option<String>,
    /// Whether it was told so is not known.
    may_stay: bool,
    /// Until when it has to be ours again.
    until: Option<Duration>,
}

impl Reboot {
    /// Nothing was asked for by this controller yet.
    pub fn new(policy: Option<BootPolicy>) -> Self {
        let Some(BootPolicy { within, astray, leaves }) = policy else { return Self::default() };
        let may_stay = leaves.is_some();
        Self { within: Some(within), astray, is_inherited: astray, leaves, may_stay, until: None }
    }

    /// It is going to be made another machine.
    pub fn leave(&mut self) {
        self.astray |= self.within.is_some();
    }

    /// Whether it may be another machine than before the run.
    pub fn is_astray(&self) -> bool {
        self.astray
    }

    /// It is what it was, or nothing more can be done about that.
    pub fn settled(&mut self) {
        self.astray = false;
    }

    /// It leaves this boot, and has some time to come back.
    pub fn begun(&mut self, now: Duration, boot_id: Option<String>) {
        (self.leaves, self.may_stay) = (boot_id, false);
        self.until = Some(now.saturating_add(self.within.unwrap_or_default()));
    }

    /// It is connected. `false` if that is still the boot that was to end. Where it may never have been told, that boot stays in
    /// the end.
    pub fn connected(&mut self, now: Duration, boot_id: &str) -> bool {
        let stays = self.may_stay && self.until.is_some_and(|until| now >= until);
        if self.leaves.as_deref() == Some(boot_id) && !stays {
            return false;
        }
        (self.leaves, self.may_stay, self.is_inherited) = (None, false, false);
        true
    }

    /// It is ours again, or is not waited for any more.
    pub fn over(&mut self) {
        (self.until, self.leaves, self.may_stay, self.is_inherited) = (None, None, false, false);
    }

    /// Until when it is sought, if it boots because of us.
    pub fn until(&self) -> Option<Duration> {
        self.until
    }

    /// The connection is gone, or was not made: when to try again, if it boots because of us.
    pub fn seek(&mut self, now: Duration, longest: Duration) -> Option<Seek> {
        if std::mem::take(&mut self.is_inherited) {
            self.until = self.within.map(|within| now.saturating_add(within));
        }
        let until = self.until?;
        Some(if now < until {
            Seek::At(now.saturating_add(longest.min(SEEK)).min(until))
        } else {
            Seek::Over
        })
    }

    /// Why the host is not found, with what was asked of it.
    pub fn story(&self, why: &str) -> String {
        match (self.until, self.within) {
            (Some(_), Some(within)) => {
                format!("{why}; it was rebooted by this run, and was not back within {} s", within.as_secs())
            }
            _ => why.to_owned(),
        }
    }
}

/// Whether a host that boots is sought on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seek {
    /// Then.
    At(Duration),
    /// No more: its time is over.
    Over,
}
