//! Tasks that do nothing.

use std::time::Duration;

use drover_model::{EndKind, TaskEventKind};
use rustix::process::{Pid, Signal, kill_process};

use crate::harness::{Agent, Session};

const LIMIT: Duration = Duration::from_millis(400);

async fn stalled(session: &mut Session, task: &drover_model::TaskId) -> (Duration, String) {
    loop {
        match session.event_of(task).await {
            TaskEventKind::Stalled { for_, what } => return (for_, what),
            TaskEventKind::Ended(end) => panic!("it ended: {end:?}"),
            _ => {}
        }
    }
}

#[tokio::test]
async fn expect_a_stall_with_its_place_each_time_when_a_busy_task_is_stopped() {
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start(&dir);
    let mut session = agent.session(1).await;
    let mut spec = session.shell(0, "while :; do :; done");
    spec.stall = Some(LIMIT);
    session.start(&spec).await;
    let TaskEventKind::Started { pid, .. } = session.event_of(&spec.id).await else { panic!() };
    let pid = Pid::from_raw(pid.try_into().unwrap()).unwrap();
    for _ in 0..2 {
        kill_process(pid, Signal::STOP).unwrap();
        let (for_, what) = stalled(&mut session, &spec.id).await;
        assert!(for_ >= LIMIT, "{for_:?}");
        assert!(what.contains("1 stopped"), "{what}");
        kill_process(pid, Signal::CONT).unwrap();
        // It is seen to move again before it is stopped once more.
        let used =
            || std::fs::read_to_string(format!("/proc/{pid}/stat", pid = pid.as_raw_nonzero())).unwrap();
        let before = used();
        let start = std::time::Instant::now();
        while used() == before || start.elapsed() < LIMIT {
            tokio::task::yield_now().await;
        }
    }
    session.stop(&spec.id, true).await;
    assert_eq!(session.end_of(&spec.id).await.kind, EndKind::Killed);
}

#[tokio::test]
async fn expect_one_stall_of_a_sleeper_and_none_of_a_task_that_writes() {
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start(&dir);
    let mut session = agent.session(1).await;
    let mut sleeper = session.shell(0, "sleep 1000 & wait");
    sleeper.stall = Some(LIMIT);
    let mut talker = session.shell(0, "while :; do echo x; sleep 0.05; done");
    talker.id = session.task(0, "talker");
    talker.stall = Some(LIMIT);
    session.start(&talker).await;
    session.start(&sleeper).await;
    let what = loop {
        let event = session.event().await;
        if let TaskEventKind::Stalled { what, .. } = event.kind {
            assert_eq!(event.task, sleeper.id);
            break what;
        }
    };
    assert!(what.starts_with("of 2 processes: ") && what.contains("asleep"), "{what}");
    for id in [&sleeper.id, &talker.id] {
        session.stop(id, true).await;
    }
    let mut ends = 0;
    while ends < 2 {
        match session.event().await.kind {
            TaskEventKind::Ended(_) => ends += 1,
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn expect_no_stall_of_a_task_that_waits_at_the_barrier() {
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start(&dir);
    let mut session = agent.session(1).await;
    let mut held = session.command(0, &["sleep", "1000"]);
    (held.hold, held.stall) = (true, Some(Duration::from_millis(100)));
    session.start(&held).await;
    // Another one stalls meanwhile, later than this one could.
    let mut other = session.shell(0, "sleep 1000");
    other.id = session.task(0, "other");
    other.stall = Some(2 * LIMIT);
    session.start(&other).await;
    loop {
        let event = session.event().await;
        if let TaskEventKind::Stalled { .. } = event.kind {
            assert_eq!(event.task, other.id);
            break;
        }
    }
    for id in [&held.id, &other.id] {
        session.stop(id, true).await;
    }
}
