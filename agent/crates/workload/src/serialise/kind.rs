//! The names of the serialisations and what each needs from the listening socket.

use clap::ValueEnum;
use serde::Serialize;

/// How workers take turns to accept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Serialisation {
    /// All sleep in `accept()` on the shared socket.
    None,
    /// A record lock on a file (`F_SETLKW`) around `accept()`.
    Fcntl,
    /// A whole-file lock (`flock`) around `accept()`.
    Flock,
    /// A System V semaphore with undo around `accept()`.
    Sysvsem,
    /// A process-shared POSIX semaphore around `accept()`.
    Posixsem,
    /// A robust process-shared mutex around `accept()`.
    Pthread,
    /// An epoll of each worker's own on the shared socket, level-triggered: all are woken.
    Epoll,
    /// The same with `EPOLLEXCLUSIVE`: one is woken, or a few.
    EpollExclusive,
    /// A listening socket of each worker's own (`SO_REUSEPORT`): the kernel deals connections out by hash.
    Reuseport,
}

impl Serialisation {
    /// All of them, in the order of the documentation.
    pub const ALL: [Self; 9] = [
        Self::None,
        Self::Fcntl,
        Self::Flock,
        Self::Sysvsem,
        Self::Posixsem,
        Self::Pthread,
        Self::Epoll,
        Self::EpollExclusive,
        Self::Reuseport,
    ];

    /// Whether workers wait in epoll, which needs a socket that does not block.
    pub(crate) const fn uses_epoll(self) -> bool {
        matches!(self, Self::Epoll | Self::EpollExclusive)
    }
}
