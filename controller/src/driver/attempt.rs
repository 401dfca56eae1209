//! What the driver knows of an attempt in flight.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use drover_matrix::{RenderedRole, Role};
use drover_model::{Cell, Doubt, Name, Seats, TaskEnd, TaskId, TaskSpec, Verdict};
use drover_store::Stream;
use drover_vm::Expected;

use super::{Collected, machine::Verified, observed::Observed, soak::LiveSoak};

/// Outputs that were fetched from an agent, by task and stream.
pub type Outputs = BTreeMap<(TaskId, Stream), Vec<u8>>;

/// What is to be fetched from one host for an attempt.
#[derive(Debug, Default)]
pub struct Wanted {
    /// Outputs that did not travel with their events, and their lengths in bytes.
    pub outputs: Vec<(TaskId, Stream, u64)>,
    /// What tasks may have left.
    pub artifacts: Vec<ArtifactWish>,
    /// Samples of its sensors, and what its agent makes of them.
    pub samples: bool,
}

/// Files that a task may have left in the folder of its attempt.
#[derive(Debug)]
pub struct ArtifactWish {
    pub task: TaskId,
    pub patterns: Vec<String>,
    /// Most bytes of all of them.
    pub limit: u64,
}

/// What was fetched from one host.
#[derive(Debug, Default)]
pub struct Fetched {
    pub outputs: Outputs,
    pub artifacts: Vec<FetchedArtifact>,
    /// Reasons for doubt in the samples of its sensors.
    pub judged: Vec<Doubt>,
}

/// A file that a task left, and why it was not fetched, if it was not.
#[derive(Debug)]
pub struct FetchedArtifact {
    pub host: Name,
    pub task: TaskId,
    /// Relative to the attempt's folder; empty if the problem is not one file's.
    pub path: String,
    pub problem: Option<String>,
}

/// An attempt from its first mention until it is stored.
pub struct LiveAttempt {
    /// Its cell.
    pub cell: Cell,
    /// Where it runs; not known before it is prepared.
    pub seats: Option<Arc<Seats>>,
    /// Its hosts with their boots when it was begun, each once.
    pub boots: Vec<(Name, String)>,
    /// What its machines must say of themselves, before and after.
    pub machines: Vec<(Name, Expected)>,
    /// What they said after it, with the numbers of the connections on which they were asked.
    pub verified: BTreeMap<Name, (u64, Verified)>,
    /// All that it left is here, and waits for that.
    pub waits_for_machines: bool,
    /// Ports of its hosts; `None` where they were asked for.
    pub ports: BTreeMap<Name, Option<Vec<u16>>>,
    /// Its tasks, rendered, by role in the order of the matrix and by instance; empty until prepared.
    pub roles: Vec<Vec<RenderedRole>>,
    /// Hosts that are still to say whether they reach a service, by role.
    pub reach: BTreeMap<usize, BTreeSet<Name>>,
    /// Its tasks as far as they were heard of.
    pub tasks: BTreeMap<TaskId, LiveTask>,
    /// Hosts that are still to send what the attempt left there, and the numbers of the connections on which they were asked.
    pub fetching: BTreeMap<Name, u64>,
    /// Files that its tasks left, as declared.
    pub artifacts: Vec<FetchedArtifact>,
    /// What its hosts reported of themselves.
    pub observed: BTreeMap<Name, Observed>,
    /// Its outputs, from the moment of collection.
    pub outputs: Outputs,
    /// What was found in them.
    pub collected: Option<Collected>,
    /// What the user is told once it is stored.
    pub summary: Option<Summary>,
    /// What is kept of it if it is a soak.
    pub soak: Option<Box<LiveSoak>>,
}

/// What became of an attempt, for the user.
pub struct Summary {
    pub verdict: Verdict,
    /// The primary metric, ready to print.
    pub value: Option<String>,
    pub took: Duration,
    pub is_final: bool,
}

/// A task of a live attempt.
#[derive(Default)]
pub struct LiveTask {
    /// Where it runs.
    pub host: Option<Name>,
    /// Verified CPUs at its start.
    pub cpus: String,
    /// How it ended.
    pub end: Option<TaskEnd>,
}

impl LiveAttempt {
    /// An attempt of which nothing is known yet.
    pub fn new(cell: Cell) -> Self {
        Self {
            cell,
            seats: None,
            boots: Vec::new(),
            machines: Vec::new(),
            verified: BTreeMap::new(),
            waits_for_machines: false,
            ports: BTreeMap::new(),
            roles: Vec::new(),
            reach: BTreeMap::new(),
            tasks: BTreeMap::new(),
            fetching: BTreeMap::new(),
            artifacts: Vec::new(),
            observed: BTreeMap::new(),
            outputs: Outputs::new(),
            collected: None,
            summary: None,
            soak: None,
        }
    }

    /// The task to send for one instance of a role; `None` before the attempt is prepared.
    pub fn spec(&self, place: usize, role: &Role, task: &TaskId, hold: bool) -> Option<TaskSpec> {
        let instance = usize::try_from(task.instance).ok()?;
        let rendered = self.roles.get(place)?.get(instance)?.clone();
        Some(TaskSpec {
            id: task.clone(),
            argv: rendered.argv,
            env: rendered.env,
            files: rendered.files,
            ready: rendered.ready,
            ready_within: rendered.ready_within,
            placement: rendered.placement,
            hold,
            deadline: rendered.deadline,
            stop: rendered.stop,
            output_limit: rendered.output_limit,
            ports: rendered.ports,
            counters: role.measure.is_some(),
            rounds: None,
            progress: false,
            stall: None,
        })
    }
}
