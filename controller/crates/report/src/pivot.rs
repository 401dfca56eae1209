//! The table of a run as data: facets of rows and columns, each place one cell of the matrix. Text and Markdown print
//! it.

use std::{borrow::Cow, collections::BTreeMap};

use drover_model::{Name, Outcome};
use drover_store::{MetricRecord, RunResults};

use crate::{
    coverage::Coverage,
    error::ReportError,
    layout::{Axes, Layout, LayoutError, similar},
    notes::{Note, Notes},
    number::{Decimals, number},
    scaling::Scaling,
    statistics::Summary,
    trials::{CellOutcome, CellTrials, Reason, group},
};

/// A run laid out.
#[derive(Debug)]
pub(crate) struct Pivot<'a> {
    pub(crate) results: &'a RunResults,
    /// What the numbers are; `None` if the run has no metrics, and a cell just passes or not.
    pub(crate) metric: Option<&'a MetricRecord>,
    /// Axes with one value, and the value.
    pub(crate) fixed: Vec<(&'a Name, &'a str)>,
    pub(crate) row_axes: Vec<&'a Name>,
    pub(crate) col_axes: Vec<&'a Name>,
    pub(crate) facets: Vec<Facet<'a>>,
    pub(crate) notes: Vec<Note>,
    pub(crate) coverage: Coverage,
    /// Comparisons of CPU counts, if there are any.
    pub(crate) scaling: Option<Scaling<'a>>,
}

/// One table of a pivot.
#[derive(Debug)]
pub(crate) struct Facet<'a> {
    /// What all its cells share, by facet axis.
    pub(crate) shared: Vec<(&'a Name, &'a str)>,
    /// A value for each row axis, by row.
    pub(crate) rows: Vec<Vec<&'a str>>,
    /// A value for each column axis, by column; one empty list if there are no column axes.
    pub(crate) cols: Vec<Vec<&'a str>>,
    /// Row by row. `None` where the matrix has no cell.
    pub(crate) places: Vec<Option<Place>>,
    pub(crate) decimals: Decimals,
}

/// What one place of a table shows.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) shown: Shown,
    /// Trials with a valid number.
    pub(crate) n: usize,
    /// Trials planned.
    pub(crate) planned: usize,
    /// Numbers of footnotes, from 1.
    pub(crate) notes: Vec<usize>,
}

/// The content of a place.
#[derive(Clone, Debug)]
pub(crate) enum Shown {
    Number {
        summary: Box<Summary>,
        suspect: bool,
    },
    /// Passed, in a run without metrics.
    Passed {
        suspect: bool,
    },
    /// Anything but a number: `NG` and `ERR` with the cause, `---` without one, which its note has.
    Mark {
        mark: &'static str,
        cause: &'static str,
    },
}

/// Places that a table may have beyond those that show something.
const MOST_EMPTY: usize = 100_000;

/// Position of a value among those of its axis, in the order in which the cells name them; one for each axis.
type Ranks = Vec<usize>;

impl<'a> Pivot<'a> {
    /// Lays a run out.
    ///
    /// # Errors
    ///
    /// If an axis or the metric does not exist, the layout is contradictory, or the results contradict the plan.
    pub(crate) fn of(
        results: &'a RunResults,
        axes: &Axes,
        metric: Option<&str>,
    ) -> Result<Self, ReportError> {
        let metric = choose_metric(results, metric)?;
        let cells = group(results)?;
        let layout = Layout::resolve(&results.run, &results.cells, axes)?;
        let ranks = ranks(&cells, results.run.axes.len());
        let pick =
            |cell: usize, axes: &[usize]| -> Ranks { axes.iter().map(|axis| ranks[cell][*axis]).collect() };
        let mut by_facet: BTreeMap<Ranks, Vec<usize>> = BTreeMap::new();
        for cell in 0..cells.len() {
            by_facet.entry(pick(cell, &layout.facet)).or_default().push(cell);
        }
        let names = |axes: &[usize]| axes.iter().map(|axis| &results.run.axes[*axis]).collect();
        let mut notes = Notes::default();
        let mut facets = Vec::with_capacity(by_facet.len());
        for members in by_facet.values() {
            let places = members
                .iter()
                .map(|cell| (pick(*cell, &layout.rows), pick(*cell, &layout.cols), &cells[*cell]))
                .collect();
            facets.push(Facet::of(results, &layout, metric, places, &mut notes)?);
        }
        let fixed = cells.first().map(|first| values(results, first, &layout.fixed)).unwrap_or_default();
        Ok(Self {
            results,
            metric,
            fixed,
            row_axes: names(&layout.rows),
            col_axes: names(&layout.cols),
            facets,
            notes: notes.into_list(),
            coverage: Coverage::of_cells(&cells),
            scaling: metric.and_then(|metric| Scaling::of(results, &cells, metric)),
        })
    }

