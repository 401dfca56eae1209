//! Rendering: a role and a cell become what a task needs, fast enough to be done for every task.

use std::{net::IpAddr, time::Duration};

use drover_model::{Cell, Name, Placement, ReadyCheck, RunId, StagedFile, StopPolicy};

use crate::matrix::Matrix;

/// Where a role of this trial can be reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Address of its host as seen by the other roles.
    pub address: IpAddr,
    /// Numbers of its ports, in the order of [`crate::Role::ports`].
    pub ports: Vec<u16>,
}

/// What is known about a trial when its tasks are rendered.
#[derive(Clone, Copy, Debug)]
pub struct RenderContext<'a> {
    /// The run: variable `run`.
    pub run: RunId,
    /// Variable `repetition`, from 1.
    pub repetition: u32,
    /// The attempt's folder on the role's host: variable `dir`.
    pub dir: &'a str,
    /// One per role, in the order of [`Matrix::roles`].
    pub endpoints: &'a [Endpoint],
}

/// What a task needs.
#[derive(Clone, Debug, PartialEq)]
pub struct RenderedRole {
    /// Command and arguments.
    pub argv: Vec<String>,
    /// Environment variables.
    pub env: Vec<(String, String)>,
    /// Files for the attempt's folder.
    pub files: Vec<StagedFile>,
    /// Conditions of readiness.
    pub ready: Vec<ReadyCheck>,
    /// Time allowed until ready.
    pub ready_within: Duration,
    /// CPUs asked for.
    pub placement: Option<Placement>,
    /// Time allowed from the start.
    pub deadline: Duration,
    /// How it is asked to end.
    pub stop: StopPolicy,
    /// Bytes kept of each output stream.
    pub output_limit: u64,
    /// Ports that it listens on.
    pub ports: Vec<u16>,
}

/// Why a role cannot be rendered for a cell.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: `{template}` for {cell}: {problem}")]
pub struct RenderError {
    /// The part of the matrix: `roles.server.run[3]`.
    pub place: String,
    /// The template as written.
    pub template: String,
    /// The cell's axes and values.
    pub cell: String,
    /// What happened.
    pub problem: String,
}

/// Prepared templates of a matrix.
#[derive(Debug)]
pub struct Renderer {
    roles: Vec<Name>,
}

impl Renderer {
    /// Prepares the templates of a matrix, once per run. Files must have been loaded ([`Matrix::with_files`]).
    ///
    /// # Errors
    ///
    /// A template that does not compile (only in files never given to `with_files`).
    pub fn new(matrix: &Matrix) -> Result<Self, RenderError> {
        Ok(Self { roles: matrix.roles().iter().map(|role| role.name.clone()).collect() })
    }

    /// What the task of a role needs in a cell. `role` is its place in [`Matrix::roles`].
    ///
    /// # Errors
    ///
    /// A template that fails for this cell, or gives something that cannot be used (an address that is none).
    pub fn render(
        &self,
        role: usize,
        cell: &Cell,
        context: &RenderContext<'_>,
    ) -> Result<RenderedRole, RenderError> {
        let _ = (role, context, &self.roles);
        Err(RenderError {
            place: String::new(),
            template: String::new(),
            cell: cell.to_string(),
            problem: String::new(),
        })
    }
}
