//! Requests that change how many CPUs the host has online.

use drover_proto::v1;
use tonic::Status;

use super::Service;

impl Service {
    pub(super) async fn set_cpus(&self, _request: v1::SetCpusRequest) -> Result<v1::SetCpusReply, Status> {
        Err(Status::unimplemented("this agent does not take CPUs offline"))
    }
}
