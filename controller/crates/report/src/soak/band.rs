//! What a metric is like while all is well, so that its first bad values can be told.

use drover_model::Direction;

use super::blocks::middle;
use crate::drift::Nature;

/// Distance from the median, in median absolute deviations: 3.4 standard deviations of a normal distribution.
const DEVIATIONS: f64 = 5.0;
/// Least distance as a share of the median: what is less does not matter.
const LEAST_SHARE: f64 = 0.01;
/// Fewer points say nothing of what is usual.
const FEWEST: usize = 10;
/// Points in a row that are a bad sign. Of thousands, single ones are outside by chance.
pub(super) const IN_A_ROW: u32 = 3;

/// The values of a metric that are no bad sign. What is unusual in the good direction is none.
#[derive(Clone, Debug, PartialEq)]
pub struct Band {
    /// Name of the metric or sensor.
    pub series: String,
    /// Its unit.
    pub unit: String,
    /// Median of the first half.
    pub median: f64,
    /// Lowest usual value; minus infinity where lower is not worse.
    pub low: f64,
    /// Highest usual value; infinity where higher is not worse.
    pub high: f64,
}

impl Band {
    /// The median of values of the first half, less or more five times the median absolute deviation from it, and at
    /// least one percent. `None` for less than ten values.
    #[must_use]
    pub fn of(series: &str, unit: &str, nature: Nature, mut values: Vec<f64>) -> Option<Self> {
        if values.len() < FEWEST {
            return None;
        }
        let median = middle(&mut values)?;
        let mut deviations: Vec<f64> = values.iter().map(|value| (value - median).abs()).collect();
        let width = (DEVIATIONS * middle(&mut deviations)?).max(LEAST_SHARE * median.abs());
        let (low, high) = match nature {
            Nature::Throughput | Nature::Other(Direction::Higher) => (median - width, f64::INFINITY),
            Nature::Latency | Nature::Resource | Nature::Other(Direction::Lower) => {
                (f64::NEG_INFINITY, median + width)
            }
        };
        Some(Self { series: series.to_owned(), unit: unit.to_owned(), median, low, high })
    }

    /// Whether a value is usual, or better.
    #[must_use]
    pub fn contains(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }
}

/// Follows one series along its band.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Watch {
    /// Where the current run of points outside began, with the first value, and how many it has.
    run: Option<(u64, f64, u32)>,
    /// The first run that was long enough.
    found: Option<(u64, f64)>,
}

impl Watch {
    pub(super) fn see(&mut self, band: &Band, at_unix_us: u64, value: f64) {
        if self.found.is_some() {
            return;
        }
        if band.contains(value) {
            self.run = None;
            return;
        }
        let (start, first, count) = self.run.unwrap_or((at_unix_us, value, 0));
        self.run = Some((start, first, count + 1));
        if count + 1 >= IN_A_ROW {
            self.found = Some((start, first));
        }
    }

    /// The first bad value, and when it was. If it `broke`, the last points count however few they are.
    pub(super) fn bad_sign(&self, broke: bool) -> Option<(u64, f64)> {
        self.found.or_else(|| self.run.filter(|_| broke).map(|(at, value, _)| (at, value)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values() -> Vec<f64> {
        (0..21).map(|n| 100.0 + f64::from(n % 3) - 1.0).collect()
    }

    #[test]
    fn expect_a_limit_on_the_bad_side_only_when_a_band_is_made() {
        let band = Band::of("rate", "1/s", Nature::Throughput, values()).unwrap();
        assert_eq!((band.median, band.low, band.high), (100.0, 95.0, f64::INFINITY));
        assert!(band.contains(95.0) && band.contains(1e9) && !band.contains(94.9));
        let band = Band::of("p99", "ms", Nature::Latency, values()).unwrap();
        assert_eq!((band.low, band.high), (f64::NEG_INFINITY, 105.0));
        assert_eq!(Band::of("fds", "1", Nature::Resource, vec![300.0; 10]).unwrap().high, 303.0);
        assert_eq!(Band::of("fds", "1", Nature::Resource, vec![300.0; 9]), None);
    }

    #[test]
    fn expect_a_sign_when_three_in_a_row_are_outside_or_the_last_before_it_broke() {
        let band = Band::of("rate", "1/s", Nature::Throughput, values()).unwrap();
        let sign = |values: &[f64], broke| {
            let mut watch = Watch::default();
            (1..).zip(values).for_each(|(at, value)| watch.see(&band, at, *value));
            watch.bad_sign(broke)
        };
        assert_eq!(sign(&[100.0, 90.0, 80.0, 100.0, 70.0, 60.0, 50.0, 100.0], false), Some((5, 70.0)));
        assert_eq!(sign(&[100.0, 90.0, 80.0, 100.0], true), None);
        assert_eq!(sign(&[100.0, 90.0, 80.0], true), Some((2, 90.0)));
        assert_eq!(sign(&[100.0, 90.0, 80.0], false), None);
    }
}
