//! How much less correlated points tell than independent ones.

use super::points::{length, sorted};

/// Lag-1 correlations below this many standard errors (one-sided 5 %) are taken for chance.
const CHANCE_FIRST: f64 = 1.645;
/// Further ones are used up to the first that is below this many.
const CHANCE: f64 = 1.96;
/// Correlations of fewer points mean nothing.
const FEWEST: usize = 10;

/// By how much autocorrelation multiplies the variance of Kendall's S, at least 1. `slope` is the trend that is taken out before.
///
/// The larger of two estimates, both of the ranks of what remains:
///
/// - Hamed and Rao, "A modified Mann-Kendall trend test for autocorrelated data", Journal of Hydrology 204 (1998): `1 + 2 / (n (n-1) (n-2)) Σ (n-k) (n-k-1)
///   (n-k-2) r(k)`, with lags up to the first that may be chance. It sees correlation of any shape, but misses its tail.
/// - Yue and Wang, "The Mann-Kendall test modified by effective sample size to detect trend in serially correlated hydrological
///   series", Water Resources Management 18 (2004): `1 + 2 Σ (1 - k/n) r^k`, an autoregression of first order, with `r = (r(1) + 2/n) / (1 - 4/n)`, since taking
///   out a line makes `r(1)` too small by `(2 + 4 r) / n`.
///
/// Points are taken as evenly spaced. Negative correlation is not used, though it would make a trend more certain.
#[must_use]
pub fn inflation(points: &[(f64, f64)], slope: f64) -> f64 {
    let points = sorted(points);
    let n = length(points.len());
    if points.len() < FEWEST {
        return 1.0;
    }
    let start = points.first().map_or(0.0, |(x, _)| *x);
    let ranks = ranks(&points.iter().map(|(x, y)| y - slope * (x - start)).collect::<Vec<_>>());
    let deviations: Vec<f64> = ranks.iter().map(|rank| rank - (n + 1.0) / 2.0).collect();
    let square: f64 = deviations.iter().map(|d| d * d).sum();
    let correlation = |lag: usize| {
        let later = deviations.iter().skip(lag);
        deviations.iter().zip(later).map(|(a, b)| a * b).sum::<f64>() / square
    };
    let error = 1.0 / n.sqrt();
    let first = correlation(1);
    // Nothing varies, or by chance only.
    if !square.is_normal() || first < CHANCE_FIRST * error {
        return 1.0;
    }
    let shaped = 1.0 + 2.0 * hamed_rao(n, (1..points.len()).map(correlation), CHANCE * error);
    let unbiased = ((first + 2.0 / n) / (1.0 - 4.0 / n)).min(1.0);
    let mut power = 1.0;
    let autoregressive: f64 = (1..points.len())
        .map(|lag| {
            power *= unbiased;
            (1.0 - length(lag) / n) * power
        })
        .sum();
    shaped.max(1.0 + 2.0 * autoregressive).max(1.0)
}

fn hamed_rao(n: f64, correlations: impl Iterator<Item = f64>, least: f64) -> f64 {
    let weighted = correlations.take_while(|r| *r > least).zip(1_u32..).map(|(r, lag)| {
        let rest = n - f64::from(lag);
        rest * (rest - 1.0) * (rest - 2.0) * r
    });
    weighted.sum::<f64>() / (n * (n - 1.0) * (n - 2.0))
}

/// Ranks from 1; equal values share the mean of theirs.
fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<(f64, usize)> = values.iter().copied().zip(0..).collect();
    order.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut ranks = vec![0.0; values.len()];
    let mut before = 0;
    for run in order.chunk_by(|a, b| a.0 == b.0) {
        let rank = length(before) + (length(run.len()) + 1.0) / 2.0;
        for (_, place) in run {
            if let Some(slot) = ranks.get_mut(*place) {
                *slot = rank;
            }
        }
        before += run.len();
    }
    ranks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expect_shared_ranks_when_values_are_equal() {
        assert_eq!(ranks(&[5.0, 1.0, 5.0, 0.0, 5.0]), [4.0, 2.0, 4.0, 1.0, 4.0]);
    }

    #[test]
    fn expect_no_inflation_when_nothing_varies_or_points_alternate() {
        let flat: Vec<_> = (0..50).map(|n| (f64::from(n), 3.0)).collect();
        let line: Vec<_> = (0..50).map(|n| (f64::from(n), f64::from(n))).collect();
        let alternating: Vec<_> = (0..50).map(|n| (f64::from(n), f64::from(n % 2))).collect();
        assert_eq!(inflation(&flat, 0.0), 1.0);
        assert_eq!(inflation(&line, 1.0), 1.0);
        assert_eq!(inflation(&alternating, 0.0), 1.0);
        assert!(inflation(&line, 0.0) > 10.0);
    }
}
