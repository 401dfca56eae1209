//! Files staged by hash.

use std::os::unix::fs::PermissionsExt;

use drover_model::{Blob, BlobHash, EndKind, StagedFile};
use drover_proto::{MAX_BLOB_BYTES, MAX_CHUNK_BYTES, Refusal, v1};
use tonic::Code;

use crate::harness::{Agent, Session, stdout, within};

fn blob(contents: &[u8]) -> Blob {
    Blob { hash: BlobHash::of(contents), size: contents.len().try_into().unwrap() }
}

fn data(bytes: &[u8]) -> v1::PutBlobChunk {
    v1::PutBlobChunk { part: Some(v1::put_blob_chunk::Part::Data(bytes.to_vec().into())) }
}

fn header(lease: v1::LeaseRef, blob: Blob) -> v1::PutBlobChunk {
    let header = v1::BlobHeader { lease: Some(lease), blob: Some(blob.into()) };
    v1::PutBlobChunk { part: Some(v1::put_blob_chunk::Part::Header(header)) }
}

async fn send(session: &Session, announced: Blob, contents: &[u8]) -> Result<(), tonic::Status> {
    let mut chunks = vec![header(session.lease.clone(), announced)];
    chunks.extend(contents.chunks(MAX_CHUNK_BYTES).map(data));
    let mut client = session.client.clone();
    within(client.put_blob(tokio_stream::iter(chunks))).await.map(drop)
}

async fn missing(session: &mut Session, blobs: &[&Blob]) -> Vec<String> {
    let hashes = blobs.iter().map(|blob| blob.hash.to_string()).collect();
    let request = v1::MissingBlobsRequest { lease: Some(session.lease.clone()), hashes };
    within(session.client.missing_blobs(request)).await.unwrap().into_inner().hashes
}

fn kept(agent: &Agent) -> Vec<String> {
    let entries = std::fs::read_dir(agent.dir.join("blobs")).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

fn staged(path: &str, blob: &Blob) -> StagedFile {
    StagedFile { path: path.into(), contents: vec![], executable: true, blob: Some(blob.clone()) }
}

#[tokio::test]
async fn expect_copies_of_a_blob_in_each_attempt_when_it_was_uploaded_once() {
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start(&dir);
    let mut session = agent.session(1).await;
    let mut tool = b"#!/bin/sh\necho tool\nexit 0\n".to_vec();
    tool.resize(3 * MAX_CHUNK_BYTES + 1, b'#');
    let tool_blob = blob(&tool);
    let other = blob(b"other");
    assert_eq!(missing(&mut session, &[&tool_blob, &other]).await.len(), 2);

    let mut spec = session.shell(0, "x/tool && echo spoiled > x/tool");
    spec.files = vec![staged("x/tool", &tool_blob)];
    let refused = session.try_start(&spec).await.unwrap_err();
    assert_eq!(Refusal::of(&refused), Some(Refusal::UnknownBlob));
    assert!(refused.message().contains(&tool_blob.hash.to_string()), "{refused}");

    send(&session, tool_blob.clone(), &tool).await.unwrap();
    assert_eq!(missing(&mut session, &[&tool_blob, &other]).await, [other.hash.to_string()]);
    for cell in 0..2 {
        spec.id = session.task(cell, "server");
        let end = session.run(&spec).await;
        assert_eq!((stdout(&end).as_str(), end.kind), ("tool\n", EndKind::Exited(0)));
    }
    // Sent again, it is there already; a task that is known needs it no more.
    send(&session, tool_blob.clone(), &tool).await.unwrap();
    let name = tool_blob.hash.to_string();
    assert_eq!(kept(&agent), std::slice::from_ref(&name));
    let mode = |path: &str| std::fs::metadata(agent.dir.join(path)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("blobs"), mode(&format!("blobs/{name}"))), (0o700, 0o600));
    std::fs::remove_file(agent.dir.join("blobs").join(name)).unwrap();
    assert!(session.start(&spec).await);
}

#[tokio::test]
async fn expect_the_blob_after_a_restart_when_the_agent_crashed() {
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start(&dir);
    let session = agent.session(1).await;
    send(&session, blob(b"text"), b"text").await.unwrap();
    let blobs = agent.dir.join("blobs");
    agent.crash();
    std::fs::write(blobs.join("part-1"), "torn").unwrap();
    let agent = Agent::start(&dir);
    let mut session = agent.session(1).await;
    assert!(missing(&mut session, &[&blob(b"text")]).await.is_empty());
    assert_eq!(kept(&agent).len(), 1);
}

