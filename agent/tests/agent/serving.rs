//! The agent's own life: its directory, its socket, its end.

use std::{
    os::unix::fs::PermissionsExt,
    process::{Command, Stdio},
    time::Duration,
};

use drover_proto::{PROTOCOL, Refusal, v1};

use crate::harness::{Agent, acquire, within};

#[tokio::test]
async fn expect_facts_and_a_private_socket_when_an_agent_serves() {
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start(&dir);
    let mode = |name: &str| std::fs::metadata(agent.dir.join(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(""), mode("agent.sock"), mode("outputs")), (0o711, 0o600, 0o700));
    let mut client = agent.connect().await;
    let request = v1::HelloRequest { protocol: PROTOCOL, controller_version: String::new() };
    let hello = within(client.hello(request.clone())).await.unwrap().into_inner();
    let facts = hello.facts.unwrap();
    assert!(!facts.cpus.is_empty() && !facts.boot_id.is_empty() && facts.memory_bytes > 0);
    assert!(["cgroup2", "cgroup1", "process-group"].contains(&facts.containment.as_str()));
    assert_eq!(facts.uid, Some(rustix::process::geteuid().as_raw()));
    assert!(facts.state_free_bytes > Some(0));
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    assert_eq!(facts.open_files_limit, limit);
    let cgroups = facts.features.iter().find(|feature| feature.name == "cgroups").unwrap();
    assert_eq!(cgroups.missing.is_none(), facts.cgroup_version > 0, "{cgroups:?}");
    assert_eq!(hello.host_name, None);
    assert_eq!(hello.work_dir, agent.dir.join("work").display().to_string());
    let again = within(client.hello(request)).await.unwrap().into_inner();
    assert_eq!(again.agent_id, hello.agent_id);
}

#[tokio::test]
async fn expect_a_second_agent_to_give_way_when_one_serves_the_directory() {
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start(&dir);
    let second = Command::new(env!("CARGO_BIN_EXE_drover-agent"))
        .args(["serve", "--dir"])
        .arg(&agent.dir)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(second.status.code(), Some(3));
    let said = String::from_utf8(second.stderr).unwrap();
    assert!(said.contains("already serves") && said.contains(&agent.pid().to_string()), "{said}");
    agent.session(1).await;
}

#[tokio::test]
async fn expect_an_end_on_request_when_no_task_runs_and_no_other_run_holds_the_host() {
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start(&dir);
    let mut session = agent.session(1).await;
    let spec = session.shell(0, "sleep 1000");
    session.start(&spec).await;
    let own = v1::ShutdownRequest { lease: Some(session.lease.clone()) };
    let refused = within(session.client.shutdown(own.clone())).await.unwrap_err();
    assert_eq!(Refusal::of(&refused), Some(Refusal::TasksRunning));
    session.stop(&spec.id, true).await;
    session.end_of(&spec.id).await;
    let foreign = v1::ShutdownRequest { lease: Some(v1::LeaseRef { epoch: 99, ..session.lease.clone() }) };
    assert!(within(session.client.shutdown(foreign)).await.is_err());
    assert!(within(session.client.shutdown(v1::ShutdownRequest { lease: None })).await.is_err());

    // Connections and watchers that stay do not keep it.
    let mut watching = session.watch(1).await;
    within(session.client.shutdown(own)).await.unwrap();
    while within(watching.message()).await.is_ok_and(|event| event.is_some()) {}
    let socket = agent.dir.join("agent.sock");
    assert!(agent.wait().success());
    assert!(!socket.exists());
}

#[tokio::test]
async fn expect_an_end_by_itself_when_nobody_needs_the_agent() {
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start_with(&dir, &["--linger", "50ms"]);
    let mut client = agent.connect().await;
    let run = drover_model::RunId(uuid::Uuid::from_u128(1));
    // A lease that nobody renews does not keep it for long.
    within(client.acquire_lease(acquire(run, Duration::from_millis(1)))).await.unwrap();
    drop(client);
    assert!(within(agent.ended()).await.success());
}

#[test]
fn expect_usage_when_the_command_line_is_wrong() {
    let agent = Command::new(env!("CARGO_BIN_EXE_drover-agent")).arg("serv").output().unwrap();
    assert_eq!(agent.status.code(), Some(2));
}
