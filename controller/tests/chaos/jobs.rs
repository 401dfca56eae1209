//! The processes of a round's jobs, found by the mark in their environment, wherever they are: those of a lab's hosts are seen
//! from here, too.

use std::{collections::BTreeSet, fs};

use rustix::process::{Pid, Signal, kill_process};

/// All of them.
pub fn of_round(mark: &str) -> BTreeSet<u32> {
    let wanted = format!("CHAOS_ROUND={mark}\0");
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let has_mark = |pid: &u32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.windows(wanted.len()).any(|window| window == wanted.as_bytes())
    };
    pids.filter(has_mark).collect()
}

/// One of the tasks themselves, not of what they started.
pub fn choose(mark: &str, pick: u64) -> Option<u32> {
    let all = of_round(mark);
    let is_task = |pid: &&u32| parent(**pid).is_some_and(|parent| !all.contains(&parent));
    let tasks: Vec<u32> = all.iter().filter(is_task).copied().collect();
    let place = pick.checked_rem(u64::try_from(tasks.len()).ok()?)?;
    tasks.get(usize::try_from(place).ok()?).copied()
}

fn parent(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
}

/// Whether all threads of a process are stopped, or it has ended.
pub fn is_stopped(pid: u32) -> bool {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let state = |thread: fs::DirEntry| {
        let stat = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next())
    };
    threads.map(state).all(|state| matches!(state, None | Some('T' | 'Z' | 'X')))
}

/// Sends a signal; says whether the process was there.
pub fn signal(pid: u32, signal: Signal) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| kill_process(pid, signal).is_ok())
}

/// Processes whose command names this text.
pub fn naming(text: &str) -> Vec<String> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let command = |pid: u32| {
        let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        (pid, String::from_utf8_lossy(&command).replace('\0', " "))
    };
    let found = pids.map(command).filter(|(_, command)| command.contains(text));
    found.map(|(pid, command)| format!("process {pid}: {}", command.trim())).collect()
}
