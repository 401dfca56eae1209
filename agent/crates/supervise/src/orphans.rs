//! Finds and ends what earlier agents of the same name left: processes in their cgroups, and such as carry their marker.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use crate::{
    Containment, OrphanError, OrphanReport,
    contain::{Marked, Slot, SlotKind, Slots, Tree, destroy, left_behind, remove},
};

/// File in the state directory with one line per place where an agent has made cgroups: version, blank, directory.
const RECORD: &str = "cgroups";

/// Writes down where this agent makes cgroups, before it makes any for a task.
pub(crate) fn record(state_dir: &Path, containment: Containment, base: &Path) -> io::Result<()> {
    let path = state_dir.join(RECORD);
    let line = format!("{} {}\n", containment.cgroup_version(), base.display());
    let known = fs::read_to_string(&path).unwrap_or_default();
    if known.lines().any(|other| other == line.trim_end()) {
        return Ok(());
    }
    fs::write(path, known + &line)
}

/// Ends all that is left and says what that was.
pub(crate) fn reap(
    name: &str,
    state_dir: &Path,
    slots: Option<&Slots>,
    patience: Duration,
) -> Result<Vec<OrphanReport>, OrphanError> {
    let find = |step| move |source| OrphanError::Find { step, source };
    let marked = Marked { name };
    let mut by_task: BTreeMap<Option<String>, Vec<u32>> = BTreeMap::new();
    let mut found =
        slots.map(Slots::left_behind).transpose().map_err(find("list its cgroups"))?.unwrap_or_default();
    let current = slots.map(Slots::base);
    let text = fs::read_to_string(state_dir.join(RECORD)).unwrap_or_default();
    let elsewhere: Vec<_> =
        text.lines().filter_map(parse).filter(|(_, base)| Some(&**base) != current).collect();
    for (kind, base) in &elsewhere {
        found.extend(left_at(*kind, base).map_err(find("list the cgroups of another place"))?);
    }
    for slot in &found {
        let tasks: BTreeMap<u32, Option<String>> = slot
            .processes()
            .map_err(find("list the processes of a cgroup"))?
            .into_iter()
            .map(|pid| (pid, marked.task_of(pid)))
            .collect();
        let fallback = tasks.values().flatten().next().cloned();
        for pid in destroy(slot, patience)? {
            let task = tasks.get(&pid).cloned().flatten().or_else(|| fallback.clone());
            by_task.entry(task).or_default().push(pid);
        }
        remove(slot).map_err(find("remove a cgroup"))?;
    }
    for (_, base) in &elsewhere {
        // Fails if it is gone or shared by another agent.
        let _ = fs::remove_dir(base);
    }
    let tasks: BTreeMap<u32, Option<String>> = marked
        .processes()
        .map_err(find("look through /proc"))?
        .into_iter()
        .map(|pid| (pid, marked.task_of(pid)))
        .collect();
    if !tasks.is_empty() {
        for pid in destroy(&marked, patience)? {
            by_task.entry(tasks.get(&pid).cloned().flatten()).or_default().push(pid);
        }
    }
    Ok(by_task.into_iter().map(|(task, pids)| OrphanReport { task, pids }).collect())
}

fn left_at(kind: SlotKind, base: &Path) -> io::Result<Vec<Slot>> {
    match left_behind(kind, base, &[]) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        other => other,
    }
}

fn parse(line: &str) -> Option<(SlotKind, PathBuf)> {
    let (version, base) = line.split_once(' ')?;
    let kind = match version {
        "2" => SlotKind::V2,
        "1" => SlotKind::V1,
        _ => return None,
    };
    // Whatever the file says, nothing is killed outside of a cgroup that has our kind of name.
    let base = PathBuf::from(base);
    base.file_name()?.to_str()?.starts_with("drover-").then_some((kind, base))
}
