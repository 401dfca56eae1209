//! An agent that was killed, and the one after it.

use drover_model::EndKind;
use rustix::process::Signal;

use crate::harness::{Agent, is_alive, says_up};

#[tokio::test]
async fn expect_orphans_gone_and_agent_lost_when_an_agent_was_killed() {
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start(&dir);
    let mut session = agent.session(1).await;
    let pids = dir.path().join("pids");
    let script =
        format!("setsid sleep 1000 & echo $! > {0}; echo $$ >> {0}; echo up; sleep 1000", pids.display());
    let mut spec = session.shell(0, &script);
    spec.ready = says_up();
    session.run_until_ready(&spec).await;
    let done = session.shell(1, "true");
    session.run(&done).await;
    agent.crash();

    let agent = Agent::start(&dir);
    for pid in std::fs::read_to_string(&pids).unwrap().lines() {
        assert!(!is_alive(pid.parse().unwrap()), "{pid} is alive");
    }
    let mut session = agent.session(1).await;
    let mut ends = Vec::new();
    while ends.len() < 2 {
        let event = session.event().await;
        if let drover_model::TaskEventKind::Ended(end) = event.kind {
            ends.push((event.task, end.kind));
        }
    }
    assert_eq!(ends, [(done.id, EndKind::Exited(0)), (spec.id, EndKind::AgentLost)]);
}

#[tokio::test]
async fn expect_one_end_for_each_task_when_the_agent_is_killed_again_and_again() {
    let dir = tempfile::tempdir().unwrap();
    let mut cell = 0;
    for round in 0..10 {
        let agent = Agent::start(&dir);
        let mut session = agent.session(1).await;
        for _ in 0..=round {
            let spec = session.shell(cell, "true");
            cell += 1;
            session.start(&spec).await;
        }
        agent.crash();
    }
    let agent = Agent::start(&dir);
    let mut session = agent.session(1).await;
    let mut ended = std::collections::BTreeSet::new();
    let mut seq = 0;
    while ended.len() < 55 {
        let event = session.event().await;
        assert_eq!(event.seq, seq + 1);
        seq = event.seq;
        if let drover_model::TaskEventKind::Ended(end) = event.kind {
            assert!(matches!(end.kind, EndKind::Exited(0) | EndKind::AgentLost), "{end:?}");
            assert!(ended.insert(event.task), "a second end");
        }
    }
}

#[tokio::test]
async fn expect_tasks_killed_and_their_ends_recorded_when_the_agent_is_told_to_end() {
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start(&dir);
    let mut session = agent.session(1).await;
    let pid = dir.path().join("pid");
    let mut spec =
        session.shell(0, &format!("trap '' TERM; echo $$ > {}; echo up; sleep 1000", pid.display()));
    spec.ready = says_up();
    session.run_until_ready(&spec).await;
    agent.signal(Signal::TERM);
    assert_eq!(session.end_of(&spec.id).await.kind, EndKind::Killed);
    let socket = agent.dir.join("agent.sock");
    assert!(agent.wait().success());
    assert!(!socket.exists());
    assert!(!is_alive(std::fs::read_to_string(&pid).unwrap().trim().parse().unwrap()));
}
