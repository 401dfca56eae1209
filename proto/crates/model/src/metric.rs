//! What is measured: samples, doubts about them, and what one task's output gave.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which way a metric improves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// More is better (a rate).
    Higher,
    /// Less is better (a time, a count of failures).
    Lower,
}

/// One value of a named quantity, in the unit that its name carries by convention (`_per_s`, `_s`, `_bytes`, ...).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Name of the quantity.
    pub name: String,
    /// Its value. Always finite.
    pub value: f64,
    /// Unit as printed in tables: `s`, `conn/s`, `bytes`, `1` for a plain count or ratio.
    pub unit: String,
}

/// A reason to mark a number as suspect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Doubt {
    /// What kind of doubt.
    pub kind: DoubtKind,
    /// The figures behind it, for a footnote.
    pub detail: String,
}

/// Kinds of doubt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DoubtKind {
    /// Figures of one output contradict each other.
    Inconsistent,
    /// The client used its whole CPU (or ran out of its own resources), so the number is the client's, not the server's.
    ClientSaturated,
    /// The tool completed only part of the work.
    Incomplete,
    /// The kernel dropped or delayed connections (listen queue, retransmissions).
    Network,
    /// Clients did not start together.
    StartSkew,
    /// It passed only when tried again after an `ng`.
    PassedOnRetry,
    /// Output was cut at its limit, so the parser saw part of it.
    OutputCut,
    /// Processes were left over and had to be killed after the task had ended.
    Leftovers,
    /// A server lost some of its processes while it was measured.
    WorkerLost,
    /// A task left the CPUs that its cell asks for while it ran.
    LeftCpus,
}

impl DoubtKind {
    /// The word used in tables, stores and exports.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Inconsistent => "inconsistent",
            Self::ClientSaturated => "client-saturated",
            Self::Incomplete => "incomplete",
            Self::Network => "network",
            Self::StartSkew => "start-skew",
            Self::PassedOnRetry => "passed-on-retry",
            Self::OutputCut => "output-cut",
            Self::Leftovers => "leftovers",
            Self::WorkerLost => "worker-lost",
            Self::LeftCpus => "left-cpus",
        }
    }
}

/// What a parser found in the output of one task.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// Values found, each name once.
    pub samples: Vec<Sample>,
    /// Reasons to distrust them.
    pub doubts: Vec<Doubt>,
    /// Figures as the tool itself reported them, under the tool's own names, where ours were reconciled.
    pub reported: BTreeMap<String, String>,
    /// Every latency, as a histogram in nanoseconds: HdrHistogram V2 encoding in base64, where the tool gives one. With it,
    /// quantiles of several tasks can be told as those of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub histogram: Option<String>,
}

impl Measurement {
    /// The value of a sample by name.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<f64> {
        self.samples.iter().find(|sample| sample.name == name).map(|sample| sample.value)
    }
}
