//! Tasks: what an agent is asked to execute, and what it reports.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{BlobHash, TaskId};

/// What an agent executes: one instance of a role, fully rendered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskSpec {
    /// Which task; starting the same id twice is one start.
    pub id: TaskId,
    /// Command and arguments; the command is looked up in the agent's `PATH` if it has no slash. `drover-agent` as
    /// command means the agent's own executable.
    pub argv: Vec<String>,
    /// Variables set on top of the agent's cleaned environment.
    pub env: Vec<(String, String)>,
    /// Files written into the attempt's folder before the start.
    pub files: Vec<StagedFile>,
    /// All must hold before the task counts as ready; empty for a task that just runs to its end.
    pub ready: Vec<ReadyCheck>,
    /// Time allowed from the start until ready.
    pub ready_within: Duration,
    /// CPUs it may use; `None` leaves the agent's own mask.
    pub placement: Option<Placement>,
    /// Spawned, but held before `exec` until the barrier of the attempt is released.
    pub hold: bool,
    /// Time allowed from the start (of a held task: from the release), enforced by the agent.
    pub deadline: Duration,
    /// How it is asked to end.
    pub stop: StopPolicy,
    /// Bytes kept of each output stream: the first half and the last half of this are kept.
    pub output_limit: u64,
    /// Ports that must be free before the start and again after the end.
    pub ports: Vec<u16>,
    /// Record machine-wide counters from start to end.
    pub counters: bool,
    /// Run the command again and again instead of once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rounds: Option<Rounds>,
    /// Report complete lines of standard output while the task runs.
    #[serde(default)]
    pub progress: bool,
    /// Report the task when it wrote nothing and used no CPU time for so long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stall: Option<Duration>,
}

/// A task whose command is run again and again, one process tree after the other. Ready checks and the barrier are for the
/// first round only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rounds {
    /// From the start (of a held task: from the release) until no round is started any more and the one that runs is asked
    /// to stop.
    pub for_: Duration,
    /// From the end of a round to the start of the next one. Rounds start at most ten times per second.
    pub pause: Duration,
    /// Time allowed for each round; that of the task holds as well.
    pub deadline: Duration,
    /// Go on after a round that did not exit with 0, instead of ending the task with that round's end.
    pub keep_going: bool,
}

/// A file written into the attempt's folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StagedFile {
    /// Relative path below the attempt's folder: no `..`, not absolute.
    pub path: String,
    /// Contents; empty when `blob` names them.
    pub contents: Vec<u8>,
    /// Whether it may be executed.
    pub executable: bool,
    /// Contents that the agent has already, because they are too long to travel with the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blob: Option<Blob>,
}

/// Contents of a file, kept by an agent under their hash.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Blob {
    /// Which.
    pub hash: BlobHash,
    /// Their length in bytes.
    pub size: u64,
}

/// One condition of readiness, probed on the task's own host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReadyCheck {
    /// A TCP connection to this address is accepted.
    Tcp(std::net::SocketAddr),
    /// A Unix stream socket at this path accepts a connection.
    Unix(String),
    /// A line of output (either stream) contains this text.
    Log(String),
    /// `GET` on this `http://` URL answers with a 2xx or 3xx status.
    Http(String),
    /// A command exits with 0.
    Command(Vec<String>),
    /// The task's tree has exactly this many processes.
    Processes(u32),
}

/// Which CPUs a task may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement {
    /// How many CPUs the cell asks for: distinct physical cores first, then their siblings.
    pub count: u32,
    /// Inside or outside of that set.
    pub part: CpuPart,
}

/// Side of the CPU set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CpuPart {
    /// The chosen CPUs.
    Inside,
    /// All online CPUs but the chosen ones.
    Outside,
}

/// How a task is asked to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StopPolicy {
    /// Signal number sent to the task's first process.
    pub signal: i32,
    /// Time until what is left of the tree is killed.
    pub grace: Duration,
}

/// Something that happened to a task. Numbered by the agent without gaps, so that a controller can continue where it
/// stopped reading.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskEvent {
    /// Position in the agent's spool, from 1.
    pub seq: u64,
    /// The task.
    pub task: TaskId,
    /// When, in microseconds since the Unix epoch, UTC.
    pub at_unix_us: u64,
    /// What.
    pub kind: TaskEventKind,
}

