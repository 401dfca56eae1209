//! How far a host's monotonic clock is from the controller's, and how well that is known. Pure.
//!
//! A probe is sent at `sent`, answered by the host with its clock's reading, and back at `received`. Whatever the delays of the
//! two ways were, the reading was taken between the two, so the offset `reading - (sent + received) / 2` is wrong by
//! `(received - sent) / 2` at most, however asymmetric the ways are. Of several probes, the one with the shortest round trip
//! says most (Cristian, "Probabilistic clock synchronization", 1989). An older probe is worth less, because clocks drift.

use std::time::Duration;

/// Largest rate at which two monotonic clocks drift apart, in parts per million: NTP slews each of them by 500 at most (`MAXFREQ`
/// of Linux), and a crystal is wrong by less.
const DRIFT_PPM: u64 = 1000;
/// Probes kept.
const KEPT: usize = 16;

/// One answered probe. Times are nanoseconds; `sent` and `received` on the controller's clock, `reading` on the host's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockProbe {
    pub sent: u64,
    pub received: u64,
    pub reading: u64,
}

/// What is known of a host's clock: `host = controller + offset`, give or take `error`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offset {
    /// Nanoseconds.
    pub nanos: i128,
    /// Bound of the error.
    pub error: Duration,
}

/// The probes of one host.
#[derive(Clone, Debug, Default)]
pub struct ClockOffset {
    probes: Vec<ClockProbe>,
}

impl ClockProbe {
    fn round_trip(&self) -> u64 {
        self.received.saturating_sub(self.sent)
    }

    /// Half of the round trip, and what the clocks may have drifted since.
    fn error_at(&self, now: u64) -> u64 {
        let drift = now.saturating_sub(self.received).saturating_mul(DRIFT_PPM) / 1_000_000;
        self.round_trip().div_ceil(2).saturating_add(drift)
    }
}

impl ClockOffset {
    /// Takes a probe in.
    pub fn add(&mut self, probe: ClockProbe) {
        if self.probes.len() >= KEPT {
            // Not the oldest: a good one of before is still better than most.
            let now = probe.received;
            let worst = (0..self.probes.len()).max_by_key(|at| self.probes[*at].error_at(now));
            worst.map(|at| self.probes.swap_remove(at));
        }
        self.probes.push(probe);
    }

    /// The best estimate at `now`, in nanoseconds of the controller's clock; `None` before the first probe.
    pub fn estimate(&self, now: u64) -> Option<Offset> {
        let best = self.probes.iter().min_by_key(|probe| probe.error_at(now))?;
        let middle = i128::midpoint(best.sent.into(), best.received.into());
        let error = Duration::from_nanos(best.error_at(now));
        Some(Offset { nanos: i128::from(best.reading) - middle, error })
    }
}

/// Bound of the error of the difference between any two of these clocks: they may be wrong in opposite directions.
pub fn joint_error(offsets: &[Offset]) -> Duration {
    let mut errors: Vec<Duration> = offsets.iter().map(|offset| offset.error).collect();
    errors.sort_unstable();
    errors.iter().rev().take(2).sum()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TRUE_OFFSET: i128 = -5_000_000_000;

    /// A probe sent at `sent` that takes `there` and `back`.
    fn probe(sent: u64, there: u64, back: u64) -> ClockProbe {
        let reading = u64::try_from(i128::from(sent + there) + TRUE_OFFSET).unwrap();
        ClockProbe { sent, received: sent + there + back, reading }
    }

    #[test]
    fn expect_the_shortest_round_trip_to_count_when_some_are_slow() {
        let mut clock = ClockOffset::default();
        assert_eq!(clock.estimate(0), None);
        clock.add(probe(10_000_000_000, 50_000_000, 100_000));
        clock.add(probe(10_100_000_000, 100_000, 100_000));
        clock.add(probe(10_200_000_000, 300_000, 20_000_000));
        let offset = clock.estimate(10_220_300_000).unwrap();
        assert_eq!(offset.nanos, TRUE_OFFSET);
        // Half of the round trip, and 1000 ppm of 120.1 ms.
        assert_eq!(offset.error, Duration::from_nanos(100_000 + 120_100));
    }

    #[test]
    fn expect_the_bound_to_hold_when_one_way_takes_50_ms_longer() {
        let mut clock = ClockOffset::default();
        (0..8).for_each(|n| clock.add(probe(10_000_000_000 + n * 60_000_000, 50_000_000, 200_000)));
        let offset = clock.estimate(10_500_000_000).unwrap();
        let wrong_by = (offset.nanos - TRUE_OFFSET).unsigned_abs();
        assert!(wrong_by > 24_000_000 && wrong_by <= offset.error.as_nanos(), "{offset:?}");
        assert!(offset.error < Duration::from_millis(26));
    }

    #[test]
    fn expect_a_fresh_probe_to_count_when_the_best_one_is_old() {
        let mut clock = ClockOffset::default();
        clock.add(probe(10_000_000_000, 100_000, 100_000));
        clock.add(probe(100_000_000_000, 2_000_000, 2_000_000));
        let offset = clock.estimate(100_004_000_000).unwrap();
        assert_eq!(offset.error, Duration::from_millis(2));
    }

    #[test]
    fn expect_the_two_largest_errors_added_when_several_clocks_are_compared() {
        let offset = |ms| Offset { nanos: 0, error: Duration::from_millis(ms) };
        assert_eq!(joint_error(&[offset(1), offset(5), offset(3)]), Duration::from_millis(8));
        assert_eq!(joint_error(&[offset(4)]), Duration::from_millis(4));
    }

    proptest! {
        #[test]
        fn the_true_offset_lies_within_the_bound(
            delays in proptest::collection::vec((1u64..100_000_000, 1u64..100_000_000, 0u64..1_000_000_000), 1..40)
        ) {
            let mut clock = ClockOffset::default();
            let mut now = 10_000_000_000;
            for (there, back, pause) in delays {
                clock.add(probe(now, there, back));
                now += there + back + pause;
                let offset = clock.estimate(now).unwrap();
                prop_assert!((offset.nanos - TRUE_OFFSET).unsigned_abs() <= offset.error.as_nanos());
            }
            prop_assert!(clock.probes.len() <= KEPT);
        }
    }
}
