//! Starting tasks: once only, in their own folder, with their own environment; and every way in which a start fails.

use std::{net::TcpListener, os::unix::fs::symlink};

use drover_model::{CpuPart, EndKind, NotStarted, Placement, StagedFile, TaskEventKind};
use tonic::Code;

use crate::harness::{Agent, stdout};

#[tokio::test]
async fn expect_one_start_when_a_task_is_started_twice_and_again_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start(&dir);
    let mut session = agent.session(1).await;
    let marks = dir.path().join("marks");
    let spec = session.shell(0, &format!("echo x >> {}", marks.display()));
    assert!(!session.start(&spec).await);
    assert!(session.start(&spec).await);
    assert_eq!(session.end_of(&spec.id).await.kind, EndKind::Exited(0));
    assert!(session.start(&spec).await);
    agent.crash();

    let agent = Agent::start(&dir);
    let mut session = agent.session(1).await;
    assert!(session.start(&spec).await);
    assert_eq!(session.end_of(&spec.id).await.kind, EndKind::Exited(0));
    assert_eq!(std::fs::read_to_string(&marks).unwrap(), "x\n");
}

#[tokio::test]
async fn expect_started_then_ended_with_usage_when_a_task_runs() {
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start(&dir);
    let mut session = agent.session(1).await;
    let mut spec = session.shell(0, "echo out; echo err >&2; exit 3");
    spec.counters = true;
    session.start(&spec).await;
    let TaskEventKind::Started { pid, cpus } = session.event_of(&spec.id).await else { panic!() };
    assert!(pid > 0 && !cpus.is_empty());
    let TaskEventKind::Ended(end) = session.event_of(&spec.id).await else { panic!() };
    assert_eq!(end.kind, EndKind::Exited(3));
    assert_eq!(stdout(&end), "out\n");
    assert_eq!(end.stderr.inline.as_deref(), Some(&b"err\n"[..]));
    assert!(!end.wall.is_zero() && end.leftovers == 0);
    assert!(end.usage.voluntary_switches + end.usage.involuntary_switches > 0);
    assert!(end.counters.is_some_and(|counters| counters.context_switches > 0));
}

#[tokio::test]
async fn expect_a_clean_environment_and_the_attempts_folder_when_a_task_runs() {
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start(&dir);
    let mut session = agent.session(1).await;
    let mut spec =
        session.shell(0, "pwd; cat sub/conf; ./tool; echo $A $LC_ALL $DROVER_ATTEMPT; env | grep -c CARGO");
    spec.env = vec![("A".into(), "b c".into())];
    let file = |path: &str, contents: &str, executable| StagedFile {
        path: path.into(),
        contents: contents.into(),
        executable,
        blob: None,
    };
    spec.files = vec![file("sub/conf", "text\n", false), file("tool", "#!/bin/sh\necho tool\n", true)];
    let end = session.run(&spec).await;
    let (folder, attempt) = (agent.dir.join("work"), spec.id.attempt);
    let expected = format!("{}/{attempt}\ntext\ntool\nb c C.UTF-8 {attempt}\n0\n", folder.display());
    assert_eq!(stdout(&end), expected);
}

#[tokio::test]
async fn expect_the_agents_own_program_when_a_task_runs_drover_agent() {
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start(&dir);
    let mut session = agent.session(1).await;
    let end = session.run(&session.command(0, &["drover-agent", "--version"])).await;
    assert!(stdout(&end).starts_with("drover-agent "), "{end:?}");
    let end = session.run(&session.command(1, &["drover-agent", "workload", "--help"])).await;
    assert!(stdout(&end).contains("server"), "{end:?}");
}

