//! Who holds the host: a pure state machine, called by the service for every request.
//!
//! One run holds the host at a time. Each time a run takes it, also the one that already has it, the epoch grows; a
//! request with another run or epoch than the present ones is refused, so a controller that was replaced notices at its
//! next request. The epoch never goes back, also across restarts of the agent: the caller spools the lease before it
//! answers.
//!
//! A lease ends when it is released, or when another run asks for the host after it expired: no renewal for its time to
//! live, and no task running. Until somebody else asks, an expired lease is as good as a fresh one.

use std::time::{Duration, Instant};

use drover_model::{LeaseEpoch, LeaseInfo, RunId};
use drover_proto::{LeaseRef, Refusal};
use serde::{Deserialize, Serialize};

/// A lease as it is spooled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// Who holds the host.
    pub info: LeaseInfo,
    /// Time without renewal after which another run may take it.
    pub ttl: Duration,
    /// Time between two samples of the sensors while tasks of the run are here; `None` for no observation.
    #[serde(default)]
    pub observe: Option<Duration>,
}

/// What the agent knows of leases.
#[derive(Debug, Default)]
pub struct LeaseBook {
    /// The highest epoch ever given.
    epoch: LeaseEpoch,
    held: Option<Held>,
}

#[derive(Debug)]
struct Held {
    grant: Grant,
    renewed: Instant,
}

impl LeaseBook {
    /// The state found in the spool. A lease counts as renewed now: its holder had no agent to renew it at.
    #[must_use]
    pub fn restore(epoch: LeaseEpoch, grant: Option<Grant>, now: Instant) -> Self {
        let epoch = epoch.max(grant.as_ref().map(|grant| grant.info.epoch).unwrap_or_default());
        Self { epoch, held: grant.map(|grant| Held { grant, renewed: now }) }
    }

    /// Who holds the host.
    #[must_use]
    pub fn holder(&self) -> Option<&LeaseInfo> {
        self.held.as_ref().map(|held| &held.grant.info)
    }

    /// What a lease taken by `run` now would be; [`Self::install`] makes it so, once it is spooled. `busy` says whether
    /// any task runs.
    ///
    /// # Errors
    /// When another run holds the host and its lease has not expired.
    pub fn propose(&self, ask: Ask, now: Instant, busy: bool) -> Result<Grant, LeaseError> {
        if let Some(held) = self.held.as_ref().filter(|held| held.grant.info.run != ask.run) {
            let idle = now.saturating_duration_since(held.renewed);
            if busy || idle < held.grant.ttl {
                return Err(LeaseError::Held { by: held.grant.info.clone(), idle, busy });
            }
        }
        let info = LeaseInfo {
            run: ask.run,
            epoch: LeaseEpoch(self.epoch.0.saturating_add(1)),
            holder: ask.holder,
            since_unix_ms: ask.now_unix_ms,
        };
        Ok(Grant { info, ttl: ask.ttl, observe: ask.observe })
    }

    /// How often the holder wants the machine to be observed, if at all.
    #[must_use]
    pub fn observe(&self) -> Option<Duration> {
        self.held.as_ref()?.grant.observe
    }

    /// Makes a proposed lease the present one.
    pub fn install(&mut self, grant: Grant, now: Instant) {
        self.epoch = self.epoch.max(grant.info.epoch);
        self.held = Some(Held { grant, renewed: now });
    }

    /// Extends the lease.
    ///
    /// # Errors
    /// When `lease` is not the present one.
    pub fn renew(&mut self, lease: LeaseRef, now: Instant) -> Result<&LeaseInfo, LeaseError> {
        self.check(lease)?;
        match self.held.as_mut() {
            Some(held) => {
                held.renewed = now;
                Ok(&held.grant.info)
            }
            None => Err(LeaseError::Stale { asked: lease, holder: None }),
        }
    }

    /// Whether a request under `lease` may act on the host.
    ///
    /// # Errors
    /// When `lease` is not the present one.
    pub fn check(&self, lease: LeaseRef) -> Result<(), LeaseError> {
        let holder = self.holder();
        match holder {
            Some(info) if info.run == lease.run && info.epoch == lease.epoch => Ok(()),
            _ => Err(LeaseError::Stale { asked: lease, holder: holder.cloned() }),
        }
    }

    /// Time until the lease expires; `None` when it has, or there is none.
    #[must_use]
    pub fn time_left(&self, now: Instant) -> Option<Duration> {
        let held = self.held.as_ref()?;
        held.grant.ttl.checked_sub(now.saturating_duration_since(held.renewed)).filter(|left| !left.is_zero())
    }

    /// Gives the host back, once that is spooled.
    pub fn clear(&mut self) {
        self.held = None;
    }
}

/// A run that asks for the host.
#[derive(Clone, Debug)]
pub struct Ask {
    /// The run.
    pub run: RunId,
    /// Who that is, for people.
    pub holder: String,
    /// Time without renewal after which another run may take the host.
    pub ttl: Duration,
    /// Time between two samples of the sensors; `None` for no observation.
    pub observe: Option<Duration>,
    /// The time, in milliseconds since the Unix epoch, UTC.
    pub now_unix_ms: u64,
}

