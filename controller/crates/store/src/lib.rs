//! Durable results: runs, attempts, samples and the journal.

mod records;

pub use records::{
    AttemptRecord, CellRecord, MetricRecord, RunRecord, RunResults, RunState, TableLayout, TaskRecord,
};
