//! Summary statistics of the repetitions of a cell, for tables and exports.
//!
//! Location and spread are robust (median, quartiles, MAD), because one disturbed trial of three is common and must
//! not move the number shown. Everything is exact and deterministic: no resampling, no randomness.

use std::ops::RangeInclusive;

use schemars::JsonSchema;
use serde::Serialize;

/// Confidence asked of [`Summary::interval`].
pub const CONFIDENCE: f64 = 0.95;

/// What a set of values looks like. All figures are in the unit of the values.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Summary {
    /// How many values.
    pub n: usize,
    /// Smallest value.
    pub min: f64,
    /// First quartile, as [`quantile`] defines it.
    pub q1: f64,
    /// Median: the middle value, or the mean of the two in the middle.
    pub median: f64,
    /// Third quartile.
    pub q3: f64,
    /// Largest value.
    pub max: f64,
    /// Arithmetic mean.
    pub mean: f64,
    /// Sample standard deviation (divided by n - 1); absent for one value.
    pub sd: Option<f64>,
    /// Median of the absolute deviations from the median, not scaled. Times 1.4826 it estimates the standard
    /// deviation of a normal distribution.
    pub mad: f64,
    /// Confidence interval of the median; absent for fewer than six values.
    pub interval: Option<MedianInterval>,
}

/// A distribution-free confidence interval of the median.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct MedianInterval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Confidence that it has, between 0 and 1: at least what was asked for.
    pub confidence: f64,
}

/// How far the values lie from their median.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Spread {
    /// As a fraction of the median.
    Relative(f64),
    /// In the unit of the values, where the median is zero.
    Absolute(f64),
}

impl Summary {
    /// Summarises values in any order; values that are not finite are left out. `None` if nothing is left.
    #[must_use]
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let median = quantile(&sorted, 0.5)?;
        let mean = mean(&sorted);
        let mut deviations: Vec<f64> = sorted.iter().map(|value| (value - median).abs()).collect();
        deviations.sort_by(f64::total_cmp);
        Some(Self {
            n: sorted.len(),
            min,
            q1: quantile(&sorted, 0.25)?,
            median,
            q3: quantile(&sorted, 0.75)?,
            max,
            mean,
            sd: standard_deviation(&sorted, mean),
            mad: quantile(&deviations, 0.5)?,
            interval: median_interval(&sorted, CONFIDENCE),
        })
    }

    /// The largest distance of a value from the median: all values lie within `median ± spread`. `None` for one value,
    /// whose spread is unknown rather than zero.
    ///
    /// Chosen over the interquartile range because trials are few: of three values the quartiles are interpolated,
    /// while this is a statement about every one of them.
    #[must_use]
    pub fn spread(&self) -> Option<Spread> {
        let distance = (self.max - self.median).max(self.median - self.min);
        let relative = distance / self.median.abs();
        match self.n {
            0 | 1 => None,
            _ if relative.is_finite() => Some(Spread::Relative(relative)),
            _ if distance == 0.0 => Some(Spread::Relative(0.0)),
            _ => Some(Spread::Absolute(distance)),
        }
    }
}

/// The `p` quantile (`0 <= p <= 1`) of ascending values, interpolated between the two nearest: definition 7 of Hyndman
/// and Fan, "Sample Quantiles in Statistical Packages", The American Statistician 50 (1996), the default of R and
/// NumPy. `None` for no values or a `p` out of range.
#[must_use]
pub fn quantile(sorted: &[f64], p: f64) -> Option<f64> {
    if !(0.0..=1.0).contains(&p) {
        return None;
    }
    let last = sorted.len().checked_sub(1)?;
    let position = p * count(last);
    let below = floor_index(position, last);
    let low = sorted.get(below)?;
    let fraction = position - count(below);
    match sorted.get(below + 1) {
        // Weighted ends instead of `low + f * (high - low)`, whose difference can overflow.
        Some(high) if fraction > 0.0 => Some((low * (1.0 - fraction) + high * fraction).clamp(*low, *high)),
        _ => Some(*low),
    }
}

/// The confidence interval of the median between two order statistics that are equally far from both ends:
/// `P(x[r] < median < x[n + 1 - r]) = 1 - 2 P(B < r)` with `B` binomial of `n` and 1/2 (Conover, "Practical
/// Nonparametric Statistics", section 3.2). It holds for any continuous distribution. `None` where even the smallest
/// and the largest value together do not reach the confidence, which for 0.95 is below six values.
#[must_use]
pub fn median_interval(sorted: &[f64], confidence: f64) -> Option<MedianInterval> {
    let (ranks, reached) = median_ranks(sorted.len(), confidence)?;
    let low = *sorted.get(ranks.start().checked_sub(1)?)?;
    let high = *sorted.get(ranks.end().checked_sub(1)?)?;
    Some(MedianInterval { low, high, confidence: reached })
}

