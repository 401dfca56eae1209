//! One change at a time, on a thread of its own. Whoever asked may be gone before it is over: it is finished even so.

use std::sync::Arc;

use drover_model::{HostFacts, RunId};
use drover_proto::LeaseRef;
use tokio::sync::OwnedMutexGuard;

use super::{CpuKeeper, CpusError};
use crate::{agent::Agent, refused::Refused, text::chain, turn::Turn};

/// Leaves `count` CPUs of the host online, for the run that holds it; all for 0. Returns the host as it is then.
///
/// # Errors
/// When the lease is not the present one, tasks run, or it cannot be done; what cannot be put back quarantines the host.
pub async fn set(agent: &Arc<Agent>, lease: LeaseRef, count: u32) -> Result<HostFacts, Refused> {
    let keeper = Arc::clone(&agent.cpus).lock_owned().await;
    {
        let registry = agent.registry();
        registry.check(lease)?;
        registry.check_sound()?;
        if registry.is_ending() {
            return Err(Refused::Ending);
        }
    }
    let turn = Turn::begin(agent, Some(lease))?;
    work(turn, keeper, move |keeper| keeper.set(lease.run, count)).await
}

/// Puts all CPUs back that were taken offline, but for those that `run` has wanted: what the runs before it have left, where it
/// takes the host; everything for none.
///
/// # Errors
/// When something is not back: then the host is quarantined.
pub async fn put_back(agent: &Arc<Agent>, run: Option<RunId>) -> Result<(), Refused> {
    let keeper = Arc::clone(&agent.cpus).lock_owned().await;
    if run.map_or(keeper.is_clean(), |run| keeper.is_as_wanted_by(run)) {
        return Ok(());
    }
    let turn = Turn::begin(agent, None)?;
    work(turn, keeper, CpuKeeper::put_back).await.map(drop)
}

/// Gives the host back, with all its CPUs. It is given back even if something is not as it was; no run can use it then.
///
/// # Errors
/// When the lease is not the present one, tasks run, or something is not back.
pub async fn release(agent: &Arc<Agent>, lease: LeaseRef) -> Result<(), Refused> {
    let agent = Arc::clone(agent);
    let releasing = tokio::spawn(async move { release_to_the_end(&agent, lease).await });
    releasing.await.unwrap_or_else(|error| Err(Refused::Stopped(error.to_string())))
}

async fn release_to_the_end(agent: &Arc<Agent>, lease: LeaseRef) -> Result<(), Refused> {
    let keeper = Arc::clone(&agent.cpus).lock_owned().await;
    let restored = if keeper.is_clean() {
        Ok(())
    } else {
        let turn = Turn::begin(agent, Some(lease))?;
        work(turn, keeper, CpuKeeper::put_back).await.map(drop)
    };
    agent.registry().release(lease)?;
    agent.tell_watchers();
    agent.tell_server();
    restored
}

async fn work(
    turn: Turn,
    mut keeper: OwnedMutexGuard<CpuKeeper>,
    change: impl FnOnce(&mut CpuKeeper) -> Result<(), CpusError> + Send + 'static,
) -> Result<HostFacts, Refused> {
    let working = tokio::task::spawn_blocking(move || {
        let changed = change(&mut keeper);
        if let Err(error @ CpusError::NotBack { .. }) = &changed {
            turn.agent().registry().quarantine(chain(error));
        }
        // The agent remembers which CPUs there are; tasks are placed on them.
        let facts = turn.agent().hello().facts;
        changed.map(|()| facts).map_err(Refused::from)
    });
    working.await.unwrap_or_else(|error| Err(Refused::Stopped(error.to_string())))
}
