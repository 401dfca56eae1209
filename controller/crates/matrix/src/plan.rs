//! The plan: in which order the trials of a matrix run. Deterministic: the same matrix and seed give the same order on
//! every machine.
//!
//! Stored as the cells that run, block by block, plus the seed; rounds are shuffled when they are read, so a plan takes
//! four bytes per cell, whatever the repetitions.

use std::{collections::BTreeMap, ops::Range};

use drover_model::{AxisValue, TrialId};

use crate::{
    matrix::Matrix,
    rng::{Rng, mix},
    spec::Order,
};

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

/// The order of all trials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    order: Order,
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

    /// Number of trials: cells that run, times repetitions.
    #[must_use]
    pub fn trials(&self) -> u64 {
        u64::try_from(self.cells.len()).unwrap_or(u64::MAX).saturating_mul(u64::from(self.repeat))
    }

    /// Indexes of the cells that run, block by block.
    #[must_use]
    pub fn cells(&self) -> &[u32] {
        &self.cells
    }

    /// Cells that share a kernel and a CPU count. In the order `interleaved` they run block by block; the other orders
    /// go back and forth between them.
    #[must_use]
    pub fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// The trials in the order in which they run. With `shuffled`, all of them are held in memory at once (8 bytes each);
    /// else one round of one block.
    #[must_use]
    pub fn iter(&self) -> Trials<'_> {
        Trials { plan: self, next: Next { block: 0, round: 0 }, batch: Vec::new() }
    }

    /// One batch of trials, in the order in which they run; `None` behind the last.
    fn batch(&self, next: &mut Next) -> Option<Vec<TrialId>> {
        match self.order {
            Order::Interleaved => {
                let block = self.blocks.get(next.block)?;
                let cells = self.cells.get(block.cells.clone())?;
                let round = next.round + 1;
                let mut batch: Vec<TrialId> =
                    cells.iter().map(|cell| TrialId { cell: *cell, repetition: round }).collect();
                // Every round has its own stream, so that one does not depend on how long the others are.
                let stream = mix(u64::try_from(next.block).unwrap_or(0)) ^ u64::from(round);
                Rng::new(self.seed, stream).shuffle(&mut batch);
                next.round = if round < self.repeat { round } else { 0 };
                next.block += usize::from(next.round == 0);
                Some(batch)
            }
            Order::Declared => {
                let cell = *self.cells.get(next.block)?;
                next.block += 1;
                Some((1..=self.repeat).map(|repetition| TrialId { cell, repetition }).collect())
            }
            Order::Shuffled if next.block == 0 => {
                next.block = 1;
                let trials = self.cells.iter();
                let mut batch: Vec<TrialId> = trials
                    .flat_map(|cell| (1..=self.repeat).map(|repetition| TrialId { cell: *cell, repetition }))
                    .collect();
                Rng::new(self.seed, 0).shuffle(&mut batch);
                Some(batch)
            }
            Order::Shuffled => None,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Next {
    /// The block of `interleaved`, the cell of `declared`.
    block: usize,
    /// Rounds of that block that are through.
    round: u32,
}

/// The trials of a plan in their order.
#[derive(Clone, Debug)]
pub struct Trials<'a> {
    plan: &'a Plan,
    next: Next,
    /// The rest of the current batch, last one first.
    batch: Vec<TrialId>,
}

impl Iterator for Trials<'_> {
    type Item = TrialId;

    fn next(&mut self) -> Option<TrialId> {
        while self.batch.is_empty() {
            self.batch = self.plan.batch(&mut self.next)?;
            self.batch.reverse();
        }
        self.batch.pop()
    }
}

impl<'a> IntoIterator for &'a Plan {
    type Item = TrialId;
    type IntoIter = Trials<'a>;

    fn into_iter(self) -> Trials<'a> {
        self.iter()
    }
}

/// Plans all trials of a matrix. `seed` fixes the order; use [`crate::Policy::seed`] when the matrix has one.
#[must_use]
pub fn plan(matrix: &Matrix, seed: u64) -> Plan {
    let expansion = matrix.expansion();
    let space = &expansion.space;
    let machine = [space.axis("kernel"), space.axis("cpus")];
    // Blocks in the order in which the file names their kernels, then their CPUs; values that only `include` names come
    // last. A block is found by the places of its values, without comparing texts for most cells.
    let rank = |axis: Option<usize>, value: Option<&AxisValue>| {
        let values = axis.and_then(|axis| space.axes().get(axis)).map_or(&[][..], |axis| &axis.values);
        let place = value.and_then(|value| values.iter().position(|other| other == value));
        (place.unwrap_or(usize::MAX), place.map_or_else(|| value.cloned(), |_| None))
    };
    let mut blocks: BTreeMap<_, (Option<AxisValue>, Option<AxisValue>, Vec<u32>)> = BTreeMap::new();
    for cell in expansion.runnable() {
        let [kernel, cpus] = machine.map(|axis| axis.and_then(|axis| space.value(cell, axis)));
        let key = (rank(machine[0], kernel), rank(machine[1], cpus));
        let block = blocks.entry(key).or_insert_with(|| (kernel.cloned(), cpus.cloned(), Vec::new()));
        block.2.push(cell);
    }
    let policy = matrix.policy();
    let mut plan =
        Plan { order: policy.order, seed, repeat: policy.repeat, cells: Vec::new(), blocks: Vec::new() };
    for (kernel, cpus, cells) in blocks.into_values() {
        let start = plan.cells.len();
        plan.cells.extend(cells);
        plan.blocks.push(Block { kernel, cpus, cells: start..plan.cells.len() });
    }
    if plan.order == Order::Declared {
        // The order of the file, which blocks by machine axes need not be.
        plan.cells.sort_unstable();
        plan.blocks.clear();
        plan.blocks.extend(runs_of_equal_machines(matrix, &plan.cells));
    }
    plan
}

/// Neighbours that share a machine state, in the order `declared`.
fn runs_of_equal_machines(matrix: &Matrix, cells: &[u32]) -> Vec<Block> {
    let space = &matrix.expansion().space;
    let value = |cell: u32, name: &str| space.axis(name).and_then(|axis| space.value(cell, axis)).cloned();
    let mut blocks: Vec<Block> = Vec::new();
    for (place, cell) in cells.iter().enumerate() {
        let (kernel, cpus) = (value(*cell, "kernel"), value(*cell, "cpus"));
        match blocks.last_mut().filter(|last| last.kernel == kernel && last.cpus == cpus) {
            Some(last) => last.cells.end = place + 1,
            None => blocks.push(Block { kernel, cpus, cells: place..place + 1 }),
        }
    }
    blocks
}
