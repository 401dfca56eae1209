//! Serialisation by a System V semaphore. One waiter is woken per release; the kernel undoes a dead holder's take.

use std::io;

use super::lock::{AcceptLock, Taken};
use crate::sys::SysvSemaphore;

/// The semaphore. Removed from the system on drop in the server (workers end without running destructors).
pub(crate) struct Source {
    semaphore: SysvSemaphore,
}

impl Source {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self { semaphore: SysvSemaphore::new()? })
    }

    pub(super) const fn semaphore(&self) -> SysvSemaphore {
        self.semaphore
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        self.semaphore.remove();
    }
}

impl AcceptLock for &Source {
    fn acquire(&self) -> io::Result<Taken> {
        self.semaphore.take()?;
        Ok(Taken::Clean)
    }

    fn release(&self) -> io::Result<()> {
        self.semaphore.give()
    }
}
