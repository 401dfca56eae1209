//! What the driver knows of an attempt in flight.

use std::{collections::BTreeMap, time::Duration};

use drover_matrix::RenderedRole;
use drover_model::{Cell, Name, TaskEnd, TaskId, TaskSpec, Verdict};
use drover_store::Stream;

use super::Collected;

/// Outputs that were fetched from an agent, by task and stream.
pub type Outputs = BTreeMap<(TaskId, Stream), Vec<u8>>;

/// An attempt from its first mention until it is stored.
pub struct LiveAttempt {
    /// Its cell.
    pub cell: Cell,
    /// Where it runs.
    pub host: Option<Name>,
    /// Boot of that host when it was begun.
    pub boot_id: String,
    /// Its roles, rendered, in the order of the matrix; empty until prepared.
    pub roles: Vec<RenderedRole>,
    /// Its tasks as far as they were heard of.
    pub tasks: BTreeMap<TaskId, LiveTask>,
    /// Its outputs, from the moment of collection.
    pub outputs: Outputs,
    /// What was found in them.
    pub collected: Option<Collected>,
    /// What the user is told once it is stored.
    pub summary: Option<Summary>,
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
            host: None,
            boot_id: String::new(),
            roles: Vec::new(),
            tasks: BTreeMap::new(),
            outputs: Outputs::new(),
            collected: None,
            summary: None,
        }
    }

    /// The task to send for one instance of a role; `None` before the attempt is prepared.
    pub fn spec(&self, role: usize, task: &TaskId, hold: bool, counters: bool) -> Option<TaskSpec> {
        let rendered = self.roles.get(role)?.clone();
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
            counters,
        })
    }
}