/// The narrowest pair of ranks (from 1) for [`median_interval`], with the confidence it reaches.
fn median_ranks(n: usize, confidence: f64) -> Option<(RangeInclusive<usize>, f64)> {
    let n_f = count(n);
    // ln of the probability that exactly `below` of n values lie below the median; logarithms, since 2^-n underflows.
    let mut ln_exactly = -n_f * std::f64::consts::LN_2;
    let mut below_tail = 0.0;
    let mut best = None;
    for rank in 1..=n.div_ceil(2) {
        below_tail += ln_exactly.exp();
        let reached = 1.0 - 2.0 * below_tail;
        if reached < confidence {
            break;
        }
        best = Some((rank..=n + 1 - rank, reached));
        let rank_f = count(rank);
        ln_exactly += ((n_f - rank_f + 1.0) / rank_f).ln();
    }
    best
}

/// Mean of at least one value, corrected once for the rounding of the sum.
fn mean(values: &[f64]) -> f64 {
    let n = count(values.len());
    // Divided before added, so that large values do not overflow.
    let first: f64 = values.iter().map(|value| value / n).sum();
    first + values.iter().map(|value| (value - first) / n).sum::<f64>()
}

/// Corrected two-pass algorithm: Chan, Golub and LeVeque, "Algorithms for Computing the Sample Variance", The American
/// Statistician 37 (1983), equation 1.7.
fn standard_deviation(values: &[f64], mean: f64) -> Option<f64> {
    let n = count(values.len());
    if values.len() < 2 {
        return None;
    }
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let residue: f64 = values.iter().map(|value| value - mean).sum();
    let variance = (squares - residue * residue / n) / (n - 1.0);
    Some(variance.max(0.0).sqrt()).filter(|sd| sd.is_finite())
}

/// A count as a number; exact below 2^53.
#[expect(clippy::cast_precision_loss, reason = "counts of trials are far below 2^53")]
fn count(n: usize) -> f64 {
    n as f64
}

