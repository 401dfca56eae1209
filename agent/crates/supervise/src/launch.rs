//! What is to be started, and why a start failed. Used by the agent to describe a task to [`crate::Supervisor`].

use std::{
    io,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
};

use crate::CpuSet;

/// What to start.
#[derive(Debug)]
pub struct Launch<'a> {
    /// Name of the task, unique among the running ones and safe as a file name; becomes part of the environment
    /// variable `DROVER_TASK`.
    pub task: &'a str,
    /// Command and arguments. A command without a slash is looked up in the `PATH` of `env`.
    pub argv: &'a [String],
    /// The whole environment (later entries win), usually [`clean_env`] and what the task adds.
    pub env: &'a [(String, String)],
    /// Working directory, absolute; a relative command path is taken from here.
    pub cwd: &'a Path,
    /// CPUs it may use, set before `exec`; `None` leaves the mask of the calling thread.
    pub cpus: Option<&'a CpuSet>,
    /// Stop right before `exec` until [`crate::Child::release`].
    pub hold: bool,
    /// Standard output. Closed here once the task has it, so that its end is seen.
    pub stdout: OwnedFd,
    /// Standard error, likewise. Standard input is `/dev/null`.
    pub stderr: OwnedFd,
}

/// Why a task did not start.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// The command does not exist.
    #[error("no command `{command}`{place}")]
    NotFound {
        /// As written in the task.
        command: String,
        /// Where it was looked for, as the end of the sentence.
        place: String,
    },
    /// The command is a script whose interpreter (or a program whose loader) does not exist.
    #[error("`{}` needs the interpreter `{interpreter}`, which does not exist", path.display())]
    NoInterpreter {
        /// The script.
        path: PathBuf,
        /// What its first line names.
        interpreter: String,
    },
    /// The command exists but may not be executed, or a folder on the way to it is closed.
    #[error("`{}` cannot be executed: permission denied; is it executable (chmod +x)?", path.display())]
    Permission {
        /// What was to be executed.
        path: PathBuf,
    },
    /// The working directory cannot be entered.
    #[error("cannot enter the working directory `{}`", path.display())]
    WorkingDirectory {
        /// The directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The CPUs cannot be had: offline, or outside of what the agent itself may use.
    #[error("cannot run on CPUs {cpus}")]
    Cpus {
        /// The CPUs asked for.
        cpus: CpuSet,
        /// Why.
        source: io::Error,
    },
    /// Empty argv, a NUL byte, a name that is not a file name, and the like.
    #[error("not a valid command: {0}")]
    Invalid(String),
    /// `exec` failed for another reason.
    #[error("cannot execute `{}`", path.display())]
    Exec {
        /// What was to be executed.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The process or its containment could not be made.
    #[error("cannot start a process: {step}")]
    System {
        /// What was being done.
        step: &'static str,
        /// Why.
        source: io::Error,
    },
    /// A held task was killed, or the agent's end of its gate was lost, before it was released.
    #[error("ended before it was released")]
    NeverReleased,
}

/// The environment every task starts from: `PATH`, `HOME`, `USER`, `LOGNAME`, `SHELL`, `TMPDIR` and `TZ` as the agent
/// has them, and `LC_ALL=C.UTF-8`, so that what the tools print does not depend on the host's language.
#[must_use]
pub fn clean_env() -> Vec<(String, String)> {
    const KEPT: [&str; 7] = ["PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "TZ"];
    let mut env: Vec<_> =
        KEPT.iter().filter_map(|&name| Some((name.to_owned(), std::env::var(name).ok()?))).collect();
    if !env.iter().any(|(name, _)| name == "PATH") {
        env.push((
            "PATH".to_owned(),
            "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".to_owned(),
        ));
    }
    env.push(("LC_ALL".to_owned(), "C.UTF-8".to_owned()));
    env
}
