//! Requests that boot the host anew.

use drover_proto::v1;
use tonic::Status;

use super::Service;

impl Service {
    pub(super) async fn arm_kernel(
        &self,
        _request: v1::ArmKernelRequest,
    ) -> Result<v1::ArmKernelReply, Status> {
        Err(Status::unimplemented("this agent does not arm kernels"))
    }

    pub(super) async fn reboot(&self, _request: v1::RebootRequest) -> Result<(), Status> {
        Err(Status::unimplemented("this agent does not reboot its host"))
    }
}
