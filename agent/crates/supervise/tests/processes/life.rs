//! Starting tasks: what they get, how they end, why they do not start. Real processes in every containment.

use std::time::Duration;

use crate::lab::{Lab, is_alive, until, with_each_containment};
use drover_supervise::{Containment, CpuSet, ExitStatus, Launch, SpawnError, allowed_cpus};

#[test]
fn expect_status_and_output_when_a_task_exits() {
    with_each_containment(|lab| {
        let mut task = lab.shell("echo out; echo err >&2; exit 7");
        assert_eq!(task.exit().status, ExitStatus::Exited(7), "{}", lab.name());
        until("an empty tree", || task.child.is_gone().unwrap());
        assert_eq!(task.child.kill_tree().unwrap().killed, 0);
        assert_eq!(task.rest(), "out\nerr\n");
    });
}

#[test]
fn expect_the_signal_when_a_task_is_ended_by_one() {
    with_each_containment(|lab| {
        let mut task = lab.shell("echo ready; exec sleep 1000");
        task.line();
        assert_eq!(task.child.try_wait().unwrap(), None);
        assert!(!task.child.is_gone().unwrap());
        assert_eq!(task.child.processes().unwrap(), [task.child.pid()]);
        assert!(task.child.signal(4096).is_err());
        task.child.signal(libc::SIGTERM).unwrap();
        assert_eq!(task.exit().status, ExitStatus::Signaled(libc::SIGTERM), "{}", lab.name());
        task.child.signal(libc::SIGTERM).unwrap();
    });
}

#[test]
fn expect_plausible_usage_when_a_task_computes_and_allocates() {
    with_each_containment(|lab| {
        // 256 MiB in one process, more than the test itself has; and a loop in a second one that it waits for.
        let script = "head -c 268435456 /dev/zero | tail -c 268435456 >/dev/null; \
                      sh -c 'i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done'";
        let usage = lab.shell(script).exit().usage;
        assert!(usage.user > Duration::from_millis(20), "{usage:?}");
        assert!(usage.system > Duration::from_millis(5), "{usage:?}");
        assert!(usage.max_rss_bytes >= 250 << 20 && usage.max_rss_bytes < 1 << 30, "{usage:?}");
        assert!(usage.voluntary_switches > 0, "{usage:?}");
    });
}

#[test]
fn expect_unknown_memory_when_a_task_needs_less_than_its_supervisor() {
    // The kernel reports the supervisor's own peak for it.
    let ballast = vec![1_u8; 64 << 20];
    let lab = Lab::try_new(Containment::ProcessGroup).unwrap();
    assert_eq!(lab.shell("exit 0").exit().usage.max_rss_bytes, 0);
    assert_eq!(ballast.iter().map(|&byte| u64::from(byte)).sum::<u64>(), 64 << 20);
}

#[test]
fn expect_a_clean_start_when_the_supervisor_itself_is_not_clean() {
    with_each_containment(|lab| {
        // An inherited descriptor, an ignored signal (SIGPIPE, by the runtime) and blocked ones must not reach the task.
        let leak = std::fs::File::open("/dev/null").unwrap();
        rustix::io::fcntl_setfd(&leak, rustix::io::FdFlags::empty()).unwrap();
        let script = "ls /proc/self/fd | tr '\\n' ' '; echo; grep -E 'Sig(Blk|Ign)' /proc/self/status; \
                      readlink /proc/self/fd/0; pwd; ps -o sid= -p $$ | tr -d ' '; echo $$; echo $DROVER_TASK; echo $LC_ALL; env | wc -l";
        let task =
            lab.start(&["/bin/sh", "-c", script], |a| a.env.retain(|(name, _)| name == "PATH")).unwrap();
        let pid = task.child.pid();
        let text = task.rest();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0].trim(), "0 1 2 3", "3 is the directory that ls reads");
        assert!(lines[1].ends_with("0000000000000000") && lines[2].ends_with("0000000000000000"), "{text}");
        assert_eq!(lines[3], "/dev/null");
        assert_eq!(lines[4], lab.dir.path().to_str().unwrap());
        assert_eq!(lines[5..7], [pid.to_string(), pid.to_string()]);
        assert!(lines[7].starts_with("test-") && lines[7].contains("/task."), "{text}");
        assert_eq!(lines[8], "");
    });
}

