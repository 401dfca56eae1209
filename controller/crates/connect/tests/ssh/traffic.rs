//! What goes over a connection.

use std::time::Duration;

use drover_connect::Connection;
use drover_model::{AttemptId, Blob, RunId, StagedFile, StopPolicy, TaskId, TaskSpec, TrialId};
use drover_proto::v1;
use uuid::Uuid;

use crate::lab::{Host, reach};

/// Sends a file of this size to the agent and gets it back as the output of a task.
pub async fn both_ways(connection: &Connection, size: usize) {
    let mut client = connection.client.clone();
    let run = RunId(Uuid::now_v7());
    let request = v1::AcquireLeaseRequest {
        run: run.to_string(),
        holder: "test".into(),
        ttl_ms: 60_000,
        observe_interval_ms: 0,
    };
    let lease = client.acquire_lease(request).await.unwrap().into_inner();
    let lease = v1::LeaseRef { run: lease.run, epoch: lease.epoch };

    // No part of it is like another.
    let mut bytes = vec![0; size];
    blake3::Hasher::new().finalize_xof().fill(&mut bytes);
    let hash = blake3::hash(&bytes);
    let blob = Blob { hash: hash.to_hex().parse().unwrap(), size: size.try_into().unwrap() };
    let header = v1::BlobHeader { lease: Some(lease.clone()), blob: Some(blob.clone().into()) };
    let header = v1::PutBlobChunk { part: Some(v1::put_blob_chunk::Part::Header(header)) };
    let data = bytes
        .chunks(256 << 10)
        .map(|chunk| v1::PutBlobChunk { part: Some(v1::put_blob_chunk::Part::Data(chunk.to_vec().into())) });
    let chunks: Vec<_> = std::iter::once(header).chain(data).collect();
    client.put_blob(tokio_stream::iter(chunks)).await.unwrap();

    let attempt = AttemptId { run, trial: TrialId { cell: 0, repetition: 1 }, number: 1 };
    let id = TaskId { attempt, role: "client".parse().unwrap(), instance: 0 };
    let file = StagedFile { path: "file".into(), contents: Vec::new(), executable: false, blob: Some(blob) };
    let task = TaskSpec {
        id: id.clone(),
        argv: vec!["cat".into(), "file".into()],
        env: Vec::new(),
        files: vec![file],
        ready: Vec::new(),
        ready_within: Duration::ZERO,
        placement: None,
        hold: false,
        deadline: Duration::from_secs(60),
        stop: StopPolicy { signal: 15, grace: Duration::from_secs(1) },
        output_limit: u64::try_from(2 * size).unwrap(),
        ports: Vec::new(),
        counters: false,
        rounds: None,
        progress: false,
        stall: None,
    };
    let watch = v1::WatchRequest { lease: Some(lease.clone()), from_seq: 1 };
    let mut events = client.watch(watch).await.unwrap().into_inner();
    client
        .start_task(v1::StartTaskRequest { lease: Some(lease.clone()), task: Some(task.into()) })
        .await
        .unwrap();
    while let Some(event) = events.message().await.unwrap() {
        if matches!(event.kind, Some(v1::task_event::Kind::Ended(_))) {
            break;
        }
    }
    let stream = v1::Stream::Stdout.into();
    let request = v1::FetchRequest { lease: Some(lease.clone()), task: id.to_string(), stream };
    let mut chunks = client.fetch(request).await.unwrap().into_inner();
    let mut fetched = Vec::new();
    while let Some(chunk) = chunks.message().await.unwrap() {
        fetched.extend_from_slice(&chunk.data);
    }
    assert_eq!(fetched.len(), size);
    assert_eq!(blake3::hash(&fetched), hash);
    let attempts = vec![attempt.to_string()];
    client.forget(v1::ForgetRequest { lease: Some(lease.clone()), attempts }).await.unwrap();
    client.release_lease(lease).await.unwrap();
}

#[tokio::test]
async fn expect_bytes_intact_when_many_go_both_ways() {
    let host = Host::start();
    let connection = host.connect().await;
    both_ways(&connection, 48 << 20).await;
    host.end_agent(connection).await;
}

#[tokio::test]
async fn expect_all_to_connect_when_twenty_come_at_once() {
    let host = Host::start();
    let first = host.connect().await;
    let controllers = (0..20).map(|_| {
        let options = host.options();
        tokio::spawn(async move { reach(&options).await })
    });
    let mut connections = Vec::new();
    for controller in controllers.collect::<Vec<_>>() {
        connections.push(controller.await.unwrap().unwrap());
    }
    for connection in &mut connections {
        connection.client.probe_clock(v1::ProbeClockRequest {}).await.unwrap();
    }
    drop(connections);
    host.end_agent(first).await;
}
