//! Captured output: bounded, complete within the bound, fetched in chunks.

use drover_model::{EndKind, ReadyCheck};
use drover_proto::{MAX_CHUNK_BYTES, Refusal, v1::Stream};

use crate::harness::{Agent, says_up};

#[tokio::test]
async fn expect_the_first_and_last_part_kept_when_a_task_writes_more_than_its_limit() {
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start(&dir);
    let mut session = agent.session(1).await;
    let mut spec = session.shell(0, "echo first; head -c 52428800 /dev/zero; echo last");
    spec.output_limit = 1 << 20;
    let end = session.run(&spec).await;
    assert_eq!(end.kind, EndKind::Exited(0));
    assert_eq!((end.stdout.written, end.stdout.kept), ((50 << 20) + 11, 1 << 20));
    assert!(end.stdout.inline.is_none());
    let chunks = session.fetch(&spec.id, Stream::Stdout).await.unwrap();
    assert!(chunks.iter().all(|chunk| chunk.len() <= MAX_CHUNK_BYTES));
    let fetched = chunks.concat();
    assert!(fetched.starts_with(b"first\n") && fetched.ends_with(b"last\n"));
    let marker = b"bytes cut here";
    assert!(fetched.windows(marker.len()).any(|window| window == marker));
    assert!(fetched.len() < (1 << 20) + 100);
}

#[tokio::test]
async fn expect_the_same_bytes_when_an_output_is_fetched_running_ended_and_after_a_crash() {
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start(&dir);
    let mut session = agent.session(1).await;
    let script = "head -c 700000 /dev/urandom | tee copy; echo small >&2; echo up; sleep 1000";
    let mut spec = session.shell(0, script);
    spec.ready = vec![ReadyCheck::Log("small".into()), ReadyCheck::Log("up".into())];
    session.run_until_ready(&spec).await;
    let mut expected =
        std::fs::read(agent.dir.join("work").join(spec.id.attempt.to_string()).join("copy")).unwrap();
    expected.extend_from_slice(b"up\n");
    let running = session.fetch(&spec.id, Stream::Stdout).await.unwrap();
    assert!(running.len() > 2 && running.concat() == expected);
    assert_eq!(session.fetch(&spec.id, Stream::Stderr).await.unwrap().concat(), b"small\n");

    session.stop(&spec.id, false).await;
    let end = session.end_of(&spec.id).await;
    assert_eq!(end.stdout.written, 700_003);
    assert_eq!(end.stderr.inline.as_deref(), Some(&b"small\n"[..]));
    assert!(session.fetch(&spec.id, Stream::Stdout).await.unwrap().concat() == expected);
    agent.crash();

    let agent = Agent::start(&dir);
    let mut session = agent.session(1).await;
    assert!(session.fetch(&spec.id, Stream::Stdout).await.unwrap().concat() == expected);
    assert_eq!(session.fetch(&spec.id, Stream::Stderr).await.unwrap().concat(), b"small\n");
}

#[tokio::test]
async fn expect_unknown_task_when_the_output_of_a_stranger_is_fetched() {
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start(&dir);
    let mut session = agent.session(1).await;
    let refused = session.fetch(&session.task(9, "server"), Stream::Stdout).await.unwrap_err();
    assert_eq!(Refusal::of(&refused), Some(Refusal::UnknownTask));
}

#[tokio::test]
async fn expect_other_tasks_served_when_one_writes_without_pause() {
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start(&dir);
    let mut session = agent.session(1).await;
    let mut loud = session.shell(0, "echo up; exec cat /dev/zero");
    loud.ready = says_up();
    session.run_until_ready(&loud).await;
    for cell in 1..10 {
        assert_eq!(session.run(&session.shell(cell, "true")).await.kind, EndKind::Exited(0));
    }
    session.stop(&loud.id, false).await;
    let end = session.end_of(&loud.id).await;
    assert_eq!((end.kind, end.stdout.kept), (EndKind::Stopped(None), 1 << 20));

    let mut loud = session.command(10, &["cat", "/dev/zero"]);
    loud.deadline = std::time::Duration::from_millis(300);
    assert_eq!(session.run(&loud).await.kind, EndKind::Deadline);
}