#[test]
fn expect_each_reason_by_name_when_a_command_cannot_run() {
    with_each_containment(|lab| {
        let fails = |argv: &[&str]| match lab.start(argv, |_| {}) {
            Ok(_) => panic!("{argv:?} ran"),
            Err(error) => error,
        };
        let error = fails(&["no-such-command"]);
        assert!(matches!(error, SpawnError::NotFound { .. }));
        assert!(error.to_string().starts_with("no command `no-such-command` in PATH (/"), "{error}");
        assert!(matches!(fails(&["./no-such-file"]), SpawnError::NotFound { .. }));
        assert!(matches!(fails(&[]), SpawnError::Invalid(_)));
        assert!(matches!(fails(&["/tmp"]), SpawnError::Invalid(_)));
        assert!(matches!(fails(&["/bin/echo", "a\0b"]), SpawnError::Invalid(_)));

        lab.file("plain", "#!/bin/sh\n", 0o644);
        let error = fails(&["./plain"]);
        assert!(matches!(error, SpawnError::Permission { .. }), "{error}");
        let script = lab.file("script", "#!/no/such/shell -x\n", 0o755);
        let error = fails(&[&script]);
        assert_eq!(
            error.to_string(),
            format!("`{script}` needs the interpreter `/no/such/shell`, which does not exist")
        );
        lab.file("garbage", "neither script nor program", 0o755);
        assert!(matches!(fails(&["./garbage"]), SpawnError::Exec { .. }));
        // Nothing of all that is left over.
        assert_eq!(lab.shell("exit 0").exit().status, ExitStatus::Exited(0));
    });
}

#[test]
fn expect_what_is_missing_when_folder_or_cpus_are_not_there() {
    with_each_containment(|lab| {
        let null = || std::fs::File::open("/dev/null").unwrap().into();
        let argv = ["/bin/true".to_owned()];
        let launch = |cwd, cpus| Launch {
            task: "a",
            argv: &argv,
            env: &[],
            cwd,
            cpus,
            hold: false,
            stdout: null(),
            stderr: null(),
        };
        let error = lab.supervisor.spawn(launch("/no/such/folder".as_ref(), None)).unwrap_err();
        assert_eq!(error.to_string(), "cannot enter the working directory `/no/such/folder`");
        let offline = CpuSet::from_iter([5000]);
        let error = lab.supervisor.spawn(launch("/".as_ref(), Some(&offline))).unwrap_err();
        assert_eq!(error.to_string(), "cannot run on CPUs 5000");
        // The kernel takes what is there of a set and is silent about the rest.
        let half = CpuSet::from_iter(allowed_cpus().unwrap().iter().take(1).chain([5000]));
        let error = lab.supervisor.spawn(launch("/".as_ref(), Some(&half))).unwrap_err();
        let source = std::error::Error::source(&error).unwrap().to_string();
        assert!(source.contains("only some of them"), "{source}");
        let bad = Launch { task: "../a", ..launch("/".as_ref(), None) };
        assert!(matches!(lab.supervisor.spawn(bad), Err(SpawnError::Invalid(_))));
    });
}

#[test]
fn expect_path_lookup_in_the_tasks_own_environment_when_a_name_has_no_slash() {
    let lab = Lab::try_new(Containment::ProcessGroup).unwrap();
    std::fs::create_dir(lab.dir.path().join("bin")).unwrap();
    lab.file("bin/tool", "#!/bin/sh\necho mine\n", 0o755);
    let path = format!("/nowhere:{}/bin", lab.dir.path().display());
    let task = lab.start(&["tool"], |a| a.env.push(("PATH".into(), path))).unwrap();
    assert_eq!(task.rest(), "mine\n");
}

#[test]
fn expect_no_exec_before_the_release_when_a_task_is_held() {
    with_each_containment(|lab| {
        let marker = lab.dir.path().join("ran");
        let script = format!("echo > {}; echo done", marker.display());
        let mut task = lab.start(&["/bin/sh", "-c", &script], |a| a.hold = true).unwrap();
        assert!(matches!(task.child.await_exec(), Err(SpawnError::NeverReleased)));
        assert_eq!(task.child.processes().unwrap(), [task.child.pid()], "{}", lab.name());
        // Before its program, it is still a copy of this one.
        let exe = std::fs::read_link(format!("/proc/{}/exe", task.child.pid())).unwrap();
        assert_eq!(exe, std::env::current_exe().unwrap());
        assert!(!marker.exists());
        task.child.release().unwrap();
        task.child.release().unwrap();
        task.child.await_exec().unwrap();
        assert_eq!(task.line(), "done");
        assert_eq!(task.exit().status, ExitStatus::Exited(0));
        assert!(marker.exists());
    });
}

