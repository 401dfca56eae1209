//! Which parser reads a role's output.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How the output of a role is turned into samples.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ParserSpec {
    /// A parser built for one tool.
    Tool(Tool),
    /// Sample name -> path into a JSON document (`summary.rps`, `jobs[0].read.iops`).
    Json(BTreeMap<String, String>),
    /// A regular expression; each named group is a sample. The last match counts.
    Regex(String),
    /// Every `key=value` (or `key: value`) line whose value is a number is a sample.
    Lines,
}

/// Tools whose output Drover reads without being told how.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "each variant is the name of the tool")]
pub enum Tool {
    Workload,
    Ab,
    Httperf,
    Wrk,
    Wrk2,
    Oha,
    H2load,
    Hey,
    Vegeta,
    Fortio,
    Iperf3,
    Fio,
    Sysbench,
    Pgbench,
    RedisBenchmark,
    Memtier,
    StressNg,
}

impl Tool {
    /// All tools, in the order of the documentation.
    pub const ALL: [Self; 17] = [
        Self::Workload,
        Self::Ab,
        Self::Httperf,
        Self::Wrk,
        Self::Wrk2,
        Self::Oha,
        Self::H2load,
        Self::Hey,
        Self::Vegeta,
        Self::Fortio,
        Self::Iperf3,
        Self::Fio,
        Self::Sysbench,
        Self::Pgbench,
        Self::RedisBenchmark,
        Self::Memtier,
        Self::StressNg,
    ];

    /// The name used in a matrix.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Workload => "workload",
            Self::Ab => "ab",
            Self::Httperf => "httperf",
            Self::Wrk => "wrk",
            Self::Wrk2 => "wrk2",
            Self::Oha => "oha",
            Self::H2load => "h2load",
            Self::Hey => "hey",
            Self::Vegeta => "vegeta",
            Self::Fortio => "fortio",
            Self::Iperf3 => "iperf3",
            Self::Fio => "fio",
            Self::Sysbench => "sysbench",
            Self::Pgbench => "pgbench",
            Self::RedisBenchmark => "redis-benchmark",
            Self::Memtier => "memtier",
            Self::StressNg => "stress-ng",
        }
    }

    /// The tool of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tool| tool.as_str() == name)
    }
}
