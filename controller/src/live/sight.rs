//! What is told on the live socket: a line of JSON for each thing that can be seen.

use std::time::Duration;

use drover_model::{Outcome, RunId};
use serde::{Deserialize, Serialize};

use crate::time::brief;

/// The form of what is told; a client of another one is refused by itself.
pub const VERSION: u32 = 1;

/// Bytes of the longest line that a client reads.
pub const MAX_LINE: u64 = 256 << 10;

/// The request to stop, as a client writes it.
pub const STOP: &str = "stop";

/// Something to see.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "sight", rename_all = "kebab-case")]
pub enum Sight {
    /// The first: who is watched, and how far it is.
    Hello(Hello),
    /// A trial was begun.
    Begun { standing: Standing },
    /// A trial that takes long goes on; now and then that is worth a line where there is no bar.
    Goes { standing: Standing, is_line: bool },
    /// An attempt ended and is stored.
    Ended { standing: Standing, line: TrialLine },
    /// Something for people.
    Notice { text: String },
    /// The run was asked to stop, so many times.
    Stopping { times: u32 },
    /// The watcher was too slow for so many others.
    Missed { count: u64 },
    /// The last: the run is over, and this is why if it ended early.
    Over { why: Option<String> },
}

/// Who is watched.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Hello {
    /// [`VERSION`].
    pub version: u32,
    /// The run.
    pub run: RunId,
    /// Name of its matrix.
    pub name: String,
    /// Its controller's process.
    pub pid: u32,
    /// How often it was asked to stop.
    pub stopping: u32,
    /// How far it is.
    pub standing: Standing,
}

/// How far a run is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Standing {
    /// Trials of the plan.
    pub total: u64,
    /// Those of them with a final verdict.
    pub finished: u64,
    /// Final verdicts since this controller began, by outcome.
    pub counts: Vec<(Outcome, u64)>,
    /// Trials finished in a second since this controller began, if any were.
    pub per_second: Option<f64>,
    /// Time left, if it can be told.
    pub left: Option<Left>,
    /// The trial that was last begun or stored.
    pub current: Option<String>,
}

/// An estimate of the time left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Left {
    /// Milliseconds.
    pub ms: u64,
    /// Trials in it whose cell was never tried.
    pub untried: u32,
}

/// What became of an attempt, in a line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrialLine {
    /// Its cell and repetition.
    pub trial: String,
    /// Its number or verdict.
    pub what: String,
    /// Nothing is wrong with it.
    pub fine: bool,
}

impl Standing {
    /// Counts that are not of good trials, rate and time left.
    pub fn summary(&self) -> String {
        let mut parts: Vec<String> =
            self.counts.iter().map(|(outcome, count)| format!("{count} {}", outcome.as_str())).collect();
        if let Some(rate) = self.per_second {
            parts.push(if rate >= 1.0 { format!("{rate:.0}/s") } else { format!("{:.1}/min", rate * 60.0) });
        }
        if let Some(Left { ms, untried }) = self.left {
            let untried = if untried > 0 { format!(" ({untried} untried)") } else { String::new() };
            parts.push(format!("ETA {}{untried}", brief(Duration::from_millis(ms))));
        }
        parts.join("  ")
    }
}

/// What the user is told when a run was asked to stop.
pub fn stopping(times: u32) -> &'static str {
    match times {
        0 | 1 => "stopping: tasks are asked to end (once more to kill them)",
        _ => "stopping: tasks are killed",
    }
}
