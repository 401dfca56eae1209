//! Files that tasks leave behind.

use drover_model::{Artifacts, TaskId};
use drover_proto::{MAX_CHUNK_BYTES, Refusal, v1};
use tonic::Code;

use crate::harness::{Agent, Session, within};

async fn list(
    session: &mut Session,
    task: &TaskId,
    patterns: &[&str],
    limit: u64,
) -> Result<Artifacts, tonic::Status> {
    let request = v1::ListArtifactsRequest {
        lease: Some(session.lease.clone()),
        task: task.to_string(),
        patterns: patterns.iter().map(|pattern| (*pattern).to_owned()).collect(),
        limit,
    };
    within(session.client.list_artifacts(request)).await.map(|reply| reply.into_inner().into())
}

async fn fetch(
    session: &mut Session,
    task: &TaskId,
    path: &str,
    size: u64,
) -> Result<Vec<u8>, tonic::Status> {
    let request = v1::FetchArtifactRequest {
        lease: Some(session.lease.clone()),
        task: task.to_string(),
        path: path.to_owned(),
        size,
    };
    let mut chunks = within(session.client.fetch_artifact(request)).await?.into_inner();
    let mut fetched = Vec::new();
    while let Some(chunk) = within(chunks.message()).await? {
        assert!(chunk.data.len() <= MAX_CHUNK_BYTES);
        fetched.extend(chunk.data);
    }
    Ok(fetched)
}

#[tokio::test]
async fn expect_the_files_of_a_task_until_it_is_forgotten() {
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start(&dir);
    let mut session = agent.session(1).await;
    let spec = session.shell(0, "mkdir -p out/deep; seq 100000 > out/deep/seq.txt; echo no > other");
    session.run(&spec).await;
    let found = list(&mut session, &spec.id, &["out/**/*.txt"], 1 << 20).await.unwrap();
    assert_eq!(found.files.len(), 1);
    let file = &found.files[0];
    assert_eq!((file.path.as_str(), file.skipped.as_deref()), ("out/deep/seq.txt", None));
    let expected: String = (1..=100_000).map(|n| format!("{n}\n")).collect();
    let fetched = fetch(&mut session, &spec.id, &file.path, file.size).await.unwrap();
    assert!(fetched == expected.as_bytes());

    // It grew, then it shrank.
    let path = agent.dir.join("work").join(spec.id.attempt.to_string()).join("other");
    std::fs::write(&path, "no, and more").unwrap();
    assert_eq!(fetch(&mut session, &spec.id, "other", 2).await.unwrap(), b"no");
    let refused = fetch(&mut session, &spec.id, "other", 20).await.unwrap_err();
    assert_eq!(Refusal::of(&refused), Some(Refusal::NoArtifact));
    assert!(refused.message().contains("8 bytes are missing"), "{refused}");

    assert_eq!(list(&mut session, &spec.id, &[], 1 << 20).await.unwrap(), Artifacts::default());
    session.forget(&[spec.id.attempt]).await.unwrap();
    let refused = list(&mut session, &spec.id, &["**"], 1 << 20).await.unwrap_err();
    assert_eq!(Refusal::of(&refused), Some(Refusal::UnknownTask));
}

#[tokio::test]
async fn expect_a_refusal_when_a_path_leaves_the_folder_or_is_no_plain_file() {
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start(&dir);
    let mut session = agent.session(1).await;
    let outside = dir.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("secret"), "secret").unwrap();
    let script = format!("ln -s {0} folder; ln -s {0}/secret file; mkfifo fifo; mkdir d", outside.display());
    let spec = session.shell(0, &script);
    session.run(&spec).await;
    let absolute = outside.join("secret");
    let paths = [
        "../../outside/secret",
        absolute.to_str().unwrap(),
        "folder/secret",
        "file",
        "fifo",
        "d",
        "",
        "gone",
    ];
    for path in paths {
        let refused = fetch(&mut session, &spec.id, path, 6).await.unwrap_err();
        assert_eq!(Refusal::of(&refused), Some(Refusal::NoArtifact), "{path}: {refused}");
    }
    let found = list(&mut session, &spec.id, &["**"], 100).await.unwrap();
    assert!(found.files.iter().all(|file| file.skipped.is_some()), "{found:?}");
    let refused = list(&mut session, &spec.id, &["../*"], 100).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    assert!(refused.message().contains("leads out"), "{refused}");
}

#[tokio::test]
async fn expect_the_files_found_by_a_new_agent_when_the_former_one_crashed() {
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start(&dir);
    let mut session = agent.session(1).await;
    let spec = session.shell(0, "echo kept > kept");
    session.run(&spec).await;
    agent.crash();
    let agent = Agent::start(&dir);
    let mut session = agent.session(1).await;
    let found = list(&mut session, &spec.id, &["kept"], 100).await.unwrap();
    assert_eq!(fetch(&mut session, &spec.id, "kept", found.files[0].size).await.unwrap(), b"kept\n");
}
