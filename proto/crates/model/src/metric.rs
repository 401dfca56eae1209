//! What is measured: samples, and what one task's output gave.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Doubt;

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
