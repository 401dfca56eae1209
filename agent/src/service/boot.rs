//! Requests that boot the host anew.

use drover_machine::boot::Words;
use drover_model::BootOnce;
use drover_proto::v1;

use super::Service;
use crate::{
    boot,
    refused::Refused,
    request::{at, lease_ref, missing},
};

/// Longest command, in arguments.
const MAX_ARGUMENTS: usize = 1000;

impl Service {
    pub(super) async fn arm_kernel(
        &self,
        request: v1::ArmKernelRequest,
    ) -> Result<v1::ArmKernelReply, Refused> {
        let lease = lease_ref(request.lease)?;
        let once = request.boot.ok_or_else(|| missing("boot"))?;
        let once = BootOnce::try_from(once).map_err(|error| at("boot", error))?;
        let words = Words::new(&request.nonce, &request.words)?;
        let words_taken = boot::arm(&self.agent, lease, once, request.nonce, words).await?;
        Ok(v1::ArmKernelReply { words_taken })
    }

    pub(super) async fn reboot(&self, request: v1::RebootRequest) -> Result<(), Refused> {
        let lease = lease_ref(request.lease)?;
        if request.command.len() > MAX_ARGUMENTS {
            return Err(Refused::Argument("the command that reboots has more than 1000 arguments"));
        }
        boot::reboot(&self.agent, lease, request.nonce, request.command).await
    }
}
