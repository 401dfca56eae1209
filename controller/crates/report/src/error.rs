//! Why a report could not be written.

use std::io;

use crate::{layout::LayoutError, trials::InconsistentRun};

/// Why a report could not be written.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The table cannot be laid out as asked.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// The stored results contradict the stored plan.
    #[error("the stored run is inconsistent")]
    Inconsistent(#[from] InconsistentRun),
    /// Two cells with the same values.
    #[error("the stored run has two cells with the same values: {0}")]
    SameCell(String),
    /// The report could not be written out.
    #[error("cannot write the report")]
    Write(#[from] io::Error),
    /// The JUnit report could not be written out.
    #[error("cannot write the JUnit report")]
    Junit(#[source] quick_junit::SerializeError),
}
