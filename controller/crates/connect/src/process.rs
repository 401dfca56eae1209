//! Starts an agent on this machine as a process of its own.
//!
//! It gets a session of its own, so that neither Ctrl-C nor the end of the terminal reaches it, and it outlives the
//! controller. It says over its standard output when it serves; until then its standard error is kept for the message.

use std::{
    ffi::{OsStr, OsString},
    path::Path,
    process::{ExitStatus, Stdio},
    time::Duration,
};

use drover_agent::{EXIT_TAKEN, Paths, READY_LINE};
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    process::{Child, Command},
    time::timeout,
};

use crate::ConnectError;

/// Longest time for an agent to start; it has to end what an earlier one left behind.
const START_LIMIT: Duration = Duration::from_secs(20);

/// Most bytes of an error message that are kept.
const MAX_SAID: u64 = 16 << 10;

/// An agent that this process started. Dropping it does not end the agent.
#[derive(Debug)]
pub struct AgentProcess {
    child: Child,
    pid: u32,
}

impl AgentProcess {
    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Waits until it has ended, as it does soon after `Shutdown`.
    ///
    /// # Errors
    /// When its status was taken by someone else.
    pub async fn wait(&mut self) -> std::io::Result<ExitStatus> {
        self.child.wait().await
    }
}

/// What became of the start.
#[derive(Debug)]
pub(crate) enum Started {
    /// It serves.
    Serving(AgentProcess),
    /// Another agent has the directory.
    Taken,
}

/// Starts an agent and waits until it serves. `command` is its program and what comes before its subcommand.
pub(crate) async fn start(
    command: &[OsString],
    paths: &Paths,
    linger: Duration,
) -> Result<Started, ConnectError> {
    let mut child = spawn(command, paths.root(), linger)?;
    let pid = child.id().unwrap_or_default();
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let waited = timeout(START_LIMIT, async {
        let (said_ready, said) = tokio::join!(says_ready(stdout), says(stderr));
        // Its standard output ended: it has closed it, or it has ended.
        let status = if said_ready { None } else { Some(child.wait().await) };
        (status, said)
    });
    let (status, said) = match waited.await {
        Ok(said) => said,
        Err(_) => {
            // It may have ended just now, which is as good.
            let _ = child.kill().await;
            return Err(ConnectError::Slow { waited: START_LIMIT, log: paths.log() });
        }
    };
    let status = match status {
        None => return Ok(Started::Serving(AgentProcess { child, pid })),
        Some(Ok(status)) if status.code() == Some(i32::from(EXIT_TAKEN)) => return Ok(Started::Taken),
        Some(Ok(status)) => status.to_string(),
        Some(Err(error)) => error.to_string(),
    };
    Err(ConnectError::Start { status, said: said.trim().to_owned(), log: paths.log() })
}

fn spawn(command: &[OsString], dir: &Path, linger: Duration) -> Result<Child, ConnectError> {
    let (program, prefix) =
        command.split_first().map_or((OsStr::new(""), command), |(first, rest)| (first, rest));
    let linger = format!("{}ms", linger.as_millis());
    Command::new(program)
        .args(prefix)
        .args([OsStr::new("serve"), OsStr::new("--detach"), OsStr::new("--linger"), OsStr::new(&linger)])
        .args([OsStr::new("--dir"), dir.as_os_str()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|source| ConnectError::Spawn { command: program.to_string_lossy().into_owned(), source })
}

async fn says_ready(stdout: Option<impl AsyncRead + Unpin>) -> bool {
    let mut line = vec![0; READY_LINE.len()];
    match stdout {
        Some(mut stdout) => stdout.read_exact(&mut line).await.is_ok() && line == READY_LINE.as_bytes(),
        None => false,
    }
}

async fn says(stderr: Option<impl AsyncRead + Unpin>) -> String {
    let mut said = Vec::new();
    if let Some(stderr) = stderr {
        // What was read until an error is good enough for a message.
        let _ = stderr.take(MAX_SAID).read_to_end(&mut said).await;
    }
    String::from_utf8_lossy(&said).into_owned()
}
