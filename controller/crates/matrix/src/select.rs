//! What the command line says about a matrix: `--set`, `--only`, the limit of cells.

/// What the command line says about a matrix.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// `--set` arguments as given: `axis=v1,v2`. Narrows or overrides the values of an axis; ranges are allowed.
    pub set: Vec<String>,
    /// `--only` expressions as given; a cell stays if all hold.
    pub only: Vec<String>,
    /// Most cells allowed, instead of the matrix's own `limits: {cells: N}` (default 100,000).
    pub cell_limit: Option<u64>,
}
