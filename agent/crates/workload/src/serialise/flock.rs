//! Serialisation by `flock`. The kernel wakes every waiter when it is released: the herd.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::fs::{FlockOperation, MemfdFlags, Mode, OFlags, flock, memfd_create, open};

use super::lock::{AcceptLock, Taken};

/// The locked file: a memory file, which has no name and so leaves nothing behind.
pub(crate) struct Source {
    file: OwnedFd,
}

impl Source {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self { file: memfd_create("drover-accept-lock", MemfdFlags::CLOEXEC)? })
    }

    /// Opens the file anew. A flock belongs to the open file description: workers that shared the inherited one would
    /// all hold the lock as soon as one of them does.
    pub(super) fn open(&self) -> io::Result<Lock> {
        let path = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        Ok(Lock { file: open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())? })
    }
}

/// One worker's lock.
pub(crate) struct Lock {
    file: OwnedFd,
}

impl AcceptLock for Lock {
    fn acquire(&self) -> io::Result<Taken> {
        flock(&self.file, FlockOperation::LockExclusive)?;
        Ok(Taken::Clean)
    }

    fn release(&self) -> io::Result<()> {
        Ok(flock(&self.file, FlockOperation::Unlock)?)
    }
}
