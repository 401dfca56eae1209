//! Where more CPUs did worse, as the JSON export has it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::find::{self, Loss};

/// Comparisons of cells that differ in nothing but the axis `cpus`, by the primary metric.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Scaling")]
pub(crate) struct Scaling<'a> {
    metric: &'a str,
    /// Series of at least two cells with numbers that differ in their CPUs only.
    series: usize,
    /// Comparisons that were made.
    comparisons: usize,
    /// Comparisons that could not be made: a cell has no number, or the two ran on different hosts.
    unmeasured: usize,
    /// Numbers among them show that something works, not how fast.
    functional_only: bool,
    /// Where more CPUs did worse.
    worse: Vec<Worse<'a>>,
}

/// A CPU count that did worse than a smaller one.
#[derive(Debug, Serialize, JsonSchema)]
struct Worse<'a> {
    /// Axis -> value, of axes with several values.
    values: BTreeMap<&'a str, &'a str>,
    more: Side,
    fewer: Side,
    /// From fewer CPUs to more, as a share of what fewer gave: -0.18 for 18 % less.
    change: Option<f64>,
    /// Probability of trials like these, or clearer ones, without a difference (rank sum test, one-sided).
    chance: f64,
    /// Whether there are trials enough to tell it from chance, at 95 %.
    certain: bool,
}

/// One of two cells.
#[derive(Debug, Serialize, JsonSchema)]
struct Side {
    cpus: u32,
    median: f64,
    /// Trials with a number.
    trials: usize,
    suspect: bool,
}

impl<'a> Scaling<'a> {
    pub(crate) fn of(found: &find::Scaling<'a>) -> Self {
        Self {
            metric: found.metric.name.as_str(),
            series: found.series,
            comparisons: found.comparisons,
            unmeasured: found.unmeasured,
            functional_only: found.functional,
            worse: found.losses.iter().map(Worse::of).collect(),
        }
    }
}

impl<'a> Worse<'a> {
    fn of(loss: &Loss<'a>) -> Self {
        Self {
            values: loss.at.iter().map(|(axis, value)| (axis.as_str(), *value)).collect(),
            more: Side::of(&loss.more),
            fewer: Side::of(&loss.fewer),
            change: loss.change(),
            chance: loss.chance,
            certain: loss.certain,
        }
    }
}

impl Side {
    fn of(side: &find::Side) -> Self {
        Self { cpus: side.cpus, median: side.median, trials: side.trials, suspect: side.suspect }
    }
}
