//! Finds the controller of a run, for `attach` and `stop`.

use std::time::Duration;

use drover_model::RunId;
use drover_store::{ResultsDir, RunState, SqliteStore, Store};

use super::open::find;
use crate::{
    driver::chain,
    error::Failure,
    exit::ExitStatus,
    live::{Client, ConnectError},
};

/// Between two looks for a controller that is starting.
const PAUSE: Duration = Duration::from_millis(50);
/// Looks for a controller that is starting: some seconds.
const LOOKS: u32 = 60;

/// Who drives a run.
pub enum Controller {
    /// A process that can be talked to.
    Live(Client),
    /// Nobody: it has ended.
    Ended,
    /// Nobody, although it has not ended; or nobody that can be talked to from here. Says which.
    Gone(String),
}

/// The run that the user means: the one named, or else one that is going on, or else `otherwise`.
pub async fn choose(
    wanted: Option<&str>,
    otherwise: Option<&str>,
    store: &SqliteStore,
    results: &ResultsDir,
) -> Result<Option<RunId>, Failure> {
    if let Some(wanted) = wanted {
        return find(store, wanted).map(Some);
    }
    let names = store.run_names().map_err(|error| Failure::infrastructure(&error))?;
    for open in names.iter().rev().filter(|name| name.state == RunState::Open) {
        if Client::connect(&results.live_path(open.id)).await.is_ok() {
            return Ok(Some(open.id));
        }
    }
    otherwise.map(|otherwise| find(store, otherwise)).transpose()
}

/// The controller of a run.
pub async fn reach(run: RunId, store: &SqliteStore, results: &ResultsDir) -> Result<Controller, Failure> {
    let path = results.live_path(run);
    for look in 0.. {
        match Client::connect(&path).await {
            Ok(client) => return Ok(Controller::Live(client)),
            Err(ConnectError::Nobody(_)) => {}
            Err(error) => return Err(Failure::new(ExitStatus::Infrastructure, chain(&error))),
        }
        let names = store.run_names().map_err(|error| Failure::infrastructure(&error))?;
        if !names.iter().any(|name| name.id == run && name.state == RunState::Open) {
            return Ok(Controller::Ended);
        }
        let holder = results.holder().map_err(|error| Failure::infrastructure(&error))?;
        let Some(holder) = holder else {
            return Ok(Controller::Gone(gone(run)));
        };
        let here = rustix::system::uname().nodename().to_string_lossy().into_owned();
        if holder.machine != here {
            let text = format!("run {run} can be watched and stopped on {} only: {holder}", holder.machine);
            return Ok(Controller::Gone(text));
        }
        // It may be about to begin.
        if look >= LOOKS {
            break;
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(Controller::Gone(gone(run)))
}

/// Waits until a controller that is ending has let go of the results, so that another can begin.
pub async fn is_free(results: &ResultsDir) -> Result<(), Failure> {
    for _ in 0..LOOKS {
        if results.holder().map_err(|error| Failure::infrastructure(&error))?.is_none() {
            return Ok(());
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}

/// What there is to say of a run whose controller is not there any more.
pub fn gone(run: RunId) -> String {
    format!(
        "run {run} has no controller: it was killed, or its machine went down. Its tasks run on to their ends or deadlines, and \
         their agents keep what they measure; `drover resume {run}` goes on"
    )
}
