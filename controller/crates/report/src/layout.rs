//! Which axes of a run become rows, columns and facets of its table.

use std::collections::HashSet;

use drover_model::Name;
use drover_store::{CellRecord, RunRecord};

/// Axes asked for on the command line; `None` leaves a place to the run's own layout, an empty list leaves it empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Axes {
    /// Axes down the side.
    pub rows: Option<Vec<String>>,
    /// Axes across the top.
    pub cols: Option<Vec<String>>,
    /// Axes that make a table each.
    pub facet: Option<Vec<String>>,
}

/// Why a table cannot be laid out as asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// A name that is not an axis of the run.
    #[error("no axis is called `{name}`{}", hint(suggestion.as_ref(), known, "axes"))]
    UnknownAxis {
        /// The name as given.
        name: String,
        /// The axes there are.
        known: Vec<Name>,
        /// The one that was probably meant.
        suggestion: Option<Name>,
    },
    /// A name that is not a metric of the run.
    #[error("no metric is called `{name}`{}", hint(suggestion.as_ref(), known, "metrics"))]
    UnknownMetric {
        /// The name as given.
        name: String,
        /// The metrics there are.
        known: Vec<Name>,
        /// The one that was probably meant.
        suggestion: Option<Name>,
    },
    /// An axis in two places, or twice in one.
    #[error("axis `{0}` is placed twice: name it once, in the rows, the columns or the facets")]
    PlacedTwice(Name),
    /// Almost all places of the table would be empty, as with two axes that advance together across each other.
    #[error(
        "a table of {rows} rows and {cols} columns would show only {cells} cells: put the column axis `{axis}` into the \
         rows or the facets"
    )]
    Sparse {
        /// Rows of the table.
        rows: usize,
        /// Columns of the table.
        cols: usize,
        /// Cells that there are to show.
        cells: usize,
        /// The last column axis.
        axis: Name,
    },
}

fn hint(suggestion: Option<&Name>, known: &[Name], what: &str) -> String {
    let listed = known.iter().map(Name::as_str).collect::<Vec<_>>().join(", ");
    let listed =
        if known.is_empty() { format!("the run has no {what}") } else { format!("{what}: {listed}") };
    match suggestion {
        Some(name) => format!(": did you mean `{name}`? ({listed})"),
        None => format!(" ({listed})"),
    }
}

/// Columns above which the axis with fewer values goes across, if the choice is free.
const WIDE: usize = 12;

/// Places of axes, as positions in [`RunRecord::axes`]. Every axis is in exactly one place, so that one place of a
/// table is exactly one cell of the matrix.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) rows: Vec<usize>,
    pub(crate) cols: Vec<usize>,
    pub(crate) facet: Vec<usize>,
    /// Axes with one value only: named once, above the tables.
    pub(crate) fixed: Vec<usize>,
}

