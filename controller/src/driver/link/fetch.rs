//! What an attempt left on a host: outputs that did not travel with their events, and artifacts.

use drover_model::{AttemptId, ErrorCause, Name, TaskId};
use drover_proto::v1;
use drover_store::{ArtifactError, DirError, ResultsDir, Stream};
use tokio::sync::watch;
use tonic::Status;

use super::{
    super::attempt::{ArtifactWish, Fetched, FetchedArtifact, Wanted},
    Client, InternalEvent, Link, chain, failed, is_refusal,
};

/// Why something could not be fetched.
pub(super) enum FetchError {
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
        let fetcher = Fetcher {
            host: self.host.clone(),
            client: self.client.clone(),
            lease: self.reference(),
            results,
            heard: self.heard.clone(),
        };
        let (host, generation) = (self.host.clone(), self.generation);
        self.call(async move {
            let event = |fetched| InternalEvent::Fetched { attempt, host: host.clone(), fetched };
            match fetcher.all(attempt, wanted).await {
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

pub(super) struct Fetcher {
    pub(super) host: Name,
    pub(super) client: Client,
    pub(super) lease: v1::LeaseRef,
    pub(super) results: ResultsDir,
    /// Number of the last report of the agent that was handed on.
    pub(super) heard: watch::Receiver<u64>,
}

impl Fetcher {
    async fn all(mut self, attempt: AttemptId, wanted: Wanted) -> Result<Fetched, FetchError> {
        let mut fetched = Fetched::default();
        for (task, stream, length) in wanted.outputs {
            let bytes = self.output(&task, stream, length).await?;
            fetched.outputs.insert((task, stream), bytes);
        }
        for wish in wanted.artifacts {
            self.artifacts(&wish, &mut fetched.artifacts).await?;
        }
        if wanted.samples {
            fetched.judged = self.judge(attempt).await?;
            self.samples(attempt).await?;
        }
        Ok(fetched)
    }

    async fn output(&mut self, task: &TaskId, stream: Stream, length: u64) -> Result<Vec<u8>, FetchError> {
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
            if u64::try_from(bytes.len()).is_ok_and(|sent| sent > length) {
                let why = format!("the agent of {} sent more of an output than it announced", self.host);
                return Err(FetchError::Disk(ErrorCause::Internal, why));
            }
        }
        Ok(bytes)
    }

    async fn artifacts(
        &mut self,
        wish: &ArtifactWish,
        found: &mut Vec<FetchedArtifact>,
    ) -> Result<(), FetchError> {
        let host = self.host.clone();
        let mut note = |path: &str, problem| {
            let (host, task, path) = (host.clone(), wish.task.clone(), path.to_owned());
            found.push(FetchedArtifact { host, task, path, problem });
        };
        let request = v1::ListArtifactsRequest {
            lease: Some(self.lease.clone()),
            task: wish.task.to_string(),
            patterns: wish.patterns.clone(),
            limit: wish.limit,
        };
        let listed = match self.client.list_artifacts(request).await {
            Ok(listed) => listed.into_inner(),
            Err(status) if is_refusal(&status) => {
                note("", Some(status.message().to_owned()));
                return Ok(());
            }
            Err(status) => return Err(status.into()),
        };
        // What an agent may send is bounded by what was asked for.
        let mut left = wish.limit;
        for artifact in listed.artifacts {
            let problem = match (artifact.skipped.clone(), left.checked_sub(artifact.size)) {
                (Some(problem), _) => Some(problem),
                (None, None) => Some("the agent listed more bytes than were asked for".to_owned()),
                (None, Some(rest)) => {
                    left = rest;
                    self.artifact(&wish.task, &artifact).await?
                }
            };
            note(&artifact.path, problem);
        }
        if let Some(cut) = listed.cut {
            note("", Some(cut));
        }
        Ok(())
    }

    /// Fetches a file; gives the reason if the agent has it no more.
    async fn artifact(
        &mut self,
        task: &TaskId,
        artifact: &v1::Artifact,
    ) -> Result<Option<String>, FetchError> {
        let created = self.results.create_artifact(&task.attempt, &task.role, task.instance, &artifact.path);
        let mut file = created.map_err(|error| match error {
            ArtifactError::Dir(error) => disk(&error),
            error @ ArtifactError::Path { .. } => FetchError::Disk(ErrorCause::Internal, chain(&error)),
        })?;
        let request = v1::FetchArtifactRequest {
            lease: Some(self.lease.clone()),
            task: task.to_string(),
            path: artifact.path.clone(),
            size: artifact.size,
        };
        let mut left = artifact.size;
        let mut chunks = match self.client.fetch_artifact(request).await {
            Ok(reply) => reply.into_inner(),
            Err(status) if is_refusal(&status) => return Ok(Some(status.message().to_owned())),
            Err(status) => return Err(status.into()),
        };
        loop {
            let chunk = match chunks.message().await {
                Ok(Some(chunk)) => chunk,
                Ok(None) => break,
                Err(status) if is_refusal(&status) => return Ok(Some(status.message().to_owned())),
                Err(status) => return Err(status.into()),
            };
            let length = u64::try_from(chunk.data.len()).unwrap_or(u64::MAX);
            let Some(rest) = left.checked_sub(length) else {
                return Ok(Some("the agent sent more of it than it has".to_owned()));
            };
            left = rest;
            // A slow disk must not keep the loop from its heartbeats.
            let written = tokio::task::spawn_blocking(move || file.write(&chunk.data).map(|()| file)).await;
            file = written.map_err(|error| broken(&error))?.map_err(|error| disk(&error))?;
        }
        if left > 0 {
            return Ok(Some(format!("the agent sent {left} bytes less of it than it has")));
        }
        let kept = tokio::task::spawn_blocking(move || file.keep()).await;
        kept.map_err(|error| broken(&error))?.map_err(|error| disk(&error))?;
        Ok(None)
    }
}

pub(super) fn disk(error: &DirError) -> FetchError {
    let cause = if error.is_disk_full() { ErrorCause::DiskFull } else { ErrorCause::Internal };
    FetchError::Disk(cause, format!("what a host sent cannot be written: {}", chain(error)))
}

pub(super) fn broken(error: &tokio::task::JoinError) -> FetchError {
    FetchError::Disk(ErrorCause::Internal, format!("writing what a host sent failed: {error}"))
}
