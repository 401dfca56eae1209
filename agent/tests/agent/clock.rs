//! The agent's clocks, and the offset that a lab may give one of them.

use std::time::{SystemTime, UNIX_EPOCH};

use drover_proto::v1;

use crate::harness::{Agent, acquire, within};

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
    let hour_ns = 3_600_000_000_000;
    let before = now_ns() - hour_ns;
    let mut session = agent.session(1).await;
    let lease = acquire(session.run, std::time::Duration::from_secs(60));
    let lease = within(session.client.acquire_lease(lease)).await.unwrap().into_inner();
    session.lease.epoch = lease.epoch;
    let spec = session.shell(0, "true");
    session.start(&spec).await;
    let event = session.event().await;
    session.end_of(&spec.id).await;
    let probed = unix_ns(&agent).await;
    let range = before..=now_ns() - hour_ns;
    assert!(range.contains(&probed));
    assert!(range.contains(&(i128::from(event.at_unix_us) * 1000 + 999)));
    assert!(range.contains(&(i128::from(lease.since_unix_ms) * 1_000_000 + 999_999)));
}
