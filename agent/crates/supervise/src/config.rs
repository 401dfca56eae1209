//! How a [`crate::Supervisor`] is set up, and what it says of that and of orphans.

use std::{io, path::PathBuf, time::Duration};

use crate::KillError;

/// How a [`crate::Supervisor`] works.
#[derive(Clone, Debug)]
pub struct Config {
    /// Tells this agent's processes from those of others on the host; the same for every agent that uses the same
    /// state directory. Letters, digits, `-` and `_`, at most 64.
    pub name: String,
    /// Directory of the agent, existing; the place of the cgroup is recorded in it, so that a later agent finds it.
    pub state_dir: PathBuf,
    /// Use this containment or fail; `None` takes the best that works.
    pub containment: Option<Containment>,
    /// Longest time to wait for killed processes to be gone.
    pub kill_wait: Duration,
}

impl Config {
    /// The best containment that works, 10 s for killed processes.
    #[must_use]
    pub fn new(name: String, state_dir: PathBuf) -> Self {
        Self { name, state_dir, containment: None, kill_wait: Duration::from_secs(10) }
    }
}

/// How process trees are kept together, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Containment {
    /// A cgroup of version 2 per task: nothing leaves it, it is killed as a whole.
    Cgroup2,
    /// A freezer cgroup of version 1 per task: nothing leaves it; frozen, killed, thawed.
    Cgroup1,
    /// A session per task; what leaves it is adopted by the agent and known by an environment variable.
    ProcessGroup,
}

impl Containment {
    /// The word used in host facts: `cgroup2`, `cgroup1`, `process-group`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cgroup2 => "cgroup2",
            Self::Cgroup1 => "cgroup1",
            Self::ProcessGroup => "process-group",
        }
    }

    /// 2, 1, or 0 for none.
    #[must_use]
    pub fn cgroup_version(self) -> u32 {
        match self {
            Self::Cgroup2 => 2,
            Self::Cgroup1 => 1,
            Self::ProcessGroup => 0,
        }
    }
}

/// Why a supervisor could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// The name cannot be part of a path or of an environment variable.
    #[error("`{0}` is not a name for a supervisor: letters, digits, `-` and `_`, 1 to 64 of them")]
    BadName(String),
    /// The containment that the configuration insists on does not work here.
    #[error("containment {containment} does not work on this host: {reason}", containment = containment.as_str())]
    Unavailable {
        /// What was asked for.
        containment: Containment,
        /// Why not.
        reason: String,
    },
    /// A system call or file that everything needs failed.
    #[error("cannot set up process supervision: {step}")]
    System {
        /// What was being done.
        step: &'static str,
        /// Why.
        source: io::Error,
    },
}

/// What an earlier agent of the same name had left, now killed and proven gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrphanReport {
    /// The task, where the processes still said so in their environment.
    pub task: Option<String>,
    /// The processes killed.
    pub pids: Vec<u32>,
}

/// Why orphans may still be there.
#[derive(Debug, thiserror::Error)]
pub enum OrphanError {
    /// What was left could not be found.
    #[error("cannot look for processes of an earlier agent: {step}")]
    Find {
        /// What was being done.
        step: &'static str,
        /// Why.
        source: io::Error,
    },
    /// What was found could not be killed.
    #[error("cannot end processes of an earlier agent")]
    Kill(#[from] KillError),
}