    /// Whether a table has places for which the matrix has no cell.
    pub(crate) fn has_gaps(&self) -> bool {
        self.facets.iter().any(|facet| facet.places.iter().any(Option::is_none))
    }
}

impl<'a> Facet<'a> {
    fn of(
        results: &'a RunResults,
        layout: &Layout,
        metric: Option<&MetricRecord>,
        mut cells: Vec<(Ranks, Ranks, &CellTrials<'a>)>,
        notes: &mut Notes,
    ) -> Result<Self, ReportError> {
        cells.sort_by(|a, b| (&a.0, &a.1).cmp(&(&b.0, &b.1)));
        // A BTreeMap from ranks to values is both the order and the names of rows and columns.
        let mut rows = BTreeMap::new();
        let mut cols = BTreeMap::new();
        let plain = |axes: &[usize], cell: &CellTrials<'a>| -> Vec<&'a str> {
            values(results, cell, axes).into_iter().map(|(_, value)| value).collect()
        };
        for (row, col, cell) in &cells {
            rows.entry(row.clone()).or_insert_with(|| plain(&layout.rows, cell));
            cols.entry(col.clone()).or_insert_with(|| plain(&layout.cols, cell));
        }
        let size = rows.len().saturating_mul(cols.len());
        if size > cells.len().saturating_add(MOST_EMPTY)
            && let Some(axis) = layout.cols.last()
        {
            let axis = results.run.axes[*axis].clone();
            return Err(
                LayoutError::Sparse { rows: rows.len(), cols: cols.len(), cells: cells.len(), axis }.into()
            );
        }
        let row_at: BTreeMap<&Ranks, usize> = rows.keys().enumerate().map(|(at, row)| (row, at)).collect();
        let col_at: BTreeMap<&Ranks, usize> = cols.keys().enumerate().map(|(at, col)| (col, at)).collect();
        let mut places: Vec<Option<Place>> = vec![None; size];
        for (row, col, cell) in &cells {
            let place = &mut places[row_at[row] * cols.len() + col_at[col]];
            if place.is_some() {
                return Err(ReportError::SameCell(describe(results, layout, cell)));
            }
            *place = Some(Place::of(results, layout, cell, metric, notes));
        }
        let medians = places.iter().flatten().filter_map(|place| match &place.shown {
            Shown::Number { summary, .. } => Some(summary.median),
            _ => None,
        });
        let decimals = Decimals::for_all(medians);
        let shared =
            cells.first().map(|(_, _, cell)| values(results, cell, &layout.facet)).unwrap_or_default();
        Ok(Self {
            shared,
            decimals,
            places,
            rows: rows.into_values().collect(),
            cols: cols.into_values().collect(),
        })
    }
}

impl Place {
    fn of(
        results: &RunResults,
        layout: &Layout,
        cell: &CellTrials<'_>,
        metric: Option<&MetricRecord>,
        notes: &mut Notes,
    ) -> Self {
        let summary = metric.and_then(|metric| Summary::of(cell.values(metric.name.as_str())));
        let passed = cell.count(Outcome::has_number);
        let outcome = cell.outcome;
        let n = match outcome {
            CellOutcome::Number { .. } => summary.map_or(if metric.is_none() { passed } else { 0 }, |s| s.n),
            _ => 0,
        };
        let mixed = (passed > 0 && matches!(outcome, CellOutcome::Ng(_))).then(|| {
            let decimals = Decimals::for_all(summary.iter().map(|summary| summary.median));
            let median =
                summary.map(|s| format!(", median {}", number(s.median, decimals))).unwrap_or_default();
            format!(
                "{}: {passed} of {} trials passed{median}",
                describe(results, layout, cell),
                cell.trials.len()
            )
        });
        let mut numbers = match &cell.cell.excluded {
            Some(because) if cell.is_excluded() => notes.of_cell(
                &Reason {
                    outcome: Outcome::Missing,
                    cause: "excluded",
                    detail: Cow::Borrowed(because.as_str()),
                },
                0,
            ),
            _ => notes.of_trials(&cell.trials, mixed.as_deref()),
        };
        let shown = match (outcome, summary, metric) {
            (CellOutcome::Number { suspect }, Some(summary), _) => {
                Shown::Number { summary: Box::new(summary), suspect }
            }
            (CellOutcome::Number { suspect }, None, None) => Shown::Passed { suspect },
            (CellOutcome::Number { .. }, None, Some(metric)) => {
                let detail = Cow::Owned(format!("trials passed without a value of {}", metric.name));
                let reason = Reason { outcome: Outcome::Missing, cause: "no-value", detail };
                numbers.extend(notes.of_cell(&reason, passed));
                Shown::Mark { mark: "---", cause: "" }
            }
            (CellOutcome::Ng(_) | CellOutcome::Error(_), _, _) => {
                Shown::Mark { mark: outcome.mark(), cause: outcome.cause() }
            }
            (CellOutcome::Missing(_), _, _) => Shown::Mark { mark: outcome.mark(), cause: "" },
        };
        Self { shown, n, planned: cell.trials.len(), notes: numbers }
    }
}

/// The metric asked for, else the primary one, else the first.
pub(crate) fn choose_metric<'a>(
    results: &'a RunResults,
    asked: Option<&str>,
) -> Result<Option<&'a MetricRecord>, LayoutError> {
    let metrics = &results.run.metrics;
    let Some(asked) = asked else {
        return Ok(metrics.iter().find(|metric| metric.primary).or(metrics.first()));
    };
    metrics.iter().find(|metric| metric.name.as_str() == asked).map(Some).ok_or_else(|| {
        let known: Vec<Name> = metrics.iter().map(|metric| metric.name.clone()).collect();
        LayoutError::UnknownMetric { name: asked.to_owned(), suggestion: similar(asked, &known), known }
    })
}

