//! What is stored: plain records, written by the driver, read by `report`, `show`, `list`, `reparse` and `resume`.

use std::time::Duration;

use drover_model::{
    AttemptId, AxisValue, CellKey, Counters, Direction, Doubt, EndKind, HostFacts, Name, RunId, Sample,
    Usage, Verdict,
};
use serde::{Deserialize, Serialize};

/// One execution of a matrix, as planned. Written once, at the start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// Its id.
    pub id: RunId,
    /// Name of the matrix.
    pub name: String,
    /// What the matrix says of itself.
    pub about: String,
    /// Path of the matrix file as given on the command line.
    pub matrix_path: String,
    /// The matrix file as it was read, so that a run can be resumed and parsed again without the file.
    pub matrix_text: String,
    /// Files that the matrix refers to (path as written in it, contents).
    pub matrix_files: Vec<(String, Vec<u8>)>,
    /// `--set` arguments, as given.
    pub set: Vec<String>,
    /// `--only` expressions, as given.
    pub only: Vec<String>,
    /// Seed of the order.
    pub seed: u64,
    /// Repetitions of every cell.
    pub repeat: u32,
    /// Axes in the order of the matrix.
    pub axes: Vec<Name>,
    /// Metrics in the order of the matrix.
    pub metrics: Vec<MetricRecord>,
    /// Default layout of its table.
    pub table: TableLayout,
    /// The host file that was used, and its path as given; `None` for a run on the host `local`.
    pub host_file: Option<(String, String)>,
    /// Version of the program that made it.
    pub drover_version: String,
    /// When it began, in milliseconds since the Unix epoch, UTC.
    pub started_unix_ms: u64,
}

/// A metric as the matrix declares it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MetricRecord {
    /// Its name.
    pub name: Name,
    /// Its unit.
    pub unit: String,
    /// Which way it improves.
    pub better: Direction,
    /// The one that the table shows by default.
    pub primary: bool,
}

/// Which axes go where in a table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableLayout {
    /// Axes down the side.
    pub rows: Vec<Name>,
    /// Axes across the top.
    pub cols: Vec<Name>,
    /// Axes that make a table each.
    pub facet: Vec<Name>,
}

/// Where a run stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunState {
    /// Begun, and not ended: a controller works on it, or was killed.
    Open,
    /// Every trial has its final verdict.
    Finished,
    /// Ended by the user or a fault before all trials had their verdict; can be resumed.
    Interrupted,
}

/// One planned cell. Every cell of the matrix is a record from the moment the run starts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CellRecord {
    /// Position in the expanded matrix.
    pub index: u32,
    /// Identity across runs.
    pub key: CellKey,
    /// A value for each of [`RunRecord::axes`], in that order.
    pub values: Vec<AxisValue>,
    /// The `because` of the `exclude` that took it out, if one did: it is then never run and shows `---`.
    pub excluded: Option<String>,
}

/// One finished attempt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AttemptRecord {
    /// Which.
    pub id: AttemptId,
    /// Hosts it ran on, each once, in the order in which its roles name them; empty if no host could be had.
    pub hosts: Vec<Name>,
    /// Boot of each of these hosts, in the same order.
    pub boot_ids: Vec<String>,
    /// When it was begun, in microseconds since the Unix epoch, UTC.
    pub started_unix_us: u64,
    /// From begin to the end of its last task.
    pub elapsed: Duration,
    /// What became of it.
    pub verdict: Verdict,
    /// Whether the verdict is the trial's last word (no further attempt follows).
    pub is_final: bool,
    /// Metrics of the matrix: name -> value, for those found. Empty unless the outcome has a number.
    pub metrics: Vec<(Name, f64)>,
    /// Its tasks.
    pub tasks: Vec<TaskRecord>,
    /// Start skew in microseconds, when a barrier was used: between the first and the last start of those that were to start
    /// together, with the error of the clock offsets between hosts.
    pub start_skew_us: Option<u64>,
}

/// One task of a finished attempt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskRecord {
    /// Role it played.
    pub role: Name,
    /// Which instance.
    pub instance: u32,
    /// Where it ran.
    pub host: Name,
    /// The command as it was run.
    pub argv: Vec<String>,
    /// How it ended; `None` if it never began.
    pub end: Option<EndKind>,
    /// Wall time.
    pub wall: Duration,
    /// Resources.
    pub usage: Usage,
    /// Machine-wide counters, when recorded.
    pub counters: Option<Counters>,
    /// CPUs its processes were verified to be allowed, as a list.
    pub cpus: String,
    /// Everything the parser found.
    pub samples: Vec<Sample>,
    /// What the parser doubted.
    pub doubts: Vec<Doubt>,
    /// Figures as the tool reported them, where ours were reconciled.
    pub reported: Vec<(String, String)>,
    /// Bytes written to standard output and standard error.
    pub output_bytes: (u64, u64),
    /// Last lines of its output, kept with the verdict when the outcome is not `ok`.
    pub tail: String,
}

/// What a host was at some time of a run, as far as a run can change it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostState {
    /// The host.
    pub host: Name,
    /// Its boot.
    pub boot_id: String,
    /// Kernel release, as `uname -r`.
    pub kernel_release: String,
    /// Kernel version, as `uname -v`.
    pub kernel_version: String,
    /// Online CPUs.
    pub cpus: u32,
}

impl HostState {
    /// What is stored of a host's facts.
    #[must_use]
    pub fn of(host: &Name, facts: &HostFacts) -> Self {
        Self {
            host: host.clone(),
            boot_id: facts.boot_id.clone(),
            kernel_release: facts.kernel_release.clone(),
            kernel_version: facts.kernel_version.clone(),
            cpus: u32::try_from(facts.cpus.len()).unwrap_or(u32::MAX),
        }
    }
}

/// Everything stored of one run, as read back for a report.
#[derive(Clone, Debug, PartialEq)]
pub struct RunResults {
    /// The run as planned.
    pub run: RunRecord,
    /// Where it stands.
    pub state: RunState,
    /// When it ended, in milliseconds since the Unix epoch, UTC.
    pub ended_unix_ms: Option<u64>,
    /// Hosts it used, with their latest facts.
    pub hosts: Vec<(Name, HostFacts)>,
    /// What these hosts were in the course of the run, in the order in which they became that.
    pub host_states: Vec<HostState>,
    /// All cells, by index.
    pub cells: Vec<CellRecord>,
    /// All finished attempts, by cell, repetition and number.
    pub attempts: Vec<AttemptRecord>,
}
