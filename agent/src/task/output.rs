//! The two output streams of a task: read from the event loop, kept within bounds, readable by others at any time.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

use drover_model::{OutputSummary, TaskId};
use drover_supervise::{Capture, KeptOutput, Pumped, output_pipe};
use tokio::io::unix::AsyncFd;

use super::ears::Ears;
use crate::{agent::Agent, fd};

/// Index of standard output.
pub(super) const STDOUT: usize = 0;
/// Index of standard error.
pub(super) const STDERR: usize = 1;

/// Turns taken to read what is left in a pipe whose writers are gone; each reads up to 4 MiB, more than a pipe holds.
const DRAIN_TURNS: usize = 8;

/// What a running task wrote so far.
#[derive(Debug)]
pub struct Outputs {
    captures: [Mutex<Capture>; 2],
}

impl Outputs {
    /// Nothing yet; `limit` bytes will be kept of each stream, in files below `dir` if they are many.
    #[must_use]
    pub fn new(dir: &Path, task: &TaskId, limit: u64) -> Self {
        Self {
            captures: [STDOUT, STDERR]
                .map(|stream| Mutex::new(Capture::new(path_of(dir, task, stream), limit))),
        }
    }

    fn capture(&self, stream: usize) -> MutexGuard<'_, Capture> {
        let capture = if stream == STDERR { &self.captures[STDERR] } else { &self.captures[STDOUT] };
        capture.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was kept of a stream so far.
    #[must_use]
    pub fn reader(&self, stderr: bool) -> KeptOutput {
        self.capture(usize::from(stderr)).reader()
    }

    /// What was kept of a stream of a task that has ended.
    ///
    /// # Errors
    /// When its file cannot be opened.
    pub fn reopen(
        dir: &Path,
        task: &TaskId,
        stderr: bool,
        limit: u64,
        summary: &OutputSummary,
    ) -> io::Result<KeptOutput> {
        let path = path_of(dir, task, usize::from(stderr));
        KeptOutput::open(&path, limit, summary.written)
    }

    /// Removes the files of a task's outputs.
    pub fn remove(dir: &Path, task: &TaskId) {
        [STDOUT, STDERR].iter().for_each(|&stream| super::remove(&path_of(dir, task, stream)));
    }

    /// The summaries for the end event.
    pub(super) fn finish(&self, task: &TaskId) -> [OutputSummary; 2] {
        [STDOUT, STDERR].map(|stream| {
            let mut capture = self.capture(stream);
            let summary = capture.finish();
            if let Some(error) = capture.error() {
                tracing::warn!(%task, error = %crate::text::chain(error), "output is cut");
            }
            summary
        })
    }
}

fn path_of(dir: &Path, task: &TaskId, stream: usize) -> PathBuf {
    let extension = if stream == STDERR { "err" } else { "out" };
    dir.join(format!("{task}.{extension}"))
}

/// The agent's ends of a task's output pipes.
#[derive(Debug)]
pub(super) struct Pipes {
    ends: [Option<AsyncFd<OwnedFd>>; 2],
}

impl Pipes {
    /// New pipes: the agent's ends, and the task's.
    pub(super) fn new() -> io::Result<(Self, [OwnedFd; 2])> {
        let (stdout, stdout_of_task) = output_pipe()?;
        let (stderr, stderr_of_task) = output_pipe()?;
        let ends = [Some(fd::watch(stdout)?), Some(fd::watch(stderr)?)];
        Ok((Self { ends }, [stdout_of_task, stderr_of_task]))
    }

    /// Waits until a stream has something to read, and takes it in. Never returns once both have ended.
    pub(super) async fn pump(&mut self, agent: &Agent, outputs: &Outputs, ears: &Ears) {
        let [stdout, stderr] = &self.ends;
        let (stream, more) = tokio::select! {
            more = pump_one(stdout.as_ref(), STDOUT, agent, outputs, ears) => (STDOUT, more),
            more = pump_one(stderr.as_ref(), STDERR, agent, outputs, ears) => (STDERR, more),
        };
        match more {
            Pumped::End => self.close(stream),
            // A task that writes without pause must not keep the loop from the others.
            Pumped::More => tokio::task::yield_now().await,
            Pumped::Blocked => {}
        }
    }

    fn close(&mut self, stream: usize) {
        if let Some(end) = self.ends.get_mut(stream) {
            *end = None;
        }
    }

    /// Reads what is left. To be called when no process of the task is left.
    pub(super) fn drain(&self, agent: &Agent, outputs: &Outputs, ears: &Ears) {
        for (stream, end) in self.ends.iter().enumerate() {
            let Some(end) = end else { continue };
            let mut turns = DRAIN_TURNS;
            while turns > 0 && read(end, stream, agent, outputs, ears) == Pumped::More {
                turns -= 1;
            }
        }
    }
}

async fn pump_one(
    end: Option<&AsyncFd<OwnedFd>>,
    stream: usize,
    agent: &Agent,
    outputs: &Outputs,
    ears: &Ears,
) -> Pumped {
    let Some(end) = end else { return std::future::pending().await };
    let Ok(mut guard) = end.readable().await else { return Pumped::End };
    let pumped = read(end, stream, agent, outputs, ears);
    if pumped == Pumped::Blocked {
        guard.clear_ready();
    }
    pumped
}

fn read(end: &AsyncFd<OwnedFd>, stream: usize, agent: &Agent, outputs: &Outputs, ears: &Ears) -> Pumped {
    let mut scratch = agent.scratch();
    let mut seen = |piece: &[u8]| ears.feed(stream, piece);
    // A pipe that cannot be read has nothing more for us.
    outputs.capture(stream).pump(end.get_ref().as_fd(), &mut scratch, &mut seen).unwrap_or(Pumped::End)
}
