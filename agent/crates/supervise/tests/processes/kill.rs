//! Ending trees that do not want to end. Real processes in every containment.

use std::{collections::HashSet, path::Path};

use crate::lab::{is_alive, until, with_each_containment};
use drover_supervise::ExitStatus;

#[test]
fn expect_all_dead_when_a_task_ignores_sigterm() {
    with_each_containment(|lab| {
        let mut task = lab.shell("trap '' TERM; sleep 1000 & echo $!; while :; do wait; done");
        let sleeper: u32 = task.line().parse().unwrap();
        task.child.signal(libc::SIGTERM).unwrap();
        assert!(!task.child.is_gone().unwrap());
        assert_eq!(task.child.kill_tree().unwrap().killed, 2, "{}", lab.name());
        assert!(task.child.is_gone().unwrap());
        assert!(!is_alive(sleeper) && !is_alive(task.child.pid()));
        assert_eq!(task.child.try_wait().unwrap().unwrap().status, ExitStatus::Signaled(libc::SIGKILL));
        assert_eq!(task.rest(), "");
    });
}

#[test]
fn expect_leftovers_dead_when_a_grandchild_left_session_and_parents() {
    with_each_containment(|lab| {
        // Two forks and a new session: its parents are gone, and its group is its own.
        let mut task = lab.shell("setsid sh -c '(sleep 1000 & echo $!) &' </dev/null; exit 3");
        let daemon: u32 = task.line().parse().unwrap();
        assert_eq!(task.exit().status, ExitStatus::Exited(3));
        until("only the daemon", || task.child.processes().unwrap() == [daemon]);
        assert!(!task.child.is_gone().unwrap(), "{}", lab.name());
        assert_eq!(task.child.kill_tree().unwrap().killed, 1);
        assert!(!is_alive(daemon));
        assert_eq!(task.child.try_wait().unwrap().unwrap().status, ExitStatus::Exited(3));
        assert!(!std::fs::exists(format!("/proc/{daemon}")).unwrap(), "its zombie was collected");
        assert_eq!(task.rest(), "", "the pipe is not held open any more");
    });
}

#[test]
fn expect_leftovers_dead_when_a_grandchild_also_cleared_its_environment() {
    with_each_containment(|lab| {
        let mut task = lab.shell("env -i /usr/bin/setsid /bin/sh -c '(/bin/sleep 1000 & echo $!) &'; exit 0");
        let daemon: u32 = task.line().parse().unwrap();
        task.exit();
        assert!(task.child.kill_tree().unwrap().killed >= 1, "{}", lab.name());
        assert!(!is_alive(daemon));
    });
}

#[test]
fn expect_other_tasks_unharmed_when_one_is_killed() {
    with_each_containment(|lab| {
        let script = "(setsid sh -c 'sleep 1000 & echo $!; wait' &) ; exec sleep 1000";
        let (mut one, mut other) = (lab.shell(script), lab.shell(script));
        let (daemon, others_daemon): (u32, u32) =
            (one.line().parse().unwrap(), other.line().parse().unwrap());
        one.child.kill_tree().unwrap();
        assert!(!is_alive(daemon));
        assert!(is_alive(others_daemon) && is_alive(other.child.pid()), "{}", lab.name());
        let processes: HashSet<u32> = other.child.processes().unwrap().into_iter().collect();
        assert!(processes.contains(&others_daemon) && processes.contains(&other.child.pid()));
        other.child.kill_tree().unwrap();
        assert!(!is_alive(others_daemon));
    });
}

#[test]
fn expect_all_dead_when_many_processes_fork_while_they_are_killed() {
    with_each_containment(|lab| {
        // Doubles until 64 shells fork as fast as they can; bounded, should it ever escape.
        let bomb = lab.file(
            "bomb",
            "#!/bin/sh\n[ $1 -gt 0 ] && { $0 $(($1-1)) & $0 $(($1-1)) & }\ni=0\n\
             while [ $i -lt 500 ]; do sleep 2 & i=$((i+1)); [ $i = 20 ] && echo forking; done; wait\n",
            0o755,
        );
        let mut task = lab.start(&[&bomb, "5"], |_| {}).unwrap();
        task.line();
        let report = task.child.kill_tree().unwrap();
        assert!(report.killed >= 20, "{}: {report:?}", lab.name());
        assert!(task.child.is_gone().unwrap());
        assert_eq!(task.child.processes().unwrap(), Vec::<u32>::new());
        task.rest();
    });
}

#[test]
fn expect_all_dead_when_a_process_moves_on_to_a_new_one_all_the_time() {
    with_each_containment(|lab| {
        // Each shell starts the next in a session of its own and ends: no number stays valid for long. Bounded, should it escape.
        let comet = lab.file(
            "comet",
            "#!/bin/sh\n[ $1 = 290 ] && echo flying\n[ $1 -gt 0 ] && { setsid $0 $(($1-1)) & }\nexit 0\n",
            0o755,
        );
        let mut task = lab.start(&[&comet, "300"], |_| {}).unwrap();
        task.line();
        task.child.kill_tree().unwrap();
        assert_eq!(task.child.processes().unwrap(), Vec::<u32>::new(), "{}", lab.name());
        assert_eq!(task.exit().status, ExitStatus::Exited(0));
        task.rest();
    });
}

