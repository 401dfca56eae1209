//! A session per task, where there is no cgroup. What leaves the session is still a descendant of the agent (which adopts
//! orphans) and carries an environment variable. Only a process that left its session, lost its parent, and cleared its
//! environment cannot be told from one of another task; it is taken for one of the last task that runs.

use std::{
    collections::{HashMap, HashSet},
    io,
};

use rustix::process::{Pid, Signal};

use super::Tree;
use crate::{
    proc::{self, Process},
    registry::REGISTRY,
};

/// The environment variable that every task carries: `NAME/TASK`.
pub(crate) const MARKER: &str = "DROVER_TASK";

/// The tree of one task.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    /// First process; its number is also that of its session.
    pub(crate) main: u32,
    /// Value of [`MARKER`].
    pub(crate) marker: String,
}

impl Group {
    /// Whether nothing can be left once the first process has ended: then every survivor has become our own child, or descends
    /// from one.
    pub(crate) fn has_no_heirs(&self) -> bool {
        let Some(children) = proc::own_children() else { return false };
        let known = REGISTRY.lock();
        let foreign = |&pid: &u32| !known.contains(pid) && is_foreign(pid);
        !children.iter().any(foreign)
    }
}

impl Tree for Group {
    fn processes(&self) -> io::Result<Vec<u32>> {
        // While the lock is held no process is being started, so none is seen half-made.
        let known = REGISTRY.lock();
        let all = Process::all()?;
        let only_task = known.iter().all(|pid| pid == self.main);
        let children = by_parent(&all);
        let mut members = Vec::new();
        let mut next: Vec<(u32, bool)> = Vec::new();
        for &child in children.get(&std::process::id()).into_iter().flatten() {
            if child == self.main || !known.contains(child) && is_foreign(child) {
                next.push((child, child == self.main));
            }
        }
        let mut seen = HashSet::new();
        while let Some((pid, inherited)) = next.pop() {
            let Some(process) = all.get(&pid).filter(|_| seen.insert(pid)) else { continue };
            let belongs = inherited
                || process.session == self.main
                || match proc::environment_value(pid, MARKER) {
                    Some(marker) => marker == self.marker,
                    None => only_task,
                };
            if belongs && process.is_alive() {
                members.push(pid);
            }
            next.extend(children.get(&pid).into_iter().flatten().map(|&child| (child, belongs)));
        }
        Ok(members)
    }

    fn is_empty(&self) -> io::Result<bool> {
        // Reading /proc takes time, in which a process may have made another and ended; a second look in a row settles it.
        Ok(self.processes()?.is_empty())
    }

    fn strike(&self, processes: &[u32]) -> io::Result<()> {
        let mut groups = HashSet::new();
        for process in processes.iter().filter_map(|&pid| Process::read(pid)) {
            // The kernel kills a group in one go, so that forking faster does not help. All groups of a foreign session belong to the
            // task, because nobody can join a session from outside.
            if is_foreign(process.pid)
                && groups.insert(process.group)
                && let Some(group) = Pid::from_raw(process.group.cast_signed())
            {
                let _ = rustix::process::kill_process_group(group, Signal::KILL);
            }
        }
        super::destroy::signal_each(processes);
        Ok(())
    }
}

/// Whether a process is in another session than this one. Tasks always are; what the agent starts by other means is not.
///
/// Read from `/proc`, where a session whose leader is outside of this pid namespace has the number 0, as in containers.
pub(crate) fn is_foreign(pid: u32) -> bool {
    let session = |pid| Process::read(pid).map(|process| process.session);
    session(pid).is_some_and(|other| Some(other) != session(std::process::id()))
}

fn by_parent(all: &HashMap<u32, Process>) -> HashMap<u32, Vec<u32>> {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    for process in all.values() {
        children.entry(process.parent).or_default().push(process.pid);
    }
    children
}

/// Processes that an earlier agent of this name left: those that carry its marker. Told by the environment alone, because they have
/// other parents now.
#[derive(Debug)]
pub(crate) struct Marked<'a> {
    /// Name of the supervisor.
    pub(crate) name: &'a str,
}

impl Marked<'_> {
    /// The task that a process says it belongs to, if its agent had our name.
    pub(crate) fn task_of(&self, pid: u32) -> Option<String> {
        let marker = proc::environment_value(pid, MARKER)?;
        Some(marker.strip_prefix(self.name)?.strip_prefix('/')?.to_owned())
    }
}

impl Tree for Marked<'_> {
    fn processes(&self) -> io::Result<Vec<u32>> {
        let all = Process::all()?;
        // An agent that was started from within a task of its own name must not end itself.
        let mut spared = HashSet::new();
        let mut ancestor = std::process::id();
        while spared.insert(ancestor) {
            ancestor = all.get(&ancestor).map_or(0, |process| process.parent);
        }
        let candidates = all.values().filter(|process| process.is_alive() && !spared.contains(&process.pid));
        Ok(candidates.map(|process| process.pid).filter(|&pid| self.task_of(pid).is_some()).collect())
    }

    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.processes()?.is_empty())
    }

    fn strike(&self, processes: &[u32]) -> io::Result<()> {
        super::destroy::signal_each(processes);
        Ok(())
    }
}
