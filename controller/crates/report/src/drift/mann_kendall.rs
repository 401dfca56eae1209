//! The test of Mann and Kendall for a monotone trend.

use super::{
    normal::two_sided,
    points::{count, length, sorted, ties},
};

/// What the test found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MannKendall {
    /// Points that were finite.
    pub n: usize,
    /// Pairs that rise with time less pairs that fall.
    pub s: i64,
    /// Variance of `s` if there is no trend and points are independent, with correction for ties.
    pub variance: f64,
}

impl MannKendall {
    /// `s` in standard deviations, with continuity correction; 0 if nothing varies. `inflation` multiplies the variance: 1 for independent points.
    #[must_use]
    pub fn z(&self, inflation: f64) -> f64 {
        let deviation = (self.variance * inflation).sqrt();
        if deviation > 0.0 {
            signed(self.s) * (1.0 - 1.0 / signed(self.s).abs().max(1.0)) / deviation
        } else {
            0.0
        }
    }

    /// The two-sided probability of an `s` as far from zero without a trend; 1 if nothing varies.
    #[must_use]
    pub fn p(&self, inflation: f64) -> f64 {
        two_sided(self.z(inflation))
    }
}

/// Counts pairs of points (seconds, value) in any order: Mann, "Nonparametric tests against trend", Econometrica 13 (1945); Kendall, "Rank
/// Correlation Methods" (1970), chapter 4, for the variance where values, times, or both are tied. Points at the same time are no pair. By
/// Knight's algorithm ("A Computer Method for Calculating Kendall's Tau with Ungrouped Data", JASA 61, 1966): `O(n log n)`. `None` for less than two points.
#[must_use]
pub fn mann_kendall(points: &[(f64, f64)]) -> Option<MannKendall> {
    let points = sorted(points);
    if points.len() < 2 {
        return None;
    }
    let n = u64::try_from(points.len()).ok()?;
    let times: Vec<f64> = points.iter().map(|(x, _)| *x).collect();
    let mut values: Vec<f64> = points.iter().map(|(_, y)| *y).collect();
    let pairs = |run: u64| run * (run - 1) / 2;
    let same_time: u64 = ties(&times).map(pairs).sum();
    let same_both: u64 = ties(&points).map(pairs).sum();
    let falling = inversions(&mut values);
    // Sorted by now.
    let same_value: u64 = ties(&values).map(pairs).sum();
    let rising = (pairs(n) + same_both).checked_sub(same_time + same_value + falling)?;
    let s = i64::try_from(rising).ok()?.checked_sub_unsigned(falling)?;
    let variance = variance(length(points.len()), &Tied::of(ties(&times)), &Tied::of(ties(&values)));
    Some(MannKendall { n: points.len(), s, variance })
}

/// Sums over runs of `t` equal points.
#[derive(Default)]
struct Tied {
    /// `t (t - 1)`
    pairs: f64,
    /// `t (t - 1) (t - 2)`
    triples: f64,
    /// `t (t - 1) (2 t + 5)`
    fives: f64,
}

impl Tied {
    fn of(runs: impl Iterator<Item = u64>) -> Self {
        runs.map(count).fold(Self::default(), |sum, t| Self {
            pairs: sum.pairs + t * (t - 1.0),
            triples: sum.triples + t * (t - 1.0) * (t - 2.0),
            fives: sum.fives + t * (t - 1.0) * (2.0 * t + 5.0),
        })
    }
}

fn variance(n: f64, times: &Tied, values: &Tied) -> f64 {
    let mut variance = (n * (n - 1.0) * (2.0 * n + 5.0) - times.fives - values.fives) / 18.0;
    variance += times.pairs * values.pairs / (2.0 * n * (n - 1.0));
    if n > 2.0 {
        variance += times.triples * values.triples / (9.0 * n * (n - 1.0) * (n - 2.0));
    }
    // Where all are equal, rounding may leave a little.
    variance.max(0.0)
}

/// Sorts, and counts pairs whose first is larger than their second.
fn inversions(values: &mut [f64]) -> u64 {
    if values.len() < 2 {
        return 0;
    }
    let (left, right) = values.split_at_mut(values.len() / 2);
    let mut found = inversions(left) + inversions(right);
    let mut merged = Vec::with_capacity(left.len() + right.len());
    let (mut lefts, mut rights) = (&*left, &*right);
    while let (Some(l), Some(r)) = (lefts.first(), rights.first()) {
        if r < l {
            found += u64::try_from(lefts.len()).unwrap_or(u64::MAX);
            merged.push(*r);
            rights = rights.get(1..).unwrap_or_default();
        } else {
            merged.push(*l);
            lefts = lefts.get(1..).unwrap_or_default();
        }
    }
    merged.extend_from_slice(lefts);
    merged.extend_from_slice(rights);
    values.copy_from_slice(&merged);
    found
}

fn signed(s: i64) -> f64 {
    if s < 0 { -count(s.unsigned_abs()) } else { count(s.unsigned_abs()) }
}
