//! What must be true before a task's process is made: its files are there, its ports are free, its CPUs exist.

use std::{path::PathBuf, sync::Arc};

use drover_model::{NotStarted, TaskSpec};
use drover_supervise::{CpuSet, SpawnError, ports, resolve};

use super::{Unstarted, files};
use crate::{agent::Agent, text::chain};

/// What a process is started with.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) cwd: PathBuf,
    pub(super) argv: Vec<String>,
    pub(super) env: Vec<(String, String)>,
    pub(super) cpus: Option<CpuSet>,
}

/// Writes a task's files into its attempt's folder. Those with blobs may be long, so another thread copies them.
pub(super) async fn stage(agent: &Arc<Agent>, spec: &TaskSpec) -> Result<(), Unstarted> {
    let cwd = agent.dir.paths.work().join(spec.id.attempt.to_string());
    if spec.files.iter().all(|file| file.blob.is_none()) {
        return files::stage(&cwd, &spec.files, &agent.blobs);
    }
    let (blobs, staged) = (Arc::clone(&agent.blobs), spec.files.clone());
    let staging = tokio::task::spawn_blocking(move || files::stage(&cwd, &staged, &blobs));
    staging.await.unwrap_or_else(|error| {
        Err(Unstarted { cause: NotStarted::Other, detail: format!("its files were not written: {error}") })
    })
}

/// Prepares a task whose files are there.
pub(super) fn prepare(agent: &Agent, spec: &TaskSpec) -> Result<Prepared, Unstarted> {
    let attempt = spec.id.attempt.to_string();
    let cwd = agent.dir.paths.work().join(&attempt);
    check_ports(&spec.ports)?;
    let cpus = match spec.placement {
        Some(wanted) => {
            let resolved = resolve(&agent.cores(), wanted);
            Some(
                resolved
                    .map_err(|error| Unstarted { cause: NotStarted::WrongCpus, detail: chain(&error) })?,
            )
        }
        None => None,
    };
    let mut env = agent.base_env.clone();
    let marks = [
        ("TMPDIR", cwd.display().to_string()),
        ("DROVER_RUN", spec.id.attempt.run.to_string()),
        ("DROVER_ATTEMPT", attempt),
    ];
    env.extend(marks.map(|(name, value)| (name.to_owned(), value)));
    env.extend(spec.env.iter().cloned());
    Ok(Prepared { cwd, argv: agent.own.resolve(&spec.argv), env, cpus })
}

fn check_ports(numbers: &[u16]) -> Result<(), Unstarted> {
    if numbers.is_empty() {
        return Ok(());
    }
    ports::check_free(numbers).map_err(|error| {
        let taken = matches!(error, ports::PortError::Taken { .. });
        let cause = if taken { NotStarted::PortTaken } else { NotStarted::Other };
        Unstarted { cause, detail: chain(&error) }
    })
}

impl From<SpawnError> for Unstarted {
    fn from(error: SpawnError) -> Self {
        let cause = match &error {
            SpawnError::NotFound { .. } | SpawnError::NoInterpreter { .. } => NotStarted::NotFound,
            SpawnError::Permission { .. } | SpawnError::Exec { .. } => NotStarted::Permission,
            SpawnError::Cpus { .. } => NotStarted::WrongCpus,
            SpawnError::NeverReleased => NotStarted::Cancelled,
            SpawnError::WorkingDirectory { source, .. } | SpawnError::System { source, .. }
                if crate::text::is_disk_full(source) =>
            {
                NotStarted::DiskFull
            }
            SpawnError::WorkingDirectory { .. } | SpawnError::Invalid(_) | SpawnError::System { .. } => {
                NotStarted::Other
            }
        };
        Self { cause, detail: chain(&error) }
    }
}
