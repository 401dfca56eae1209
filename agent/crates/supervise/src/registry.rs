//! The first processes of running tasks, and the lock under which processes are made: whoever holds it sees no process that is half
//! made, and reaps no child whose status belongs to someone.

use std::{
    collections::HashSet,
    sync::{LazyLock, Mutex, MutexGuard, PoisonError, TryLockError},
};

use crate::sys::VforkStack;

/// The one registry.
pub(crate) static REGISTRY: LazyLock<Registry> = LazyLock::new(Registry::new);

/// See the module.
pub(crate) struct Registry(Mutex<Known>);

/// What the lock protects.
pub(crate) struct Known {
    pids: HashSet<u32>,
    /// Used by one start at a time.
    pub(crate) stack: VforkStack,
}

impl Registry {
    fn new() -> Self {
        Self(Mutex::new(Known { pids: HashSet::new(), stack: VforkStack::new() }))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `None` while a process is being made.
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, Known>> {
        match self.0.try_lock() {
            Ok(known) => Some(known),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

impl Known {
    pub(crate) fn contains(&self, pid: u32) -> bool {
        self.pids.contains(&pid)
    }

    pub(crate) fn insert(&mut self, pid: u32) {
        self.pids.insert(pid);
    }

    pub(crate) fn remove(&mut self, pid: u32) {
        self.pids.remove(&pid);
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.pids.iter().copied()
    }
}
