//! The ends of tasks: whatever they do, nothing of them is left, and the end says why.

use std::time::Duration;

use drover_model::{EndKind, TaskEventKind};

use crate::harness::{Agent, is_alive, says_up, stdout};

#[tokio::test]
async fn expect_a_stubborn_tree_gone_when_its_deadline_passes() {
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start(&dir);
    let mut session = agent.session(1).await;
    // A child that ignores SIGTERM, and a grandchild that left session and group.
    let script =
        "trap '' TERM; setsid sh -c 'echo $$; exec sleep 1000' & echo $$; while :; do sleep 1000; done";
    let mut spec = session.shell(0, script);
    spec.deadline = Duration::from_millis(500);
    spec.stop.grace = Duration::from_millis(200);
    let end = session.run(&spec).await;
    assert_eq!(end.kind, EndKind::Deadline);
    let pids: Vec<u32> = stdout(&end).lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(pids.len(), 2);
    assert!(pids.iter().all(|pid| !is_alive(*pid)), "{pids:?}");
}

#[tokio::test]
async fn expect_what_is_left_over_killed_and_counted_when_the_first_process_ends() {
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start(&dir);
    let mut session = agent.session(1).await;
    let spec = session.shell(0, "sleep 1000 & echo $!; setsid sleep 1000 & echo $!");
    let end = session.run(&spec).await;
    assert_eq!((end.kind.clone(), end.leftovers), (EndKind::Exited(0), 2));
    for pid in stdout(&end).lines() {
        assert!(!is_alive(pid.parse().unwrap()));
    }
}

#[tokio::test]
async fn expect_the_exit_status_when_a_task_stops_by_its_policy() {
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start(&dir);
    let mut session = agent.session(1).await;
    let mut spec = session.shell(0, "trap 'echo bye; exit 7' USR1; echo up; while :; do sleep 0.01; done");
    spec.ready = says_up();
    spec.stop.signal = 10;
    session.run_until_ready(&spec).await;
    session.stop(&spec.id, false).await;
    let end = session.end_of(&spec.id).await;
    assert_eq!((end.kind.clone(), stdout(&end).as_str()), (EndKind::Stopped(Some(7)), "up\nbye\n"));
    // Asking again is no error.
    session.stop(&spec.id, false).await;
}

#[tokio::test]
async fn expect_a_kill_after_the_grace_period_or_at_once_when_a_task_does_not_listen() {
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start(&dir);
    let mut session = agent.session(1).await;
    let deaf = "trap '' TERM; echo up; while :; do sleep 0.01; done";
    let mut spec = session.shell(0, deaf);
    spec.ready = says_up();
    spec.stop.grace = Duration::from_millis(100);
    session.run_until_ready(&spec).await;
    session.stop(&spec.id, false).await;
    assert_eq!(session.end_of(&spec.id).await.kind, EndKind::Stopped(None));

    let mut spec = session.shell(1, deaf);
    spec.ready = says_up();
    session.run_until_ready(&spec).await;
    session.stop(&spec.id, false).await;
    session.stop(&spec.id, true).await;
    assert_eq!(session.end_of(&spec.id).await.kind, EndKind::Killed);
}

#[tokio::test]
async fn expect_the_signal_when_a_task_is_killed_by_someone_else() {
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start(&dir);
    let mut session = agent.session(1).await;
    let end = session.run(&session.shell(0, "kill -SEGV $$")).await;
    assert_eq!(end.kind, EndKind::Signaled(11));
}

#[tokio::test]
async fn expect_the_end_of_a_task_that_nobody_watches_when_its_controller_is_gone() {
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start(&dir);
    let mut session = agent.session(1).await;
    let fifo = dir.path().join("fifo");
    let spec = session.shell(0, &format!("mkfifo {0}; echo up; cat {0}", fifo.display()));
    let mut waiting = spec.clone();
    waiting.ready = says_up();
    session.run_until_ready(&waiting).await;
    drop(session);
    std::fs::write(&fifo, "on my own\n").unwrap();
    let mut session = agent.session(1).await;
    let TaskEventKind::Started { .. } = session.event_of(&spec.id).await else { panic!() };
    assert_eq!(stdout(&session.end_of(&spec.id).await), "up\non my own\n");
}
