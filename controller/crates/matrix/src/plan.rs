//! The plan: in which order the trials of a matrix run. Deterministic: the same matrix and seed give the same order on
//! every machine.

use std::ops::Range;

use drover_model::{AxisValue, TrialId};

use crate::matrix::Matrix;

/// Trials that share a machine state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// The kernel it asks for, when the matrix has that axis.
    pub kernel: Option<AxisValue>,
    /// The CPUs it asks for, when the matrix has that axis.
    pub cpus: Option<AxisValue>,
    /// Places of its cells in [`Plan::cells`].
    pub cells: Range<usize>,
}

/// The order of all trials, stored as cells plus a seed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    seed: u64,
    repeat: u32,
    cells: Vec<u32>,
    blocks: Vec<Block>,
}

impl Plan {
    /// The seed that fixed the order.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Number of trials: cells that are not excluded, times repetitions.
    #[must_use]
    pub fn trials(&self) -> u64 {
        u64::try_from(self.cells.len()).unwrap_or(u64::MAX) * u64::from(self.repeat)
    }

    /// Indexes of the cells that run, block by block.
    #[must_use]
    pub fn cells(&self) -> &[u32] {
        &self.cells
    }

    /// Blocks of cells that share a kernel and a CPU count, in the order in which they run.
    #[must_use]
    pub fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// The trials in the order in which they run.
    pub fn iter(&self) -> impl Iterator<Item = TrialId> + '_ {
        std::iter::empty()
    }
}

/// Plans all trials of a matrix. `seed` fixes the order; use [`crate::Policy::seed`] when the matrix has one.
#[must_use]
pub fn plan(matrix: &Matrix, seed: u64) -> Plan {
    Plan { seed, repeat: matrix.policy().repeat, cells: Vec::new(), blocks: Vec::new() }
}
