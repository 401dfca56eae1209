//! What rendering needs to know of a trial, and what it gives: plain types for the controller.

use std::{net::IpAddr, time::Duration};

use drover_model::{Name, Placement, ReadyCheck, RunId, StagedFile, StopPolicy};

use crate::template::Failure;

/// Where one instance of a role of this trial can be reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Name of its host.
    pub host: Name,
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
    /// Which instance of its role is rendered, from 0: variable `instance`.
    pub instance: u32,
    /// The instances of every role, in the order of [`crate::Matrix::roles`].
    pub endpoints: &'a [Vec<Endpoint>],
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

impl RenderError {
    pub(crate) fn new(failure: &Failure, cell: impl ToString) -> Self {
        let template = failure.template.as_str();
        let shown: String = template.chars().take(200).collect();
        let cut = if shown.len() < template.len() { "..." } else { "" };
        Self {
            place: failure.place.clone(),
            template: shown + cut,
            cell: cell.to_string(),
            problem: failure.message.clone(),
        }
    }
}
