//! Serialisation by a process-shared POSIX semaphore. Nothing undoes a dead holder's take, so the server does.

use std::io;

use super::lock::{AcceptLock, Taken};
use crate::board::{LockPhase, WorkerSlot};
use crate::sys::SharedSemaphore;

/// The semaphore, in memory shared with the workers.
pub(crate) struct Source {
    semaphore: SharedSemaphore,
}

impl Source {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self { semaphore: SharedSemaphore::new()? })
    }

    /// Posts for a dead holder.
    pub(super) fn give_back(&self) -> io::Result<()> {
        self.semaphore.post()
    }

    /// Whether the semaphore is taken although no living worker has it.
    pub(super) fn looks_lost<'a>(
        &self,
        mut living: impl Iterator<Item = &'a WorkerSlot>,
    ) -> io::Result<bool> {
        let has_it = |slot: &WorkerSlot| matches!(slot.lock_phase(), LockPhase::Held | LockPhase::Giving);
        Ok(self.semaphore.value()? == 0 && !living.any(has_it))
    }
}

impl AcceptLock for &Source {
    fn acquire(&self) -> io::Result<Taken> {
        self.semaphore.wait()?;
        Ok(Taken::Clean)
    }

    fn release(&self) -> io::Result<()> {
        self.semaphore.post()
    }
}
