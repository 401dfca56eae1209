//! `drover list`: the stored runs, oldest first.

use comfy_table::{CellAlignment, Table, presets};
use drover_model::Outcome;
use drover_store::{RunState, Store};

use super::open::open;
use crate::{Context, error::Failure, exit::ExitStatus, time::utc};

/// Prints one line per run.
pub fn list(context: &Context) -> Result<ExitStatus, Failure> {
    let (_, store) = open(context)?;
    let runs = store.runs().map_err(|error| Failure::infrastructure(&error))?;
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table
        .set_header(["run", "matrix", "started", "state", "done", "ok", "suspect", "ng", "error", "missing"]);
    for run in &runs {
        let count = |outcome| run.counts.get(outcome).to_string();
        table.add_row([
            run.id.to_string(),
            run.name.clone(),
            utc(run.started_unix_ms),
            state(run.state).to_owned(),
            format!("{}/{}", run.counts.total(), run.planned_trials),
            count(Outcome::Ok),
            count(Outcome::Suspect),
            count(Outcome::Ng),
            count(Outcome::Error),
            count(Outcome::Missing),
        ]);
    }
    for column in 4..10 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let lines = table.lines().map(|line| format!("{}\n", line.trim_end()));
    let _ = context.screen.out(&lines.collect::<String>());
    Ok(ExitStatus::Ok)
}

/// The word for where a run stands.
pub fn state(state: RunState) -> &'static str {
    match state {
        RunState::Open => "open",
        RunState::Finished => "finished",
        RunState::Interrupted => "interrupted",
    }
}
