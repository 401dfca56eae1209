//! Leases over the wire: fencing, refusals by name, ports.

use std::{net::TcpListener, time::Duration};

use drover_model::RunId;
use drover_proto::{PROTOCOL, Refusal, v1};
use tonic::Code;

use crate::harness::{Agent, Session, acquire, within};

#[tokio::test]
async fn expect_the_old_controller_fenced_everywhere_when_its_run_is_taken_over() {
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start(&dir);
    let mut old = agent.session(1).await;
    let mut watched = old.watch(1).await;
    let mut new = agent.session(1).await;
    assert!(new.lease.epoch > old.lease.epoch);

    let ended = within(watched.message()).await.unwrap_err();
    assert_eq!(Refusal::of(&ended), Some(Refusal::StaleLease));
    let spec = old.shell(0, "true");
    let refused = old.try_start(&spec).await.unwrap_err();
    assert_eq!(
        (refused.code(), Refusal::of(&refused)),
        (Code::FailedPrecondition, Some(Refusal::StaleLease))
    );
    assert!(refused.message().contains("tester@host"), "{refused}");
    let refused = within(old.client.renew_lease(old.lease.clone())).await.unwrap_err();
    assert_eq!(Refusal::of(&refused), Some(Refusal::StaleLease));
    let refused = old.forget(&[spec.id.attempt]).await.unwrap_err();
    assert_eq!(Refusal::of(&refused), Some(Refusal::StaleLease));
    new.run(&spec).await;
}

#[tokio::test]
async fn expect_another_run_refused_while_the_host_is_held_and_let_in_when_it_is_given_back() {
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start(&dir);
    let mut first = agent.session(1).await;
    let mut client = agent.connect().await;
    let second = RunId(uuid::Uuid::from_u128(2));
    let ask = || acquire(second, Duration::from_secs(60));
    let refused = within(client.acquire_lease(ask())).await.unwrap_err();
    assert_eq!((refused.code(), Refusal::of(&refused)), (Code::AlreadyExists, Some(Refusal::LeaseHeld)));
    assert!(refused.message().contains("tester@host") && refused.message().contains("since 20"), "{refused}");

    let spec = first.shell(0, "sleep 1000");
    first.start(&spec).await;
    let refused = within(first.client.release_lease(first.lease.clone())).await.unwrap_err();
    assert_eq!(Refusal::of(&refused), Some(Refusal::TasksRunning));
    first.stop(&spec.id, true).await;
    first.end_of(&spec.id).await;
    within(first.client.release_lease(first.lease.clone())).await.unwrap();
    within(client.acquire_lease(ask())).await.unwrap();
}

#[tokio::test]
async fn expect_growing_epochs_and_the_lease_kept_when_the_agent_crashes() {
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start(&dir);
    let old = agent.session(1).await;
    agent.crash();
    let agent = Agent::start(&dir);
    let mut client = agent.connect().await;
    let hello = v1::HelloRequest { protocol: PROTOCOL, controller_version: String::new() };
    let hello = within(client.hello(hello)).await.unwrap().into_inner();
    assert_eq!(hello.lease.map(|lease| lease.epoch), Some(old.lease.epoch));
    within(client.renew_lease(old.lease.clone())).await.unwrap();
    let new = Session::new(client, old.run).await;
    assert!(new.lease.epoch > old.lease.epoch);
}

#[tokio::test]
async fn expect_a_clear_refusal_when_the_protocol_differs() {
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start(&dir);
    let mut client = agent.connect().await;
    let hello = v1::HelloRequest { protocol: PROTOCOL + 1, controller_version: String::new() };
    let refused = within(client.hello(hello)).await.unwrap_err();
    assert_eq!(Refusal::of(&refused), Some(Refusal::Protocol));
    assert!(refused.message().contains("same version"), "{refused}");
}

#[tokio::test]
async fn expect_the_same_free_ports_for_an_attempt_also_after_a_crash_and_others_for_another() {
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start(&dir);
    let mut session = agent.session(1).await;
    let first = reserve(&mut session, 0, 3).await;
    assert_eq!(first.len(), 3);
    for port in &first {
        TcpListener::bind(("127.0.0.1", u16::try_from(*port).unwrap())).unwrap();
    }
    let other = reserve(&mut session, 1, 3).await;
    assert!(other.iter().all(|port| !first.contains(port)));
    agent.crash();

    let agent = Agent::start(&dir);
    let mut session = agent.session(1).await;
    assert_eq!(reserve(&mut session, 0, 3).await, first);
    assert_eq!(reserve(&mut session, 0, 4).await[..3], first);
    let third = reserve(&mut session, 2, 3).await;
    assert!(third.iter().all(|port| !first.contains(port) && !other.contains(port)));
}

async fn reserve(session: &mut Session, cell: u32, count: u32) -> Vec<u32> {
    let attempt = session.task(cell, "server").attempt.to_string();
    let request = v1::ReservePortsRequest { lease: Some(session.lease.clone()), attempt, count };
    within(session.client.reserve_ports(request)).await.unwrap().into_inner().ports
}
