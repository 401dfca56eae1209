//! Reach checks: what another host can see, asked of an agent.

use std::{net::TcpListener, time::Duration};

use drover_model::ReadyCheck;
use drover_proto::v1;
use tonic::Code;

use crate::harness::{Agent, Session, within};

async fn reach(
    session: &Session,
    checks: Vec<ReadyCheck>,
    time: Duration,
) -> Result<Option<String>, tonic::Status> {
    let checks = checks.into_iter().map(Into::into).collect();
    let within_us = u64::try_from(time.as_micros()).unwrap();
    let request = v1::CheckReachRequest { lease: Some(session.lease.clone()), checks, within_us };
    within(session.client.clone().check_reach(request)).await.map(|reply| reply.into_inner().problem)
}

#[tokio::test]
async fn expect_no_problem_when_all_addresses_answer_and_the_first_that_does_not_named() {
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start(&dir);
    let session = agent.session(1).await;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let open = listener.local_addr().unwrap();
    let closed = {
        let gone = TcpListener::bind("127.0.0.1:0").unwrap();
        gone.local_addr().unwrap()
    };
    let long = Duration::from_secs(50);
    assert_eq!(reach(&session, vec![ReadyCheck::Tcp(open)], long).await.unwrap(), None);
    assert_eq!(reach(&session, vec![], Duration::ZERO).await.unwrap(), None);
    let checks = vec![ReadyCheck::Tcp(open), ReadyCheck::Tcp(closed)];
    let problem = reach(&session, checks, Duration::from_millis(100)).await.unwrap().unwrap();
    assert_eq!(problem, format!("{closed}: connection refused"));
    let url = format!("http://{closed}/x");
    let problem = reach(&session, vec![ReadyCheck::Http(url.clone())], Duration::from_millis(100)).await;
    let problem = problem.unwrap().unwrap();
    assert!(problem.starts_with(&format!("{url}: cannot connect")), "{problem}");
}

#[tokio::test]
async fn expect_success_when_an_address_answers_only_later() {
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start(&dir);
    let mut session = agent.session(1).await;
    let attempt = session.task(0, "server").attempt.to_string();
    let request = v1::ReservePortsRequest { lease: Some(session.lease.clone()), attempt, count: 1 };
    let ports = within(session.client.reserve_ports(request)).await.unwrap().into_inner().ports;
    let listen = format!("127.0.0.1:{}", ports[0]);
    let checks = vec![ReadyCheck::Tcp(listen.parse().unwrap())];
    let request = v1::CheckReachRequest {
        lease: Some(session.lease.clone()),
        checks: checks.into_iter().map(Into::into).collect(),
        within_us: 50_000_000,
    };
    let mut client = session.client.clone();
    let check = within(client.check_reach(request));
    let argv = ["drover-agent", "workload", "server", "--listen", &listen, "--servers", "1"];
    let spec = session.command(0, &argv);
    let (reply, _) = tokio::join!(check, session.start(&spec));
    assert_eq!(reply.unwrap().into_inner().problem, None);
    session.stop(&spec.id, true).await;
    session.end_of(&spec.id).await;
}

#[tokio::test]
async fn expect_a_refusal_when_a_check_cannot_be_seen_from_another_host_or_takes_too_long() {
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start(&dir);
    let mut session = agent.session(1).await;
    let checks = [
        ReadyCheck::Unix("x".into()),
        ReadyCheck::Log("x".into()),
        ReadyCheck::Processes(1),
        ReadyCheck::Command(vec!["true".into()]),
    ];
    for check in checks {
        let refused = reach(&session, vec![check], Duration::from_secs(1)).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument);
        assert!(refused.message().contains("only tcp and http"), "{refused}");
    }
    let refused = reach(&session, vec![], Duration::from_secs(61)).await.unwrap_err();
    assert!(refused.message().contains("60 s"), "{refused}");
    session.lease.epoch += 1;
    assert_eq!(reach(&session, vec![], Duration::ZERO).await.unwrap_err().code(), Code::FailedPrecondition);
}
