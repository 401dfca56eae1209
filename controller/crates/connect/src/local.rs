//! The agent of this machine: reached through its Unix socket, started when none answers.

use std::{ffi::OsString, path::PathBuf};

use crate::Connection;

/// How to reach, and if need be to start, the agent of this machine.
#[derive(Clone, Debug)]
pub struct LocalOptions {
    /// The agent's folder; `None` for the default of this user.
    pub agent_dir: Option<PathBuf>,
    /// Program and arguments to which `serve ...` is appended to start an agent.
    pub program: Vec<OsString>,
}

impl LocalOptions {
    /// The agent of this user, started by this program (with its first arguments) when none answers.
    #[must_use]
    pub fn new(program: Vec<OsString>) -> Self {
        Self { agent_dir: None, program }
    }
}

/// Why the agent of this machine could not be reached.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// It was not started.
    #[error("no agent answers in {}, and none could be started", dir.display())]
    NotStarted {
        /// The agent's folder.
        dir: PathBuf,
    },
}

/// Connects to the agent of this machine, starting one if none answers.
///
/// # Errors
///
/// It neither answers nor starts.
pub async fn connect_local(options: &LocalOptions) -> Result<Connection, ConnectError> {
    Err(ConnectError::NotStarted { dir: options.agent_dir.clone().unwrap_or_default() })
}
