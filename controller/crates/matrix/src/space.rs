//! The space of cells: how many there are, and the values of each by its place, without building any.
//!
//! Axes that are zipped advance together and count as one dimension. The first dimension is the slowest. Cells of
//! `include` follow behind the product.

use drover_model::AxisValue;
use minijinja::Value;

use crate::{
    expr::{self, EvalError, Expression},
    spec::Axis,
};

/// One or more axes that advance together.
#[derive(Clone, Debug)]
struct Dimension {
    axes: Vec<usize>,
    len: u32,
    /// How many cells lie between two of its values.
    stride: u32,
}

/// All cells of a matrix.
#[derive(Clone, Debug)]
pub(crate) struct Space {
    axes: Vec<Axis>,
    dimensions: Vec<Dimension>,
    /// The dimension of each axis.
    dimension_of: Vec<usize>,
    product: u32,
    included: Vec<Vec<AxisValue>>,
}

/// More cells than allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TooMany {
    /// Cells, if they can be counted in 128 bits.
    pub(crate) cells: Option<u128>,
    /// Lengths of the dimensions.
    pub(crate) lengths: Vec<usize>,
}

impl Space {
    /// Counts first: nothing is built if there are more than `limit` cells.
    pub(crate) fn new(
        axes: Vec<Axis>,
        zip: &[Vec<usize>],
        included: Vec<Vec<AxisValue>>,
        limit: u64,
    ) -> Result<Self, TooMany> {
        let groups = groups(axes.len(), zip);
        let length =
            |group: &Vec<usize>| group.first().and_then(|axis| axes.get(*axis)).map_or(0, |a| a.values.len());
        let lengths: Vec<usize> = groups.iter().map(length).collect();
        let wide = |length: usize| u128::try_from(length).unwrap_or(u128::MAX);
        let product = lengths.iter().try_fold(1_u128, |product, length| product.checked_mul(wide(*length)));
        let cells = product.and_then(|product| product.checked_add(wide(included.len())));
        let counted =
            cells.filter(|cells| *cells <= u128::from(limit)).and_then(|_| u32::try_from(product?).ok());
        let Some(product) = counted else {
            return Err(TooMany { cells, lengths });
        };
        let mut dimension_of = vec![0; axes.len()];
        let mut dimensions = Vec::new();
        let mut stride = product;
        for (place, (group, length)) in groups.into_iter().zip(lengths).enumerate() {
            // The product fits, so each length and stride does; a length of zero makes the product zero.
            let len = u32::try_from(length).unwrap_or(u32::MAX);
            stride = stride.checked_div(len).unwrap_or(0);
            for axis in &group {
                if let Some(slot) = dimension_of.get_mut(*axis) {
                    *slot = place;
                }
            }
            dimensions.push(Dimension { axes: group, len, stride });
        }
        Ok(Self { axes, dimensions, dimension_of, product, included })
    }

    pub(crate) fn axes(&self) -> &[Axis] {
        &self.axes
    }

    /// Cells of the product and of `include`.
    pub(crate) fn len(&self) -> u32 {
        self.product + self.included_len()
    }

    /// Cells of the product; those of `include` follow.
    pub(crate) fn product(&self) -> u32 {
        self.product
    }

    fn included_len(&self) -> u32 {
        u32::try_from(self.included.len()).unwrap_or(u32::MAX - self.product)
    }

    /// Place of an axis by name.
    pub(crate) fn axis(&self, name: &str) -> Option<usize> {
        self.axes.iter().position(|axis| axis.name.as_str() == name)
    }

    /// The value of an axis in a cell; `None` past the end.
    pub(crate) fn value(&self, cell: u32, axis: usize) -> Option<&AxisValue> {
        match cell.checked_sub(self.product) {
            None => self.axes.get(axis)?.values.get(index(self.digit(cell, *self.dimension_of.get(axis)?))),
            Some(extra) => self.included.get(index(extra))?.get(axis),
        }
    }

    /// Which value of a dimension a cell of the product has.
    fn digit(&self, cell: u32, dimension: usize) -> u32 {
        self.dimensions.get(dimension).map_or(0, |d| cell.checked_div(d.stride).unwrap_or(0) % d.len.max(1))
    }

    /// The cell of the product that has these values, one per axis.
    pub(crate) fn find(&self, values: &[AxisValue]) -> Option<u32> {
        let mut cell = 0;
        for dimension in &self.dimensions {
            cell += self.level(dimension, &dimension.axes, values)? * dimension.stride;
        }
        Some(cell)
    }

    /// Which value of a dimension has the values of these of its axes.
    fn level(&self, dimension: &Dimension, axes: &[usize], values: &[AxisValue]) -> Option<u32> {
        let fits = |place: usize| {
            axes.iter().all(|axis| {
                let level = self.axes.get(*axis).and_then(|axis| axis.values.get(place));
                level.is_some() && level == values.get(*axis)
            })
        };
        (0..dimension.len).find(|place| fits(index(*place)))
    }

    /// Which value of a dimension an included cell has, as far as these axes tell; `None` if it is none of them.
    pub(crate) fn place_in(&self, included: u32, dimension: usize, axes: &[usize]) -> Option<u32> {
        let values = self.included.get(index(included.checked_sub(self.product)?))?;
        let dimension = self.dimensions.get(dimension)?;
        let axes: Vec<usize> = axes.iter().copied().filter(|axis| dimension.axes.contains(axis)).collect();
        self.level(dimension, &axes, values)
    }

