//! The identity of a cell: a hash of its axis values and of the parts of the matrix that can change its number.
//!
//! Independent of the machine, of the order of axes, and of everything that only describes or bounds: name, about,
//! metrics that take a sample by its name, repetitions, order, table, timeouts, limits, artifacts, and on which hosts the
//! cells are spread. What is said of a role's hosts takes part. So does how long a soak is and how often it is measured: a
//! leak that shows in eight hours does not in one. When it ends early and what is a hang does not. Cells that share a time
//! keep their identity when the command line selects some of them, though each then gets more of it.

use drover_model::{Cell, CellKey, Name};
use serde::Serialize;

use crate::{
    soak::{Soak, SoakIdentity},
    spec::{Across, Axis, Metric, Role, SampleSource},
};

/// Changes when the meaning of a matrix file changes, so that old and new cells are told apart.
const GENERATION: u32 = 1;

/// What of a matrix takes part in the identity of its cells, apart from the axes.
#[derive(Serialize)]
struct Parts<'a> {
    generation: u32,
    /// In the order of their names.
    roles: Vec<&'a Role>,
    /// Metrics that say where they come from, in the order of their names.
    sources: Vec<(&'a Name, Option<&'a SampleSource>, Option<&'a str>)>,
    /// How the samples of several instances become one, where there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    across: Vec<(&'a Name, Across)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    soak: Option<SoakIdentity>,
}

/// Hash of the parts of a matrix that can change a number, as text.
pub(crate) fn fingerprint<'a>(
    roles: &[Role],
    metrics: impl IntoIterator<Item = &'a Metric> + Clone,
    soak: Option<&Soak>,
) -> String {
    let several = roles.iter().any(|role| role.tasks() > 1);
    let across = metrics.clone().into_iter().filter(|_| several);
    let mut across: Vec<_> = across.filter_map(|metric| Some((&metric.name, metric.across?))).collect();
    across.sort_by_key(|(name, _)| *name);
    let mut roles: Vec<&Role> = roles.iter().collect();
    roles.sort_by(|a, b| a.name.cmp(&b.name));
    let described = metrics.into_iter().filter(|metric| metric.from.is_some() || metric.value.is_some());
    let mut sources: Vec<_> =
        described.map(|metric| (&metric.name, metric.from.as_ref(), metric.value.as_deref())).collect();
    sources.sort_by_key(|(name, ..)| *name);
    let soak = soak.map(SoakIdentity::from);
    // Plain structs, lists and texts always serialise.
    let parts = Parts { generation: GENERATION, roles, sources, across, soak };
    let text = serde_json::to_vec(&parts).unwrap_or_default();
    CellKey::of([text.as_slice()]).to_string()
}

/// Makes the keys of a matrix's cells.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    fingerprint: String,
    /// Places of the axes in the order of their names.
    order: Vec<usize>,
}

impl Keys {
    pub(crate) fn new(fingerprint: String, axes: &[Axis]) -> Self {
        let mut order: Vec<usize> = (0..axes.len()).collect();
        order.sort_by_key(|place| axes.get(*place).map(|axis| axis.name.clone()));
        Self { fingerprint, order }
    }

    /// The key of a cell with these values, in the order of the axes.
    pub(crate) fn key(&self, values: &[(Name, drover_model::AxisValue)]) -> CellKey {
        let sorted = self.order.iter().filter_map(|place| values.get(*place));
        let parts = sorted.flat_map(|(name, value)| [name.as_str().as_bytes(), value.as_bytes()]);
        CellKey::of(std::iter::once(self.fingerprint.as_bytes()).chain(parts))
    }

    /// Fills in the key of a cell.
    pub(crate) fn cell(&self, index: u32, values: Vec<(Name, drover_model::AxisValue)>) -> Cell {
        let key = self.key(&values);
        Cell { index, key, values }
    }
}