#[tokio::test]
async fn expect_nothing_kept_and_the_reason_when_a_blob_is_not_what_was_announced() {
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start(&dir);
    let session = agent.session(1).await;
    let good = blob(b"announced");
    for (announced, contents, said) in [
        (good.clone(), &b"different"[..], "what came is"),
        (good.clone(), b"short", "5 came"),
        (good.clone(), b"much too long", "was announced with 9 bytes"),
        (Blob { size: MAX_BLOB_BYTES + 1, ..good.clone() }, b"", "are allowed"),
    ] {
        let refused = send(&session, announced, contents).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "{refused}");
        assert!(refused.message().contains(said), "{refused}");
    }
    let mut client = session.client.clone();
    let refused = within(client.put_blob(tokio_stream::iter([data(b"x")]))).await.unwrap_err();
    assert!(refused.message().contains("header"), "{refused}");
    let chunks = [header(session.lease.clone(), good.clone()), data(&vec![0; MAX_CHUNK_BYTES + 1])];
    let refused = within(client.put_blob(tokio_stream::iter(chunks))).await.unwrap_err();
    assert!(refused.message().contains("256 KiB"), "{refused}");
    let stale = v1::LeaseRef { epoch: 99, ..session.lease.clone() };
    let refused = within(client.put_blob(tokio_stream::iter([header(stale, good)]))).await.unwrap_err();
    assert_eq!(Refusal::of(&refused), Some(Refusal::StaleLease));
    assert!(kept(&agent).is_empty());
}

#[tokio::test]
async fn expect_one_blob_when_many_upload_it_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start(&dir);
    let mut session = agent.session(1).await;
    let contents: Vec<u8> = (0..1_000_000_u32).flat_map(u32::to_le_bytes).collect();
    let announced = blob(&contents);
    let uploads = (0..6).map(|_| send(&session, announced.clone(), &contents)).collect::<Vec<_>>();
    for upload in join_all(uploads).await {
        upload.unwrap();
    }
    assert_eq!(kept(&agent), [announced.hash.to_string()]);
    let mut spec = session.shell(0, "wc -c < data");
    spec.files = vec![staged("data", &announced)];
    assert_eq!(stdout(&session.run(&spec).await).trim(), contents.len().to_string());
}

/// Polls all futures together.
async fn join_all<F: Future>(futures: Vec<F>) -> Vec<F::Output> {
    let mut futures: Vec<_> = futures.into_iter().map(Box::pin).collect();
    let mut outputs: Vec<Option<F::Output>> = futures.iter().map(|_| None).collect();
    std::future::poll_fn(|context| {
        for (future, output) in futures.iter_mut().zip(&mut outputs) {
            if output.is_none()
                && let std::task::Poll::Ready(ready) = future.as_mut().poll(context)
            {
                *output = Some(ready);
            }
        }
        if outputs.iter().all(Option::is_some) {
            std::task::Poll::Ready(())
        } else {
            std::task::Poll::Pending
        }
    })
    .await;
    outputs.into_iter().map(Option::unwrap).collect()
}

#[tokio::test]
async fn expect_nothing_kept_when_the_uploader_goes_away() {
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start(&dir);
    let mut session = agent.session(1).await;
    let announced = blob(b"announced");
    let (sender, receiver) = tokio::sync::mpsc::channel(4);
    sender.send(header(session.lease.clone(), announced.clone())).await.unwrap();
    sender.send(data(b"annou")).await.unwrap();
    let mut client = session.client.clone();
    let upload = tokio::spawn(async move {
        client.put_blob(tokio_stream::wrappers::ReceiverStream::new(receiver)).await.map(drop)
    });
    let part = agent.dir.join("blobs");
    within(async {
        while std::fs::read_dir(&part).unwrap().next().is_none() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    upload.abort();
    within(async {
        while std::fs::read_dir(&part).unwrap().next().is_some() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    drop(sender);
    assert_eq!(missing(&mut session, &[&announced]).await.len(), 1);
}

#[tokio::test]
async fn expect_it_said_when_the_disk_is_full() {
    let dir = tempfile::tempdir().unwrap();
    // A file may have 64 KiB at most; without the signal that goes with it, that is like a full disk.
    let agent = Agent::start_limited(&dir, 64 << 10);
    let session = agent.session(1).await;
    let contents = vec![7; 200_000];
    let refused = send(&session, blob(&contents), &contents).await.unwrap_err();
    assert_eq!(Refusal::of(&refused), Some(Refusal::Full), "{refused}");
    assert!(refused.message().contains("cannot keep the blob"), "{refused}");
    assert!(kept(&agent).is_empty());
    send(&session, blob(b"small"), b"small").await.unwrap();
}
