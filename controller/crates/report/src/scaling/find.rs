//! Finds where more CPUs did worse.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use drover_model::{Direction, Name};
use drover_store::{MetricRecord, RunResults};

use crate::{
    functional::{functional_hosts, is_functional},
    rank::{least_chance, rank_sum_below},
    statistics::Summary,
    trials::{CellOutcome, CellTrials, Trial},
};

/// The axis whose values are counts of CPUs.
const AXIS: &str = "cpus";
/// Most that the chance may be that trials look so without a difference.
const CHANCE: f64 = 0.05;
/// Least share of the median by which it must be worse.
const LEAST_CHANGE: f64 = 0.01;
/// For sums of floating point numbers that should be equal.
const ROUNDING: f64 = 1e-9;

/// Comparisons of cells that differ in nothing but their CPUs.
#[derive(Debug)]
pub(crate) struct Scaling<'a> {
    pub(crate) metric: &'a MetricRecord,
    /// Series of at least two cells with numbers that differ in their CPUs only.
    pub(crate) series: usize,
    /// Comparisons that were made.
    pub(crate) comparisons: usize,
    /// Comparisons of planned cells that could not be made: one of the two has no number, or they ran on different hosts.
    pub(crate) unmeasured: usize,
    /// Whether at least one comparison had enough trials to tell something from chance.
    pub(crate) can_tell: bool,
    /// Whether a number of them shows only that something works.
    pub(crate) functional: bool,
    /// Where more CPUs did worse, in the order of the cells; by CPUs within a series.
    pub(crate) losses: Vec<Loss<'a>>,
}

/// A CPU count that did worse than a smaller one.
#[derive(Debug)]
pub(crate) struct Loss<'a> {
    /// What the cells share, by axis: those with more than one value.
    pub(crate) at: Vec<(&'a Name, &'a str)>,
    pub(crate) more: Side,
    pub(crate) fewer: Side,
    /// Probability that trials look so, or clearer, without a difference.
    pub(crate) chance: f64,
    /// Whether there are trials enough to tell it from chance.
    pub(crate) certain: bool,
}

/// One of the cells that are compared.
#[derive(Clone, Debug)]
pub(crate) struct Side {
    pub(crate) cpus: u32,
    pub(crate) median: f64,
    /// Trials with a number.
    pub(crate) trials: usize,
    pub(crate) suspect: bool,
}

impl Loss<'_> {
    /// The change from fewer CPUs to more as a share of what fewer gave; `None` where that is no positive number.
    pub(crate) fn change(&self) -> Option<f64> {
        let (more, fewer) = (self.more.median, self.fewer.median);
        Some(more / fewer - 1.0).filter(|change| fewer > 0.0 && more >= 0.0 && change.is_finite())
    }
}

/// A cell with its values, ascending.
struct Cell<'a> {
    side: Side,
    values: Vec<f64>,
    functional: bool,
    /// Where it was measured.
    hosts: BTreeSet<&'a Name>,
}

/// Cells that differ in their CPUs only.
#[derive(Default)]
struct Series<'a> {
    at: Vec<(&'a Name, &'a str)>,
    /// `None` where there is no number.
    cells: Vec<(u32, Option<Cell<'a>>)>,
}

