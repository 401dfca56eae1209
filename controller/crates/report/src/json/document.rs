//! The types of the JSON document, and how they are filled from stored results.

use std::collections::BTreeMap;

use drover_model::{Direction, HostFacts, Name, Outcome};
use drover_store::{AttemptRecord, HostState, RunResults, RunState};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use super::task::{Doubt, Task, pairs};
use crate::{
    coverage::Coverage,
    functional::{functional_hosts, is_functional},
    scaling::{self, json::Scaling},
    soak::{SoakResult, json::Soak},
    statistics::Summary,
    trials::{CellTrials, InconsistentRun, group, valid_metrics},
};

/// All that is stored of one run.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "Drover report")]
pub(crate) struct Document<'a> {
    /// Always `drover-report`.
    format: &'static str,
    /// Version of this format; grows when a reader of an older one would misread it.
    version: u32,
    run: Run<'a>,
    coverage: Coverage,
    hosts: Vec<Host<'a>>,
    /// Every cell of the matrix, also those that were not measured.
    cells: Vec<Cell<'a>>,
    /// Every attempt, by cell, repetition and number.
    attempts: Vec<Attempt<'a>>,
    /// What became of soaks, if it is a run of such.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    soaks: Vec<Soak<'a>>,
    /// Where more CPUs did worse, if cells differ in their CPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    scaling: Option<Scaling<'a>>,
}

/// The run as planned.
#[derive(Debug, Serialize, JsonSchema)]
struct Run<'a> {
    /// UUIDv7.
    id: String,
    /// Name of the matrix.
    name: &'a str,
    about: &'a str,
    /// `open`, `finished` or `interrupted`.
    state: &'static str,
    /// UTC, RFC 3339.
    started: Option<String>,
    /// UTC, RFC 3339.
    ended: Option<String>,
    matrix_path: &'a str,
    /// The matrix file as it was read.
    matrix_text: &'a str,
    /// Arguments of `--set`.
    set: &'a [String],
    /// Arguments of `--only`.
    only: &'a [String],
    seed: u64,
    /// Planned trials of each cell.
    repeat: u32,
    /// Axes in the order of the matrix.
    axes: Vec<&'a str>,
    metrics: Vec<Metric<'a>>,
    drover_version: &'a str,
}

/// A metric as declared.
#[derive(Debug, Serialize, JsonSchema)]
struct Metric<'a> {
    name: &'a str,
    unit: &'a str,
    better: Direction,
    primary: bool,
}

/// A host that was used.
#[derive(Debug, Serialize, JsonSchema)]
struct Host<'a> {
    name: &'a str,
    hostname: &'a str,
    kernel_release: &'a str,
    kernel_version: &'a str,
    machine: &'a str,
    boot_id: &'a str,
    cpu_model: &'a str,
    cpus: Vec<Cpu>,
    cpus_present: u32,
    memory_bytes: u64,
    governor: Option<&'a str>,
    hypervisor: Option<&'a str>,
    clocksource: &'a str,
    cmdline: &'a str,
    tainted: u64,
    cgroup_version: u32,
    containment: &'a str,
    mitigations: BTreeMap<&'a str, &'a str>,
    sysctls: BTreeMap<&'a str, &'a str>,
    /// What it was in the course of the run, in the order in which it became that; all else here is how it was last.
    states: Vec<State<'a>>,
}

/// A host between two changes of its boot, kernel or number of CPUs.
#[derive(Debug, Serialize, JsonSchema)]
struct State<'a> {
    boot_id: &'a str,
    kernel_release: &'a str,
    kernel_version: &'a str,
    /// Online CPUs.
    cpus: u32,
}

/// An online CPU.
#[derive(Debug, Serialize, JsonSchema)]
struct Cpu {
    cpu: u32,
    core: u32,
    package: u32,
    node: u32,
}

