//! Servers that forbid forwarding to sockets.

use crate::lab::Host;

#[tokio::test]
async fn expect_a_bridge_when_the_server_forbids_forwarding() {
    let host = Host::start_with("AllowStreamLocalForwarding no");
    let first = host.connect().await;
    let before = host.commands();
    let second = host.connect().await;
    // The look at the host, and the bridge.
    assert_eq!(host.commands(), before + 2);
    assert_eq!(second.hello.agent_id, first.hello.agent_id);
    crate::traffic::both_ways(&second, 4 << 20).await;
    host.end_agent(second).await;
}

#[tokio::test]
async fn expect_the_bridge_to_end_when_the_connection_does() {
    let host = Host::start_with("DisableForwarding yes");
    let connection = host.connect().await;
    let bridge = |pid: &u32| {
        let command = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        command.contains("\0bridge\0")
    };
    let pid = host.sessions().into_iter().find(bridge).unwrap();
    let pid = rustix::process::Pid::from_raw(pid.try_into().unwrap()).unwrap();
    let pidfd = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).unwrap();
    drop(connection);
    let ended = tokio::task::spawn_blocking(move || {
        let mut polled = [rustix::event::PollFd::new(&pidfd, rustix::event::PollFlags::IN)];
        rustix::event::poll(&mut polled, None).unwrap()
    });
    assert_eq!(ended.await.unwrap(), 1);
    let again = host.connect().await;
    host.end_agent(again).await;
}
