//! The checked parts of a matrix as plain types: what `decode` produces, what the controller, the scheduler's
//! driver and `render` read. Everything here has passed all static checks.

use std::{sync::Arc, time::Duration};

use drover_model::{AxisValue, CpuPart, Direction, Name, ParserSpec, StopPolicy};
use serde::Serialize;

use crate::{soak::Load, template::Template, weights::Weights};

/// A command that must be installed where the matrix runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// The command as looked up in `PATH`.
    pub command: String,
    /// The Debian package that has it, where its name differs from the command's.
    pub package: Option<String>,
}

impl Requirement {
    /// The Debian package to install when the command is missing.
    #[must_use]
    pub fn package(&self) -> &str {
        self.package.as_deref().unwrap_or(&self.command)
    }
}

/// A factor and its levels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Axis {
    /// Its name.
    pub name: Name,
    /// Its levels in the order of the file, ranges expanded, text as written.
    pub values: Vec<AxisValue>,
}

impl Axis {
    /// Whether the agent makes this axis true on the machine (`kernel`, `cpus`) before a number counts.
    #[must_use]
    pub fn is_machine(&self) -> bool {
        matches!(self.name.as_str(), "kernel" | "cpus")
    }
}

/// What a role launches, and how.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Role {
    /// Its name.
    pub name: Name,
    /// What is executed.
    pub command: Command,
    /// Roles that must be ready (services) or ended (awaited roles) before this one starts.
    pub after: Vec<Name>,
    /// Ports it needs, in the order of the file.
    pub ports: Vec<Port>,
    /// Conditions of readiness; a role that has any is a service.
    pub ready: Vec<ReadyTemplate>,
    /// Time allowed from the start until all conditions hold.
    #[serde(skip)]
    pub within: Duration,
    /// How it is asked to end.
    #[serde(serialize_with = "signal_only")]
    pub stop: StopPolicy,
    /// Environment variables on top of the agent's cleaned environment.
    pub env: Vec<(String, Template)>,
    /// Files written into the attempt's folder before the start.
    pub files: Vec<RoleFile>,
    /// Which parser reads its output; `None` when nothing is measured here.
    pub measure: Option<ParserSpec>,
    /// Exit statuses that count as success.
    pub status: ExitStatuses,
    /// Time allowed from the start. In a soak, that of one round; services and streams last as long as the soak, whatever
    /// stands here.
    #[serde(skip)]
    pub timeout: Duration,
    /// Bytes kept of each output stream.
    #[serde(skip)]
    pub output: u64,
    /// Side of the cell's CPUs that it runs on; `None` when the matrix has no axis `cpus`.
    pub placement: Option<CpuPart>,
    /// Labels or names of the hosts that it may run on; empty allows all of the pool.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub on: Vec<Name>,
    /// Hosts that it runs on at the same time; with `same_host_as`, those of the role that it follows.
    #[serde(skip_serializing_if = "is_one")]
    pub hosts: u32,
    /// Instances on each of these hosts.
    #[serde(skip_serializing_if = "is_one")]
    pub instances: u32,
    /// The role whose hosts it runs on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub same_host_as: Option<Name>,
    /// Roles none of whose hosts it runs on.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub other_host_than: Vec<Name>,
    /// Files of the attempt's folder that are fetched when it has ended: relative globs of `*`, `?` and `**`.
    #[serde(skip)]
    pub artifacts: Vec<String>,
    /// Bytes fetched of all its artifacts together.
    #[serde(skip)]
    pub artifact_limit: u64,
    /// How it puts load on the services of a soak, if it is measured and awaited.
    #[serde(skip_serializing_if = "Load::is_default")]
    pub load: Load,
}

impl Role {
    /// Whether it is a service: it must become ready, stay up until the awaited roles ended, and is then stopped. Any
    /// other role is awaited: it runs to its end.
    #[must_use]
    pub fn is_service(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Whether it puts load on the services of a soak, for the whole time. Other awaited roles run once.
    #[must_use]
    pub fn is_load(&self) -> bool {
        !self.is_service() && self.measure.is_some()
    }

    /// Its tasks in one attempt: hosts times instances, 10,000 at most.
    #[must_use]
    pub fn tasks(&self) -> u32 {
        self.hosts.saturating_mul(self.instances)
    }
}

/// What is not said leaves a cell's identity as it was.
fn is_one(number: &u32) -> bool {
    *number == 1
}

/// The signal can change what a service reports at its end; the time it is given only bounds that.
fn signal_only<S: serde::Serializer>(stop: &StopPolicy, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_i32(stop.signal)
}

/// What is executed.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Command {
    /// A list of arguments, each rendered by itself: no shell.
    Argv(Vec<Template>),
    /// Text for `sh -c`.
    Shell(Template),
}

/// A port that a role needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Port {
    /// The template variable that holds its number.
    pub name: Name,
    /// Its number when the matrix fixes it; otherwise the agent reserves a free one.
    pub fixed: Option<u16>,
}