/// What a cell came to.
#[derive(Debug, Serialize, JsonSchema)]
struct Cell<'a> {
    index: u32,
    /// Identity across runs and machines.
    key: String,
    /// Axis -> value.
    values: BTreeMap<&'a str, &'a str>,
    /// Why the matrix excludes it, if it does.
    excluded: Option<&'a str>,
    /// `ok`, `suspect`, `ng`, `error` or `missing`, over all its trials: the gravest.
    outcome: &'static str,
    /// Empty for `ok` and `suspect`.
    cause: &'static str,
    trials: Trials,
    /// Metric -> its summary. Empty unless the outcome is `ok` or `suspect`.
    metrics: BTreeMap<&'a str, Summary>,
}

/// Trials of a cell by outcome.
#[derive(Debug, Serialize, JsonSchema)]
struct Trials {
    planned: usize,
    ok: usize,
    suspect: usize,
    ng: usize,
    error: usize,
    missing: usize,
}

/// One attempt.
#[derive(Debug, Serialize, JsonSchema)]
struct Attempt<'a> {
    id: String,
    /// Index of its cell.
    cell: u32,
    /// From 1.
    repetition: u32,
    /// From 1.
    number: u32,
    /// Where it ran; empty if no host could be had.
    hosts: Vec<Booted<'a>>,
    /// UTC, RFC 3339.
    started: Option<String>,
    elapsed_s: f64,
    outcome: &'static str,
    cause: &'static str,
    detail: String,
    /// Reasons of a `suspect`.
    doubts: Vec<Doubt<'a>>,
    /// Whether no further attempt follows.
    #[serde(rename = "final")]
    is_final: bool,
    start_skew_us: Option<u64>,
    /// Its numbers show that something works, not how fast: a host of it has its instructions translated.
    functional_only: bool,
    /// Metric -> value. Empty unless the outcome is `ok` or `suspect`.
    metrics: BTreeMap<&'a str, f64>,
    tasks: Vec<Task<'a>>,
}

/// A host as an attempt found it.
#[derive(Debug, Serialize, JsonSchema)]
struct Booted<'a> {
    name: &'a str,
    /// Changes at every boot.
    boot_id: &'a str,
}

impl<'a> Document<'a> {
    /// Fills a document from stored results.
    pub(crate) fn of(results: &'a RunResults, soaks: &'a [SoakResult]) -> Result<Self, InconsistentRun> {
        let cells = group(results)?;
        let functional = functional_hosts(results);
        let primary = results.run.metrics.iter().find(|metric| metric.primary);
        let scaling = primary.and_then(|metric| scaling::Scaling::of(results, &cells, metric));
        let attempts = cells.iter().flat_map(|cell| &cell.trials).flat_map(|trial| &trial.attempts);
        Ok(Self {
            format: "drover-report",
            version: 1,
            run: Run::of(results),
            coverage: Coverage::of_cells(&cells),
            hosts: results.hosts.iter().map(|(name, facts)| Host::of(results, name, facts)).collect(),
            cells: cells.iter().map(|cell| Cell::of(results, cell)).collect(),
            attempts: attempts.map(|attempt| Attempt::of(attempt, &functional)).collect(),
            soaks: soaks.iter().map(Soak::of).collect(),
            scaling: scaling.as_ref().map(Scaling::of),
        })
    }
}

impl<'a> Run<'a> {
    fn of(results: &'a RunResults) -> Self {
        let run = &results.run;
        let ms = |ms: u64| Some(Timestamp::from_millisecond(i64::try_from(ms).ok()?).ok()?.to_string());
        Self {
            id: run.id.to_string(),
            name: &run.name,
            about: &run.about,
            state: match results.state {
                RunState::Open => "open",
                RunState::Finished => "finished",
                RunState::Interrupted => "interrupted",
            },
            started: ms(run.started_unix_ms),
            ended: results.ended_unix_ms.and_then(ms),
            matrix_path: &run.matrix_path,
            matrix_text: &run.matrix_text,
            set: &run.set,
            only: &run.only,
            seed: run.seed,
            repeat: run.repeat,
            axes: run.axes.iter().map(|axis| axis.as_str()).collect(),
            metrics: run
                .metrics
                .iter()
                .map(|metric| Metric {
                    name: metric.name.as_str(),
                    unit: &metric.unit,
                    better: metric.better,
                    primary: metric.primary,
                })
                .collect(),
            drover_version: &run.drover_version,
        }
    }
}

