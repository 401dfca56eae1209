//! Which trials are compared with one another: those of one table. The scheduler keeps them on the same hosts unless the
//! matrix lets them mix.

use drover_model::AxisValue;

use crate::{
    decode::HOST,
    space::Space,
    spec::{Spread, Table},
};

/// The comparison group of every cell. Groups are numbered from 0, the same way each time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Groups {
    /// Cells of the product; those of `include` follow.
    product: u32,
    /// Of each dimension that tells groups apart: its cells between two values, its length, groups between two values.
    dimensions: Vec<(u32, u32, u32)>,
    /// Groups of the cells of `include`.
    included: Vec<u32>,
    count: u32,
}

impl Groups {
    /// Groups by the axes that make tables; with `spread: each`, by host.
    pub(crate) fn new(space: &Space, table: &Table, spread: Spread) -> Self {
        let axes: Vec<usize> = match spread {
            Spread::Each => space.axis(HOST).into_iter().collect(),
            Spread::Any => table.facet.iter().filter_map(|name| space.axis(name.as_str())).collect(),
        };
        let mut count: u32 = 1;
        let mut dimensions = Vec::new();
        let places = space.dimensions_of(&axes);
        for place in &places {
            let (stride, len) = space.extent(*place);
            dimensions.push((stride, len, count));
            // At most the product of all dimensions, which fits.
            count = count.saturating_mul(len.max(1));
        }
        let mut groups = Self { product: space.product(), dimensions, included: Vec::new(), count };
        // Values that only `include` names make groups of their own.
        let mut own: Vec<Vec<AxisValue>> = Vec::new();
        for cell in space.product()..space.len() {
            let digits: Option<Vec<u32>> =
                places.iter().map(|place| space.place_in(cell, *place, &axes)).collect();
            let group = digits.map(|digits| {
                let parts = digits.iter().zip(&groups.dimensions);
                parts.map(|(digit, (_, _, between))| digit * between).sum()
            });
            let values: Vec<AxisValue> =
                axes.iter().filter_map(|axis| space.value(cell, *axis).cloned()).collect();
            let place = own.iter().position(|other| *other == values).unwrap_or(own.len());
            let group = group.unwrap_or_else(|| {
                if place == own.len() {
                    own.push(values);
                }
                count.saturating_add(u32::try_from(place).unwrap_or(u32::MAX))
            });
            groups.included.push(group);
        }
        groups.count = count.saturating_add(u32::try_from(own.len()).unwrap_or(u32::MAX));
        groups
    }

    /// The group of a cell, below the number of groups.
    pub(crate) fn group_of(&self, cell: u32) -> u32 {
        match cell.checked_sub(self.product) {
            None => {
                let part = |(stride, len, between): &(u32, u32, u32)| {
                    cell.checked_div(*stride).unwrap_or(0) % (*len).max(1) * between
                };
                self.dimensions.iter().map(part).sum()
            }
            Some(extra) => {
                usize::try_from(extra).ok().and_then(|at| self.included.get(at)).copied().unwrap_or(0)
            }
        }
    }

    /// How many groups there are, those of which no cell runs included; 1 at least.
    pub(crate) fn count(&self) -> u32 {
        self.count
    }
}
