//! The agent's clocks: `CLOCK_MONOTONIC` for durations and barriers, UTC for stamps.
//!
//! A test lab on one machine, where all hosts share the kernel's UTC clock, can make that of an agent wrong: the variable
//! [`LAB_OFFSET_VARIABLE`] shifts every stamp that the agent makes of UTC (clock probes, events, leases), and so does the
//! number in the file that [`LAB_FILE_VARIABLE`] names, which can be changed while the agent runs, as a clock is set. Nothing
//! but a lab sets them; they do not touch `CLOCK_MONOTONIC`, which time namespaces can shift.
//!
//! The controller stamps by this clock, too: in a lab on one machine its clock is set with that of its agent.

use std::{
    path::PathBuf,
    sync::LazyLock,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use rustix::time::{ClockId, clock_gettime};

/// Environment variable by which a test lab makes the UTC clock of an agent wrong, in milliseconds, with a sign.
const LAB_OFFSET_VARIABLE: &str = "DROVER_LAB_CLOCK_OFFSET_MS";

/// Environment variable that names a file with such an offset, which is read for every stamp.
const LAB_FILE_VARIABLE: &str = "DROVER_LAB_CLOCK_OFFSET_FILE";

/// What the lab wants.
enum LabOffset {
    Fixed(i64),
    File(PathBuf),
}

static LAB_OFFSET: LazyLock<LabOffset> = LazyLock::new(|| match std::env::var_os(LAB_FILE_VARIABLE) {
    Some(path) => LabOffset::File(path.into()),
    None => LabOffset::Fixed(number(std::env::var(LAB_OFFSET_VARIABLE).ok())),
});

fn number(text: Option<String>) -> i64 {
    text.and_then(|text| text.trim().parse().ok()).unwrap_or_default()
}

/// The lab's offset of the UTC clock, in milliseconds; 0 outside of a lab.
#[must_use]
pub fn lab_offset_ms() -> i64 {
    match &*LAB_OFFSET {
        LabOffset::Fixed(offset) => *offset,
        LabOffset::File(path) => number(std::fs::read_to_string(path).ok()),
    }
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
