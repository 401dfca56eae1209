//! A running task: its first process and everything that descends from it. Made by [`crate::Supervisor::spawn`], driven by the agent.

use std::{io, os::fd::BorrowedFd};

use drover_model::Usage;

use crate::{CpuSet, SpawnError};

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

/// What [`Child::kill_tree`] did.
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
    #[error("{} cannot be killed after {waited_ms} ms; the host needs a reboot", list(survivors))]
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
    let each = survivors.iter().map(|s| format!("process {} ({}, state {})", s.pid, s.comm, s.state));
    each.collect::<Vec<_>>().join(", ")
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

/// A running task. Dropping it kills the whole tree (without proof; call [`Self::kill_tree`] for that).
#[derive(Debug)]
pub struct Child {}

impl Child {
    /// Process id of the first process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        unimplemented!()
    }

    /// Readable when the first process has ended; for the agent's event loop.
    #[must_use]
    pub fn pidfd(&self) -> BorrowedFd<'_> {
        unimplemented!()
    }

    /// Opens the gate of a held task. Only writes one byte, so that many tasks can be released at one instant; does
    /// nothing for a task that was not held or is already released.
    ///
    /// # Errors
    ///
    /// When the held process is gone.
    pub fn release(&mut self) -> Result<(), SpawnError> {
        unimplemented!()
    }

    /// Waits until a released task has executed its command (some 0.3 ms), or says why it could not. For a task that
    /// was not held [`crate::Supervisor::spawn`] has said so already.
    ///
    /// # Errors
    ///
    /// Those of `spawn` that concern the command.
    pub fn await_exec(&mut self) -> Result<(), SpawnError> {
        unimplemented!()
    }

    /// Status and usage of the first process, if it has ended. Never blocks; the answer is kept.
    ///
    /// # Errors
    ///
    /// When the status was taken by someone else.
    pub fn try_wait(&mut self) -> Result<Option<Exit>, InspectError> {
        unimplemented!()
    }

    /// Sends a signal to the first process. One that has ended gets nothing, and that is no error.
    ///
    /// # Errors
    ///
    /// An unknown signal number, or a process of another user.
    pub fn signal(&self, signal: i32) -> Result<(), InspectError> {
        let _ = signal;
        unimplemented!()
    }

    /// Whether the first process and all that descend from it are gone. Cheap: two system calls in a cgroup.
    ///
    /// # Errors
    ///
    /// When the containment cannot be read.
    pub fn is_gone(&self) -> Result<bool, InspectError> {
        unimplemented!()
    }

    /// Kills the whole tree, descendants that left the session included, and returns when it is proven gone. Takes
    /// microseconds if nothing is left, below 10 ms as a rule, [`crate::Config::kill_wait`] at most; afterwards
    /// [`Self::try_wait`] has the status.
    ///
    /// # Errors
    ///
    /// Names the processes that the kernel does not let go.
    pub fn kill_tree(&mut self) -> Result<KillReport, KillError> {
        unimplemented!()
    }

    /// The processes of the tree that are alive, in no particular order.
    ///
    /// # Errors
    ///
    /// When the containment cannot be read.
    pub fn processes(&self) -> Result<Vec<u32>, InspectError> {
        unimplemented!()
    }

    /// CPUs that all threads of the tree may use, read back from the kernel.
    ///
    /// # Errors
    ///
    /// When the containment or a mask cannot be read.
    pub fn affinity(&self) -> Result<Affinity, InspectError> {
        unimplemented!()
    }
}