#[test]
fn expect_stopped_processes_dead_when_the_tree_is_killed() {
    with_each_containment(|lab| {
        let mut task = lab.shell("sleep 1000 & kill -STOP $!; echo $!; kill -STOP $$");
        let sleeper: u32 = task.line().parse().unwrap();
        assert_eq!(task.child.kill_tree().unwrap().killed, 2, "{}", lab.name());
        assert!(!is_alive(sleeper));
    });
}

#[test]
fn expect_the_next_task_unharmed_when_one_was_killed() {
    with_each_containment(|lab| {
        // Kernels of 2025 kill whatever is born into a cgroup that was killed before.
        for _ in 0..3 {
            lab.shell("exec sleep 1000").child.kill_tree().unwrap();
            assert_eq!(lab.shell("exit 5").exit().status, ExitStatus::Exited(5), "{}", lab.name());
        }
    });
}

#[test]
fn expect_right_statuses_when_many_tasks_run_at_once() {
    with_each_containment(|lab| {
        std::thread::scope(|scope| {
            for worker in 0..8 {
                scope.spawn(move || {
                    for round in 0..12 {
                        let status = worker * 12 + round;
                        // Every other one leaves an orphan that ends at once, and one that does not.
                        let litter = if round % 2 == 0 { "(true &); (sleep 1000 &); " } else { "" };
                        let mut task = lab.shell(&format!("{litter}exit {status}"));
                        assert_eq!(task.exit().status, ExitStatus::Exited(status));
                        task.child.kill_tree().unwrap();
                        assert!(task.child.is_gone().unwrap());
                        lab.supervisor.reap_strays();
                    }
                });
            }
        });
        // No zombie of anyone remains, once nothing runs.
        let is_zombie = |pid: &str| {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            stat.contains(") Z ")
        };
        lab.supervisor.reap_strays();
        let children =
            std::fs::read_to_string(format!("/proc/self/task/{}/children", std::process::id())).unwrap();
        let zombies: Vec<&str> = children.split_ascii_whitespace().filter(|pid| is_zombie(pid)).collect();
        assert_eq!(zombies, Vec::<&str>::new(), "{}", lab.name());
    });
}

#[test]
fn expect_the_status_of_foreign_children_left_alone_when_strays_are_reaped() {
    with_each_containment(|lab| {
        let mut foreign = std::process::Command::new("/bin/sh").args(["-c", "exit 9"]).spawn().unwrap();
        let pid = foreign.id();
        until("a zombie", || !is_alive(pid));
        let mut task = lab.shell("(setsid sleep 0.01 &); exit 4");
        until("the stray collected", || {
            lab.supervisor.reap_strays();
            task.child.is_gone().unwrap()
        });
        assert_eq!(task.exit().status, ExitStatus::Exited(4));
        assert_eq!(foreign.wait().unwrap().code(), Some(9));
    });
}

#[test]
fn expect_an_empty_pool_directory_when_the_supervisor_ends() {
    let places = std::cell::RefCell::new(Vec::new());
    with_each_containment(|lab| {
        let tasks: Vec<_> = (0..4).map(|_| lab.shell("exec sleep 1000")).collect();
        let cgroups = std::fs::read_to_string(format!("/proc/{}/cgroup", tasks[0].child.pid())).unwrap();
        let mut places = places.borrow_mut();
        places.extend(cgroups.lines().filter_map(|line| {
            let base = line.split('/').find(|part| part.starts_with("drover-test-"));
            base.map(str::to_owned)
        }));
        let expected = usize::from(lab.supervisor.containment().cgroup_version() > 0);
        assert_eq!(cgroups.matches("/drover-test-").count(), expected, "{cgroups}");
        for mut task in tasks {
            task.child.kill_tree().unwrap();
        }
        // One that is not even proven dead when the supervisor ends.
        drop(lab.shell("exec sleep 1000"));
    });
    for (place, hierarchy) in places.borrow().iter().flat_map(|place| HIERARCHIES.map(|h| (place, h))) {
        assert!(!Path::new(hierarchy).join(place).exists(), "{hierarchy}/{place} is left over");
    }
}

/// Where cgroups may be mounted.
const HIERARCHIES: [&str; 3] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/freezer"];

/// In a container the leader of the supervisor's own session may be outside of the pid namespace, and its number is then 0.
#[test]
fn expect_leftovers_dead_when_the_session_leader_is_outside_of_the_pid_namespace() {
    let inner = "kill::expect_leftovers_dead_when_a_grandchild_left_session_and_parents";
    let test = std::env::current_exe().unwrap();
    let done = std::process::Command::new("unshare")
        .args(["--pid", "--fork", "--mount-proc", "--kill-child"])
        .arg(test)
        .args([inner, "--exact", "--test-threads=1"])
        .output()
        .expect("unshare of util-linux can be started");
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(
        done.status.success() && said.contains("1 passed"),
        "{said}{}",
        String::from_utf8_lossy(&done.stderr)
    );
}