#[test]
fn expect_one_release_when_another_thread_has_the_key() {
    with_each_containment(|lab| {
        let mut task = lab.start(&["/bin/echo", "released"], |a| a.hold = true).unwrap();
        let key = task.child.key().unwrap();
        let other = key.clone();
        std::thread::spawn(move || other.open()).join().unwrap().unwrap();
        key.open().unwrap();
        task.child.release().unwrap();
        task.child.await_exec().unwrap();
        assert!(task.child.key().is_none() && key.is_open());
        assert_eq!(task.rest(), "released\n", "{}", lab.name());

        let mut killed = lab.start(&["/bin/echo", "released"], |a| a.hold = true).unwrap();
        let key = killed.child.key().unwrap();
        killed.child.kill_tree().unwrap();
        assert!(key.open().is_err());
    });
}

#[test]
fn expect_the_reason_after_the_release_when_a_held_command_cannot_run() {
    with_each_containment(|lab| {
        let script = lab.file("script", "#!/no/such/shell\n", 0o755);
        let mut task = lab.start(&[&script], |a| a.hold = true).unwrap();
        task.child.release().unwrap();
        let error = task.child.await_exec().unwrap_err();
        assert!(matches!(error, SpawnError::NoInterpreter { .. }), "{error}");
        assert_eq!(task.exit().status, ExitStatus::Exited(127));
    });
}

#[test]
fn expect_independent_gates_when_many_tasks_are_held() {
    with_each_containment(|lab| {
        let hold = || lab.start(&["/bin/echo", "released"], |a| a.hold = true).unwrap();
        let mut tasks: Vec<_> = (0..8).map(|_| hold()).collect();
        // One is killed, one is dropped, the rest is released.
        let mut killed = tasks.pop().unwrap();
        assert_eq!(killed.child.kill_tree().unwrap().killed, 1);
        assert_eq!(killed.exit().status, ExitStatus::Signaled(libc::SIGKILL));
        assert!(killed.child.release().is_err());
        drop(tasks.pop());
        tasks.iter_mut().for_each(|task| task.child.release().unwrap());
        for task in tasks {
            assert_eq!(task.rest(), "released\n", "{}", lab.name());
        }
    });
}

#[test]
fn expect_the_mask_on_every_thread_when_cpus_are_given() {
    with_each_containment(|lab| {
        let cpu = allowed_cpus().unwrap().iter().last().unwrap();
        let one = CpuSet::from_iter([cpu]);
        let script = "sleep 1000 & (setsid sleep 1000 &) & echo ready; wait";
        let mut task = lab.start(&["/bin/sh", "-c", script], |a| a.cpus = Some(one.clone())).unwrap();
        task.line();
        let affinity = task.child.affinity().unwrap();
        assert_eq!(affinity.union, one, "{}", lab.name());
        affinity.verify(&one).unwrap();
        let error = affinity.verify(&CpuSet::from_iter([cpu + 1])).unwrap_err();
        assert_eq!((error.actual, error.expected), (one.clone(), CpuSet::from_iter([cpu + 1])));
        assert!(affinity.verify(&CpuSet::from_iter([cpu, cpu + 1])).is_err(), "narrower than asked for");
        task.child.kill_tree().unwrap();
        assert_eq!(task.child.affinity().unwrap().union, CpuSet::new());
    });
}

#[test]
fn expect_the_odd_one_when_a_process_changes_its_own_mask() {
    let allowed = allowed_cpus().unwrap();
    let (first, last) = (allowed.iter().next().unwrap(), allowed.iter().last().unwrap());
    if first == last {
        return; // needs two CPUs to differ at all
    }
    with_each_containment(|lab| {
        let one = CpuSet::from_iter([first]);
        let script = format!("taskset -c {last} sleep 1000 & sleep 1000 & echo ready; wait");
        let mut task = lab.start(&["/bin/sh", "-c", &script], |a| a.cpus = Some(one.clone())).unwrap();
        task.line();
        until("a process elsewhere", || task.child.affinity().unwrap().masks.len() == 2);
        let error = task.child.affinity().unwrap().verify(&one).unwrap_err();
        assert_eq!(error.actual, CpuSet::from_iter([last]));
        assert_ne!(error.thread, task.child.pid());
    });
}

#[test]
fn expect_the_tree_dead_when_a_child_is_dropped() {
    with_each_containment(|lab| {
        let mut task = lab.shell("sleep 1000 & echo $!; wait");
        let grandchild: u32 = task.line().parse().unwrap();
        let pid = task.child.pid();
        drop(task);
        until("a dead tree", || !is_alive(pid) && !is_alive(grandchild));
        until("no zombie", || {
            lab.supervisor.reap_strays();
            !std::fs::exists(format!("/proc/{pid}")).unwrap()
        });
    });
}
