//! What an attempt left on a host: outputs that did not travel with their events, and artifacts.

use std::{
    fs::File,
    io::{ErrorKind, Write},
};

use drover_model::{AttemptId, ErrorCause, TaskId};
use drover_proto::v1;
use drover_store::{ArtifactError, ResultsDir, Stream};
use tonic::{Status, Streaming};

use super::{
    super::attempt::{ArtifactWish, Fetched, FetchedArtifact, Wanted},
    Client, InternalEvent, Link, chain, failed,
};

/// Why something could not be fetched.
enum FetchError {
    /// The agent said so, or did not answer.
    Agent(Status),
    /// It could not be written here.
    Disk(ErrorCause, String),
}

impl From<Status> for FetchError {
    fn from(status: Status) -> Self {
        Self::Agent(status)
    }
}

impl Link {
    /// Fetches outputs and artifacts of an attempt; artifacts are written into its folder of the results.
    pub fn fetch(&self, attempt: AttemptId, wanted: Wanted, results: ResultsDir) {
        let fetcher = Fetcher { client: self.client.clone(), lease: self.reference(), results };
        let (host, generation) = (self.host.clone(), self.generation);
        self.call(async move {
            let event = |fetched| InternalEvent::Fetched { attempt, host: host.clone(), fetched };
            match fetcher.all(wanted).await {
                Ok(fetched) => event(Ok(fetched)),
                Err(FetchError::Disk(cause, why)) => event(Err((cause, why))),
                Err(FetchError::Agent(status)) => failed(host.clone(), generation, &status, |why| {
                    let why = format!("what a task left could not be fetched from the agent: {why}");
                    event(Err((ErrorCause::AgentLost, why)))
                }),
            }
        });
    }
}

struct Fetcher {
    client: Client,
    lease: v1::LeaseRef,
    results: ResultsDir,
}

impl Fetcher {
    async fn all(mut self, wanted: Wanted) -> Result<Fetched, FetchError> {
        let mut fetched = Fetched::default();
        for (task, stream) in wanted.outputs {
            let bytes = self.output(&task, stream).await?;
            fetched.outputs.insert((task, stream), bytes);
        }
        for wish in wanted.artifacts {
            self.artifacts(&wish, &mut fetched.artifacts).await?;
        }
        Ok(fetched)
    }

    async fn output(&mut self, task: &TaskId, stream: Stream) -> Result<Vec<u8>, Status> {
        let wire = match stream {
            Stream::Stdout => v1::Stream::Stdout,
            Stream::Stderr => v1::Stream::Stderr,
        };
        let request =
            v1::FetchRequest { lease: Some(self.lease.clone()), task: task.to_string(), stream: wire.into() };
        let mut chunks = self.client.fetch(request).await?.into_inner();
        let mut bytes = Vec::new();
        while let Some(chunk) = chunks.message().await? {
            bytes.extend_from_slice(&chunk.data);
        }
        Ok(bytes)
    }

    async fn artifacts(
        &mut self,
        wish: &ArtifactWish,
        found: &mut Vec<FetchedArtifact>,
    ) -> Result<(), FetchError> {
        let request = v1::ListArtifactsRequest {
            lease: Some(self.lease.clone()),
            task: wish.task.to_string(),
            patterns: wish.patterns.clone(),
            limit: wish.limit,
        };
        let listed = self.client.list_artifacts(request).await?.into_inner();
        let mut note = |path: &str, problem| {
            found.push(FetchedArtifact { task: wish.task.clone(), path: path.to_owned(), problem });
        };
        // What an agent may send is bounded by what was asked for.
        let mut left = wish.limit;
        for artifact in listed.artifacts {
            if artifact.skipped.is_some() {
                note(&artifact.path, artifact.skipped);
                continue;
            }
            match left.checked_sub(artifact.size) {
                None => {
                    note(&artifact.path, Some("the agent listed more bytes than were asked for".to_owned()))
                }
                Some(rest) => {
                    left = rest;
                    self.artifact(&wish.task, &artifact).await?;
                    note(&artifact.path, None);
                }
            }
        }
        if let Some(cut) = listed.cut {
            note("", Some(cut));
        }
        Ok(())
    }

    async fn artifact(&mut self, task: &TaskId, artifact: &v1::Artifact) -> Result<(), FetchError> {
        let created = self.results.create_artifact(&task.attempt, &task.role, task.instance, &artifact.path);
        let mut file = created.map_err(|error| match &error {
            ArtifactError::Dir(dir) if dir.is_disk_full() => {
                FetchError::Disk(ErrorCause::DiskFull, chain(&error))
            }
            _ => FetchError::Disk(ErrorCause::Internal, chain(&error)),
        })?;
        let request = v1::FetchArtifactRequest {
            lease: Some(self.lease.clone()),
            task: task.to_string(),
            path: artifact.path.clone(),
            size: artifact.size,
        };
        let chunks = self.client.fetch_artifact(request).await?.into_inner();
        receive(chunks, &mut file, artifact).await
    }
}

async fn receive(
    mut chunks: Streaming<v1::FetchChunk>,
    file: &mut File,
    artifact: &v1::Artifact,
) -> Result<(), FetchError> {
    let failed = |error: std::io::Error| {
        let full = matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded);
        let cause = if full { ErrorCause::DiskFull } else { ErrorCause::Internal };
        FetchError::Disk(cause, format!("the artifact `{}` cannot be written: {error}", artifact.path))
    };
    let mut left = artifact.size;
    while let Some(chunk) = chunks.message().await? {
        let length = u64::try_from(chunk.data.len()).unwrap_or(u64::MAX);
        left = left.checked_sub(length).ok_or_else(|| {
            let why = format!("the agent sent more of the artifact `{}` than it has", artifact.path);
            FetchError::Disk(ErrorCause::Internal, why)
        })?;
        file.write_all(&chunk.data).map_err(failed)?;
    }
    file.sync_data().map_err(failed)
}
