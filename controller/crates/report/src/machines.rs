//! What a host was in the course of a run, in words: its kernels and numbers of CPUs, in the order in which it had them.

use std::collections::HashMap;

use drover_model::{HostFacts, Name};
use drover_store::{HostState, RunResults};

/// The axis whose values are labels of kernels.
const AXIS: &str = "kernel";
/// Kernels of a host that are named at most.
const MOST_KERNELS: usize = 12;
/// Numbers of CPUs of a host that are named at most.
const MOST_COUNTS: usize = 8;
/// Characters after which a line of kernels ends.
const WIDEST: usize = 110;

/// A line for a host, and more where it had several kernels; not yet escaped.
pub(crate) fn lines(results: &RunResults, name: &Name, facts: &HostFacts) -> Vec<String> {
    let mut states: Vec<&HostState> =
        results.host_states.iter().filter(|state| state.host == *name).collect();
    let last = HostState::of(name, facts);
    if states.is_empty() {
        states.push(&last);
    }
    let model = if facts.cpu_model.is_empty() { String::new() } else { format!(" ({})", facts.cpu_model) };
    let virtual_on = facts.hypervisor.as_ref().map(|name| format!(", under {name}")).unwrap_or_default();
    let cpus = cpus(&states);
    let kernels = kernels(results, &states);
    let machine = &facts.machine;
    if let [only] = kernels.as_slice() {
        return vec![format!("host {name}: Linux {only} {machine}, {cpus}{model}{virtual_on}")];
    }
    let mut lines = vec![format!("host {name}: {machine}, {cpus}{model}{virtual_on}")];
    let mut shown: Vec<String> = kernels.iter().take(MOST_KERNELS).cloned().collect();
    if let more @ 1.. = kernels.len().saturating_sub(MOST_KERNELS) {
        shown.push(format!("{more} more"));
    }
    let mut line = String::new();
    for kernel in shown {
        if line.is_empty() {
            line = format!("{name} ran Linux {kernel}");
        } else if line.chars().count() + kernel.chars().count() > WIDEST {
            lines.push(std::mem::replace(&mut line, format!("{name} ran Linux {kernel}")));
        } else {
            line.push_str(&format!(", {kernel}"));
        }
    }
    lines.push(line);
    lines
}

/// The kernels by their first boot: the release, and in brackets what the matrix calls it if that is something else.
fn kernels(results: &RunResults, states: &[&HostState]) -> Vec<String> {
    let by_boot = labels(results);
    let kernel = |state: &HostState| (state.kernel_release.clone(), state.kernel_version.clone());
    let named =
        states.iter().filter_map(|state| Some((kernel(state), *by_boot.get(state.boot_id.as_str())?)));
    // A boot without a number has the name of its kernel from other boots.
    let by_kernel: HashMap<(String, String), &str> = named.collect();
    let mut kernels = Vec::new();
    for state in states {
        let release = &state.kernel_release;
        let label = by_boot.get(state.boot_id.as_str()).or_else(|| by_kernel.get(&kernel(state)));
        let label = label.filter(|label| *label != release);
        let text = label.map_or_else(|| release.clone(), |label| format!("{release} ({label})"));
        if !kernels.contains(&text) {
            kernels.push(text);
        }
    }
    kernels
}

/// What the matrix calls the kernel of a boot, by the cells that gave a number on it.
fn labels(results: &RunResults) -> HashMap<&str, &str> {
    let Some(axis) = results.run.axes.iter().position(|axis| axis.as_str() == AXIS) else {
        return HashMap::new();
    };
    let by_cell: HashMap<u32, &str> =
        results.cells.iter().filter_map(|cell| Some((cell.index, &**cell.values.get(axis)?))).collect();
    let proven = results.attempts.iter().filter(|attempt| attempt.verdict.outcome().has_number());
    let named = proven.filter_map(|attempt| {
        let label = by_cell.get(&attempt.id.trial.cell).filter(|label| **label != "running")?;
        Some(attempt.boot_ids.iter().map(|boot_id| (boot_id.as_str(), *label)))
    });
    named.flatten().collect()
}

/// `1 CPU`, `1, 2 and 4 CPUs`, `24 numbers of CPUs from 1 to 128`.
fn cpus(states: &[&HostState]) -> String {
    let mut counts: Vec<u32> = Vec::new();
    for state in states {
        if !counts.contains(&state.cpus) {
            counts.push(state.cpus);
        }
    }
    match counts.as_slice() {
        [1] => "1 CPU".to_owned(),
        [one] => format!("{one} CPUs"),
        [first @ .., last] if counts.len() <= MOST_COUNTS => {
            let first: Vec<String> = first.iter().map(u32::to_string).collect();
            format!("{} and {last} CPUs", first.join(", "))
        }
        many => {
            let (least, most) = (many.iter().min().copied(), many.iter().max().copied());
            format!("{} numbers of CPUs from {} to {}", many.len(), least.unwrap_or(0), most.unwrap_or(0))
        }
    }
}
