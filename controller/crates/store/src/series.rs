//! What an attempt gives on its way, when that is long: points of its metrics and marks of what happened, on disk as they
//! come and never held in memory.
//!
//! ```text
//! runs/<run id>/c0r1a1/series.csv         at_unix_us,round,metric,value,check
//! runs/<run id>/c0r1a1/timeline.jsonl     {"at_unix_us":1,"kind":"round-failed","text":"...","check":"1a2b3c4d"}
//! runs/<run id>/c0r1a1/sensors.web1.bin   samples of a host's sensors, as its agent encodes them
//! runs/<run id>/c0r1a1/evidence.web1.txt  what explains a failure, as the agent of that host collected it
//! ```
//!
//! The driver appends with a [`SeriesWriter`]; `report`, and whoever draws, read with a [`SeriesReader`], also while the
//! attempt goes on. Each line ends with the FNV-1a hash of what is before it, so that a line that was torn by a crash, or
//! damaged later, is told from a good one: it is dropped and counted.
//!
//! Times are what the caller says. They should be the start of the attempt by the clock of the machine plus the time that
//! passed since by a clock that is never set, so that they keep their order when somebody sets the clock.

mod line;
mod reader;
mod writer;

use std::{io, path::PathBuf};

use drover_model::{AttemptId, Name};
use serde::{Deserialize, Serialize};

pub use reader::{Damage, Marks, Points, SeriesReader};
pub use writer::{Reopened, SeriesWriter};

use crate::{DirError, ResultsDir};

/// Bytes of points, and bytes of marks, that an attempt may have on disk.
pub const MAX_SERIES_BYTES: u64 = 4 << 30;
/// Bytes kept of what a mark says: the beginning.
pub const MAX_MARK_BYTES: usize = 2 * 1024;
/// Points and marks that wait for a disk that takes none, in bytes of each; more are refused.
pub const MAX_PENDING_BYTES: usize = 1 << 20;

/// A metric at a time.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// When, in microseconds since the Unix epoch, UTC.
    pub at_unix_us: u64,
    /// The round or, of a stream, the number of the line that it comes from; from 1.
    pub round: u64,
    /// Which metric.
    pub metric: Name,
    /// Its value, finite.
    pub value: f64,
}

/// Something that happened on the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// When, in microseconds since the Unix epoch, UTC.
    pub at_unix_us: u64,
    /// What kind of thing.
    pub kind: MarkKind,
    /// What was seen, in one or a few lines.
    pub text: String,
}

/// What kind of thing happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MarkKind {
    /// The load began: time zero of a soak.
    Begun,
    /// What gave the verdict: the soak did not hold beyond this.
    Broke,
    /// The load was ended because the time was over, or the user asked for it.
    Ended,
    /// A round failed, and the next one began.
    RoundFailed,
    /// A task made no progress.
    Stalled,
    /// A task that made none makes progress again.
    Resumed,
    /// A task ended that should not have.
    TaskEnded,
    /// The kernel reported something.
    Kernel,
    /// A counter or a sensor shows something that should not be.
    Sign,
    /// A host, or the way to it, was lost.
    HostLost,
    /// It is there again.
    HostBack,
    /// A controller went on with what another one began.
    ControllerBack,
    /// The clock of a machine was set.
    ClockSet,
    /// Anything else; also what a later version of this program knows and this one does not.

    #[serde(other)]
    Note,
}

impl MarkKind {
    /// All kinds.
    pub const ALL: [Self; 14] = [
        Self::Begun,
        Self::Broke,
        Self::Ended,
        Self::RoundFailed,
        Self::Stalled,
        Self::Resumed,
        Self::TaskEnded,
        Self::Kernel,
        Self::Sign,
        Self::HostLost,
        Self::HostBack,
        Self::ControllerBack,
        Self::ClockSet,
        Self::Note,
    ];

    /// The word in files.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Begun => "begun",
            Self::Broke => "broke",
            Self::Ended => "ended",
            Self::RoundFailed => "round-failed",
            Self::Stalled => "stalled",
            Self::Resumed => "resumed",
            Self::TaskEnded => "task-ended",
            Self::Kernel => "kernel",
            Self::Sign => "sign",
            Self::HostLost => "host-lost",
            Self::HostBack => "host-back",
            Self::ControllerBack => "controller-back",
            Self::ClockSet => "clock-set",
            Self::Note => "note",
        }
    }

    /// Whether it tells of trouble in the system under test.
    #[must_use]
    pub fn is_bad_sign(self) -> bool {
        matches!(
            self,
            Self::Broke
                | Self::RoundFailed
                | Self::Stalled
                | Self::TaskEnded
                | Self::Kernel
                | Self::Sign
                | Self::HostLost
        )
    }

    /// Whether it says why there were no points for a while.
    #[must_use]
    pub fn explains_gap(self) -> bool {
        self.is_bad_sign()
            || matches!(self, Self::Resumed | Self::HostBack | Self::ControllerBack | Self::ClockSet)
    }
}

impl std::fmt::Display for MarkKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

/// Why a series cannot be written or read.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum SeriesError {
    #[error("`{metric}` is not a finite number, so it is no point of the series")]
    NotFinite { metric: Name },
    #[error("{} is not a series that this program knows: move it away, or use the program that wrote it", path.display())]
    Format { path: PathBuf },
    #[error("{} has {MAX_SERIES_BYTES} bytes, no more are kept: choose a longer `every`", path.display())]
    Full { path: PathBuf },
    #[error(transparent)]
    Dir(#[from] DirError),
}

impl SeriesError {
    fn io(path: &std::path::Path, source: io::Error) -> Self {
        Self::Dir(DirError::from_io(path, source))
    }

    /// Whether it failed for lack of space.
    #[must_use]
    pub fn is_disk_full(&self) -> bool {
        matches!(self, Self::Dir(error) if error.is_disk_full())
    }
}

impl ResultsDir {
    /// The points of an attempt: `series.csv` in its folder.
    #[must_use]
    pub fn series_path(&self, attempt: &AttemptId) -> PathBuf {
        self.attempt_path(attempt).join("series.csv")
    }

    /// The marks of an attempt: `timeline.jsonl` in its folder.
    #[must_use]
    pub fn timeline_path(&self, attempt: &AttemptId) -> PathBuf {
        self.attempt_path(attempt).join("timeline.jsonl")
    }

    /// The copy of what the sensors of a host said during an attempt: `sensors.HOST.bin` in its folder.
    #[must_use]
    pub fn sensors_path(&self, attempt: &AttemptId, host: &Name) -> PathBuf {
        self.attempt_path(attempt).join(format!("sensors.{host}.bin"))
    }

    /// What a host had to say about a failure: `evidence.HOST.txt` in the attempt's folder.
    #[must_use]
    pub fn evidence_path(&self, attempt: &AttemptId, host: &Name) -> PathBuf {
        self.attempt_path(attempt).join(format!("evidence.{host}.txt"))
    }
}
