//! Serialisation by a robust process-shared mutex. One waiter is woken per release; the next holder learns of a death.

use std::io;

use super::lock::{AcceptLock, Taken};
use crate::sys::RobustMutex;

/// The mutex, in memory shared with the workers.
pub(crate) struct Source {
    mutex: RobustMutex,
}

impl Source {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self { mutex: RobustMutex::new()? })
    }
}

impl AcceptLock for &Source {
    fn acquire(&self) -> io::Result<Taken> {
        Ok(if self.mutex.lock()? { Taken::FromDead } else { Taken::Clean })
    }

    fn release(&self) -> io::Result<()> {
        self.mutex.unlock()
    }
}
