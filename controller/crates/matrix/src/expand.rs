//! Expansion: the cells of a matrix one by one, without building them all.

use std::sync::Arc;

use drover_model::{AxisValue, Cell};

use crate::{
    identity::Keys,
    space::{CellSet, Space},
};

/// A cell of the expanded matrix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedCell {
    /// The cell.
    pub cell: Cell,
    /// Why it is excluded, if it is.
    pub excluded: Option<Arc<str>>,
}

/// A rule that takes cells out.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    pub(crate) cells: CellSet,
    pub(crate) because: Arc<str>,
}

/// All cells of a checked matrix: the space, what is excluded, what the command line selects.
#[derive(Clone, Debug)]
pub(crate) struct Expansion {
    pub(crate) space: Space,
    pub(crate) rules: Vec<Rule>,
    /// All must hold; empty selects everything.
    pub(crate) only: Vec<CellSet>,
    pub(crate) keys: Keys,
}

impl Expansion {
    pub(crate) fn is_selected(&self, cell: u32) -> bool {
        cell < self.space.len() && self.only.iter().all(|set| set.contains(&self.space, cell))
    }

    /// Why a cell is excluded, if it is. A cell of `include` was asked for by name and never is.
    pub(crate) fn excluded(&self, cell: u32) -> Option<&Arc<str>> {
        if cell >= self.space.product() {
            return None;
        }
        self.rules.iter().find(|rule| rule.cells.contains(&self.space, cell)).map(|rule| &rule.because)
    }

    /// Places of the cells that run.
    pub(crate) fn runnable(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.space.len()).filter(|cell| self.is_selected(*cell) && self.excluded(*cell).is_none())
    }

    /// How many cells are selected, excluded ones included.
    pub(crate) fn count(&self) -> u64 {
        if self.only.is_empty() {
            return u64::from(self.space.len());
        }
        let selected = (0..self.space.len()).filter(|cell| self.is_selected(*cell));
        selected.fold(0, |count, _| count + 1)
    }

    pub(crate) fn cell(&self, index: u32) -> Option<PlannedCell> {
        let selected = self.is_selected(index);
        selected.then(|| PlannedCell { cell: self.build(index), excluded: self.excluded(index).cloned() })
    }

    pub(crate) fn cells(&self) -> impl Iterator<Item = PlannedCell> + '_ {
        (0..self.space.len()).filter_map(|index| self.cell(index))
    }

    /// The cell at a place, whether selected or not.
    pub(crate) fn build(&self, index: u32) -> Cell {
        let value = |place| self.space.value(index, place).cloned().unwrap_or_else(|| AxisValue::from(""));
        let axes = self.space.axes().iter().enumerate();
        let values = axes.map(|(place, axis)| (axis.name.clone(), value(place))).collect();
        self.keys.cell(index, values)
    }
}
