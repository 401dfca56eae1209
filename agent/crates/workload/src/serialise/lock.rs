//! The lock around `accept()`: made by the server before it forks, opened by each worker after.

use std::io;

use super::{Serialisation, fcntl, flock, posixsem, pthread, sysvsem};
use crate::board::{LockPhase, WorkerSlot};
use crate::sys::SysvSemaphore;

/// What came with a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// Nothing special.
    Clean,
    /// The previous holder had died with it.
    FromDead,
}

/// A worker's side of the lock.
pub(crate) trait AcceptLock {
    /// Waits for the lock. May fail with `Interrupted`, and is then tried again.
    fn acquire(&self) -> io::Result<Taken>;
    /// Gives the lock back.
    fn release(&self) -> io::Result<()>;
}

/// Why a lock could not be made or opened.
#[derive(Debug, thiserror::Error)]
#[error("cannot make the {kind} lock of the workers")]
pub(crate) struct LockError {
    kind: &'static str,
    #[source]
    source: io::Error,
}

/// The server's side of the lock. Dropping it in the server removes what the kernel keeps of it.
pub(crate) enum LockSource {
    /// No lock: workers wait in the kernel's own queue or in epoll.
    None,
    Fcntl(fcntl::Source),
    Flock(flock::Source),
    Sysvsem(sysvsem::Source),
    Posixsem(posixsem::Source),
    Pthread(pthread::Source),
}

impl LockSource {
    /// Makes the lock, free.
    pub(crate) fn create(kind: Serialisation) -> Result<Self, LockError> {
        let made = match kind {
            Serialisation::None
            | Serialisation::Epoll
            | Serialisation::EpollExclusive
            | Serialisation::Reuseport => Ok(Self::None),
            Serialisation::Fcntl => fcntl::Source::new().map(Self::Fcntl),
            Serialisation::Flock => flock::Source::new().map(Self::Flock),
            Serialisation::Sysvsem => sysvsem::Source::new().map(Self::Sysvsem),
            Serialisation::Posixsem => posixsem::Source::new().map(Self::Posixsem),
            Serialisation::Pthread => pthread::Source::new().map(Self::Pthread),
        };
        let name = match kind {
            Serialisation::Fcntl => "fcntl",
            Serialisation::Flock => "flock",
            Serialisation::Sysvsem => "sysvsem",
            Serialisation::Posixsem => "posixsem",
            Serialisation::Pthread => "pthread",
            _ => "absent",
        };
        made.map_err(|source| LockError { kind: name, source })
    }

    /// Opens the lock in a worker; `None` if there is none.
    pub(crate) fn open(&self) -> Result<Option<Box<dyn AcceptLock + '_>>, LockError> {
        Ok(match self {
            Self::None => None,
            Self::Fcntl(source) => Some(Box::new(source)),
            Self::Flock(source) => {
                Some(Box::new(source.open().map_err(|source| LockError { kind: "flock", source })?))
            }
            Self::Sysvsem(source) => Some(Box::new(source)),
            Self::Posixsem(source) => Some(Box::new(source)),
            Self::Pthread(source) => Some(Box::new(source)),
        })
    }

    /// The System V semaphore that workers remove when the server is killed.
    pub(crate) const fn semaphore(&self) -> Option<SysvSemaphore> {
        match self {
            Self::Sysvsem(source) => Some(source.semaphore()),
            _ => None,
        }
    }

    /// What follows from the death of a worker that stood at `phase`.
    pub(crate) const fn after_death(&self, phase: LockPhase) -> AfterDeath {
        match (self, phase) {
            (Self::None, _) | (_, LockPhase::Free) => AfterDeath::Nothing,
            // The next holder is told by the mutex itself and counts it.
            (Self::Pthread(_), _) => AfterDeath::Nothing,
            (Self::Fcntl(_) | Self::Flock(_) | Self::Sysvsem(_), LockPhase::Held) => {
                AfterDeath::KernelGaveBack
            }
            (Self::Fcntl(_) | Self::Flock(_) | Self::Sysvsem(_), _) => AfterDeath::Nothing,
            (Self::Posixsem(_), LockPhase::Held) => AfterDeath::GiveBack,
            (Self::Posixsem(_), LockPhase::Taking | LockPhase::Giving) => AfterDeath::Unsure,
        }
    }

    /// Gives back a lock that a dead worker held, where nobody else does.
    pub(crate) fn give_back(&self) -> io::Result<()> {
        match self {
            Self::Posixsem(source) => source.give_back(),
            _ => Ok(()),
        }
    }

    /// Whether the lock looks lost: taken, although none of the living workers has it. True also for an instant while
    /// a living worker takes it, so it has to be seen repeatedly before it is believed.
    pub(crate) fn looks_lost<'a>(&self, living: impl Iterator<Item = &'a WorkerSlot>) -> io::Result<bool> {
        match self {
            Self::Posixsem(source) => source.looks_lost(living),
            _ => Ok(false),
        }
    }
}

/// What the server has to do about the lock when a worker died.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AfterDeath {
    /// Nothing: it held no lock, or the next holder finds out by itself.
    Nothing,
    /// It held the lock and the kernel gave it back.
    KernelGaveBack,
    /// It held the lock and nobody but the server can give it back.
    GiveBack,
    /// It died in the instants around taking or giving it: watch [`LockSource::looks_lost`].
    Unsure,
}
