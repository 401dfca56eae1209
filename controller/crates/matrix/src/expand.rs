//! Expansion: the cells of a matrix one by one, without building them all.

use std::sync::Arc;

use drover_model::Cell;

/// A cell of the expanded matrix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedCell {
    /// The cell.
    pub cell: Cell,
    /// Why it is excluded, if it is.
    pub excluded: Option<Arc<str>>,
}