impl<'a> Scaling<'a> {
    /// Compares the cells of a run by a metric. `None` if it has no axis `cpus`, or nothing to compare.
    pub(crate) fn of(
        results: &'a RunResults,
        cells: &[CellTrials<'a>],
        metric: &'a MetricRecord,
    ) -> Option<Self> {
        let mut scaling = Self {
            metric,
            series: 0,
            comparisons: 0,
            unmeasured: 0,
            can_tell: false,
            functional: false,
            losses: Vec::new(),
        };
        for series in series(results, cells, metric)? {
            scaling.add(series);
        }
        (scaling.comparisons > 0).then_some(scaling)
    }

    fn add(&mut self, mut series: Series<'a>) {
        series.cells.sort_by_key(|(cpus, _)| *cpus);
        let mut is_compared = false;
        for (place, (cpus, more)) in series.cells.iter().enumerate() {
            let smaller = series.cells.get(..place).unwrap_or_default().iter();
            let mut lost: Option<(&Cell<'_>, f64, bool)> = None;
            for (_, fewer) in smaller.filter(|(fewer, _)| fewer < cpus) {
                let both = more.as_ref().zip(fewer.as_ref());
                let Some((more, fewer)) = both.filter(|(more, fewer)| more.hosts == fewer.hosts) else {
                    self.unmeasured += 1;
                    continue;
                };
                self.comparisons += 1;
                is_compared = true;
                self.functional |= more.functional || fewer.functional;
                let can_tell = enough(more.values.len(), fewer.values.len());
                self.can_tell |= can_tell;
                let Some(chance) = self.lost(more, fewer, can_tell) else { continue };
                // What is certain counts before what is not, then the best of the smaller ones.
                let is_better = lost.is_none_or(|(best, _, certain)| {
                    (can_tell, self.is_worse(best.side.median, fewer.side.median)) > (certain, false)
                });
                if is_better {
                    lost = Some((fewer, chance, can_tell));
                }
            }
            if let (Some(more), Some((fewer, chance, certain))) = (more, lost) {
                let (more, fewer) = (more.side.clone(), fewer.side.clone());
                self.losses.push(Loss { at: series.at.clone(), more, fewer, chance, certain });
            }
        }
        self.series += usize::from(is_compared);
    }

    fn is_worse(&self, value: f64, than: f64) -> bool {
        match self.metric.better {
            Direction::Higher => value < than,
            Direction::Lower => value > than,
        }
    }

    /// The chance of such trials without a difference, if the larger machine did worse.
    fn lost(&self, more: &Cell<'_>, fewer: &Cell<'_>, can_tell: bool) -> Option<f64> {
        let (value, than) = (more.side.median, fewer.side.median);
        if !self.is_worse(value, than) || (value - than).abs() < LEAST_CHANGE * than.abs() {
            return None;
        }
        let (low, high) = match self.metric.better {
            Direction::Higher => (&more.values, &fewer.values),
            Direction::Lower => (&fewer.values, &more.values),
        };
        let chance = rank_sum_below(low, high)?;
        // With too few trials, all of them have to say the same.
        let most = if can_tell { CHANCE } else { least_chance(low.len(), high.len()) };
        (chance <= most + ROUNDING).then_some(chance)
    }
}

/// Whether so many trials can tell anything from chance.
fn enough(more: usize, fewer: usize) -> bool {
    least_chance(more, fewer) <= CHANCE + ROUNDING
}

/// The cells that are not excluded, by what they share; `None` without the axis.
fn series<'a>(
    results: &'a RunResults,
    cells: &[CellTrials<'a>],
    metric: &MetricRecord,
) -> Option<Vec<Series<'a>>> {
    let axes = &results.run.axes;
    let cpus = axes.iter().position(|axis| axis.as_str() == AXIS)?;
    let functional = functional_hosts(results);
    let is_one = |axis: usize| {
        let mut values = results.cells.iter().filter_map(|cell| cell.values.get(axis));
        values.next().is_none_or(|first| values.all(|value| value == first))
    };
    let telling: Vec<usize> = (0..axes.len()).filter(|axis| *axis != cpus && !is_one(*axis)).collect();
    let mut places: HashMap<Vec<&str>, usize> = HashMap::new();
    let mut list: BTreeMap<usize, Series<'a>> = BTreeMap::new();
    for cell in cells.iter().filter(|cell| !cell.is_excluded()) {
        let value = |axis: usize| Some((axes.get(axis)?, &**cell.cell.values.get(axis)?));
        let Some(count) = value(cpus).and_then(|(_, text)| text.parse().ok()) else { continue };
        let at: Vec<(&Name, &str)> = telling.iter().filter_map(|axis| value(*axis)).collect();
        let next = places.len();
        let place = *places.entry(at.iter().map(|(_, value)| *value).collect()).or_insert(next);
        let series = list.entry(place).or_insert_with(|| Series { at, cells: Vec::new() });
        series.cells.push((count, measured(cell, count, metric, &functional)));
    }
    Some(list.into_values().collect())
}

fn measured<'a>(
    cell: &CellTrials<'a>,
    cpus: u32,
    metric: &MetricRecord,
    functional: &[&str],
) -> Option<Cell<'a>> {
    let CellOutcome::Number { suspect } = cell.outcome else { return None };
    let values: Vec<f64> = cell.values(metric.name.as_str()).collect();
    let summary = Summary::of(values.iter().copied())?;
    let attempts = || {
        let speakers = cell.trials.iter().filter_map(Trial::speaker);
        speakers.filter(|attempt| attempt.verdict.outcome().has_number())
    };
    Some(Cell {
        side: Side { cpus, median: summary.median, trials: summary.n, suspect },
        values,
        functional: attempts().any(|attempt| is_functional(functional, attempt)),
        hosts: attempts().flat_map(|attempt| &attempt.hosts).collect(),
    })
}
