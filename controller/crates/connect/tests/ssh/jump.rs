//! Through a jump host.

use crate::lab::{Host, user};

#[tokio::test]
async fn expect_a_connection_when_the_host_is_behind_a_jump_host() {
    let (jump, host) = (Host::start(), Host::start());
    let mut options = host.options();
    options.jump = Some(format!("{}@127.0.0.1:{}", user(), jump.port));
    let config = format!("IdentityFile {}\n", jump.path("id").display());
    std::fs::write(host.path("ssh_config"), config).unwrap();
    let known = [host.path("known_hosts"), jump.path("known_hosts")]
        .map(|path| std::fs::read_to_string(path).unwrap());
    std::fs::write(host.path("known_hosts"), known.concat()).unwrap();
    let connection = crate::lab::reach(&options).await.unwrap();
    assert_eq!(connection.peer, Some("127.0.0.1".parse().unwrap()));
    assert_eq!(jump.commands(), 0);
    host.end_agent(connection).await;

    // Both are named when the way is blocked.
    options.port = Some(1);
    let error = crate::lab::refused(&options).await;
    assert!(error.contains("127.0.0.1: the jump host 127.0.0.1 cannot connect to port 1"), "{error}");
}

#[tokio::test]
async fn expect_the_client_to_fail_when_the_jump_host_dies() {
    let (mut jump, host) = (Host::start(), Host::start());
    let config = format!(
        "IdentityFile {}\nHost front\nHostName 127.0.0.1\nPort {}\nHost *\nProxyJump front\n",
        jump.path("id").display(),
        jump.port
    );
    std::fs::write(host.path("ssh_config"), config).unwrap();
    let known = [host.path("known_hosts"), jump.path("known_hosts")]
        .map(|path| std::fs::read_to_string(path).unwrap());
    std::fs::write(host.path("known_hosts"), known.concat()).unwrap();
    let mut connection = host.connect().await;
    jump.down();
    let gone = connection.client.probe_clock(drover_proto::v1::ProbeClockRequest {}).await;
    assert!(gone.is_err());
    jump.up();
    let again = host.connect().await;
    assert_eq!(again.hello.agent_id, connection.hello.agent_id);
    host.end_agent(again).await;
}