/// The largest index not above `position`, within `0..=last`.
fn floor_index(position: f64, last: usize) -> usize {
    let (mut low, mut high) = (0, last);
    while low < high {
        let middle = high - (high - low) / 2;
        if count(middle) <= position { low = middle } else { high = middle - 1 }
    }
    low
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn assert_close(got: f64, want: f64, relative: f64) {
        assert!((got - want).abs() <= relative * want.abs(), "got {got}, want {want}");
    }

    /// NIST Statistical Reference Datasets, univariate: NumAcc1..4, with their certified mean and deviation.
    #[test]
    fn expect_certified_values_when_given_nist_numacc() {
        let numacc1 = Summary::of([10_000_001.0, 10_000_003.0, 10_000_002.0]).unwrap();
        assert_eq!((numacc1.mean, numacc1.sd), (10_000_002.0, Some(1.0)));
        let alternating = |first: f64, low: f64, high: f64| {
            Summary::of(std::iter::once(first).chain((0..500).flat_map(|_| [low, high]))).unwrap()
        };
        let numacc2 = alternating(1.2, 1.1, 1.3);
        assert_close(numacc2.mean, 1.2, 1e-14);
        assert_close(numacc2.sd.unwrap(), 0.1, 1e-13);
        let numacc3 = alternating(1_000_000.2, 1_000_000.1, 1_000_000.3);
        assert_close(numacc3.mean, 1_000_000.2, 1e-15);
        assert_close(numacc3.sd.unwrap(), 0.1, 1e-9);
        let numacc4 = alternating(10_000_000.2, 10_000_000.1, 10_000_000.3);
        assert_close(numacc4.mean, 10_000_000.2, 1e-15);
        assert_close(numacc4.sd.unwrap(), 0.1, 1e-8);
    }

    /// The examples of Microsoft's page on QUARTILE.INC (definition 7), and `quantile(1:10)` of R.
    #[test]
    fn expect_published_quartiles_when_given_their_examples() {
        let excel = [1.0, 2.0, 4.0, 7.0, 8.0, 9.0, 10.0, 12.0];
        assert_eq!(quantile(&excel, 0.25), Some(3.5));
        let one_to_ten: Vec<f64> = (1..=10).map(f64::from).collect();
        let quartiles = [0.0, 0.25, 0.5, 0.75, 1.0].map(|p| quantile(&one_to_ten, p).unwrap());
        assert_eq!(quartiles, [1.0, 3.25, 5.5, 7.75, 10.0]);
        assert_eq!(quantile(&[], 0.5), None);
        assert_eq!(quantile(&one_to_ten, 1.5), None);
    }

    /// The example of the article "Median absolute deviation" of Wikipedia.
    #[test]
    fn expect_published_mad_when_given_its_example() {
        let summary = Summary::of([1.0, 1.0, 2.0, 2.0, 4.0, 6.0, 9.0]).unwrap();
        assert_eq!((summary.median, summary.mad), (2.0, 1.0));
    }

    /// Ranks and exact confidence for 95 %: Campbell and Gardner, "Calculating confidence intervals for some
    /// non-parametric analyses", BMJ 296 (1988).
    #[test]
    fn expect_published_ranks_when_asked_for_95_percent() {
        let table = [
            (6, 1, 6, 96.9),
            (7, 1, 7, 98.4),
            (8, 1, 8, 99.2),
            (9, 2, 8, 96.1),
            (10, 2, 9, 97.9),
            (11, 2, 10, 98.8),
            (12, 3, 10, 96.1),
            (15, 4, 12, 96.5),
            (17, 5, 13, 95.1),
            (20, 6, 15, 95.9),
            (25, 8, 18, 95.7),
            (30, 10, 21, 95.7),
            (40, 14, 27, 96.2),
            (50, 18, 33, 96.7),
        ];
        for (n, low, high, percent) in table {
            let (ranks, confidence) = median_ranks(n, 0.95).unwrap();
            assert_eq!((*ranks.start(), *ranks.end()), (low, high), "n = {n}");
            assert!((confidence * 100.0 - percent).abs() < 0.051, "n = {n}: {confidence}");
        }
        assert_eq!(median_ranks(5, 0.95), None);
        assert_eq!(median_ranks(0, 0.95), None);
    }

    /// For large n the ranks approach `n/2 ± 0.98 sqrt(n)` (normal approximation of the binomial).
    #[test]
    fn expect_the_normal_approximation_when_values_are_many() {
        let (ranks, confidence) = median_ranks(10_000, 0.95).unwrap();
        assert!(*ranks.start() >= 4900 && *ranks.start() <= 4903, "{ranks:?}");
        assert!((0.95..0.96).contains(&confidence));
    }

    #[test]
    fn expect_absolute_spread_when_the_median_is_zero() {
        assert_eq!(Summary::of([0.0, 0.0, 3.0]).unwrap().spread(), Some(Spread::Absolute(3.0)));
        assert_eq!(Summary::of([0.0, 0.0]).unwrap().spread(), Some(Spread::Relative(0.0)));
        assert_eq!(Summary::of([5.0]).unwrap().spread(), None);
        assert_eq!(Summary::of([100.0, 100.0, 130.0]).unwrap().spread(), Some(Spread::Relative(0.3)));
        assert_eq!(Summary::of([f64::NAN, f64::INFINITY]), None);
    }

    proptest! {
        #[test]
        fn figures_are_ordered_and_enclose_all_values(values in prop::collection::vec(-1e300..1e300_f64, 1..60)) {
            let s = Summary::of(values.iter().copied()).unwrap();
            prop_assert!(s.min <= s.q1 && s.q1 <= s.median && s.median <= s.q3 && s.q3 <= s.max);
            prop_assert!(s.mad >= 0.0 && s.sd.is_none_or(|sd| sd >= 0.0));
            prop_assert_eq!(s.n, values.len());
            if let Some(interval) = s.interval {
                prop_assert!(interval.low <= s.median && s.median <= interval.high);
                prop_assert!(interval.confidence >= CONFIDENCE);
            }
        }

        #[test]
        fn order_does_not_matter_and_scale_is_followed(
            values in prop::collection::vec(-1e6..1e6_f64, 1..40), scale in 0.5..8.0_f64,
        ) {
            let s = Summary::of(values.iter().copied()).unwrap();
            let reversed = Summary::of(values.iter().rev().copied()).unwrap();
            prop_assert_eq!(s, reversed);
            let scaled = Summary::of(values.iter().map(|v| v * scale)).unwrap();
            prop_assert!((scaled.median - s.median * scale).abs() <= 1e-9 * (1.0 + scaled.median.abs()));
            prop_assert!((scaled.mad - s.mad * scale).abs() <= 1e-9 * (1.0 + scaled.mad.abs()));
        }

        #[test]
        fn every_value_lies_within_the_spread(values in prop::collection::vec(1.0..1e6_f64, 2..20)) {
            let s = Summary::of(values.iter().copied()).unwrap();
            let Some(Spread::Relative(spread)) = s.spread() else { panic!("positive values have one") };
            for value in values {
                prop_assert!((value - s.median).abs() <= spread * s.median * (1.0 + 1e-12));
            }
        }
    }
}
