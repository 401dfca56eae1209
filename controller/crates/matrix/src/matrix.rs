//! The checked matrix and everything that can be asked of it.

use std::sync::Arc;

use crate::{
    check,
    diagnostic::{Diagnostic, Diagnostics},
    expand::{Expansion, PlannedCell},
    identity::{self, Keys},
    metrics::Metrics,
    scalar::Scalar,
    source::SourceText,
    spec::{Axis, FileContents, FileReference, Policy, Requirement, Role, Table},
    template::Template,
};

/// A checked matrix. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Matrix(Arc<Parts>);

/// What a matrix consists of.
#[derive(Clone, Debug)]
pub(crate) struct Parts {
    pub(crate) source: SourceText,
    pub(crate) name: String,
    pub(crate) about: String,
    pub(crate) requires: Vec<Requirement>,
    pub(crate) roles: Vec<Role>,
    pub(crate) metrics: Metrics,
    pub(crate) policy: Policy,
    pub(crate) table: Table,
    pub(crate) references: Vec<FileReference>,
    pub(crate) expansion: Expansion,
}

impl Matrix {
    pub(crate) fn new(parts: Parts) -> Self {
        Self(Arc::new(parts))
    }

    /// Its name: a word that is safe as a file name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// What it says of itself.
    #[must_use]
    pub fn about(&self) -> &str {
        &self.0.about
    }

    /// Commands that must be installed.
    #[must_use]
    pub fn requires(&self) -> &[Requirement] {
        &self.0.requires
    }

    /// Axes in the order of the file, with the values left after `--set`.
    #[must_use]
    pub fn axes(&self) -> &[Axis] {
        self.0.expansion.space.axes()
    }

    /// Roles in the order of the file.
    #[must_use]
    pub fn roles(&self) -> &[Role] {
        &self.0.roles
    }

    /// The role of that name.
    #[must_use]
    pub fn role(&self, name: &str) -> Option<&Role> {
        self.0.roles.iter().find(|role| role.name.as_str() == name)
    }

    /// Declared metrics.
    #[must_use]
    pub fn metrics(&self) -> &Metrics {
        &self.0.metrics
    }

    /// Repetitions, order, bounds, retries.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.0.policy
    }

    /// Default layout of its table.
    #[must_use]
    pub fn table(&self) -> &Table {
        &self.0.table
    }

    /// The matrix with another number of repetitions of every cell (at least 1), which is no part of a cell's identity.
    #[must_use]
    pub fn with_repeat(self, repeat: u32) -> Self {
        let mut parts = Arc::unwrap_or_clone(self.0);
        parts.policy.repeat = repeat.max(1);
        Self(Arc::new(parts))
    }

    /// Files beside the matrix that must be loaded before rendering.
    #[must_use]
    pub fn file_references(&self) -> &[FileReference] {
        &self.0.references
    }

    /// A diagnostic that points at a reference, for a file that cannot be read.
    #[must_use]
    pub fn file_problem(&self, reference: &FileReference, problem: &str) -> Diagnostic {
        let message = format!("the file `{}` cannot be read: {problem}", reference.path);
        let help = "the path is relative to the folder of the matrix file";
        Diagnostic::new(&self.0.source, reference.span.clone(), message, help)
    }

    /// The matrix with the contents of its referenced files, in the order of [`Matrix::file_references`]. Templates in
    /// them are checked, and they take part in every cell's identity.
    ///
    /// # Errors
    ///
    /// Mistakes in the files' templates, with the place in that file; a file that is not UTF-8 and not `raw`.
    pub fn with_files(self, contents: &[Vec<u8>]) -> Result<Self, Diagnostics> {
        let mut parts = Arc::unwrap_or_clone(self.0);
        let mut found = Vec::new();
        let (references, source) = (&parts.references, &parts.source);
        for file in parts.roles.iter_mut().flat_map(|role| &mut role.files) {
            let FileContents::Reference(place) = file.contents else { continue };
            let (Some(reference), Some(bytes)) = (references.get(place), contents.get(place)) else {
                continue;
            };
            file.contents = if reference.raw {
                FileContents::Raw(bytes.as_slice().into())
            } else {
                match std::str::from_utf8(bytes) {
                    Ok(text) => {
                        let text = SourceText::new(reference.path.as_str(), text);
                        let template = Template::new(&Scalar::verbatim(&text));
                        FileContents::Loaded { template, source: reference.path.clone() }
                    }
                    Err(error) => {
                        let at = error.valid_up_to();
                        let message = format!("the file `{}` is not UTF-8 at byte {at}", reference.path);
                        let help = "add `raw: true` to pass it on byte by byte, without templates";
                        found.push(Diagnostic::new(source, reference.span.clone(), message, help));
                        continue;
                    }
                }
            };
        }
        let axes = parts.expansion.space.axes().iter().map(|axis| axis.name.as_str());
        found.extend(check::templates(&parts.source, axes, &parts.roles, Some(&parts.expansion)));
        let fingerprint = identity::fingerprint(&parts.roles, parts.metrics.iter());
        parts.expansion.keys = Keys::new(fingerprint, parts.expansion.space.axes());
        match Diagnostics::collect(found) {
            Some(diagnostics) => Err(diagnostics),
            None => Ok(Self::new(parts)),
        }
    }

    /// How many cells [`Matrix::cells`] yields. Exact, without building them.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.expansion.count()
    }

    /// All cells in the order of the file (last axis fastest, `include`d cells at the end), excluded ones flagged.
    /// With `--only`, cells not selected are not among them; a cell keeps its index either way.
    pub fn cells(&self) -> impl Iterator<Item = PlannedCell> + '_ {
        self.0.expansion.cells()
    }

    /// The cell at a position of the expanded matrix; `None` past its end or when `--only` does not select it.
    #[must_use]
    pub fn cell(&self, index: u32) -> Option<PlannedCell> {
        self.0.expansion.cell(index)
    }

    pub(crate) fn expansion(&self) -> &Expansion {
        &self.0.expansion
    }
}
