//! Connections that break.

use drover_proto::v1;
use rustix::process::Signal;
use tokio::io::AsyncReadExt;

use crate::lab::{Host, signal};

#[tokio::test]
async fn expect_the_client_to_fail_and_the_agent_found_again_when_sshd_is_killed() {
    let mut host = Host::start();
    let mut connection = host.connect().await;
    let id = connection.hello.agent_id.clone();
    let run = uuid::Uuid::now_v7().to_string();
    let request =
        v1::AcquireLeaseRequest { run, holder: "test".into(), ttl_ms: 60_000, observe_interval_ms: 0 };
    let lease = connection.client.acquire_lease(request).await.unwrap().into_inner();
    let lease = Some(v1::LeaseRef { run: lease.run, epoch: lease.epoch });
    let watch = v1::WatchRequest { lease: lease.clone(), from_seq: 1 };
    let mut events = connection.client.watch(watch).await.unwrap().into_inner();
    host.down();
    // A stream that waits for events ends, and later calls fail.
    assert!(events.message().await.is_err());
    assert!(connection.client.probe_clock(v1::ProbeClockRequest {}).await.is_err());

    let error = crate::lab::refused(&host.options()).await;
    assert!(error.contains("its sshd runs"), "{error}");
    host.up();
    let mut again = host.connect().await;
    assert_eq!(again.hello.agent_id, id);
    again.client.shutdown(v1::ShutdownRequest { lease }).await.unwrap();
    host.agent_ended().await;
}

#[tokio::test]
async fn expect_the_client_to_fail_when_the_host_says_nothing_any_more() {
    let host = Host::start();
    let mut connection = host.connect().await;
    let stopped = host.sessions();
    assert!(!stopped.is_empty());
    stopped.iter().for_each(|pid| signal(*pid, Signal::STOP));
    // Nothing is sent, so only asking tells.
    let mut client = connection.client.clone();
    let gone = client.probe_clock(v1::ProbeClockRequest {}).await;
    stopped.iter().for_each(|pid| signal(*pid, Signal::CONT));
    assert!(gone.is_err());
    assert!(connection.client.probe_clock(v1::ProbeClockRequest {}).await.is_err());
    let again = host.connect().await;
    host.end_agent(again).await;
}

#[tokio::test]
async fn expect_the_session_to_end_when_the_client_is_dropped() {
    let host = Host::start();
    let connection = host.connect().await;
    let ended = |host: &Host| {
        let pidfds: Vec<_> = host
            .sessions()
            .into_iter()
            .filter_map(|pid| {
                let pid = rustix::process::Pid::from_raw(pid.try_into().unwrap()).unwrap();
                rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).ok()
            })
            .collect();
        assert!(!pidfds.is_empty());
        tokio::task::spawn_blocking(move || {
            for pidfd in pidfds {
                let mut polled = [rustix::event::PollFd::new(&pidfd, rustix::event::PollFlags::IN)];
                rustix::event::poll(&mut polled, None).unwrap();
            }
        })
    };
    let sessions = ended(&host);
    drop(connection);
    sessions.await.unwrap();
    let again = host.connect().await;
    host.end_agent(again).await;
}

#[tokio::test]
async fn expect_the_socket_closed_when_the_connection_is_given_up() {
    let host = Host::start();
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut options = host.options();
    options.port = Some(silent.local_addr().unwrap().port());
    options.connect_timeout = std::time::Duration::from_secs(600);
    let connecting = tokio::spawn(async move { crate::lab::refused(&options).await });
    let (mut stream, _) = silent.accept().await.unwrap();
    let mut banner = [0; 4];
    stream.read_exact(&mut banner).await.unwrap();
    assert_eq!(&banner, b"SSH-");
    connecting.abort();
    // Its end comes though the time limit is far away.
    let _ = stream.read_to_end(&mut Vec::new()).await;
}

#[tokio::test]
async fn expect_the_time_limit_said_when_sshd_never_answers() {
    let host = Host::start();
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut options = host.options();
    options.port = Some(silent.local_addr().unwrap().port());
    options.connect_timeout = std::time::Duration::from_millis(300);
    let error = crate::lab::refused(&options).await;
    assert!(error.contains("it was still to shake hands"), "{error}");
}

#[tokio::test]
async fn expect_what_answered_said_when_it_is_no_sshd() {
    let host = Host::start();
    let web = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut options = host.options();
    options.port = Some(web.local_addr().unwrap().port());
    options.connect_timeout = std::time::Duration::from_millis(700);
    let server = std::thread::spawn(move || {
        use std::io::Write;
        for stream in web.incoming().take(1) {
            let _ = stream.unwrap().write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        }
    });
    let error = crate::lab::refused(&options).await;
    assert!(error.contains("shake hands") || error.contains("cannot connect"), "{error}");
    server.join().unwrap();
}
