//! The agent's clocks, and the offset that a lab may give one of them.

use std::time::{SystemTime, UNIX_EPOCH};

use drover_model::EndKind;
use drover_proto::v1;

use crate::harness::{Agent, acquire, within};

const HOUR_NS: i128 = 3_600_000_000_000;

async fn unix_ns(agent: &Agent) -> i128 {
    let probe = within(agent.connect().await.probe_clock(v1::ProbeClockRequest {})).await.unwrap();
    probe.into_inner().unix_ns.into()
}

fn now_ns() -> i128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos().try_into().unwrap()
}

#[tokio::test]
async fn expect_the_time_between_two_readings_when_a_clock_is_probed() {
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start(&dir);
    let before = now_ns();
    let probed = unix_ns(&agent).await;
    assert!((before..=now_ns()).contains(&probed));
}

#[tokio::test]
async fn expect_every_stamp_wrong_when_a_lab_shifts_the_clock() {
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start_in(&dir, "DROVER_LAB_CLOCK_OFFSET_MS", "-3600000");
    let before = now_ns() - HOUR_NS;
    let mut session = agent.session(1).await;
    let lease = acquire(session.run, std::time::Duration::from_secs(60));
    let lease = within(session.client.acquire_lease(lease)).await.unwrap().into_inner();
    session.lease.epoch = lease.epoch;
    let spec = session.shell(0, "true");
    session.start(&spec).await;
    let event = session.event().await;
    session.end_of(&spec.id).await;
    let probed = unix_ns(&agent).await;
    let range = before..=now_ns() - HOUR_NS;
    assert!(range.contains(&probed));
    assert!(range.contains(&(i128::from(event.at_unix_us) * 1000 + 999)));
    assert!(range.contains(&(i128::from(lease.since_unix_ms) * 1_000_000 + 999_999)));
}

#[tokio::test]
async fn expect_tasks_and_deadlines_to_go_on_when_the_clock_is_set_back_by_an_hour() {
    let dir = tempfile::tempdir().unwrap();
    let clock = dir.path().join("clock");
    std::fs::write(&clock, "0").unwrap();
    let agent = Agent::start_in(&dir, "DROVER_LAB_CLOCK_OFFSET_FILE", clock.to_str().unwrap());
    let mut session = agent.session(1).await;
    let mut timed = session.shell(0, "sleep 1000");
    timed.deadline = std::time::Duration::from_millis(700);
    let flag = dir.path().join("go");
    let open = session.shell(1, &format!("until test -e {}; do sleep 0.01; done", flag.display()));
    session.start(&timed).await;
    session.start(&open).await;
    let before = session.event().await.at_unix_us;

    std::fs::write(&clock, "-3600000").unwrap();
    assert!(unix_ns(&agent).await < now_ns() - HOUR_NS);
    let end = session.end_of(&timed.id).await;
    assert_eq!(end.kind, EndKind::Deadline);
    assert!(end.wall < std::time::Duration::from_secs(60), "{:?}", end.wall);
    std::fs::write(&flag, "").unwrap();
    let end = session.end_of(&open.id).await;
    assert_eq!(end.kind, EndKind::Exited(0));
    assert!(end.wall < std::time::Duration::from_secs(60), "{:?}", end.wall);
    // Events keep their numbers in order, whatever their stamps say.
    let mut events = session.watch(1).await;
    let (mut seq, mut stamps) = (0, Vec::new());
    for _ in 0..4 {
        let event = crate::harness::next(&mut events).await;
        assert!(event.seq > seq);
        seq = event.seq;
        stamps.push(event.at_unix_us);
    }
    assert!(stamps.iter().any(|at| *at < before), "{before} {stamps:?}");
    session.forget(&[timed.id.attempt, open.id.attempt]).await.unwrap();
}

#[tokio::test]
async fn expect_the_results_of_the_holder_kept_when_the_clock_jumps_ahead_by_weeks_between_two_agents() {
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start(&dir);
    // Another run left something a long time ago, as far as the next agent can tell.
    let mut former = agent.session(2).await;
    let abandoned = former.shell(0, "true");
    former.run(&abandoned).await;
    within(former.client.release_lease(former.lease.clone())).await.unwrap();
    let mut session = agent.session(1).await;
    let spec = session.shell(0, "echo x");
    session.run(&spec).await;
    agent.crash();

    let weeks = 30_i64 * 24 * 3_600_000;
    let agent = Agent::start_in(&dir, "DROVER_LAB_CLOCK_OFFSET_MS", &weeks.to_string());
    let mut session = agent.session(1).await;
    assert!(session.start(&spec).await, "it is known");
    assert_eq!(session.end_of(&spec.id).await.kind, EndKind::Exited(0));
    session.forget(&[spec.id.attempt]).await.unwrap();
    within(session.client.release_lease(session.lease.clone())).await.unwrap();
    let mut former = agent.session(2).await;
    let known = within(former.client.list_tasks(former.lease.clone())).await.unwrap().into_inner();
    assert_eq!(known.tasks, [], "nobody came back for it");
}
