//! The agent's clocks: `CLOCK_MONOTONIC` for durations and barriers, UTC for stamps.
//!
//! A test lab on one machine, where all hosts share the kernel's UTC clock, can make that of an agent wrong: the variable
//! [`LAB_OFFSET_VARIABLE`] shifts every stamp that the agent makes of UTC (clock probes, events, leases). Nothing but a lab
//! sets it; it does not touch `CLOCK_MONOTONIC`, which time namespaces can shift.

use std::{
    sync::LazyLock,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use rustix::time::{ClockId, clock_gettime};

/// Environment variable by which a test lab makes the UTC clock of an agent wrong, in milliseconds, with a sign.
const LAB_OFFSET_VARIABLE: &str = "DROVER_LAB_CLOCK_OFFSET_MS";

/// What the lab wants, in milliseconds.
static LAB_OFFSET: LazyLock<i64> = LazyLock::new(|| {
    let text = std::env::var(LAB_OFFSET_VARIABLE).ok();
    text.and_then(|text| text.parse().ok()).unwrap_or_default()
});

/// The lab's offset of the UTC clock, in milliseconds; 0 outside of a lab.
#[must_use]
pub fn lab_offset_ms() -> i64 {
    *LAB_OFFSET
}

/// Time since the Unix epoch, UTC; zero for a clock set before it.
#[must_use]
pub fn unix_now() -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    shifted(now, lab_offset_ms())
}

fn shifted(time: Duration, by_ms: i64) -> Duration {
    let by = Duration::from_millis(by_ms.unsigned_abs());
    if by_ms < 0 { time.saturating_sub(by) } else { time.saturating_add(by) }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expect_a_shift_either_way_and_no_time_before_the_epoch() {
        let hour = Duration::from_secs(3600);
        assert_eq!(shifted(hour, 1500), Duration::from_millis(3_601_500));
        assert_eq!(shifted(hour, -1500), Duration::from_millis(3_598_500));
        assert_eq!(shifted(hour, i64::MIN), Duration::ZERO);
    }
}
