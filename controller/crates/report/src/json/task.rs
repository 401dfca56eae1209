//! Tasks in the JSON document: how they ended, what they used, what was measured of them.

use std::collections::BTreeMap;

use drover_model::{Counters, EndKind, Sample};
use drover_store::TaskRecord;
use schemars::JsonSchema;
use serde::Serialize;

/// A reason to distrust a number.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Doubt<'a> {
    kind: &'static str,
    detail: &'a str,
}

/// One task of an attempt.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Task<'a> {
    role: &'a str,
    instance: u32,
    host: &'a str,
    argv: &'a [String],
    end: Option<End<'a>>,
    wall_s: f64,
    user_s: f64,
    system_s: f64,
    max_rss_bytes: u64,
    voluntary_switches: u64,
    involuntary_switches: u64,
    /// Of the whole machine while the task ran.
    counters: Option<MachineCounters>,
    /// CPUs its processes were allowed, as a list.
    cpus: &'a str,
    samples: Vec<Value<'a>>,
    doubts: Vec<Doubt<'a>>,
    /// Figures as the tool reported them, where Drover's own differ in how they are made.
    reported: BTreeMap<&'a str, &'a str>,
    stdout_bytes: u64,
    stderr_bytes: u64,
    /// Last lines of output, when the outcome is not `ok`.
    tail: &'a str,
}

/// How a task ended.
#[derive(Debug, Serialize, JsonSchema)]
struct End<'a> {
    /// `exited`, `signaled`, `stopped`, `killed`, `deadline`, `not-ready`, `not-started` or `agent-lost`.
    kind: &'static str,
    /// Exit status, of `exited` and `stopped`.
    status: Option<i32>,
    /// Signal number, of `signaled`.
    signal: Option<i32>,
    /// What was seen, of `not-ready` and `not-started`.
    detail: Option<&'a str>,
}

/// Differences of counters of the whole machine.
#[derive(Debug, Serialize, JsonSchema)]
struct MachineCounters {
    context_switches: u64,
    listen_overflows: u64,
    listen_drops: u64,
    retransmits: u64,
    time_wait_overflows: u64,
    steal_us: u64,
}

/// A sample.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Value<'a> {
    name: &'a str,
    value: f64,
    unit: &'a str,
}

impl<'a> Doubt<'a> {
    pub(super) fn of(doubt: &'a drover_model::Doubt) -> Self {
        Self { kind: doubt.kind.as_str(), detail: &doubt.detail }
    }
}

impl<'a> Task<'a> {
    pub(super) fn of(task: &'a TaskRecord) -> Self {
        Self {
            role: task.role.as_str(),
            instance: task.instance,
            host: task.host.as_str(),
            argv: &task.argv,
            end: task.end.as_ref().map(End::of),
            wall_s: task.wall.as_secs_f64(),
            user_s: task.usage.user.as_secs_f64(),
            system_s: task.usage.system.as_secs_f64(),
            max_rss_bytes: task.usage.max_rss_bytes,
            voluntary_switches: task.usage.voluntary_switches,
            involuntary_switches: task.usage.involuntary_switches,
            counters: task.counters.as_ref().map(MachineCounters::of),
            cpus: &task.cpus,
            samples: task.samples.iter().filter(|sample| sample.value.is_finite()).map(Value::of).collect(),
            doubts: task.doubts.iter().map(Doubt::of).collect(),
            reported: pairs(&task.reported),
            stdout_bytes: task.output_bytes.0,
            stderr_bytes: task.output_bytes.1,
            tail: &task.tail,
        }
    }
}

impl<'a> End<'a> {
    fn of(end: &'a EndKind) -> Self {
        let plain = |kind| Self { kind, status: None, signal: None, detail: None };
        match end {
            EndKind::Exited(status) => Self { status: Some(*status), ..plain("exited") },
            EndKind::Signaled(signal) => Self { signal: Some(*signal), ..plain("signaled") },
            EndKind::Stopped(status) => Self { status: *status, ..plain("stopped") },
            EndKind::Killed => plain("killed"),
            EndKind::Deadline => plain("deadline"),
            EndKind::NotReady(detail) => Self { detail: Some(detail), ..plain("not-ready") },
            EndKind::NotStarted(_, detail) => Self { detail: Some(detail), ..plain("not-started") },
            EndKind::AgentLost => plain("agent-lost"),
        }
    }
}

impl MachineCounters {
    fn of(counters: &Counters) -> Self {
        Self {
            context_switches: counters.context_switches,
            listen_overflows: counters.listen_overflows,
            listen_drops: counters.listen_drops,
            retransmits: counters.retransmits,
            time_wait_overflows: counters.time_wait_overflows,
            steal_us: counters.steal_us,
        }
    }
}

impl<'a> Value<'a> {
    pub(super) fn of(sample: &'a Sample) -> Self {
        Self { name: &sample.name, value: sample.value, unit: &sample.unit }
    }
}

/// Names with their values, as an object.
pub(super) fn pairs(list: &[(String, String)]) -> BTreeMap<&str, &str> {
    list.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
}
