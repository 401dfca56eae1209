//! Files that are damaged, of another version or on a full disk, and tasks that do not behave.

use std::{os::unix::fs::FileExt, process::Command, time::Duration};

use drover_model::{EndKind, TaskEventKind};
use drover_proto::Refusal;

use crate::harness::{Agent, PROGRAM, is_alive, says_up, stdout, until};

#[tokio::test]
async fn expect_all_but_the_damaged_tasks_and_new_epochs_when_the_spool_is_corrupted_in_the_middle() {
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start(&dir);
    let mut session = agent.session(1).await;
    let specs: Vec<_> = (0..30).map(|cell| session.shell(cell, "echo x")).collect();
    for spec in &specs {
        session.run(spec).await;
    }
    let (old, spool) = (session.lease.clone(), agent.dir.join("spool"));
    agent.crash();
    let file = std::fs::File::options().write(true).open(&spool).unwrap();
    let middle = file.metadata().unwrap().len() / 2;
    file.write_all_at(&[0; 300], middle).unwrap();

    let agent = Agent::start(&dir);
    let mut session = agent.session(1).await;
    assert!(session.lease.epoch > old.epoch);
    let known = session.client.list_tasks(session.lease.clone()).await.unwrap().into_inner().tasks;
    assert!((27..=30).contains(&known.len()), "{}", known.len());
    // What is known has exactly one end, also where the damage took it.
    for spec in specs.iter().filter(|spec| known.iter().any(|known| known.task == spec.id.to_string())) {
        assert!(session.start(spec).await, "it was known");
    }
    let mut ended = std::collections::BTreeSet::new();
    while ended.len() < known.len() {
        let event = session.event().await;
        if let TaskEventKind::Ended(end) = event.kind {
            assert!(matches!(end.kind, EndKind::Exited(0) | EndKind::AgentLost), "{end:?}");
            assert!(ended.insert(event.task), "a second end");
        }
    }
    let mut former = session;
    former.lease = old;
    let refused = former.try_start(&specs[0]).await.unwrap_err();
    assert_eq!(Refusal::of(&refused), Some(Refusal::StaleLease));
}

#[tokio::test]
async fn expect_a_remedy_and_the_file_untouched_when_the_spool_is_of_another_version() {
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start(&dir);
    let (place, spool) = (agent.dir.clone(), agent.dir.join("spool"));
    drop(agent);
    for version in [0, 9] {
        let bytes = [b"drspool".as_slice(), &[version], b"what it held"].concat();
        std::fs::write(&spool, &bytes).unwrap();
        let ended = Command::new(PROGRAM).arg("serve").arg("--dir").arg(&place).output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(4), "{said}");
        assert!(said.contains("the version that wrote it"), "{said}");
        assert_eq!(std::fs::read(&spool).unwrap(), bytes);
    }
}

#[tokio::test]
async fn expect_the_end_of_the_process_when_a_task_closes_its_outputs_and_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start(&dir);
    let mut session = agent.session(1).await;
    let (closed, go) = (dir.path().join("closed"), dir.path().join("go"));
    let script = format!(
        "echo last words; exec >&- 2>&-; touch {}; until test -e {}; do sleep 0.01; done; exit 3",
        closed.display(),
        go.display()
    );
    let spec = session.shell(0, &script);
    session.start(&spec).await;
    until(|| closed.exists()).await;
    // It runs on as far as the agent can tell: others are served, and it is not over.
    session.run(&session.shell(1, "true")).await;
    let known = session.client.list_tasks(session.lease.clone()).await.unwrap().into_inner().tasks;
    assert!(known.iter().any(|known| known.task == spec.id.to_string() && !known.ended));
    std::fs::write(&go, "").unwrap();
    let mut session = agent.session(1).await;
    let end = session.end_of(&spec.id).await;
    assert_eq!((end.kind.clone(), stdout(&end).as_str()), (EndKind::Exited(3), "last words\n"));
}

#[tokio::test]
async fn expect_nothing_alive_when_a_task_forks_while_it_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start(&dir);
    let mut session = agent.session(1).await;
    // Each process of these makes another and ends, as fast as it can; bounded, should it ever escape.
    let pids = dir.path().join("pids");
    let script = format!(
        "run() {{ i=0; while [ $i -lt 20000 ]; do (sleep 30 & echo $! >> {0}; exit) ; i=$((i+1)); done; }}; \
         trap '' TERM; run & run & run & echo up; wait",
        pids.display()
    );
    let mut spec = session.shell(0, &script);
    spec.ready = says_up();
    spec.stop.grace = Duration::from_millis(100);
    session.run_until_ready(&spec).await;
    until(|| std::fs::read_to_string(&pids).unwrap_or_default().lines().count() >= 50).await;
    session.stop(&spec.id, false).await;
    assert_eq!(session.end_of(&spec.id).await.kind, EndKind::Stopped(None));
    let alive: Vec<u32> = std::fs::read_to_string(&pids)
        .unwrap()
        .lines()
        .filter_map(|line| line.parse().ok())
        .filter(|pid| is_alive(*pid))
        .collect();
    assert!(alive.is_empty(), "{alive:?}");
    // The host is as good as before.
    assert_eq!(session.run(&session.shell(1, "true")).await.kind, EndKind::Exited(0));
}

/// Largest amount of memory that a process ever had, in KiB.
fn peak_memory(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// `DROVER_LINES_SECONDS` makes it last longer: 3600 is an hour.
#[tokio::test]
async fn expect_bounded_memory_and_every_line_counted_when_a_task_logs_10000_lines_a_second() {
    let seconds = std::env::var("DROVER_LINES_SECONDS").ok().map_or(5, |text| text.parse::<u64>().unwrap());
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start(&dir);
    let mut session = agent.session(1).await;
    // A line has 100 bytes. Each turn writes a tenth of a second's.
    let script = format!(
        "line=$(printf '%099d' 7); tenth=$(yes $line | head -n 1000); i=0; \
         while [ $i -lt {} ]; do echo \"$tenth\"; echo \"$tenth\" >&2; sleep 0.1; i=$((i+1)); done",
        seconds * 10
    );
    let mut spec = session.shell(0, &script);
    (spec.progress, spec.output_limit) = (true, 1 << 20);
    spec.deadline = Duration::from_secs(seconds * 4 + 60);
    session.run(&session.shell(1, "true")).await;
    let before = peak_memory(agent.pid());
    session.start(&spec).await;
    let mut reported = 0;
    let end = loop {
        match session.event_of(&spec.id).await {
            TaskEventKind::Lines { text, dropped, .. } => {
                reported += u64::try_from(text.len()).unwrap() + dropped;
            }
            TaskEventKind::Ended(end) => break end,
            _ => {}
        }
    };
    let written = seconds * 10 * 1000 * 100;
    assert_eq!((end.kind, end.stdout.written, end.stderr.written), (EndKind::Exited(0), written, written));
    assert_eq!((reported, end.stdout.kept), (written, 1 << 20));
    let grown = peak_memory(agent.pid()).saturating_sub(before);
    assert!(grown < 16 << 10, "{grown} KiB more after {seconds} s");
}
