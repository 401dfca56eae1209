//! Watching events: from any number on, by several watchers, slow ones included; and forgetting.

use drover_model::{EndKind, TaskEventKind};
use drover_proto::v1;

use crate::harness::{Agent, next, within};

#[tokio::test]
async fn expect_events_without_gaps_from_the_number_asked_for_when_several_watch() {
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start(&dir);
    let mut session = agent.session(1).await;
    for cell in 0..3 {
        session.run(&session.shell(cell, "true")).await;
    }
    let mut late = session.watch(4).await;
    let mut all = session.watch(0).await;
    let mut future = session.watch(7).await;
    let spec = session.shell(3, "true");
    session.run(&spec).await;
    for seq in 1..=8 {
        let event = next(&mut all).await;
        assert_eq!(event.seq, seq);
        if seq >= 4 {
            assert_eq!(next(&mut late).await, event);
        }
        if seq >= 7 {
            assert_eq!(event.task, spec.id);
            assert_eq!(next(&mut future).await, event);
        }
    }
}

#[tokio::test]
async fn expect_nothing_lost_and_little_memory_when_a_watcher_reads_slowly() {
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start(&dir);
    let mut session = agent.session(1).await;
    // Opened before anything happens, and not read until everything has happened.
    let mut slow = session.watch(1).await;
    let mut last = session.task(0, "server");
    for cell in 0..400 {
        let spec = session.shell(cell, "head -c 60000 /dev/zero; head -c 60000 /dev/zero >&2");
        last = spec.id.clone();
        assert_eq!(session.run(&spec).await.kind, EndKind::Exited(0));
    }
    let status = std::fs::read_to_string(format!("/proc/{}/status", agent.pid())).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let peak_kib: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    // The events are 48 MB.
    assert!(peak_kib < 40 << 10, "{peak_kib} KiB");
    let mut seq = 1;
    loop {
        let event = next(&mut slow).await;
        assert_eq!(event.seq, seq);
        seq += 1;
        if event.task == last && matches!(event.kind, TaskEventKind::Ended(_)) {
            break;
        }
    }
    assert_eq!(seq, 801);
}

#[tokio::test]
async fn expect_no_trace_when_an_attempt_is_forgotten_and_the_agent_restarted() {
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start(&dir);
    let mut session = agent.session(1).await;
    let spec = session.shell(0, "mkdir -p a/b; echo x > a/b/c; head -c 200000 /dev/zero");
    session.run(&spec).await;
    let kept = session.shell(1, "true");
    session.run(&kept).await;
    let count = |name: &str| std::fs::read_dir(agent.dir.join(name)).unwrap().count();
    assert_eq!((count("work"), count("outputs")), (2, 1));
    session.forget(&[spec.id.attempt]).await.unwrap();
    session.forget(&[spec.id.attempt]).await.unwrap();
    assert_eq!((count("work"), count("outputs")), (1, 0));
    assert!(session.fetch(&spec.id, v1::Stream::Stdout).await.is_err());
    agent.crash();

    let agent = Agent::start(&dir);
    let mut session = agent.session(1).await;
    let mut events = session.watch(1).await;
    let event = next(&mut events).await;
    assert_eq!((event.task, event.seq), (kept.id.clone(), 3));
    let tasks = within(session.client.list_tasks(session.lease.clone())).await.unwrap().into_inner().tasks;
    let tasks: Vec<_> = tasks.into_iter().map(|task| (task.task, task.ended)).collect();
    assert_eq!(tasks, [(kept.id.to_string(), true)]);
}

#[tokio::test]
async fn expect_a_refusal_when_a_running_attempt_is_to_be_forgotten() {
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start(&dir);
    let mut session = agent.session(1).await;
    let spec = session.shell(0, "sleep 1000");
    session.start(&spec).await;
    assert!(session.forget(&[spec.id.attempt]).await.is_err());
    session.stop(&spec.id, true).await;
    session.end_of(&spec.id).await;
    session.forget(&[spec.id.attempt]).await.unwrap();
}
