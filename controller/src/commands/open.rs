//! Opens the results for reading, and finds the run that the user means.

use drover_model::RunId;
use drover_store::{ResultsDir, SqliteStore, Store};

use crate::{Context, driver::chain, error::Failure, exit::ExitStatus};

/// The results folder and its store, for reading.
pub fn open(context: &Context) -> Result<(ResultsDir, SqliteStore), Failure> {
    let results = ResultsDir::open(&context.global.results)
        .map_err(|error| Failure::new(ExitStatus::Usage, chain(&error)))?;
    let store = SqliteStore::open_read_only(&results).map_err(|error| Failure::infrastructure(&error))?;
    Ok((results, store))
}

/// The run that `wanted` names.
pub fn find(store: &SqliteStore, wanted: &str) -> Result<RunId, Failure> {
    store.find_run(wanted).map_err(|error| Failure::new(ExitStatus::Usage, chain(&error)))
}