/// A condition of readiness before rendering.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReadyTemplate {
    /// A TCP connection to one of the role's own ports, by its place in [`Role::ports`].
    Port(usize),
    /// A TCP connection to `address:port`.
    Tcp(Template),
    /// A connection to a Unix stream socket.
    Unix(Template),
    /// A line of output that contains this text.
    Log(Template),
    /// `GET` on this URL.
    Http(Template),
    /// A command that exits with 0.
    Command(Vec<Template>),
    /// Exactly this many processes.
    Processes(Template),
}

/// A file that a role needs in the attempt's folder.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RoleFile {
    /// Relative path below the attempt's folder.
    pub path: String,
    /// What is in it.
    pub contents: FileContents,
    /// Whether it may be executed.
    pub executable: bool,
}

/// Where the contents of a file come from.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FileContents {
    /// Written in the matrix, rendered per trial.
    Inline(Template),
    /// A file beside the matrix, not yet loaded: the place in [`crate::Matrix::file_references`].
    Reference(usize),
    /// A loaded file that is rendered per trial.
    Loaded {
        /// Its text.
        template: Template,
        /// Its path beside the matrix, for messages.
        #[serde(skip)]
        source: String,
    },
    /// A loaded file that is passed on byte by byte.
    Raw(#[serde(serialize_with = "raw_digest")] Arc<[u8]>),
}

/// Raw files take part in a cell's identity by their hash, which is short.
fn raw_digest<S: serde::Serializer>(bytes: &Arc<[u8]>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&drover_model::CellKey::of([&**bytes]))
}

/// Exit statuses that count as success.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ExitStatuses {
    /// Any status.
    Any,
    /// One of these.
    These(Vec<i32>),
}

impl ExitStatuses {
    /// Whether an exit status counts as success.
    #[must_use]
    pub fn accept(&self, status: i32) -> bool {
        match self {
            Self::Any => true,
            Self::These(list) => list.contains(&status),
        }
    }
}

/// A declared metric.
#[derive(Clone, Debug, PartialEq)]
pub struct Metric {
    /// Its name.
    pub name: Name,
    /// Its unit, as printed.
    pub unit: String,
    /// Which way it improves.
    pub better: Direction,
    /// The one that tables show by default; exactly one metric has it.
    pub primary: bool,
    /// Where its sample comes from, when the name alone does not say it.
    pub from: Option<SampleSource>,
    /// Expression over samples that gives its value, as written.
    pub value: Option<String>,
    /// Condition that its value must fulfil, as written.
    pub must: Option<String>,
    /// How the samples of several instances of one role become one.
    pub across: Option<Across>,
    /// What it means.
    pub about: String,
}

/// How the samples of several instances of one role become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Across {
    /// Their sum: rates and counts of instances that work side by side.
    Sum,
    /// The largest.
    Max,
    /// The smallest.
    Min,
    /// The arithmetic mean.
    Mean,
    /// What it is of all latencies together, told from the merged histograms of all instances.
    Merged,
}

/// Where a metric's sample comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SampleSource {
    /// The measured role.
    pub role: Name,
    /// The sample; by default the one named as the metric.
    pub sample: Option<String>,
}

/// In which order trials run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Blocks by reboot cost (kernel, then CPUs); inside a block one repetition of every cell per round, each round
    /// shuffled.
    #[default]
    Interleaved,
    /// As written: every cell with all its repetitions, one after the other.
    Declared,
    /// All trials shuffled, whatever reboots that costs.
    Shuffled,
}

/// Default layout of the matrix's table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// Axes down the side.
    pub rows: Vec<Name>,
    /// Axes across the top.
    pub cols: Vec<Name>,
    /// Axes that make a table each.
    pub facet: Vec<Name>,
}

/// How trials are repeated, bounded and tried again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Repetitions of every cell.
    pub repeat: u32,
    /// Order of the trials.
    pub order: Order,
    /// Seed of the order, when the matrix fixes it.
    pub seed: Option<u64>,
    /// Time allowed for a task whose role does not say.
    pub timeout: Duration,
    /// Attempts after our own faults.
    pub retries: u32,
    /// Attempts after an `ng`.
    pub after_ng: u32,
    /// Which hosts a cell is measured on.
    pub spread: Spread,
    /// Whether trials that are compared with one another may run on different hosts.
    pub mix_hosts: bool,
    /// Largest difference between the starts of the clients of a trial, the error of the clocks included; above it, the
    /// trial is void.
    pub skew_limit: Duration,
    /// Time between two samples of the sensors of each host, in trials that last; `None` for no observation at all.
    pub observe: Option<Duration>,
    /// How much doubts about the machine count.
    pub doubts: Weights,
}

/// Which hosts a cell is measured on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Spread {
    /// On any host of the pool.
    #[default]
    Any,
    /// On each of them: `host` is the first axis, and says where the first service (or else the first role) runs.
    Each,
}

/// A file beside the matrix that a role refers to. The caller loads it: this crate does no I/O.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileReference {
    /// The role that needs it.
    pub role: Name,
    /// Path relative to the folder of the matrix file, as written: no `..`, not absolute.
    pub path: String,
    /// Whether it is passed on byte by byte, without templates.
    pub raw: bool,
    /// Where the matrix names it, in bytes of the matrix file.
    pub span: std::ops::Range<usize>,
}
