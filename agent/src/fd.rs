//! Descriptors in the event loop: pidfds, pipes, timers.

use std::{io, os::fd::OwnedFd};

use tokio::io::{Interest, unix::AsyncFd};

/// Lets the event loop watch a descriptor for being readable.
///
/// # Errors
/// When it cannot be watched.
#[expect(
    deprecated,
    reason = "its successor is unsafe, for descriptors that change; that of an `OwnedFd` never does"
)]
pub fn watch(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(fd, Interest::READABLE)
}
