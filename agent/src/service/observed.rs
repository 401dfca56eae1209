//! Requests about what was observed of the machine: samples, reasons for doubt, evidence.

use std::sync::Arc;

use drover_model::AttemptId;
use drover_proto::v1;
use tonic::Status;

use super::Service;
use crate::{
    evidence::{self, EvidenceStream},
    observe::{self, ObservedStream},
    refused::Refused,
    request::{id, lease_ref},
};

impl Service {
    pub(super) async fn fetch_observed(
        &self,
        request: v1::FetchObservedRequest,
    ) -> Result<ObservedStream, Refused> {
        let attempt = self.own_attempt(request.lease, &request.attempt)?;
        self.agent.observatory.settled(&self.agent, attempt).await;
        let path = self.agent.dir.paths.observed().join(attempt.to_string());
        observe::open(&path, request.from_byte).map_err(|source| Refused::Observed { attempt, source })
    }

    pub(super) async fn judge(&self, request: v1::JudgeRequest) -> Result<v1::JudgeReply, Status> {
        let attempt = self.own_attempt(request.lease, &request.attempt)?;
        self.agent.observatory.settled(&self.agent, attempt).await;
        let path = self.agent.dir.paths.observed().join(attempt.to_string());
        match tokio::task::spawn_blocking(move || observe::judge_file(&path)).await {
            Ok(Ok(judged)) => {
                let flags = judged.doubts.into_iter().map(Into::into).collect();
                let last_seq = self.agent.registry().last_seq();
                Ok(v1::JudgeReply { flags, samples: judged.samples, last_seq })
            }
            Ok(Err(source)) => Err(Refused::Observed { attempt, source }.into()),
            Err(error) => Err(Status::internal(format!("the samples were not judged: {error}"))),
        }
    }

    pub(super) async fn evidence(&self, request: v1::EvidenceRequest) -> Result<EvidenceStream, Status> {
        let attempt = self.own_attempt(request.lease, &request.attempt)?;
        let agent = Arc::clone(&self.agent);
        let collecting =
            tokio::task::spawn_blocking(move || evidence::collect(&agent, attempt, request.sysrq));
        let bundle = collecting.await;
        bundle
            .map(EvidenceStream::new)
            .map_err(|error| Status::internal(format!("the evidence was not collected: {error}")))
    }

    /// An attempt that is known, of the run that holds the host.
    fn own_attempt(&self, lease: Option<v1::LeaseRef>, attempt: &str) -> Result<AttemptId, Refused> {
        let (lease, attempt) = (lease_ref(lease)?, id("attempt", attempt)?);
        self.agent.registry().attempt(lease, attempt)?;
        Ok(attempt)
    }
}