    /// The dimensions of these axes, each once, in order.
    pub(crate) fn dimensions_of(&self, axes: &[usize]) -> Vec<usize> {
        let mut places: Vec<usize> =
            axes.iter().filter_map(|axis| self.dimension_of.get(*axis).copied()).collect();
        places.sort_unstable();
        places.dedup();
        places
    }

    /// Cells between two values of a dimension, and how many values it has.
    pub(crate) fn extent(&self, dimension: usize) -> (u32, u32) {
        self.dimensions.get(dimension).map_or((1, 1), |dimension| (dimension.stride, dimension.len))
    }

    /// A few cells in which every value of every axis occurs: the first one, and those that differ from it in one
    /// dimension. At most `most`.
    pub(crate) fn samples(&self, most: usize) -> Vec<u32> {
        let others = self.dimensions.iter().flat_map(|d| (1..d.len).map(|place| place * d.stride));
        let included = self.product..self.len();
        let first = (self.product > 0).then_some(0);
        first.into_iter().chain(others).chain(included).take(most).collect()
    }

    /// A cell as `axis=value ...`, for messages.
    pub(crate) fn describe(&self, cell: u32) -> String {
        let pair =
            |(place, axis): (usize, &Axis)| Some(format!("{}={}", axis.name, self.value(cell, place)?));
        self.axes.iter().enumerate().filter_map(pair).collect::<Vec<_>>().join(" ")
    }
}

/// Axes in groups that advance together, in the order of each group's first axis.
fn groups(axes: usize, zip: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let mut groups = Vec::new();
    for axis in 0..axes {
        match zip.iter().find(|group| group.contains(&axis)) {
            Some(group) if group.iter().min() == Some(&axis) => groups.push(group.clone()),
            Some(_) => {}
            None => groups.push(vec![axis]),
        }
    }
    groups
}

fn index(place: u32) -> usize {
    usize::try_from(place).unwrap_or(usize::MAX)
}

/// The cells that a condition holds for. The condition is evaluated once per combination of the values of those axes
/// that it names, not once per cell.
#[derive(Clone, Debug)]
pub(crate) struct CellSet {
    /// Dimensions that the condition depends on, and the stride of each in `bits`.
    strides: Vec<(usize, u32)>,
    bits: Vec<u64>,
    included: Vec<bool>,
}

impl CellSet {
    /// Evaluates a condition for all cells. An error comes with the cell that it happened in.
    pub(crate) fn new(space: &Space, condition: &Expression) -> Result<Self, (u32, EvalError)> {
        let axes: Vec<usize> = condition.variables.iter().filter_map(|name| space.axis(name)).collect();
        let mut strides = Vec::new();
        let mut combinations: u32 = 1;
        for place in space.dimensions_of(&axes) {
            let (_, len) = space.extent(place);
            strides.push((place, combinations));
            // At most the product of all dimensions, which fits.
            combinations = combinations.saturating_mul(len);
        }
        let mut set = Self { strides, bits: vec![0; index(combinations.div_ceil(64))], included: Vec::new() };
        condition.with_evaluator(|evaluate| {
            let holds = |cell: u32| {
                let pair = |axis: &usize| {
                    let name = space.axes.get(*axis)?.name.as_str();
                    Some((name, expr::value_of(space.value(cell, *axis)?)))
                };
                let result = evaluate(Value::from_pairs(axes.iter().filter_map(pair)));
                let whole = 0..condition.scalar.text.len();
                result
                    .and_then(|value| {
                        expr::truth(&value).map_err(|problem| EvalError {
                            within: whole,
                            problem,
                            help: expr::COMPARE.into(),
                        })
                    })
                    .map_err(|error| (cell, error))
            };
            for combination in 0..if space.product > 0 { combinations } else { 0 } {
                let bit = u64::from(holds(set.representative(space, combination))?) << (combination % 64);
                if let Some(word) = set.bits.get_mut(index(combination / 64)) {
                    *word |= bit;
                }
            }
            set.included = (space.product..space.len()).map(holds).collect::<Result<_, _>>()?;
            Ok(())
        })?;
        Ok(set)
    }

    /// A cell with the given combination of values, and the first value of every other dimension.
    fn representative(&self, space: &Space, combination: u32) -> u32 {
        let digit = |(place, stride): &(usize, u32)| {
            let dimension = space.dimensions.get(*place);
            dimension.map_or(0, |d| (combination / stride) % d.len.max(1) * d.stride)
        };
        self.strides.iter().map(digit).sum()
    }

    /// Whether the condition holds for a cell.
    pub(crate) fn contains(&self, space: &Space, cell: u32) -> bool {
        if let Some(extra) = cell.checked_sub(space.product) {
            return self.included.get(index(extra)).copied().unwrap_or(false);
        }
        let combination: u32 =
            self.strides.iter().map(|(place, stride)| space.digit(cell, *place) * stride).sum();
        self.bits.get(index(combination / 64)).is_some_and(|word| word & (1 << (combination % 64)) != 0)
    }

    /// Whether the condition holds for no cell of the product.
    pub(crate) fn is_empty(&self) -> bool {
        self.bits.iter().all(|word| *word == 0)
    }
}