impl Layout {
    /// Places axes where they are asked for, then where the run says, then by default: of what is left, the last axis
    /// across, the one before it down, all others as facets. Axes with one value are placed only if asked for.
    pub(crate) fn resolve(run: &RunRecord, cells: &[CellRecord], asked: &Axes) -> Result<Self, LayoutError> {
        let levels = Levels::of(run, cells);
        let mut placed = Vec::new();
        let mut take = |names: &Option<Vec<String>>| -> Result<Option<Vec<usize>>, LayoutError> {
            let Some(names) = names else { return Ok(None) };
            let axes = names.iter().map(|name| find_axis(run, name)).collect::<Result<Vec<_>, _>>()?;
            for axis in &axes {
                if placed.contains(axis) {
                    return Err(LayoutError::PlacedTwice(run.axes[*axis].clone()));
                }
                placed.push(*axis);
            }
            Ok(Some(axes))
        };
        let (rows, cols, facet) = (take(&asked.rows)?, take(&asked.cols)?, take(&asked.facet)?);
        let (rows_free, cols_free) = (rows.is_none(), cols.is_none());
        let mut default = |given: Option<Vec<usize>>, own: &[Name]| -> Result<Vec<usize>, LayoutError> {
            if let Some(axes) = given {
                return Ok(axes);
            }
            let mut axes = Vec::new();
            for name in own {
                let axis = find_axis(run, name.as_str())?;
                if levels.many(axis) && !placed.contains(&axis) {
                    placed.push(axis);
                    axes.push(axis);
                }
            }
            Ok(axes)
        };
        let mut layout = Self {
            rows: default(rows, &run.table.rows)?,
            cols: default(cols, &run.table.cols)?,
            facet: default(facet, &run.table.facet)?,
            fixed: Vec::new(),
        };
        let unplaced = (0..run.axes.len()).filter(|axis| !placed.contains(axis));
        let (mut left, fixed) = unplaced.partition(|axis| levels.many(*axis));
        layout.fixed = fixed;
        layout.place_freely(
            &mut left,
            rows_free && layout.rows.is_empty(),
            cols_free && layout.cols.is_empty(),
            &levels,
        );
        layout.facet.append(&mut left);
        Ok(layout)
    }

    /// Fills empty rows and columns from the axes that nobody placed.
    fn place_freely(&mut self, left: &mut Vec<usize>, rows: bool, cols: bool, levels: &Levels<'_>) {
        let Some(last) = left.pop() else { return };
        if !(rows && cols) {
            let place = match (rows, cols) {
                (true, _) => &mut self.rows,
                (_, true) => &mut self.cols,
                _ => left,
            };
            place.push(last);
            return;
        }
        let Some(before) = left.pop() else {
            self.rows.push(last);
            return;
        };
        if levels.tied(before, last) {
            self.rows.extend([before, last]);
        } else if levels.count(last) > WIDE && levels.count(before) < levels.count(last) {
            self.rows.push(last);
            self.cols.push(before);
        } else {
            self.rows.push(before);
            self.cols.push(last);
        }
    }
}

/// How many values the axes really have among the cells.
struct Levels<'a> {
    cells: &'a [CellRecord],
    counts: Vec<usize>,
}

impl<'a> Levels<'a> {
    fn of(run: &RunRecord, cells: &'a [CellRecord]) -> Self {
        let count =
            |axis: usize| cells.iter().filter_map(|cell| cell.values.get(axis)).collect::<HashSet<_>>().len();
        Self { cells, counts: (0..run.axes.len()).map(count).collect() }
    }

    fn count(&self, axis: usize) -> usize {
        self.counts.get(axis).copied().unwrap_or(0)
    }

    fn many(&self, axis: usize) -> bool {
        self.count(axis) > 1
    }

    /// Whether each value of one comes with one value of the other only, as with axes that advance together.
    fn tied(&self, first: usize, second: usize) -> bool {
        let pairs: HashSet<_> =
            self.cells.iter().map(|cell| (cell.values.get(first), cell.values.get(second))).collect();
        pairs.len() == self.count(first).max(self.count(second))
    }
}

fn find_axis(run: &RunRecord, name: &str) -> Result<usize, LayoutError> {
    run.axes.iter().position(|axis| axis.as_str() == name).ok_or_else(|| LayoutError::UnknownAxis {
        name: name.to_owned(),
        known: run.axes.clone(),
        suggestion: similar(name, &run.axes),
    })
}

/// The name most like a mistyped one, if it is like enough.
pub(crate) fn similar(name: &str, known: &[Name]) -> Option<Name> {
    let folded = name.to_lowercase();
    let near = known.iter().map(|candidate| {
        (strsim::damerau_levenshtein(&folded, &candidate.as_str().to_lowercase()), candidate)
    });
    let (distance, best) = near.min_by_key(|(distance, _)| *distance)?;
    (distance <= name.chars().count().div_ceil(3)).then(|| best.clone())
}
