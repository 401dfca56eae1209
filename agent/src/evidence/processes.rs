//! What the live processes of an attempt do: their state, where in the kernel each thread waits, and in which system call.

use std::{fmt::Write, fs, io, path::Path};

use drover_machine::sensors::waiting;
use drover_model::AttemptId;

use super::Bundle;
use crate::agent::Agent;

/// Most processes shown one by one, of all tasks.
const MAX_PROCESSES: usize = 200;
/// Most threads shown of each.
const MAX_THREADS: usize = 64;
/// Bytes of one process.
const LIMIT: usize = 16 << 10;
/// Files of a process, besides those of its threads.
const FILES: [&str; 4] = ["status", "wchan", "syscall", "stack"];

pub(super) fn collect(agent: &Agent, attempt: AttemptId, bundle: &mut Bundle) {
    let tasks: Vec<_> = {
        let registry = agent.registry();
        let live = registry.live_of(attempt);
        live.map(|(id, live)| (id.clone(), live.processes())).collect()
    };
    let mut room = MAX_PROCESSES;
    for (id, pids) in tasks {
        let mut summary = String::new();
        for kind in waiting(&pids) {
            let place = kind.wchan.unwrap_or_else(|| "-".to_owned());
            let _ = writeln!(summary, "{:>6} in state {} at {place}", kind.processes, kind.state);
        }
        bundle.section(&format!("{} processes of {id}", pids.len()), &summary, LIMIT, true);
        for pid in pids.iter().take(room) {
            let text = describe(*pid, bundle);
            bundle.section(&format!("process {pid} of {id}"), &text, LIMIT, true);
        }
        if pids.len() > room {
            bundle.missing(format!("{} of the processes of {id}", pids.len() - room));
        }
        room = room.saturating_sub(pids.len());
    }
}

fn describe(pid: u32, bundle: &mut Bundle) -> String {
    let dir = Path::new("/proc").join(pid.to_string());
    let mut text = String::new();
    if let Ok(line) = fs::read(dir.join("cmdline")) {
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        let _ = writeln!(text, "command: {}", line.trim_end());
    }
    for name in FILES {
        match read(&dir.join(name)) {
            Ok(contents) => {
                let _ = writeln!(text, "{name}:");
                contents.lines().for_each(|line| {
                    let _ = writeln!(text, "  {line}");
                });
            }
            // It has ended meanwhile.
            Err(error) if is_gone(&error) => {}
            Err(error) => bundle.missing(format!("/proc/PID/{name}: {error}")),
        }
    }
    let threads = fs::read_dir(dir.join("task")).into_iter().flatten().flatten();
    let threads: Vec<_> = threads.take(MAX_THREADS).collect();
    if threads.len() > 1 {
        let _ = writeln!(text, "threads:");
    }
    for thread in threads.iter().filter(|_| threads.len() > 1) {
        let file = |name: &str| read(&thread.path().join(name)).unwrap_or_default();
        let (name, wchan, stat) = (file("comm"), file("wchan"), file("stat"));
        let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next()).unwrap_or('?');
        let number = thread.file_name();
        let _ = writeln!(text, "  {} {} {state} {wchan}", number.to_string_lossy(), name.trim_end());
    }
    text
}

fn read(path: &Path) -> io::Result<String> {
    fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
        || error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error())
}
