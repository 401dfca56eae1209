//! Latencies of a run: recorded per thread, merged, summarised and encoded.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer, V2SerializeError, V2Serializer};

use crate::report::{LatencySummary, count_to_f64};

/// Longest latency told apart, in nanoseconds: one hour. Longer ones count as this.
const LONGEST: u64 = 3_600_000_000_000;
/// Significant decimal digits kept.
const DIGITS: u8 = 3;
const NANOSECONDS_PER_SECOND: f64 = 1e9;

/// Why latencies could not be recorded or encoded.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LatencyError {
    /// The histogram could not be made.
    #[error("cannot make the latency histogram")]
    Create(#[from] hdrhistogram::CreationError),
    /// The histogram could not be encoded.
    #[error("cannot encode the latency histogram")]
    Encode(#[from] V2SerializeError),
}

/// A histogram of latencies in nanoseconds.
#[derive(Debug)]
pub(crate) struct Latencies {
    histogram: Histogram<u64>,
}

impl Latencies {
    /// An empty histogram.
    pub(crate) fn new() -> Result<Self, LatencyError> {
        Ok(Self { histogram: Histogram::new_with_bounds(1, LONGEST, DIGITS)? })
    }

    /// Records one latency.
    pub(crate) fn record(&mut self, latency: Duration) {
        self.histogram.saturating_record(u64::try_from(latency.as_nanos()).unwrap_or(LONGEST));
    }

    /// Adds those of another thread.
    pub(crate) fn merge(&mut self, other: &Self) {
        // Both have the same bounds, so every value of the other fits and the addition cannot fail.
        let _ = self.histogram.add(&other.histogram);
    }

    /// Forgets all of them.
    pub(crate) fn clear(&mut self) {
        self.histogram.reset();
    }

    /// Mean and quantiles in seconds; `None` if nothing was recorded.
    pub(crate) fn summary(&self) -> Option<LatencySummary> {
        let histogram = &self.histogram;
        if histogram.is_empty() {
            return None;
        }
        let at = |quantile| count_to_f64(histogram.value_at_quantile(quantile)) / NANOSECONDS_PER_SECOND;
        Some(LatencySummary {
            mean: histogram.mean() / NANOSECONDS_PER_SECOND,
            p50: at(0.5),
            p90: at(0.9),
            p95: at(0.95),
            p99: at(0.99),
            p999: at(0.999),
            max: count_to_f64(histogram.max()) / NANOSECONDS_PER_SECOND,
        })
    }

    /// HdrHistogram V2 encoding in base64; `None` if nothing was recorded.
    pub(crate) fn encode(&self) -> Result<Option<String>, LatencyError> {
        if self.histogram.is_empty() {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        V2Serializer::new().serialize(&self.histogram, &mut bytes)?;
        Ok(Some(STANDARD.encode(bytes)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hdrhistogram::serialization::Deserializer;

    #[test]
    fn expect_the_same_histogram_when_decoded() {
        let mut latencies = Latencies::new().unwrap();
        for micros in 1..=1000 {
            latencies.record(Duration::from_micros(micros));
        }
        let bytes = STANDARD.decode(latencies.encode().unwrap().unwrap()).unwrap();
        let decoded: Histogram<u64> = Deserializer::new().deserialize(&mut bytes.as_slice()).unwrap();
        assert_eq!(decoded, latencies.histogram);
        assert_eq!(decoded.len(), 1000);
    }

    #[test]
    fn expect_quantiles_in_seconds() {
        let mut latencies = Latencies::new().unwrap();
        for millis in 1..=1000 {
            latencies.record(Duration::from_millis(millis));
        }
        let summary = latencies.summary().unwrap();
        for (found, expected) in [
            (summary.mean, 0.5005),
            (summary.p50, 0.5),
            (summary.p90, 0.9),
            (summary.p999, 0.999),
            (summary.max, 1.0),
        ] {
            assert!((found / expected - 1.0).abs() < 0.002, "{found} instead of {expected}");
        }
    }

    #[test]
    fn expect_nothing_when_nothing_was_recorded() {
        let latencies = Latencies::new().unwrap();
        assert_eq!(latencies.summary(), None);
        assert_eq!(latencies.encode().unwrap(), None);
    }

    #[test]
    fn expect_all_values_when_merged_and_the_limit_when_too_long() {
        let (mut one, mut other) = (Latencies::new().unwrap(), Latencies::new().unwrap());
        one.record(Duration::from_secs(1));
        other.record(Duration::from_secs(100_000));
        one.merge(&other);
        assert_eq!(one.histogram.len(), 2);
        assert!((one.summary().unwrap().max / 3600.0 - 1.0).abs() < 0.002);
    }
}