/// Axis and value of a cell, for some axes.
fn values<'a>(results: &'a RunResults, cell: &CellTrials<'a>, axes: &[usize]) -> Vec<(&'a Name, &'a str)> {
    axes.iter()
        .filter_map(|axis| Some((results.run.axes.get(*axis)?, &**cell.cell.values.get(*axis)?)))
        .collect()
}

/// A cell by those of its values that tell it from others: `servers=3 serialisation=none`.
fn describe(results: &RunResults, layout: &Layout, cell: &CellTrials<'_>) -> String {
    let telling: Vec<usize> =
        (0..results.run.axes.len()).filter(|axis| !layout.fixed.contains(axis)).collect();
    let named: Vec<String> =
        values(results, cell, &telling).iter().map(|(axis, value)| format!("{axis}={value}")).collect();
    if named.is_empty() { "the only cell".to_owned() } else { named.join(" ") }
}

fn ranks(cells: &[CellTrials<'_>], axes: usize) -> Vec<Ranks> {
    let mut known: Vec<std::collections::HashMap<&str, usize>> = vec![Default::default(); axes];
    cells
        .iter()
        .map(|cell| {
            let pairs = known.iter_mut().zip(&cell.cell.values);
            pairs
                .map(|(known, value)| {
                    let next = known.len();
                    *known.entry(value).or_insert(next)
                })
                .collect()
        })
        .collect()
}