impl<'a> Host<'a> {
    fn of(results: &'a RunResults, name: &'a Name, facts: &'a HostFacts) -> Self {
        let cpus = facts.cpus.iter();
        let states = results.host_states.iter().filter(|state| state.host == *name);
        Self {
            name: name.as_str(),
            hostname: &facts.hostname,
            kernel_release: &facts.kernel_release,
            kernel_version: &facts.kernel_version,
            machine: &facts.machine,
            boot_id: &facts.boot_id,
            cpu_model: &facts.cpu_model,
            cpus: cpus.map(|c| Cpu { cpu: c.cpu, core: c.core, package: c.package, node: c.node }).collect(),
            cpus_present: facts.cpus_present,
            memory_bytes: facts.memory_bytes,
            governor: facts.governor.as_deref(),
            hypervisor: facts.hypervisor.as_deref(),
            clocksource: &facts.clocksource,
            cmdline: &facts.cmdline,
            tainted: facts.tainted,
            cgroup_version: facts.cgroup_version,
            containment: &facts.containment,
            mitigations: pairs(&facts.mitigations),
            sysctls: pairs(&facts.sysctls),
            states: states.map(State::of).collect(),
        }
    }
}

impl<'a> State<'a> {
    fn of(state: &'a HostState) -> Self {
        Self {
            boot_id: &state.boot_id,
            kernel_release: &state.kernel_release,
            kernel_version: &state.kernel_version,
            cpus: state.cpus,
        }
    }
}

impl<'a> Cell<'a> {
    fn of(results: &'a RunResults, cell: &CellTrials<'a>) -> Self {
        let outcome = cell.outcome;
        let count = |wanted: Outcome| cell.count(|outcome| outcome == wanted);
        let metrics = results.run.metrics.iter().filter(|_| outcome.outcome().has_number());
        let summaries = metrics.filter_map(|metric| {
            let name = metric.name.as_str();
            Some((name, Summary::of(cell.values(name))?))
        });
        Self {
            index: cell.cell.index,
            key: cell.cell.key.to_string(),
            values: results
                .run
                .axes
                .iter()
                .map(|axis| axis.as_str())
                .zip(cell.cell.values.iter().map(|v| &**v))
                .collect(),
            excluded: cell.cell.excluded.as_deref(),
            outcome: outcome.outcome().as_str(),
            cause: outcome.cause(),
            trials: Trials {
                planned: cell.trials.len(),
                ok: count(Outcome::Ok),
                suspect: count(Outcome::Suspect),
                ng: count(Outcome::Ng),
                error: count(Outcome::Error),
                missing: count(Outcome::Missing),
            },
            metrics: summaries.collect(),
        }
    }
}

impl<'a> Attempt<'a> {
    fn of(attempt: &'a AttemptRecord, functional: &[&str]) -> Self {
        let started = i64::try_from(attempt.started_unix_us).ok();
        let doubts = match &attempt.verdict {
            drover_model::Verdict::Suspect { doubts } => doubts.as_slice(),
            _ => &[],
        };
        Self {
            id: attempt.id.to_string(),
            cell: attempt.id.trial.cell,
            repetition: attempt.id.trial.repetition,
            number: attempt.id.number,
            hosts: attempt.hosts.iter().zip(&attempt.boot_ids).map(Booted::of).collect(),
            started: started.and_then(|us| Some(Timestamp::from_microsecond(us).ok()?.to_string())),
            elapsed_s: attempt.elapsed.as_secs_f64(),
            outcome: attempt.verdict.outcome().as_str(),
            cause: attempt.verdict.cause(),
            detail: attempt.verdict.detail(),
            doubts: doubts.iter().map(Doubt::of).collect(),
            is_final: attempt.is_final,
            start_skew_us: attempt.start_skew_us,
            functional_only: is_functional(functional, attempt),
            metrics: valid_metrics(attempt).collect(),
            tasks: attempt.tasks.iter().map(Task::of).collect(),
        }
    }
}

impl<'a> Booted<'a> {
    fn of((name, boot_id): (&'a Name, &'a String)) -> Self {
        Self { name: name.as_str(), boot_id }
    }
}