/// Why a request was refused.
#[derive(Debug, thiserror::Error)]
pub enum LeaseError {
    /// Another run has the host.
    #[error(
        "the host is held by run {} ({}) since {}, {}; wait for it, or stop it",
        by.run, by.holder, stamp(by.since_unix_ms), activity(*idle, *busy)
    )]
    Held {
        /// The holder.
        by: LeaseInfo,
        /// Time since its last renewal.
        idle: Duration,
        /// Whether it has tasks running.
        busy: bool,
    },
    /// The request comes from a controller that does not hold the host (any more).
    #[error(
        "epoch {} of run {} does not hold the host: {}",
        asked.epoch.0, asked.run, present(holder.as_ref())
    )]
    Stale {
        /// What the request carried.
        asked: LeaseRef,
        /// The present holder.
        holder: Option<LeaseInfo>,
    },
}

impl LeaseError {
    /// The kind of refusal on the wire.
    #[must_use]
    pub fn refusal(&self) -> Refusal {
        match self {
            Self::Held { .. } => Refusal::LeaseHeld,
            Self::Stale { .. } => Refusal::StaleLease,
        }
    }
}

fn activity(idle: Duration, busy: bool) -> String {
    let tasks = if busy { "its tasks run" } else { "no task runs" };
    format!("last renewed {} s ago, {tasks}", idle.as_secs())
}

fn present(holder: Option<&LeaseInfo>) -> String {
    holder.map_or_else(
        || "nobody does, take the lease first".to_owned(),
        |info| {
            let since = stamp(info.since_unix_ms);
            format!("run {} ({}) does, with epoch {}, since {since}", info.run, info.holder, info.epoch.0)
        },
    )
}

/// A point in time as `2026-11-30T23:16:44Z`. Days to civil date as in Howard Hinnant's "chrono-Compatible Low-Level
/// Date Algorithms", `civil_from_days`.
fn stamp(unix_ms: u64) -> String {
    let seconds = unix_ms / 1000;
    let (days, second) = (seconds / 86_400 + 719_468, seconds % 86_400);
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(10);

    fn run(number: u128) -> RunId {
        RunId(uuid::Uuid::from_u128(number))
    }

    fn ask(number: u128) -> Ask {
        Ask {
            run: run(number),
            holder: format!("user-{number}"),
            ttl: TTL,
            observe: None,
            now_unix_ms: 1_796_080_604_000,
        }
    }

    fn take(book: &mut LeaseBook, number: u128, now: Instant, busy: bool) -> Result<LeaseRef, LeaseError> {
        let grant = book.propose(ask(number), now, busy)?;
        let lease = LeaseRef { run: grant.info.run, epoch: grant.info.epoch };
        book.install(grant, now);
        Ok(lease)
    }

    #[test]
    fn expect_the_former_controller_fenced_when_its_own_run_takes_the_host_again() {
        let (mut book, now) = (LeaseBook::default(), Instant::now());
        let first = take(&mut book, 1, now, false).unwrap();
        let second = take(&mut book, 1, now, true).unwrap();
        assert!(second.epoch > first.epoch);
        assert!(book.check(second).is_ok());
        let refused = book.check(first).unwrap_err();
        assert_eq!(refused.refusal(), Refusal::StaleLease);
        assert!(refused.to_string().contains("with epoch 2"), "{refused}");
    }

    #[test]
    fn expect_another_run_refused_by_name_until_the_lease_is_old_and_no_task_runs() {
        let (mut book, start) = (LeaseBook::default(), Instant::now());
        take(&mut book, 1, start, false).unwrap();
        let refused = take(&mut book, 2, start + TTL - Duration::from_secs(1), false).unwrap_err();
        assert_eq!(refused.refusal(), Refusal::LeaseHeld);
        let text = refused.to_string();
        assert!(text.contains("user-1") && text.contains("2026-11-30T23:16:44Z"), "{text}");
        assert!(take(&mut book, 2, start + 2 * TTL, true).is_err());
        assert!(take(&mut book, 2, start + 2 * TTL, false).is_ok());
    }

    #[test]
    fn expect_a_longer_life_when_a_lease_is_renewed() {
        let (mut book, start) = (LeaseBook::default(), Instant::now());
        let lease = take(&mut book, 1, start, false).unwrap();
        book.renew(lease, start + TTL).unwrap();
        assert!(take(&mut book, 2, start + TTL + TTL / 2, false).is_err());
        assert!(take(&mut book, 2, start + TTL + TTL, false).is_ok());
        assert!(book.renew(lease, start + TTL + TTL).is_err());
    }

    #[test]
    fn expect_growing_epochs_when_the_agent_restarts_between() {
        let (book, now) = (LeaseBook::default(), Instant::now());
        let grant = book.propose(ask(1), now, false).unwrap();
        let first = LeaseRef { run: grant.info.run, epoch: grant.info.epoch };
        let restored = LeaseBook::restore(LeaseEpoch(0), Some(grant), now);
        assert!(restored.check(first).is_ok());
        let mut restored = LeaseBook::restore(first.epoch, None, now);
        assert!(restored.check(first).is_err());
        assert!(take(&mut restored, 2, now, false).unwrap().epoch > first.epoch);
    }
}
