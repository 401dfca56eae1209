//! The start barrier.

use drover_model::{EndKind, NotStarted, TaskEventKind, TaskSpec};
use drover_proto::v1;

use crate::harness::{Agent, Session, is_alive, stdout, within};

async fn held(session: &mut Session, role: &str, argv: &[&str]) -> (TaskSpec, u32) {
    let mut spec = session.command(0, argv);
    spec.id = session.task(0, role);
    spec.hold = true;
    session.start(&spec).await;
    let TaskEventKind::Started { pid, .. } = session.event_of(&spec.id).await else { panic!() };
    assert_eq!(session.event_of(&spec.id).await, TaskEventKind::Armed);
    (spec, pid)
}

async fn release(session: &mut Session, at_monotonic_ns: u64) -> u32 {
    let attempt = session.task(0, "a").attempt.to_string();
    let request = v1::ReleaseBarrierRequest { lease: Some(session.lease.clone()), attempt, at_monotonic_ns };
    within(session.client.release_barrier(request)).await.unwrap().into_inner().released
}

async fn now_ns(session: &mut Session) -> u64 {
    within(session.client.probe_clock(v1::ProbeClockRequest {})).await.unwrap().into_inner().monotonic_ns
}

#[tokio::test]
async fn expect_two_held_tasks_released_at_one_instant_and_not_before() {
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start(&dir);
    let mut session = agent.session(1).await;
    let uptime = ["python3", "-c", "import time; print(time.clock_gettime_ns(time.CLOCK_MONOTONIC))"];
    let (first, _) = held(&mut session, "a", &uptime).await;
    let (second, _) = held(&mut session, "b", &uptime).await;
    let at = now_ns(&mut session).await + 50_000_000;
    assert_eq!(release(&mut session, at).await, 2);
    let mut ran = 0;
    while ran < 2 {
        let event = session.event().await;
        assert!([&first.id, &second.id].contains(&&event.task));
        match event.kind {
            TaskEventKind::Released { .. } => assert!(now_ns(&mut session).await >= at),
            TaskEventKind::Ended(end) => {
                ran += 1;
                assert_eq!(end.kind, EndKind::Exited(0));
                assert!(stdout(&end).trim().parse::<u64>().unwrap() >= at);
            }
            other => panic!("{other:?}"),
        }
    }
    // Nothing is held any more.
    assert_eq!(release(&mut session, 0).await, 0);
}

#[tokio::test]
async fn expect_not_started_after_the_release_when_a_held_command_does_not_exist() {
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start(&dir);
    let mut session = agent.session(1).await;
    let mut spec = session.command(0, &["no-such-command-anywhere"]);
    spec.hold = true;
    session.start(&spec).await;
    release(&mut session, 0).await;
    let EndKind::NotStarted(NotStarted::NotFound, _) = session.end_of(&spec.id).await.kind else { panic!() };
}

#[tokio::test]
async fn expect_a_held_task_gone_without_having_run_when_it_is_stopped() {
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start(&dir);
    let mut session = agent.session(1).await;
    let mark = dir.path().join("mark");
    let (spec, pid) = held(&mut session, "a", &["touch", mark.to_str().unwrap()]).await;
    session.stop(&spec.id, false).await;
    assert_eq!(session.end_of(&spec.id).await.kind, EndKind::Stopped(None));
    assert!(!is_alive(pid) && !mark.exists());
}

#[tokio::test]
async fn expect_the_release_told_before_the_end_when_a_task_is_over_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start(&dir);
    let mut session = agent.session(1).await;
    for cell in 0..40 {
        let mut spec = session.command(cell, &["true"]);
        spec.hold = true;
        session.start(&spec).await;
        while session.event_of(&spec.id).await != TaskEventKind::Armed {}
        let attempt = spec.id.attempt.to_string();
        let at_monotonic_ns = now_ns(&mut session).await + 2_000_000;
        let lease = Some(session.lease.clone());
        let request = v1::ReleaseBarrierRequest { lease, attempt, at_monotonic_ns };
        within(session.client.release_barrier(request)).await.unwrap();
        let event = session.event_of(&spec.id).await;
        assert!(matches!(event, TaskEventKind::Released { .. }), "{event:?}");
        assert_eq!(session.end_of(&spec.id).await.kind, EndKind::Exited(0));
    }
    let far = v1::ReleaseBarrierRequest {
        lease: Some(session.lease.clone()),
        attempt: session.task(0, "a").attempt.to_string(),
        at_monotonic_ns: u64::MAX,
    };
    let refused = within(session.client.release_barrier(far)).await.unwrap_err();
    assert!(refused.message().contains("10 minutes"), "{refused}");
}
