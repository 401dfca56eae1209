//! Which points are kept: those that are far enough from the one before. Pure.

use std::time::Duration;

/// Points may be closer together by a part of their distance: rounds are never of quite the same length.
const SLACK: u32 = 20;

/// Leaves out what comes too soon.
#[derive(Debug)]
pub struct Thinner {
    least_us: u64,
    last_unix_us: Option<u64>,
}

impl Thinner {
    /// Keeps a point each `every`; `last_unix_us` is the last one that is kept already.
    pub fn new(every: Duration, last_unix_us: Option<u64>) -> Self {
        let least = every.saturating_sub(every / SLACK);
        Self { least_us: u64::try_from(least.as_micros()).unwrap_or(u64::MAX), last_unix_us }
    }

    /// Whether a point at that time is kept.
    pub fn keeps(&mut self, at_unix_us: u64) -> bool {
        let keeps = self.last_unix_us.is_none_or(|last| at_unix_us >= last.saturating_add(self.least_us));
        if keeps {
            self.last_unix_us = Some(at_unix_us);
        }
        keeps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expect_one_point_for_each_distance_when_rounds_are_short_or_uneven() {
        let kept = |times: &[u64]| -> Vec<u64> {
            let mut thinner = Thinner::new(Duration::from_micros(100), Some(0));
            times.iter().copied().filter(|at| thinner.keeps(*at)).collect()
        };
        assert_eq!(kept(&[10, 50, 94, 95, 150, 189, 190]), [95, 190]);
        assert_eq!(kept(&[99, 198, 300]), [99, 198, 300]);
        assert!(Thinner::new(Duration::from_secs(1), None).keeps(0));
    }
}