/// What happened to a task. The order is Started, Armed (held tasks only), Released (held tasks only), Ready (tasks
/// with ready checks only), Ended; `Ended` comes exactly once, and a task that was never started has only that. The others
/// come in between, any number of times.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TaskEventKind {
    /// The process exists and runs on the CPUs asked for.
    Started {
        /// Process id of the first process.
        pid: u32,
        /// CPUs it may use, read back from the kernel, as a list (`0-1,4`).
        cpus: String,
    },
    /// It waits at the barrier.
    Armed,
    /// The barrier opened.
    Released {
        /// Microseconds between the agreed instant and the true one.
        late_us: u64,
    },
    /// All ready checks hold.
    Ready {
        /// Time from start to ready.
        after: Duration,
    },
    /// A round is over, and its whole process tree is gone.
    Round {
        /// Which, from 1.
        number: u64,
        /// How it ended.
        end: RoundEnd,
    },
    /// Complete lines of standard output, in order; those of a task that asks for progress.
    Lines {
        /// When the last of them was seen, in microseconds since the Unix epoch, UTC.
        at_unix_us: u64,
        /// The lines, each with its line end. Bytes that are not UTF-8 are replaced.
        text: String,
        /// Bytes that came before them and are not reported: too many at once, or dropped later to keep the spool within its
        /// bound.
        dropped: u64,
    },
    /// It wrote nothing and used no CPU time for as long as the task names. Comes again only after it moved again.
    Stalled {
        /// For how long.
        for_: Duration,
        /// What its processes wait for.
        what: String,
    },
    /// It is over, and its whole process tree is gone.
    Ended(TaskEnd),
}

/// How a round ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RoundEnd {
    /// How. The round that ran when the time was over is `Stopped`.
    pub kind: EndKind,
    /// Time from its start (of the first one of a held task: from the release) to the end of its first process.
    pub wall: Duration,
    /// Resources used by its first process and all descendants it waited for.
    pub usage: Usage,
    /// When it started, in microseconds since the Unix epoch, UTC.
    pub started_unix_us: u64,
    /// Its standard output: the first bytes.
    pub stdout: OutputSummary,
    /// Its standard error: the first bytes.
    pub stderr: OutputSummary,
    /// Its outputs were dropped later, to keep the spool within its bound.
    pub cut: bool,
}

/// How a task ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskEnd {
    /// How.
    pub kind: EndKind,
    /// Time from start (of a held task: from the release) to the end of the first process.
    pub wall: Duration,
    /// Resources used by the first process and all descendants it waited for.
    pub usage: Usage,
    /// Standard output.
    pub stdout: OutputSummary,
    /// Standard error.
    pub stderr: OutputSummary,
    /// CPUs that the task's processes were last seen to be allowed, as a list; empty if never read.
    pub cpus: String,
    /// Descendants that were still alive when the first process had ended and were killed.
    pub leftovers: u32,
    /// Machine-wide counters over the life of the task, if asked for.
    pub counters: Option<Counters>,
}

/// Why a task is over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EndKind {
    /// It exited by itself with this status.
    Exited(i32),
    /// It was ended by this signal, not sent by the agent.
    Signaled(i32),
    /// It was asked to stop, and did (exit status, if it had one) or was killed after the grace period (`None`).
    Stopped(Option<i32>),
    /// It was killed on request, without grace.
    Killed,
    /// It was killed at its deadline.
    Deadline,
    /// It was killed because it was not ready in time.
    NotReady(String),
    /// It never ran.
    NotStarted(NotStarted, String),
    /// The agent that ran it ended; a later agent killed what was left of it.
    AgentLost,
}

/// Why a task was never started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NotStarted {
    /// No such command.
    NotFound,
    /// The command is not executable, or the path to it is closed.
    Permission,
    /// A port it needs is taken.
    PortTaken,
    /// No space or no writable folder for its output.
    DiskFull,
    /// The host cannot give the CPUs asked for.
    WrongCpus,
    /// It was stopped while it was still being prepared.
    Cancelled,
    /// Anything else.
    Other,
}

/// Resources a process tree used, from `wait4(2)`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// CPU time in user mode.
    pub user: Duration,
    /// CPU time in the kernel.
    pub system: Duration,
    /// Largest resident set of any one process, in bytes; 0 when it is not known, because it was not above that of the agent, which the
    /// kernel counts as a child's own until `exec`.
    pub max_rss_bytes: u64,
    /// Times a process gave up its CPU to wait.
    pub voluntary_switches: u64,
    /// Times a process lost its CPU to another.
    pub involuntary_switches: u64,
}

/// What became of an output stream.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputSummary {
    /// Bytes written by the task.
    pub written: u64,
    /// Bytes kept by the agent; fewer than `written` when the limit cut the middle out.
    pub kept: u64,
    /// The kept bytes themselves, when they are few enough to travel with the event.
    pub inline: Option<Vec<u8>>,
}

/// Differences of machine-wide counters between the start and the end of a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Context switches of the whole machine (`ctxt` of `/proc/stat`).
    pub context_switches: u64,
    /// Connections dropped because an accept queue was full (`TcpExt.ListenOverflows`).
    pub listen_overflows: u64,
    /// Connection requests dropped at a listening socket (`TcpExt.ListenDrops`).
    pub listen_drops: u64,
    /// Segments sent again (`Tcp.RetransSegs`).
    pub retransmits: u64,
    /// Sockets that left TIME_WAIT early for lack of room (`TcpExt.TCPTimeWaitOverflow`).
    pub time_wait_overflows: u64,
    /// CPU time that a hypervisor gave to others, in microseconds, all CPUs (`steal` of `/proc/stat`).
    pub steal_us: u64,
}
