//! The morning report: what became of a soak, told from the series that it left on disk.
//!
//! The command line program calls [`summarise`] for each attempt of a soak, adds what it knows of evidence and of what was
//! running, and hands the [`SoakResult`]s to [`crate::write_report_with_soaks`]. A series is read in three passes and never
//! held: of each metric at most 600 block medians and 2,048 points of its first half are in memory.
//!
//! | module | is for |
//! |---|---|
//! | `summarise` | the passes |
//! | `progress` | how long it held, what broke, what was the first bad sign |
//! | `band` | what a metric is like while all is well |
//! | `blocks` | block medians and even samples of streams |
//! | `events`, `gaps` | marks and missing points, made few |
//! | `lines`, `spark`, `time` | sentences for people |
//! | `text`, `markdown`, `json` | the formats |

mod band;
mod blocks;
mod events;
mod gaps;
pub(crate) mod json;
mod lines;
pub(crate) mod markdown;
mod progress;
mod spark;
mod summarise;
pub(crate) mod text;
mod time;

use std::time::Duration;

use drover_model::{AttemptId, Direction, Name, Verdict};
use drover_store::{AttemptRecord, MetricRecord};

pub use band::Band;
pub use blocks::BlockMedians;
pub use events::Event;
pub use gaps::Gap;
pub use progress::{BadSign, Broke, Course, Progress, judge_progress};
pub use summarise::{SoakSetup, summarise};

use crate::drift::{Drift, Nature};

/// What became of one attempt of a soak.
#[derive(Clone, Debug, PartialEq)]
pub struct SoakResult {
    /// Which attempt, and so which cell.
    pub attempt: AttemptId,
    /// How long it was to last.
    pub planned: Duration,
    /// Its verdict; `None` while it goes on.
    pub verdict: Option<Verdict>,
    /// What explains a failure.
    pub evidence: Evidence,
    /// What ran.
    pub running: Vec<Running>,
    /// What its series says.
    pub series: SeriesSummary,
}

/// What was kept to explain a failure.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Evidence {
    /// How much of it.
    pub state: EvidenceState,
    /// Where it is.
    pub paths: Vec<String>,
}

/// How much of the evidence was collected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EvidenceState {
    /// All of it.
    Complete,
    /// Some.
    Partial,
    /// Nothing that explains anything.
    #[default]
    None,
}

impl EvidenceState {
    /// The word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Partial => "partial",
            Self::None => "none",
        }
    }
}

/// Instances of a role on a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Running {
    /// The role.
    pub role: Name,
    /// How many instances.
    pub instances: u32,
    /// Where.
    pub host: Name,
}

impl Running {
    /// What ran in an attempt, by its tasks, in their order.
    #[must_use]
    pub fn of(attempt: &AttemptRecord) -> Vec<Self> {
        let mut list: Vec<Self> = Vec::new();
        for task in &attempt.tasks {
            match list.iter_mut().find(|known| known.role == task.role && known.host == task.host) {
                Some(known) => known.instances += 1,
                None => {
                    list.push(Self { role: task.role.clone(), instances: 1, host: task.host.clone() });
                }
            }
        }
        list
    }
}

/// A metric of a series, as it is judged.
#[derive(Clone, Debug, PartialEq)]
pub struct SeriesMetric {
    /// Its name in the series.
    pub name: Name,
    /// Its unit.
    pub unit: String,
    /// Which way is bad.
    pub nature: Nature,
    /// The one whose course is drawn.
    pub primary: bool,
}

impl SeriesMetric {
    /// A metric as the matrix declares it: what is better higher and has a unit per second is throughput, what is better
    /// lower and has a unit of time is latency, and one in bytes is a resource.
    #[must_use]
    pub fn of(metric: &MetricRecord) -> Self {
        let nature = match (metric.better, metric.unit.as_str()) {
            (Direction::Higher, unit) if unit.ends_with("/s") => Nature::Throughput,
            (Direction::Lower, "s" | "ms" | "us" | "ns") => Nature::Latency,
            (Direction::Lower, "bytes") => Nature::Resource,
            (better, _) => Nature::Other(better),
        };
        Self { name: metric.name.clone(), unit: metric.unit.clone(), nature, primary: metric.primary }
    }
}

/// A series that comes from elsewhere: the memory or the open files of a role, from the sensors of its host. Use
/// [`BlockMedians`] to keep it short.
#[derive(Clone, Debug, PartialEq)]
pub struct SensorSeries {
    /// Its name: `server rss`.
    pub name: String,
    /// Its unit: `bytes`, or `1` for a count.
    pub unit: String,
    /// Which way is bad.
    pub nature: Nature,
    /// Microseconds since the Unix epoch (UTC), and value.
    pub points: Vec<(u64, f64)>,
}

/// What a series says, made small.
#[derive(Clone, Debug, PartialEq)]
pub struct SeriesSummary {
    /// How long it held, what broke, the first bad sign.
    pub progress: Progress,
    /// Metrics in the order of the matrix, then sensors; those without a point too.
    pub metrics: Vec<MetricSummary>,
    /// Rounds, or lines of a stream, of which there are points.
    pub rounds: u64,
    /// Rounds that failed.
    pub rounds_failed: u64,
    /// Times without points, the first ones.
    pub gaps: Vec<Gap>,
    /// How many further ones there are.
    pub more_gaps: usize,
    /// All such times together.
    pub gap_time: Duration,
    /// What happened, in order; of too much, the beginning and the end.
    pub events: Vec<Event>,
    /// How many marks in the middle are not among them.
    pub more_events: u64,
    /// Lines of the series and its marks that are damaged.
    pub damaged_lines: u64,
}

/// What a metric did.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricSummary {
    /// Its name.
    pub name: String,
    /// Its unit.
    pub unit: String,
    /// Whether its course is drawn.
    pub primary: bool,
    /// Points while the soak held.
    pub points: u64,
    /// Smallest and largest value.
    pub range: Option<(f64, f64)>,
    /// Median of its block medians.
    pub median: Option<f64>,
    /// Medians of successive points: seconds since the load began, and value. At most 600.
    pub blocks: Vec<(f64, f64)>,
    /// Its trend; `None` if there are too few points to tell.
    pub drift: Option<Drift>,
}
