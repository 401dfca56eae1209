//! What a host's sensors said while an attempt ran there: its agent judges the samples, and a copy of them is kept.

use drover_model::{AttemptId, Doubt};
use drover_proto::v1;
use drover_store::SamplesFile;

use super::{
    chain,
    fetch::{FetchError, Fetcher, broken, disk},
    is_refusal,
};

impl Fetcher {
    /// Reasons for doubt in the samples of an attempt. Returns after all that the agent reported until then was handed on.
    pub(super) async fn judge(&mut self, attempt: AttemptId) -> Result<Vec<Doubt>, FetchError> {
        let request = v1::JudgeRequest { lease: Some(self.lease.clone()), attempt: attempt.to_string() };
        let reply = match self.client.judge(request).await {
            Ok(reply) => reply.into_inner(),
            Err(status) if is_refusal(&status) => {
                tracing::warn!(host = %self.host, %attempt, "samples are not judged: {}", status.message());
                return Ok(Vec::new());
            }
            Err(status) => return Err(status.into()),
        };
        // Who sends has ended with the connection then, and nobody waits for the answer any more.
        let _ = self.heard.wait_for(|heard| *heard >= reply.last_seq).await;
        let doubts = reply.flags.into_iter().map(Doubt::try_from);
        doubts.collect::<Result<_, _>>().map_err(|error| {
            let status =
                tonic::Status::internal(format!("it gave a verdict that makes no sense: {}", chain(&error)));
            FetchError::Agent(status)
        })
    }

    /// Fetches the samples that are not kept here yet.
    pub(super) async fn samples(&mut self, attempt: AttemptId) -> Result<(), FetchError> {
        let mut file =
            SamplesFile::open(&self.results, &attempt, &self.host).map_err(|error| disk(&error))?;
        let request = v1::FetchObservedRequest {
            lease: Some(self.lease.clone()),
            attempt: attempt.to_string(),
            from_byte: file.length(),
        };
        let mut chunks = match self.client.fetch_observed(request).await {
            Ok(reply) => reply.into_inner(),
            Err(status) if is_refusal(&status) => {
                tracing::warn!(host = %self.host, %attempt, "samples are not fetched: {}", status.message());
                return Ok(());
            }
            Err(status) => return Err(status.into()),
        };
        while let Some(chunk) = chunks.message().await? {
            // A slow disk must not keep the loop from its heartbeats.
            let written = tokio::task::spawn_blocking(move || file.append(&chunk.data).map(|()| file)).await;
            file = written.map_err(|error| broken(&error))?.map_err(|error| disk(&error))?;
        }
        let kept = tokio::task::spawn_blocking(move || file.keep()).await;
        kept.map_err(|error| broken(&error))?.map_err(|error| disk(&error))
    }
}
