//! Kills process trees on a thread of its own, because that can take seconds.

use drover_model::TaskId;
use drover_supervise::Child;

use crate::{agent::Agent, text::chain};

/// Kills the tree of `child`, which belongs to the task `id`, and proves it gone. Returns how many processes
/// were killed. A tree that cannot be killed quarantines the host.
pub(super) async fn kill(agent: &Agent, id: &TaskId, mut child: Child) -> (Option<Child>, u32) {
    let killing = tokio::task::spawn_blocking(move || {
        let report = child.kill_tree();
        (child, report)
    });
    match killing.await {
        Ok((child, Ok(report))) => (Some(child), report.killed),
        Ok((child, Err(error))) => {
            agent.registry().quarantine(format!("task {id}: {}", chain(&error)));
            (Some(child), 0)
        }
        Err(error) => {
            agent.registry().quarantine(format!("task {id}: killing it failed: {error}"));
            (None, 0)
        }
    }
}
