//! How the machine is at the moment: load, swap, turbo, limits, and processes that were left over. Asked before a run.

use std::{collections::BTreeMap, path::Path};

use drover_model::{Leftover, Survey};

use crate::source::Source;

/// What every task carries in its environment.
const MARKER: &[u8] = b"DROVER_TASK=";
/// How the names of agents and controllers begin: what descends from one is no leftover.
const OURS: &str = "drover";
/// Most leftovers that are named.
const MAX_LEFTOVERS: usize = 100;

/// Looks at this machine. Ports are for the caller to look at.
#[must_use]
pub fn survey() -> Survey {
    survey_below(Path::new("/"))
}

fn survey_below(root: &Path) -> Survey {
    let source = Source { root };
    Survey {
        load_milli: load(source),
        swap_used_bytes: swap_used(source),
        turbo: turbo(source),
        processes_limit: processes_limit(source),
        leftovers: leftovers(source),
        taken_ports: Vec::new(),
    }
}

/// `0.52 0.58 0.59 1/467 12345`
fn load(source: Source<'_>) -> Option<u64> {
    let text = source.text("proc/loadavg")?;
    let (whole, fraction) = text.split_ascii_whitespace().next()?.split_once('.')?;
    let hundredths: u64 = fraction.get(..2)?.parse().ok()?;
    whole.parse::<u64>().ok()?.checked_mul(1000)?.checked_add(hundredths * 10)
}

fn swap_used(source: Source<'_>) -> Option<u64> {
    let text = source.text("proc/meminfo")?;
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_ascii_whitespace().next()?.parse::<u64>().ok()
    };
    field("SwapTotal:")?.checked_sub(field("SwapFree:")?)?.checked_mul(1024)
}

fn turbo(source: Source<'_>) -> Option<bool> {
    let intel: Option<u8> = source.number("sys/devices/system/cpu/intel_pstate/no_turbo");
    let others = || source.number::<u8>("sys/devices/system/cpu/cpufreq/boost");
    intel.map(|off| off == 0).or_else(|| others().map(|on| on == 1))
}

/// The hard limit; the soft one is for the tasks to raise.
fn processes_limit(source: Source<'_>) -> Option<u64> {
    let text = source.text("proc/self/limits")?;
    let line = text.lines().find_map(|line| line.strip_prefix("Max processes"))?;
    line.split_ascii_whitespace().nth(1)?.parse().ok()
}

fn leftovers(source: Source<'_>) -> Vec<Leftover> {
    let pids: Vec<u32> = source.names("proc").iter().filter_map(|name| name.parse().ok()).collect();
    let processes: BTreeMap<u32, (String, u32)> =
        pids.into_iter().filter_map(|pid| Some((pid, stat(source, pid)?))).collect();
    let is_left = |pid: &u32| is_marked(source, *pid) && !descends_from_ours(&processes, *pid);
    let left = processes.iter().filter(|(pid, _)| is_left(pid));
    left.map(|(pid, (command, _))| Leftover { pid: *pid, command: command.clone() })
        .take(MAX_LEFTOVERS)
        .collect()
}

/// Name and parent.
fn stat(source: Source<'_>, pid: u32) -> Option<(String, u32)> {
    let text = source.text(&format!("proc/{pid}/stat"))?;
    let (start, rest) = text.rsplit_once(") ")?;
    let (_, command) = start.split_once(" (")?;
    Some((command.to_owned(), rest.split_ascii_whitespace().nth(1)?.parse().ok()?))
}

/// Whether its environment, where it may be read, says that it is part of a task.
fn is_marked(source: Source<'_>, pid: u32) -> bool {
    let environment = std::fs::read(source.path(&format!("proc/{pid}/environ"))).unwrap_or_default();
    environment.split(|byte| *byte == 0).any(|variable| variable.starts_with(MARKER))
}

fn descends_from_ours(processes: &BTreeMap<u32, (String, u32)>, pid: u32) -> bool {
    let mut at = pid;
    // A chain of parents that is longer than there are processes has been rearranged meanwhile.
    for _ in 0..=processes.len() {
        let Some((command, parent)) = processes.get(&at) else { return false };
        if command.starts_with(OURS) {
            return true;
        }
        at = *parent;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    #[test]
    fn expect_what_the_files_say_when_a_machine_is_looked_at() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        write(root, "proc/loadavg", "12.05 0.58 0.59 1/467 12345\n");
        write(root, "proc/meminfo", "MemTotal: 9 kB\nSwapTotal:   2048 kB\nSwapFree:   1024 kB\n");
        write(root, "sys/devices/system/cpu/intel_pstate/no_turbo", "0\n");
        write(
            root,
            "proc/self/limits",
            "Max processes             1000                 2000                 processes\n",
        );
        // An agent with a task, and what another one has left: its child was given to init.
        for (pid, command, parent, marked) in [
            (1, "init", 0, false),
            (10, "drover-agent", 1, false),
            (11, "sh", 10, true),
            (12, "sleep", 11, true),
            (20, "http) d", 1, true),
            (21, "bash", 1, false),
        ] {
            write(root, &format!("proc/{pid}/stat"), &format!("{pid} ({command}) S {parent} 1 1\n"));
            let environment = if marked { "A=b\0DROVER_TASK=x/y\0" } else { "A=b\0XDROVER_TASK=x\0" };
            write(root, &format!("proc/{pid}/environ"), environment);
        }
        let expected = Survey {
            load_milli: Some(12_050),
            swap_used_bytes: Some(1 << 20),
            turbo: Some(true),
            processes_limit: Some(2000),
            leftovers: vec![Leftover { pid: 20, command: "http) d".to_owned() }],
            taken_ports: Vec::new(),
        };
        assert_eq!(survey_below(root), expected);
        let empty = tempfile::tempdir().unwrap();
        assert_eq!(survey_below(empty.path()), Survey::default());
        assert!(survey().load_milli.is_some());
    }
}
