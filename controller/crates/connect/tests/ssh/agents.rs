//! Bringing the agent to a host, and finding it again.

use std::{
    io::Read,
    os::unix::fs::MetadataExt,
    process::{Command, Stdio},
};

use drover_connect::AgentBinary;
use drover_proto::PROTOCOL;
use rustix::process::Signal;

use crate::lab::{Host, agent, mode, reach, signal};

#[tokio::test]
async fn expect_the_agent_stored_and_started_once_when_a_host_is_contacted_twice() {
    let host = Host::start();
    let first = host.connect().await;
    assert_eq!(first.hello.protocol, PROTOCOL);
    assert_eq!(first.peer, Some("127.0.0.1".parse().unwrap()));
    let dir = host.agent_dir();
    assert_eq!((mode(&dir), mode(&dir.join("bin")), mode(&dir.join("agent.sock"))), (0o711, 0o700, 0o600));
    let name = format!("drover-agent-{}", agent().hash);
    assert_eq!(host.stored(), std::slice::from_ref(&name));
    let stored = dir.join("bin").join(name).metadata().unwrap();
    assert_eq!(stored.mode() & 0o777, 0o700);
    // It has a session of its own, so that it outlives this one.
    let pid = host.agent_pid();
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    assert_eq!(stat.rsplit_once(") ").unwrap().1.split(' ').nth(3), Some(pid.to_string().as_str()));

    let before = host.commands();
    let second = host.connect().await;
    // Only the look at the host.
    assert_eq!(host.commands(), before + 1);
    assert_eq!(second.hello.agent_id, first.hello.agent_id);
    drop((first, second));

    // The agent outlives all connections.
    let third = host.connect().await;
    assert_eq!(host.agent_pid(), pid);
    host.end_agent(third).await;

    // It is not stored again for the next start.
    let fourth = host.connect().await;
    assert_ne!(host.agent_pid(), pid);
    let path = dir.join("bin").join(format!("drover-agent-{}", agent().hash));
    assert_eq!(path.metadata().unwrap().ino(), stored.ino());
    host.end_agent(fourth).await;
}

#[tokio::test]
async fn expect_one_agent_when_several_controllers_come_at_once() {
    let host = Host::start();
    let controllers = (0..4).map(|_| {
        let options = host.options();
        tokio::spawn(async move { reach(&options).await.unwrap() })
    });
    let mut connections = Vec::new();
    for controller in controllers.collect::<Vec<_>>() {
        connections.push(controller.await.unwrap());
    }
    let ids: Vec<_> = connections.iter().map(|connection| &connection.hello.agent_id).collect();
    assert!(ids.iter().all(|id| *id == ids[0]));
    assert_eq!(host.stored().len(), 1);
    host.end_agent(connections.pop().unwrap()).await;
}

#[tokio::test]
async fn expect_a_new_agent_when_the_former_one_was_killed() {
    let host = Host::start();
    let first = host.connect().await;
    signal(host.agent_pid(), Signal::KILL);
    host.agent_ended().await;
    assert!(host.agent_dir().join("agent.sock").exists());
    let second = host.connect().await;
    assert_ne!(second.hello.agent_id, first.hello.agent_id);
    host.end_agent(second).await;
}

#[tokio::test]
async fn expect_old_versions_removed_when_a_new_one_is_stored() {
    let host = Host::start();
    let bin = host.agent_dir().join("bin");
    host.end_agent(host.connect().await).await;
    let mut options = host.options();
    let bytes = std::fs::read(&options.agent.path).unwrap();
    let hour = |age: u64| std::time::SystemTime::now() - std::time::Duration::from_secs(3600 * age);
    let put = |name: &str, bytes: &[u8], age| {
        let path = bin.join(name);
        std::fs::write(&path, bytes).unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
        std::fs::File::open(&path).unwrap().set_modified(hour(age)).unwrap();
        path
    };
    for age in 1..=5 {
        put(&format!("drover-agent-{age}"), b"", age);
    }
    put("upload-fresh", b"", 1);
    put("upload-left", b"", 50);
    // The oldest is in use.
    let used = put("drover-agent-used", &bytes, 9);
    let elsewhere = host.path("elsewhere");
    let mut agent = Command::new(used);
    let mut agent =
        agent.args(["agent", "serve", "--dir"]).arg(&elsewhere).stdout(Stdio::piped()).spawn().unwrap();
    agent.stdout.take().unwrap().read_exact(&mut [0; 6]).unwrap();
    std::fs::write(host.agent_dir().join("lock"), format!("{}\n", agent.id())).unwrap();

    let other = host.path("other");
    std::fs::write(&other, [&bytes[..], b"another version"].concat()).unwrap();
    options.agent = AgentBinary::read(other, vec!["agent".to_owned()]).unwrap();
    let connection = reach(&options).await.unwrap();
    let newest = format!("drover-agent-{}", options.agent.hash);
    let former = format!("drover-agent-{}", crate::lab::agent().hash);
    let mut expected = vec!["drover-agent-1", "drover-agent-used", "upload-fresh", &newest, &former];
    expected.sort_unstable();
    assert_eq!(host.stored(), expected);
    agent.kill().unwrap();
    agent.wait().unwrap();
    host.end_agent(connection).await;
}