#[tokio::test]
async fn expect_the_reason_when_a_command_cannot_be_executed() {
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start(&dir);
    let mut session = agent.session(1).await;
    let plain = dir.path().join("plain");
    std::fs::write(&plain, "text").unwrap();
    let cases = [
        ("no-such-command-anywhere", NotStarted::NotFound),
        ("/no/such/path", NotStarted::NotFound),
        (plain.to_str().unwrap(), NotStarted::Permission),
    ];
    for (cell, (command, cause)) in (0..).zip(cases) {
        let spec = session.command(cell, &[command]);
        session.start(&spec).await;
        let TaskEventKind::Ended(end) = session.event_of(&spec.id).await else {
            panic!("{command} was started")
        };
        let EndKind::NotStarted(found, detail) = end.kind else { panic!("{end:?}") };
        assert_eq!(found, cause, "{detail}");
        assert!(detail.contains(command), "{detail}");
    }
}

#[tokio::test]
async fn expect_the_holder_named_when_a_port_is_taken() {
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start(&dir);
    let mut session = agent.session(1).await;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut spec = session.shell(0, "true");
    spec.ports = vec![port];
    let EndKind::NotStarted(NotStarted::PortTaken, detail) = session.run(&spec).await.kind else { panic!() };
    assert!(detail.contains(&port.to_string()), "{detail}");
    assert!(detail.contains(&std::process::id().to_string()), "{detail}");
    drop(listener);
    spec.id = session.task(1, "server");
    assert_eq!(session.run(&spec).await.kind, EndKind::Exited(0));
}

#[tokio::test]
async fn expect_no_start_and_nothing_written_when_a_staged_path_leaves_the_folder() {
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start(&dir);
    let mut session = agent.session(1).await;
    let outside = dir.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    let work = agent.dir.join("work");
    let first = session.shell(0, "true");
    session.run(&first).await;
    symlink(&outside, work.join(first.id.attempt.to_string()).join("link")).unwrap();
    for (instance, path) in (1..).zip(["../../outside/x", "/tmp/../etc/x", "link/x"]) {
        let mut spec = session.shell(0, "true");
        spec.id.instance = instance;
        spec.files = vec![StagedFile { path: path.into(), contents: vec![], executable: false, blob: None }];
        let EndKind::NotStarted(NotStarted::Other, detail) = session.run(&spec).await.kind else {
            panic!("{path}")
        };
        assert!(detail.contains(path), "{detail}");
    }
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0);
}

#[tokio::test]
async fn expect_one_cpu_read_back_when_one_is_asked_for_and_a_refusal_when_there_are_too_few() {
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start(&dir);
    let mut session = agent.session(1).await;
    let mut spec = session.shell(0, "grep Cpus_allowed_list /proc/self/status");
    spec.placement = Some(Placement { count: 1, part: CpuPart::Inside });
    session.start(&spec).await;
    let TaskEventKind::Started { cpus, .. } = session.event_of(&spec.id).await else { panic!() };
    let end = session.end_of(&spec.id).await;
    assert_eq!(stdout(&end).split_whitespace().last(), Some(end.cpus.as_str()));
    assert!(!end.cpus.contains([',', '-']) && end.cpus == cpus, "{cpus} {end:?}");

    let mut spec = session.shell(1, "true");
    spec.placement = Some(Placement { count: 100_000, part: CpuPart::Inside });
    let EndKind::NotStarted(NotStarted::WrongCpus, detail) = session.run(&spec).await.kind else { panic!() };
    assert!(detail.contains("100000"), "{detail}");
}

#[tokio::test]
async fn expect_a_named_field_when_a_request_is_malformed() {
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start(&dir);
    let mut session = agent.session(1).await;
    let mut spec = session.shell(0, "true");
    spec.argv.clear();
    let refused = session.try_start(&spec).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    assert!(refused.message().contains("task.argv"), "{refused}");
    let mut foreign = session.shell(0, "true");
    foreign.id.attempt.run = drover_model::RunId(uuid::Uuid::from_u128(2));
    assert_eq!(session.try_start(&foreign).await.unwrap_err().code(), Code::InvalidArgument);
}
