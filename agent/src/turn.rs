//! A time in which the host itself is changed, its CPUs or the kernel that it boots: no task starts then.

use std::sync::Arc;

use drover_proto::LeaseRef;

use crate::{agent::Agent, refused::Refused};

/// While it lives, no task starts.
#[derive(Debug)]
pub struct Turn(Arc<Agent>);

impl Turn {
    /// Begins one: for the holder of `lease`, or to put something back whoever holds the host.
    ///
    /// # Errors
    /// When the lease is not the present one, tasks run, or the agent is ending.
    pub fn begin(agent: &Arc<Agent>, lease: Option<LeaseRef>) -> Result<Self, Refused> {
        agent.registry().begin_change(lease)?;
        Ok(Self(Arc::clone(agent)))
    }

    /// The agent of the host.
    #[must_use]
    pub fn agent(&self) -> &Arc<Agent> {
        &self.0
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.registry().end_change();
    }
}
