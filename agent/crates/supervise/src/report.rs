//! What [`crate::Child`] tells about a task: its end, its affinity, and why something could not be told or done.

use std::io;

use drover_model::Usage;

use crate::CpuSet;

/// How the first process of a task ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit {
    /// Status.
    pub status: ExitStatus,
    /// Resources used by the first process and all descendants that were waited for.
    ///
    /// `max_rss_bytes` is 0 when it cannot be known: the kernel counts the memory of the supervising process as a
    /// child's own until `exec`, so a peak that is not above that one says nothing.
    pub usage: Usage,
}

/// Exit status or signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitStatus {
    /// Exited with this status.
    Exited(i32),
    /// Ended by this signal.
    Signaled(i32),
}

/// What [`crate::Child::kill_tree`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KillReport {
    /// Processes that were alive and were killed; a lower bound for a tree that was forking.
    pub killed: u32,
}

/// A process that could not be killed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Survivor {
    /// Process id.
    pub pid: u32,
    /// Command name.
    pub comm: String,
    /// State letter of `/proc/PID/stat`; `D` is an uninterruptible wait in the kernel.
    pub state: char,
}

/// Why a tree is not proven gone.
#[derive(Debug, thiserror::Error)]
pub enum KillError {
    /// Processes outlived SIGKILL for the whole time allowed.
    #[error(
        "{} did not end within {waited_ms} ms after SIGKILL; a process in state D waits for the kernel, and only a reboot helps if it stays so",
        list(survivors)
    )]
    Unkillable {
        /// Which.
        survivors: Vec<Survivor>,
        /// How long was waited, in milliseconds.
        waited_ms: u128,
    },
    /// The containment could not be read or written.
    #[error("cannot kill the process tree: {step}")]
    System {
        /// What was being done.
        step: &'static str,
        /// Why.
        source: io::Error,
    },
}

fn list(survivors: &[Survivor]) -> String {
    const NAMED: usize = 5;
    let each =
        survivors.iter().take(NAMED).map(|s| format!("process {} ({}, state {})", s.pid, s.comm, s.state));
    let named = each.collect::<Vec<_>>().join(", ");
    match survivors.len().saturating_sub(NAMED) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

/// Why a task's state could not be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot inspect the process tree: {step}")]
pub struct InspectError {
    /// What was being done.
    pub step: &'static str,
    /// Why.
    pub source: io::Error,
}

/// CPUs that the threads of a tree may use, as the kernel says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Affinity {
    /// All CPUs that any thread may use.
    pub union: CpuSet,
    /// Every distinct mask with one thread that has it, in the order found; more than one when threads differ.
    pub masks: Vec<(u32, CpuSet)>,
}

/// A thread may use CPUs outside of those asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("thread {thread} may run on CPUs {actual}, the task asks for {expected}")]
pub struct AffinityError {
    /// Thread id.
    pub thread: u32,
    /// What it may use.
    pub actual: CpuSet,
    /// What was asked for.
    pub expected: CpuSet,
}

impl Affinity {
    /// Checks that no thread may use a CPU outside of `expected`, and that together they may use all of it (a task is
    /// free to place its own threads within the set).
    ///
    /// # Errors
    ///
    /// Names the first thread that may run elsewhere, or one with a narrower mask if part of the set is unused.
    pub fn verify(&self, expected: &CpuSet) -> Result<(), AffinityError> {
        let outside = self.masks.iter().find(|(_, mask)| !mask.is_subset(expected));
        let narrow = self.masks.first().filter(|_| !expected.is_subset(&self.union));
        match outside.or(narrow) {
            None => Ok(()),
            Some((thread, mask)) => {
                Err(AffinityError { thread: *thread, actual: mask.clone(), expected: expected.clone() })
            }
        }
    }
}
