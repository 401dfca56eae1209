//! What a soak is: one attempt per cell that lasts for hours, and gives points on the way instead of one number at its
//! end. Read by the controller, which runs it, and by the plan's estimate of time.

use std::time::Duration;

use serde::Serialize;

/// A soak, as the matrix describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Soak {
    /// How long it lasts: each cell, or with [`Soak::share`] all cells together.
    pub length: Duration,
    /// Distance of points that are kept, at least a second: what comes sooner after a point than this is judged, and left
    /// out of the series. Rounds follow one another without a pause, whatever stands here.
    pub every: Duration,
    /// When it ends before its time.
    pub until: SoakUntil,
    /// Time from the start of the load whose points say nothing of drift. `None`: a tenth of the time, between one and ten minutes.
    pub warm_up: Option<Duration>,
    /// Time without progress that is a hang; longer than [`Soak::every`].
    pub stall: Duration,
    /// Whether the cells share [`Soak::length`], one after the other, instead of lasting as long each.
    pub share: bool,
}

/// When a soak ends before its time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SoakUntil {
    /// Not for a failed round, which is noted. What leaves nothing to measure (a service that ended, a hang, a kernel
    /// that is lost) ends it all the same.
    #[default]
    End,
    /// At the first `ng` of any kind.
    FirstNg,
}

/// How a measured role that is awaited puts load on the services during a soak.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Load {
    /// Its command runs again and again; each run is a round and gives a point.
    #[default]
    Rounds,
    /// Its command runs for the whole time; lines that it prints on the way give the points.
    Stream,
}

impl Load {
    /// What is not said leaves a cell's identity as it was.
    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Points that the share of a cell has room for at least.
pub(crate) const FEWEST_POINTS: u32 = 10;

impl Soak {
    /// How long one of so many cells lasts. Shares are rounded down to whole microseconds.
    #[must_use]
    pub fn cell_time(&self, cells: u64) -> Duration {
        if !self.share {
            return self.length;
        }
        let us = self.length.as_micros() / u128::from(cells.max(1));
        Duration::from_micros(u64::try_from(us).unwrap_or(u64::MAX))
    }

    /// How long so many cells last together, one after the other; without the time to start and stop their services.
    #[must_use]
    pub fn run_time(&self, cells: u64) -> Duration {
        match (cells, self.share) {
            (0, _) => Duration::ZERO,
            (_, true) => self.length,
            (_, false) => {
                let us = self.length.as_micros().saturating_mul(u128::from(cells));
                Duration::from_micros(u64::try_from(us).unwrap_or(u64::MAX))
            }
        }
    }

    /// Least time that a cell may last: room for ten points.
    #[must_use]
    pub fn shortest(&self) -> Duration {
        if self.share { self.every.saturating_mul(FEWEST_POINTS) } else { self.every }
    }
}

/// What of a soak takes part in the identity of its cells: not what only bounds or ends it.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct SoakIdentity {
    for_us: u128,
    every_us: u128,
    #[serde(skip_serializing_if = "Option::is_none")]
    warm_up_us: Option<u128>,
    share: bool,
}

impl From<&Soak> for SoakIdentity {
    fn from(soak: &Soak) -> Self {
        Self {
            for_us: soak.length.as_micros(),
            every_us: soak.every.as_micros(),
            warm_up_us: soak.warm_up.map(|time| time.as_micros()),
            share: soak.share,
        }
    }
}
