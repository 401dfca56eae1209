//! A supervisor that is killed with SIGKILL leaves tasks; the next one of the same name ends them. The first supervisor is this test
//! program, started again with [`ROLE`] set.

use std::{
    io::{BufRead, BufReader},
    os::fd::AsFd,
    path::Path,
    process::{Command, Stdio},
};

use crate::lab::{is_alive, until, with_each_containment};
use drover_supervise::{Config, Containment, Launch, Supervisor, clean_env};

/// Set in the supervisor that will be killed: containment, state directory.
const ROLE: &str = "DROVER_TEST_FIRST_SUPERVISOR";
const NAME: &str = "orphan-test";

fn supervisor(containment: Containment, state_dir: &Path) -> Supervisor {
    let unique: String = state_dir.to_str().unwrap().chars().filter(char::is_ascii_alphanumeric).collect();
    let mut config = Config::new(format!("{NAME}-{unique}"), state_dir.to_owned());
    config.containment = Some(containment);
    Supervisor::new(config).unwrap()
}

/// In the second process: starts a task with a daemon, a held one, prints their numbers, and waits for the end.
#[test]
fn first_supervisor() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let (containment, dir) = role.split_once(' ').unwrap();
    let all = [Containment::Cgroup2, Containment::Cgroup1, Containment::ProcessGroup];
    let containment = all.into_iter().find(|c| c.as_str() == containment).unwrap();
    let supervisor = supervisor(containment, Path::new(dir));
    let start = |task, script: &str, hold| {
        let argv = ["/bin/sh".to_owned(), "-c".to_owned(), script.to_owned()];
        let out = || std::io::stderr().as_fd().try_clone_to_owned().unwrap();
        let launch = Launch {
            task,
            argv: &argv,
            env: &clean_env(),
            cwd: Path::new("/"),
            cpus: None,
            hold,
            stdout: out(),
            stderr: out(),
        };
        supervisor.spawn(launch).unwrap()
    };
    let script = "(setsid sh -c 'sleep 1000 & echo daemon $!; wait' &); echo main $$; exec sleep 1000";
    let _running = start("running", script, false);
    let held = start("held", "echo must not happen", true);
    eprintln!("held {}", held.pid());
    std::io::stdin().lines().for_each(drop);
}

#[test]
fn expect_orphans_ended_when_their_supervisor_was_killed() {
    with_each_containment(|lab| {
        let containment = lab.supervisor.containment();
        let dir = tempfile::tempdir().unwrap();
        let mut first = Command::new(std::env::current_exe().unwrap())
            .args(["orphans::first_supervisor", "--exact", "--nocapture", "--test-threads=1"])
            .env(ROLE, format!("{} {}", containment.as_str(), dir.path().display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut pids: Vec<(String, u32)> = Vec::new();
        for line in BufReader::new(first.stderr.take().unwrap()).lines() {
            let line = line.unwrap();
            let (name, pid) = line.split_once(' ').unwrap();
            pids.push((name.to_owned(), pid.parse().unwrap()));
            if pids.len() == 3 {
                break;
            }
        }
        assert!(pids.iter().all(|(_, pid)| is_alive(*pid)));
        first.kill().unwrap();
        first.wait().unwrap();
        let held = pids.iter().find(|(name, _)| name == "held").unwrap().1;
        until("the held task ends by itself, its gate being gone", || !is_alive(held));

        let second = supervisor(containment, dir.path());
        let reports = second.reap_orphans().unwrap();
        assert!(pids.iter().all(|(_, pid)| !is_alive(*pid)), "{}: {pids:?}", containment.as_str());
        assert_eq!(reports.len(), 1, "{reports:?}");
        assert_eq!(reports[0].task.as_deref(), Some("running"));
        for name in ["main", "daemon"] {
            let pid = pids.iter().find(|(other, _)| other == name).unwrap().1;
            assert!(reports[0].pids.contains(&pid), "{reports:?}");
        }
        assert_eq!(second.reap_orphans().unwrap(), []);
    });
}

#[test]
fn expect_orphans_of_another_containment_ended_when_an_agent_starts_with_a_different_one() {
    with_each_containment(|lab| {
        let dir = tempfile::tempdir().unwrap();
        let first = supervisor(lab.supervisor.containment(), dir.path());
        let argv = ["/bin/sleep".to_owned(), "1000".to_owned()];
        let null = || std::fs::File::open("/dev/null").unwrap().into();
        let child = first.spawn(Launch {
            task: "left",
            argv: &argv,
            env: &[],
            cwd: Path::new("/"),
            cpus: None,
            hold: false,
            stdout: null(),
            stderr: null(),
        });
        let child = child.unwrap();
        // In the middle of exec(2) a process has no environment to be told by.
        let environ = format!("/proc/{}/environ", child.pid());
        until("its environment is there", || std::fs::read(&environ).is_ok_and(|bytes| !bytes.is_empty()));
        let second = supervisor(Containment::ProcessGroup, dir.path());
        let reports = second.reap_orphans().unwrap();
        assert_eq!(reports.len(), 1);
        assert_eq!((reports[0].task.as_deref(), &*reports[0].pids), (Some("left"), &[child.pid()][..]));
        assert!(!is_alive(child.pid()));
    });
}
