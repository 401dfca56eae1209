//! Requests that change how many CPUs the host has online.

use drover_proto::v1;

use super::Service;
use crate::{cpus, refused::Refused, request::lease_ref};

impl Service {
    pub(super) async fn set_cpus(&self, request: v1::SetCpusRequest) -> Result<v1::SetCpusReply, Refused> {
        let lease = lease_ref(request.lease)?;
        let facts = cpus::set(&self.agent, lease, request.count).await?;
        Ok(v1::SetCpusReply { facts: Some(facts.into()) })
    }
}
