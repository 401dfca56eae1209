//! Why an agent cannot be reached, and what to do about it.

use std::{io, path::PathBuf, time::Duration};

use drover_agent::DirError;
use drover_proto::ConversionError;

use crate::{SshError, TlsError, VmError};

/// Why an agent cannot be reached.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// Its state directory is not usable.
    #[error("cannot use the agent's directory")]
    Dir(#[from] DirError),
    /// The lock that keeps two controllers from starting two agents cannot be had.
    #[error("cannot lock `{}`", path.display())]
    Lock {
        /// The lock file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Another controller has that lock for too long.
    #[error(
        "another controller has been starting an agent for {} s and does not finish; end it, it holds `{}`",
        waited.as_secs(), path.display()
    )]
    Busy {
        /// The lock file.
        path: PathBuf,
        /// How long was waited.
        waited: Duration,
    },
    /// The agent's program cannot be executed.
    #[error("cannot start the agent `{command}`")]
    Spawn {
        /// The command.
        command: String,
        /// Why.
        source: io::Error,
    },
    /// The agent ended instead of serving.
    #[error("the agent did not start ({status}): {said}; its log is `{}`", log.display())]
    Start {
        /// How it ended.
        status: String,
        /// What it wrote to standard error.
        said: String,
        /// Its log.
        log: PathBuf,
    },
    /// The agent neither serves nor ends.
    #[error("the agent did not start within {} s and was killed; see its log `{}`", waited.as_secs(), log.display())]
    Slow {
        /// How long was waited.
        waited: Duration,
        /// Its log.
        log: PathBuf,
    },
    /// The socket cannot be connected to.
    #[error("cannot connect to the agent at `{}`", path.display())]
    Socket {
        /// The socket.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Something answers that does not speak HTTP/2.
    #[error("what listens at `{}` is no agent, or it is ending; see the agent's log `{}`", path.display(), log.display())]
    Transport {
        /// The socket.
        path: PathBuf,
        /// Its log.
        log: PathBuf,
        /// Why.
        source: tonic::transport::Error,
    },
    /// It is connected and does not answer.
    #[error("the agent at `{}` does not answer within {} s; see its log `{}`", path.display(), waited.as_secs(), log.display())]
    Silent {
        /// The socket.
        path: PathBuf,
        /// How long was waited.
        waited: Duration,
        /// Its log.
        log: PathBuf,
    },
    /// It answers with an error.
    #[error("the agent at `{}` refuses: {message}; see its log `{}`", path.display(), log.display())]
    Refused {
        /// The socket.
        path: PathBuf,
        /// What it says.
        message: String,
        /// Its log.
        log: PathBuf,
    },
    /// It is of a version that speaks another protocol.
    #[error(
        "the agent at `{}` is of another version: {message}; end it when its tasks are over (its process id is in `lock` beside the socket)",
        path.display()
    )]
    Protocol {
        /// The socket.
        path: PathBuf,
        /// What is different.
        message: String,
    },
    /// Its host cannot be reached over ssh, or no agent be had there.
    #[error(transparent)]
    Ssh(#[from] SshError),
    /// Its host has no resident agent that this controller may talk to.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// It is a virtual machine that cannot be had.
    #[error(transparent)]
    Vm(#[from] VmError),
    /// Its answer is malformed.
    #[error("the agent's answer is not valid")]
    Reply(#[from] ConversionError),
}

impl ConnectError {
    /// Whether trying again would not help before somebody has changed something.
    #[must_use]
    pub fn is_permanent(&self) -> bool {
        match self {
            Self::Ssh(error) => error.is_permanent(),
            Self::Tls(error) => error.is_permanent(),
            // It was tried as often as makes sense.
            Self::Protocol { .. } | Self::Vm(_) => true,
            _ => false,
        }
    }
}
