//! The host `local` with real agent processes. The agent's program is found beside the test's own, where cargo builds
//! the workspace's binaries.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    ffi::OsString,
    os::unix::{fs::PermissionsExt, net::UnixListener},
    path::{Path, PathBuf},
    time::Duration,
};

use drover_connect::{ConnectError, Connection, LocalOptions, connect_local};
use drover_proto::{PROTOCOL, v1};

/// `examples/agent.rs` of this crate, which cargo builds for its tests.
fn agent_program() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let profile = test.parent().and_then(Path::parent).unwrap();
    profile.join("examples").join("agent")
}

fn options(dir: &tempfile::TempDir) -> LocalOptions {
    LocalOptions {
        agent_dir: dir.path().join("agent"),
        agent_command: vec![agent_program().into_os_string(), OsString::from("agent")],
        linger: Duration::from_secs(600),
    }
}

/// Ends an agent that was started for a test.
async fn shut_down(mut connection: Connection) {
    connection.client.shutdown(v1::ShutdownRequest { lease: None }).await.unwrap();
    if let Some(mut process) = connection.child {
        assert!(process.wait().await.unwrap().success());
    }
}

#[tokio::test]
async fn expect_an_agent_started_once_and_found_again_when_several_connect() {
    let dir = tempfile::tempdir().unwrap();
    let options = options(&dir);
    let first = connect_local(&options).await.unwrap();
    let pid = first.child.as_ref().map(drover_connect::AgentProcess::pid).unwrap();
    assert_eq!(first.hello.protocol, PROTOCOL);
    assert_eq!(std::fs::read_to_string(options.agent_dir.join("lock")).unwrap().trim(), pid.to_string());
    // It has left this process's session, so that Ctrl-C does not reach it.
    let session = |pid: &str| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        stat.rsplit_once(") ").unwrap().1.split(' ').nth(3).unwrap().to_owned()
    };
    assert_eq!(session(&pid.to_string()), pid.to_string());
    assert_ne!(session("self"), pid.to_string());

    let second = connect_local(&options).await.unwrap();
    assert!(second.child.is_none());
    assert_eq!(second.hello.agent_id, first.hello.agent_id);
    drop(second);
    shut_down(first).await;
}

#[tokio::test]
async fn expect_one_agent_when_many_controllers_start_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let options = options(&dir);
    let controllers = (0..8).map(|_| {
        let options = options.clone();
        tokio::spawn(async move { connect_local(&options).await.unwrap() })
    });
    let mut connections = Vec::new();
    for controller in controllers.collect::<Vec<_>>() {
        connections.push(controller.await.unwrap());
    }
    let agent_id = connections[0].hello.agent_id.clone();
    assert!(connections.iter().all(|connection| connection.hello.agent_id == agent_id));
    assert_eq!(connections.iter().filter(|connection| connection.child.is_some()).count(), 1);
    connections.sort_by_key(|connection| connection.child.is_some());
    let starter = connections.pop().unwrap();
    drop(connections);
    shut_down(starter).await;
}

#[tokio::test]
async fn expect_a_new_agent_when_the_former_one_was_killed_or_has_ended() {
    let dir = tempfile::tempdir().unwrap();
    let options = options(&dir);
    let first = connect_local(&options).await.unwrap();
    let mut process = first.child.unwrap();
    let pid = rustix::process::Pid::from_raw(process.pid().try_into().unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    process.wait().await.unwrap();
    assert!(options.agent_dir.join("agent.sock").exists());

    // The broken connection says so, and is not quietly made to the next agent.
    let second = connect_local(&options).await.unwrap();
    assert_ne!(second.hello.agent_id, first.hello.agent_id);
    let mut broken = first.client;
    assert!(broken.probe_clock(v1::ProbeClockRequest {}).await.is_err());

    // While the second one is ending it may still greet; then the third is had.
    let mut client = second.client.clone();
    client.shutdown(v1::ShutdownRequest { lease: None }).await.unwrap();
    let third = loop {
        let connection = connect_local(&options).await.unwrap();
        if connection.hello.agent_id != second.hello.agent_id {
            break connection;
        }
    };
    shut_down(third).await;
}

#[tokio::test]
async fn expect_what_the_agent_said_when_it_does_not_start() {
    let dir = tempfile::tempdir().unwrap();
    let options = options(&dir);
    std::fs::create_dir(&options.agent_dir).unwrap();
    std::fs::set_permissions(&options.agent_dir, PermissionsExt::from_mode(0o700)).unwrap();
    std::fs::write(options.agent_dir.join("spool"), "something else").unwrap();
    let Err(ConnectError::Start { said, log, .. }) = connect_local(&options).await else { panic!() };
    assert!(said.contains("not a spool that this version can read"), "{said}");
    assert!(log.ends_with("agent.log"));
}

#[tokio::test]
async fn expect_the_command_named_when_it_cannot_be_executed() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = options(&dir);
    options.agent_command = vec!["/no/such/drover".into()];
    let error = connect_local(&options).await.unwrap_err();
    assert!(matches!(error, ConnectError::Spawn { .. }));
    assert!(error.to_string().contains("/no/such/drover"), "{error}");
}

#[tokio::test]
async fn expect_a_refusal_when_the_directory_is_open_to_others() {
    let dir = tempfile::tempdir().unwrap();
    let options = options(&dir);
    std::fs::create_dir(&options.agent_dir).unwrap();
    std::fs::set_permissions(&options.agent_dir, PermissionsExt::from_mode(0o755)).unwrap();
    assert!(matches!(connect_local(&options).await.unwrap_err(), ConnectError::Dir(_)));
}

#[tokio::test]
async fn expect_no_agent_there_when_something_else_listens_at_the_socket() {
    let dir = tempfile::tempdir().unwrap();
    let options = options(&dir);
    std::fs::create_dir(&options.agent_dir).unwrap();
    std::fs::set_permissions(&options.agent_dir, PermissionsExt::from_mode(0o700)).unwrap();
    let listener = UnixListener::bind(options.agent_dir.join("agent.sock")).unwrap();
    let stranger = std::thread::spawn(move || {
        use std::io::Write;
        while let Ok((mut stream, _)) = listener.accept() {
            if stream.write_all(b"SSH-2.0-OpenSSH\r\n").is_err() {
                break;
            }
        }
    });
    let error = connect_local(&options).await.unwrap_err();
    assert!(error.to_string().contains("agent.sock"), "{error}");
    drop(stranger);
}
