//! One change at a time, on a thread of its own. Whoever asked may be gone before it is over: it is finished even so.

use std::{sync::Arc, time::Duration};

use drover_machine::boot::{RebootBy, Words};
use drover_model::{BootOnce, RunId};
use drover_proto::LeaseRef;
use tokio::sync::OwnedMutexGuard;

use super::{BootKeeper, KernelError};
use crate::{agent::Agent, refused::Refused, text::chain, turn::Turn};

/// Time for the answer to get to the controller before the host goes down.
const ANSWER_TIME: Duration = Duration::from_millis(500);

/// Longest time for the host to go down.
const DOWN_LIMIT: Duration = Duration::from_secs(180);

/// Has the host boot a kernel once, for the run that holds it. Returns whether `words` will be on its command line.
///
/// # Errors
/// When the lease is not the present one, tasks run, or it cannot be done; what cannot be taken back quarantines the host.
pub async fn arm(
    agent: &Arc<Agent>,
    lease: LeaseRef,
    boot: BootOnce,
    nonce: String,
    words: Words,
) -> Result<bool, Refused> {
    let keeper = Arc::clone(&agent.boot).lock_owned().await;
    let turn = begin(agent, &keeper, lease)?;
    work(turn, keeper, move |keeper| keeper.arm(lease.run, &boot, &nonce, &words)).await
}

/// Takes back what is armed, but for what `run` has armed: what the run before it has left, where it takes the host; all for none.
///
/// # Errors
/// When it is not taken back: then the host is quarantined.
pub async fn disarm(agent: &Arc<Agent>, run: Option<RunId>) -> Result<(), Refused> {
    let keeper = Arc::clone(&agent.boot).lock_owned().await;
    if run.map_or(keeper.is_clean(), |run| keeper.is_as_wanted_by(run)) {
        return Ok(());
    }
    let turn = Turn::begin(agent, None)?;
    work(turn, keeper, BootKeeper::disarm).await.map(drop)
}

/// Takes back what is armed, because the holder of `lease` is about to give the host back.
///
/// # Errors
/// When the lease is not the present one, tasks run, or it is not taken back: then the host is quarantined.
pub async fn release(agent: &Arc<Agent>, lease: LeaseRef) -> Result<(), Refused> {
    let keeper = Arc::clone(&agent.boot).lock_owned().await;
    if keeper.is_clean() {
        return Ok(());
    }
    let turn = Turn::begin(agent, Some(lease))?;
    work(turn, keeper, BootKeeper::disarm).await.map(drop)
}

/// Takes back what is armed, because the agent ends; not if the host is about to go down.
///
/// # Errors
/// When it is not taken back.
pub async fn leave(agent: &Arc<Agent>) -> Result<(), Refused> {
    if agent.boot.lock().await.is_rebooting() { Ok(()) } else { disarm(agent, None).await }
}

/// Reboots the host, a moment after this returns: to what is armed under `nonce`, or, if that is empty, to what it boots by itself.
/// No task starts from now on, unless the host does not go down.
///
/// # Errors
/// When the lease is not the present one, tasks run, something else is armed, or the host cannot be rebooted.
pub async fn reboot(
    agent: &Arc<Agent>,
    lease: LeaseRef,
    nonce: String,
    command: Vec<String>,
) -> Result<(), Refused> {
    let mut keeper = Arc::clone(&agent.boot).lock_owned().await;
    let turn = begin(agent, &keeper, lease)?;
    let working = tokio::task::spawn_blocking(move || {
        let by = keeper.announce(lease.run, &nonce, &command)?;
        rustix::fs::sync();
        Ok::<_, KernelError>((by, nonce))
    });
    let (by, nonce) = working.await.map_err(|error| Refused::Stopped(error.to_string()))??;
    tracing::info!(run = %lease.run, nonce, ?by, "the host reboots: a controller asked for it");
    tokio::spawn(go_down(Arc::clone(agent), turn, by));
    Ok(())
}

/// Takes the host down. It ends with the host, or says why there still is one.
async fn go_down(agent: Arc<Agent>, turn: Turn, by: RebootBy) {
    tokio::time::sleep(ANSWER_TIME).await;
    let tried = tokio::task::spawn_blocking(move || by.carry_out()).await;
    match tried {
        Ok(Ok(())) => {
            tokio::time::sleep(DOWN_LIMIT).await;
            tracing::error!(limit = ?DOWN_LIMIT, "the host has not gone down, though the command to reboot it succeeded");
        }
        Ok(Err(error)) => tracing::error!(error = %chain(&error), "the host does not reboot"),
        Err(error) => {
            tracing::error!(%error, "the host does not reboot: the thread that was to do it has ended")
        }
    }
    if let Err(error) = agent.boot.lock().await.stays_up() {
        tracing::error!(error = %chain(&error), "it is not written down that the host does not reboot");
    }
    drop(turn);
}

/// Begins a change for the holder of `lease`, unless it is too late for one.
fn begin(agent: &Arc<Agent>, keeper: &BootKeeper, lease: LeaseRef) -> Result<Turn, Refused> {
    let turn = Turn::begin(agent, Some(lease))?;
    if agent.registry().is_ending() {
        return Err(Refused::Ending);
    }
    if keeper.is_going_down() { Err(Refused::Changing) } else { Ok(turn) }
}

async fn work<T: Send + 'static>(
    turn: Turn,
    mut keeper: OwnedMutexGuard<BootKeeper>,
    change: impl FnOnce(&mut BootKeeper) -> Result<T, KernelError> + Send + 'static,
) -> Result<T, Refused> {
    let working = tokio::task::spawn_blocking(move || {
        let changed = change(&mut keeper);
        if let Err(error @ KernelError::NotBack { .. }) = &changed {
            turn.agent().registry().quarantine(chain(error));
        }
        changed.map_err(Refused::from)
    });
    working.await.unwrap_or_else(|error| Err(Refused::Stopped(error.to_string())))
}
