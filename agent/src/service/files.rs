//! Requests about files and about what can be reached: blobs, artifacts, addresses.

use std::{future::Future, time::Duration};

use drover_model::{Artifacts, BlobHash, ReadyCheck, TaskId};
use drover_proto::{ConversionError, LeaseRef, MAX_REACH, v1};
use tonic::Status;

use super::Service;
use crate::{
    artifacts::{self, ArtifactStream, Patterns},
    refused::Refused,
    request::{at, id, lease_ref},
    task::{Target, reach},
};

/// Most checks that one request may ask for.
const MAX_CHECKS: usize = 1024;

/// Most hashes that one request may ask for.
const MAX_HASHES: usize = 10_000;

impl Service {
    /// What has to be awaited for `CheckReach`.
    pub(super) fn check_reach(
        &self,
        request: v1::CheckReachRequest,
    ) -> Result<impl Future<Output = Option<String>> + Send + use<>, Refused> {
        self.agent.registry().check(lease_ref(request.lease)?)?;
        let within = Duration::from_micros(request.within_us);
        if within > MAX_REACH {
            return Err(Refused::Argument("a reach check takes at most 60 s"));
        }
        if request.checks.len() > MAX_CHECKS {
            return Err(Refused::Argument("more than 1024 checks are asked for"));
        }
        let targets = request.checks.into_iter().enumerate().map(|(i, check)| {
            let check = ReadyCheck::try_from(check).map_err(|error| at(&format!("checks[{i}]"), error))?;
            Target::of(check).ok_or(Refused::Argument("only tcp and http can be checked from another host"))
        });
        let targets: Vec<Target> = targets.collect::<Result<_, _>>()?;
        Ok(async move { reach(&targets, within).await })
    }

    pub(super) fn missing_blobs(&self, request: v1::MissingBlobsRequest) -> Result<Vec<String>, Refused> {
        self.agent.registry().check(lease_ref(request.lease)?)?;
        if request.hashes.len() > MAX_HASHES {
            return Err(Refused::Argument("more than 10000 hashes are asked for"));
        }
        let hashes = request.hashes.iter().map(|text| {
            text.parse::<BlobHash>().map_err(|error| {
                Refused::Message(ConversionError { field: "hashes".to_owned(), problem: error.into() })
            })
        });
        let missing = self.agent.blobs.missing(hashes.collect::<Result<_, _>>()?);
        Ok(missing.iter().map(ToString::to_string).collect())
    }

    pub(super) async fn list_artifacts(
        &self,
        request: v1::ListArtifactsRequest,
    ) -> Result<Artifacts, Status> {
        let task = self.own_task(lease_ref(request.lease)?, &request.task)?;
        let patterns = Patterns::new(&request.patterns).map_err(Refused::Pattern)?;
        let folder = self.agent.dir.paths.work().join(task.attempt.to_string());
        let listing = tokio::task::spawn_blocking(move || artifacts::list(&folder, &patterns, request.limit));
        match listing.await {
            Ok(Ok(found)) => Ok(found),
            Ok(Err(source)) => Err(Refused::Artifacts { task, source }.into()),
            Err(error) => Err(Status::internal(format!("the artifacts were not listed: {error}"))),
        }
    }

    pub(super) fn fetch_artifact(
        &self,
        request: v1::FetchArtifactRequest,
    ) -> Result<ArtifactStream, Refused> {
        let task = self.own_task(lease_ref(request.lease)?, &request.task)?;
        let folder = self.agent.dir.paths.work().join(task.attempt.to_string());
        Ok(artifacts::open(&folder, &request.path, request.size)?)
    }

    /// A task that is known, of the run that holds the host.
    fn own_task(&self, lease: LeaseRef, task: &str) -> Result<TaskId, Refused> {
        let task: TaskId = id("task", task)?;
        let registry = self.agent.registry();
        registry.check(lease)?;
        if task.attempt.run != lease.run {
            return Err(Refused::ForeignTask { task, run: lease.run });
        }
        if registry.knows(&task) { Ok(task) } else { Err(Refused::UnknownTask(task)) }
    }
}
