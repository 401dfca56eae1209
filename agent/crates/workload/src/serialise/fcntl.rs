//! Serialisation by a POSIX record lock. The kernel wakes every waiter when it is released: the herd.

use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{FlockOperation, MemfdFlags, fcntl_lock, memfd_create};

use super::lock::{AcceptLock, Taken};

/// The locked file: a memory file, which has no name and so leaves nothing behind. Record locks belong to the process,
/// so all workers use the inherited descriptor.
pub(crate) struct Source {
    file: OwnedFd,
}

impl Source {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self { file: memfd_create("drover-accept-lock", MemfdFlags::CLOEXEC)? })
    }
}

impl AcceptLock for &Source {
    fn acquire(&self) -> io::Result<Taken> {
        fcntl_lock(&self.file, FlockOperation::LockExclusive)?;
        Ok(Taken::Clean)
    }

    fn release(&self) -> io::Result<()> {
        Ok(fcntl_lock(&self.file, FlockOperation::Unlock)?)
    }
}
