//! The matrix file: parse, check, expand, plan, render, evaluate. Pure: bytes in, a checked [`Matrix`] or all
//! diagnostics out; no file is opened and no process started here.
//!
//! How the controller uses it:
//!
//! 1. [`parse`] turns the bytes of a file and the command line's [`Options`] into a [`Matrix`], or into
//!    [`Diagnostics`] that name every mistake with its place and remedy.
//! 2. If [`Matrix::file_references`] names files, the controller loads them and calls [`Matrix::with_files`].
//! 3. [`Matrix::cells`] expands lazily; [`plan`] fixes the order of all trials from a seed.
//! 4. A [`Renderer`], prepared once, turns a role and a cell into what a task needs.
//! 5. [`Metrics::evaluate`] turns the samples of a trial into its metrics, [`Metrics::failures`] checks them.
//!
//! [`parse_hosts`] does the same for the file that names the hosts. With `spread: each`, the matrix learns which of them it
//! is measured on by [`Matrix::with_hosts`].

mod boots;
mod check;
mod compiled;
mod decode;
mod diagnostic;
mod expand;
mod expr;
mod groups;
mod hosts;
mod identity;
mod instances;
mod keys;
mod lex;
mod matrix;
mod merged;
mod metrics;
mod plan;
mod range;
mod render;
mod rendered;
mod rng;
mod scalar;
mod schema;
mod scope;
mod select;
mod soak;
mod source;
mod space;
mod spec;
mod suggest;
mod syntax;
mod template;
mod tree;
mod weights;
mod words;

pub use boots::{Boots, boots};
pub use diagnostic::{Diagnostic, Diagnostics, FancyDiagnostics};
pub use expand::PlannedCell;
pub use hosts::{
    Boot, BootKernel, BootMethod, CpuWord, CpusBy, HostEntry, HostFile, HostLimits, KernelEntry,
    KernelSource, Power, Reach, SshReach, TlsReach, VmAccelerator, VmReach,
};
pub use matrix::Matrix;
pub use metrics::{MetricError, MetricErrors, Metrics, MustFailure, RoleSamples};
pub use plan::{Block, Plan, Trials, plan};
pub use render::Renderer;
pub use rendered::{Endpoint, RenderContext, RenderError, RenderedRole};
pub use select::Options;
pub use soak::{Load, Soak, SoakUntil};
pub use source::{Location, Source};
pub use spec::{
    Across, Axis, Command, ExitStatuses, FileContents, FileReference, Metric, Order, Policy, Port,
    ReadyTemplate, Requirement, Role, RoleFile, SampleSource, Spread, Table,
};
pub use template::Template;
pub use weights::{Weight, Weights};

/// Parses and checks a matrix file, narrowed by the command line's options.
///
/// # Errors
///
/// All mistakes of the file and of the options, in one go.
pub fn parse(source: &Source, options: &Options) -> Result<Matrix, Diagnostics> {
    let text = syntax::decode_utf8(source, source::MATRIX)?;
    read(&text, options, None)
}

/// The same for a text; `hosts` are the values of the axis `host`, once they are known.
fn read(
    text: &source::SourceText,
    options: &Options,
    hosts: Option<&[drover_model::Name]>,
) -> Result<Matrix, Diagnostics> {
    let (root, found) = tree::build(text);
    let mut problems = decode::Problems::new(text.clone());
    problems.extend(found);
    let Some(root) = root else {
        if problems.is_empty() {
            let help = "a matrix begins with `version: 1`; `matrices/quickstart.yaml` is a short one";
            problems.add(0..0, "the file is empty", help);
        }
        return Err(collected(problems.into_list(), text));
    };
    let Some(draft) = decode::root(&root, hosts, &mut problems) else {
        return Err(collected(problems.into_list(), text));
    };
    match check::check(draft, options, hosts.is_some(), problems) {
        Ok(parts) => Ok(Matrix::new(parts)),
        Err(list) => Err(collected(list, text)),
    }
}

/// The mistakes in order; there is always at least one where this is called.
fn collected(list: Vec<Diagnostic>, text: &source::SourceText) -> Diagnostics {
    let unknown = || {
        Diagnostic::new(text, 0..0, "the file cannot be read as a matrix", "this is a fault of the program")
    };
    Diagnostics::collect(list).unwrap_or_else(|| unknown().into())
}

/// Parses and checks a host file.
///
/// # Errors
///
/// All mistakes of the file, in one go.
pub fn parse_hosts(source: &Source) -> Result<HostFile, Diagnostics> {
    hosts::parse(source)
}

/// Whether a text looks like a host file rather than a matrix: it has `hosts` at its top, and neither `axes` nor `roles`.
#[must_use]
pub fn is_host_file(text: &[u8]) -> bool {
    let has = |key: &[u8]| {
        text.split(|byte| *byte == b'\n')
            .any(|line| line.strip_prefix(key).is_some_and(|rest| rest.starts_with(b":")))
    };
    has(b"hosts") && !has(b"axes") && !has(b"roles")
}

/// The JSON Schema of the host file, for editors.
#[must_use]
pub fn hosts_schema() -> String {
    hosts::schema()
}

/// The JSON Schema of the matrix file, for editors (`# yaml-language-server: $schema=schema.json`).
#[must_use]
pub fn schema() -> String {
    schema::text()
}
