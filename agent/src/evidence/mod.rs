//! Evidence: what may explain why an attempt fails or hangs, collected while everything is still as it is. Called by the
//! service on a thread of its own, because `/proc` of a machine that is in trouble may be slow.
//!
//! The result is plain text with sections, bounded, and says of itself how complete it is.

mod bundle;
mod kernel;
mod machine;
mod outputs;
mod processes;
mod samples;
mod sockets;

use drover_model::AttemptId;

pub use bundle::{Bundle, EvidenceStream};

use crate::agent::Agent;

/// Collects what there is for an attempt. `sysrq` also asks the kernel for stacks, into its log.
#[must_use]
pub fn collect(agent: &Agent, attempt: AttemptId, sysrq: bool) -> Bundle {
    let mut bundle = Bundle::new(attempt);
    outputs::collect(agent, attempt, &mut bundle);
    processes::collect(agent, attempt, &mut bundle);
    machine::collect(&mut bundle);
    sockets::collect(&mut bundle);
    samples::collect(&agent.dir.paths.observed().join(attempt.to_string()), &mut bundle);
    if sysrq {
        kernel::ask(&mut bundle);
    }
    // Last, so that it has what the kernel was asked for.
    kernel::collect(agent, attempt, &mut bundle);
    bundle
}
