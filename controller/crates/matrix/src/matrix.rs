//! The checked matrix and everything that can be asked of it.

use std::{sync::Arc, time::Duration};

use drover_model::Name;

use crate::{
    check,
    diagnostic::{Diagnostic, Diagnostics},
    expand::{Expansion, PlannedCell},
    groups::Groups,
    identity::{self, Keys},
    metrics::Metrics,
    scalar::Scalar,
    select::Options,
    soak::Soak,
    source::SourceText,
    spec::{Axis, FileContents, FileReference, Policy, Requirement, Role, Spread, Table},
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
    pub(crate) soak: Option<Soak>,
    pub(crate) table: Table,
    pub(crate) references: Vec<FileReference>,
    /// Largest file for an attempt's folder, in bytes.
    pub(crate) file_limit: u64,
    /// What the command line said.
    pub(crate) options: Options,
    /// Where the file says how cells are spread.
    pub(crate) spread_span: std::ops::Range<usize>,
    pub(crate) expansion: Expansion,
    pub(crate) groups: Groups,
}

impl Parts {
    /// What makes the keys of its cells.
    fn keys(&self) -> Keys {
        let metrics: Vec<_> = self.metrics.iter().collect();
        Keys::new(
            identity::fingerprint(&self.roles, metrics, self.soak.as_ref()),
            self.expansion.space.axes(),
        )
    }
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

    /// The soak that every cell is, if the matrix describes one.
    #[must_use]
    pub fn soak(&self) -> Option<&Soak> {
        self.0.soak.as_ref()
    }

    /// How long the soak of so many cells that run lasts, all together, without the time to start and stop services; zero if
    /// the matrix describes none.
    #[must_use]
    pub fn soak_time(&self, cells: u64) -> Duration {
        self.soak().map_or(Duration::ZERO, |soak| soak.run_time(cells))
    }

    /// Default layout of its table.
    #[must_use]
    pub fn table(&self) -> &Table {
        &self.0.table
    }

    /// The matrix with another number of repetitions of every cell (at least 1), which is no part of a cell's identity. A
    /// soak keeps its only one: whoever asks for more is to be told so by the caller.
    #[must_use]
    pub fn with_repeat(self, repeat: u32) -> Self {
        let mut parts = Arc::unwrap_or_clone(self.0);
        parts.policy.repeat = if parts.soak.is_some() { 1 } else { repeat.max(1) };
        Self(Arc::new(parts))
    }

    /// The matrix measured on these hosts. With `spread: each`, they are the values of the axis `host`, which until then
    /// has the only value `local`; rules and options that name hosts are judged now. Any other matrix stays as it is.
    ///
    /// # Errors
    ///
    /// A rule or an option that fits none of the hosts; more cells than allowed; no host.
    pub fn with_hosts(self, hosts: &[Name]) -> Result<Self, Diagnostics> {
        if self.0.policy.spread == Spread::Any {
            return Ok(self);
        }
        let source = &self.0.source;
        if hosts.is_empty() {
            let help = "name hosts in the host file, and look at `--on`";
            let message = "`spread: each` has no host to measure on";
            return Err(Diagnostic::new(source, self.0.spread_span.clone(), message, help).into());
        }
        let mut once: Vec<Name> = Vec::new();
        for host in hosts {
            if !once.contains(host) {
                once.push(host.clone());
            }
        }
        let spread = crate::read(source, &self.0.options, Some(&once))?;
        let mut parts = Arc::unwrap_or_clone(spread.0);
        // What was loaded and set since it was parsed.
        parts.roles = self.0.roles.clone();
        parts.policy = self.0.policy.clone();
        parts.expansion.keys = parts.keys();
        Ok(Self::new(parts))
    }

    /// The comparison group of a cell, below [`Matrix::group_count`]. Trials of one group stand in one table and are compared
    /// with one another: they stay on the same hosts unless [`Policy::mix_hosts`] lets them mix. With `spread: each`, it
    /// is the place of the cell's host among the values of that axis. The same numbers each time.
    #[must_use]
    pub fn group_of(&self, cell: u32) -> u32 {
        self.0.groups.group_of(cell)
    }

    /// How many comparison groups there are, those of which no cell runs included; 1 at least.
    #[must_use]
    pub fn group_count(&self) -> u32 {
        self.0.groups.count()
    }

    /// Largest file for an attempt's folder, in bytes.
    #[must_use]
    pub fn file_limit(&self) -> u64 {
        self.0.file_limit
    }

    /// Files beside the matrix that must be loaded before rendering. None may be larger than [`Matrix::file_limit`].
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
    /// Mistakes in the files' templates, with the place in that file; a file that is too large, or not UTF-8 and not `raw`.
    pub fn with_files(self, contents: &[Vec<u8>]) -> Result<Self, Diagnostics> {
        let mut parts = Arc::unwrap_or_clone(self.0);
        let mut found = Vec::new();
        let (references, source) = (&parts.references, &parts.source);
        for file in parts.roles.iter_mut().flat_map(|role| &mut role.files) {
            let FileContents::Reference(place) = file.contents else { continue };
            let (Some(reference), Some(bytes)) = (references.get(place), contents.get(place)) else {
                continue;
            };
            let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
            if length > parts.file_limit {
                let limit = parts.file_limit;
                let message = format!("the file `{}` has more than {limit} bytes", reference.path);
                let help =
                    "install what is large on the hosts beforehand, or allow it: limits: { file: SIZE }";
                found.push(Diagnostic::new(source, reference.span.clone(), message, help));
                continue;
            }
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
        parts.expansion.keys = parts.keys();
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
