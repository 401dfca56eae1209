//! Every kind of ready check, and what is said when one does not hold.

use std::time::Duration;

use drover_model::{EndKind, ReadyCheck, TaskEventKind, TaskSpec};
use drover_proto::v1;

use crate::harness::{Agent, Session, is_alive, within};

/// A server of the built-in workload on a reserved port, which starts to listen after a moment.
async fn server(session: &mut Session, servers: &str) -> (TaskSpec, u16) {
    let attempt = session.task(0, "server").attempt.to_string();
    let request = v1::ReservePortsRequest { lease: Some(session.lease.clone()), attempt, count: 1 };
    let ports = within(session.client.reserve_ports(request)).await.unwrap().into_inner().ports;
    let port = u16::try_from(ports[0]).unwrap();
    let listen = format!("127.0.0.1:{port}");
    let argv =
        ["drover-agent", "workload", "server", "--listen", &listen, "--servers", servers, "--reply", "http"];
    let mut spec = session.command(0, &argv);
    spec.ports = vec![port];
    (spec, port)
}

#[tokio::test]
async fn expect_ready_when_a_server_listens_answers_http_and_has_all_its_processes() {
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start(&dir);
    let mut session = agent.session(1).await;
    let (mut spec, port) = server(&mut session, "5").await;
    spec.ready = vec![
        ReadyCheck::Tcp(([127, 0, 0, 1], port).into()),
        ReadyCheck::Http(format!("http://127.0.0.1:{port}/")),
        ReadyCheck::Processes(6),
    ];
    session.start(&spec).await;
    let TaskEventKind::Started { .. } = session.event_of(&spec.id).await else { panic!() };
    let TaskEventKind::Ready { after } = session.event_of(&spec.id).await else { panic!() };
    assert!(!after.is_zero());
    session.stop(&spec.id, false).await;
    let end = session.end_of(&spec.id).await;
    assert_eq!(end.kind, EndKind::Stopped(Some(0)), "{end:?}");
}

#[tokio::test]
async fn expect_ready_when_a_unix_socket_accepts_a_line_appears_and_a_command_succeeds() {
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start(&dir);
    let mut session = agent.session(1).await;
    let script = "import os, socket\n\
        s = socket.socket(socket.AF_UNIX); s.bind('sock'); s.listen()\n\
        open('flag', 'w').close()\n\
        os.write(2, b'listening on so'); os.write(2, b'ck now\\n')\n\
        while True: s.accept()";
    let mut spec = session.command(0, &["python3", "-c", script]);
    spec.ready = vec![
        ReadyCheck::Unix("sock".into()),
        ReadyCheck::Log("listening on sock".into()),
        ReadyCheck::Command(vec!["test".into(), "-e".into(), "flag".into()]),
    ];
    session.run_until_ready(&spec).await;
    session.stop(&spec.id, true).await;
    assert_eq!(session.end_of(&spec.id).await.kind, EndKind::Killed);
}

#[tokio::test]
async fn expect_the_missing_check_named_when_a_task_is_not_ready_in_time() {
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start(&dir);
    let mut session = agent.session(1).await;
    let refused: std::net::SocketAddr = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap()
    };
    let cases = [
        (ReadyCheck::Tcp(refused), "refused"),
        (ReadyCheck::Unix("sock".into()), "No such file"),
        (ReadyCheck::Log("never said".into()), "never said"),
        (ReadyCheck::Http(format!("http://{refused}/")), "refused"),
        (ReadyCheck::Command(vec!["false".into()]), "exit status 1"),
        (ReadyCheck::Command(vec!["no-such-command".into()]), "no-such-command"),
        (ReadyCheck::Processes(7), "1 processes"),
    ];
    for (cell, (check, expected)) in (0..).zip(cases) {
        let mut spec = session.command(cell, &["sleep", "1000"]);
        spec.ready = vec![check];
        spec.ready_within = Duration::from_millis(200);
        let end = session.run(&spec).await;
        let EndKind::NotReady(missing) = end.kind else { panic!("{end:?}") };
        assert!(missing.contains(expected), "{missing}");
    }
}

#[tokio::test]
async fn expect_the_exit_and_no_ready_when_a_task_ends_before_it_is_ready() {
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start(&dir);
    let mut session = agent.session(1).await;
    let mut spec = session.shell(0, "exit 5");
    spec.ready = vec![ReadyCheck::Log("up".into())];
    session.start(&spec).await;
    let TaskEventKind::Started { .. } = session.event_of(&spec.id).await else { panic!() };
    let TaskEventKind::Ended(end) = session.event_of(&spec.id).await else { panic!() };
    assert_eq!(end.kind, EndKind::Exited(5));
}

#[tokio::test]
async fn expect_a_hanging_probe_gone_when_its_task_is_stopped() {
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start(&dir);
    let mut session = agent.session(1).await;
    let pid = dir.path().join("pid");
    let mut spec = session.command(0, &["sleep", "1000"]);
    let hang = format!("mkfifo fifo; echo $$ > {}; cat fifo", pid.display());
    spec.ready = vec![ReadyCheck::Command(vec!["sh".into(), "-c".into(), hang])];
    session.start(&spec).await;
    let read = || std::fs::read_to_string(&pid).ok().filter(|text| text.ends_with('\n'));
    within(async {
        while read().is_none() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    session.stop(&spec.id, true).await;
    assert_eq!(session.end_of(&spec.id).await.kind, EndKind::Killed);
    assert!(!is_alive(read().unwrap().trim().parse().unwrap()));
}
