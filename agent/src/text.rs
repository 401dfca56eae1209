//! Small helpers for messages and clocks, used all over the agent.

use std::{
    error::Error,
    fmt::Write,
    io,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use rustix::time::{ClockId, clock_gettime};

/// An error and its sources in one line, for logs and for messages that travel as text.
#[must_use]
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        let _ = write!(text, ": {inner}");
        source = inner.source();
    }
    text
}

/// Whether the disk or a quota is full, or the file system is read-only.
#[must_use]
pub fn is_disk_full(error: &io::Error) -> bool {
    use io::ErrorKind as Kind;
    matches!(
        error.kind(),
        Kind::StorageFull | Kind::QuotaExceeded | Kind::ReadOnlyFilesystem | Kind::FileTooLarge
    )
}

/// Time since the Unix epoch, UTC; zero for a clock set before it.
#[must_use]
pub fn unix_now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Microseconds since the Unix epoch, UTC.
#[must_use]
pub fn unix_us() -> u64 {
    u64::try_from(unix_now().as_micros()).unwrap_or(u64::MAX)
}

/// `CLOCK_MONOTONIC` in nanoseconds.
#[must_use]
pub fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(now.tv_sec).unwrap_or_default();
    seconds.saturating_mul(1_000_000_000).saturating_add(u64::try_from(now.tv_nsec).unwrap_or_default())
}
