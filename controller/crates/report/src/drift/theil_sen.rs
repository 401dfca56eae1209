//! The slope of Theil and Sen: the median of the slopes of all pairs of points. A third of the points may be anything without moving it far.

use super::{
    mann_kendall::mann_kendall,
    normal::Z_95,
    points::{MAX_BLOCKS, block_medians, length, median},
};
use crate::statistics::quantile;

/// A line through points.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TheilSen {
    /// Change per second.
    pub slope: f64,
    /// Lower end of its 95 % confidence interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Value at time 0: the median of the values less the slope times the median of the times.
    pub intercept: f64,
}

/// The line through points (seconds, value): Theil, "A rank-invariant method of linear and polynomial regression analysis" (1950); Sen,
/// "Estimates of the Regression Coefficient Based on Kendall's Tau", JASA 63 (1968), for the interval, whose ends are the slopes
/// that are `1.96 sqrt(variance of Kendall's S) / 2` ranks from the middle. `inflation` multiplies that variance: 1 for independent points. Points at the same time
/// have no slope.
///
/// More than [`MAX_BLOCKS`] points are made into block medians first, so that never more than 180,000 slopes are held. `None` if no two points differ in time.
#[must_use]
pub fn theil_sen(points: &[(f64, f64)], inflation: f64) -> Option<TheilSen> {
    let points = block_medians(points, MAX_BLOCKS);
    Slopes::of(&points).line(&points, inflation)
}

/// The slopes of all pairs of points, by size. A line can be told from them for one inflation after the other.
pub(super) struct Slopes(Vec<f64>);

impl Slopes {
    /// Of points that are few enough.
    pub(super) fn of(points: &[(f64, f64)]) -> Self {
        let mut slopes = Vec::with_capacity(points.len() * points.len().saturating_sub(1) / 2);
        for (n, (x, y)) in points.iter().enumerate() {
            let later = points.iter().skip(n + 1).filter(|(later, _)| later > x);
            slopes.extend(later.map(|(x2, y2)| (y2 - y) / (x2 - x)));
        }
        slopes.sort_unstable_by(f64::total_cmp);
        Self(slopes)
    }

    /// The slope in the middle.
    pub(super) fn middle(&self) -> Option<f64> {
        quantile(&self.0, 0.5)
    }

    /// The line of [`theil_sen`].
    pub(super) fn line(&self, points: &[(f64, f64)], inflation: f64) -> Option<TheilSen> {
        let slopes = &self.0;
        let slope = self.middle()?;
        let deviation = (mann_kendall(points)?.variance * inflation).sqrt();
        // As `scipy.stats.theilslopes` rounds: outwards by one on the lower side, from ranks that count from 1.
        let all = length(slopes.len());
        let low = ((all - Z_95 * deviation) / 2.0).round_ties_even() - 1.0;
        let high = ((all + Z_95 * deviation) / 2.0).round_ties_even();
        let times = median(points.iter().map(|(x, _)| *x).collect())?;
        let values = median(points.iter().map(|(_, y)| *y).collect())?;
        Some(TheilSen {
            slope,
            low: at_rank(slopes, low)?,
            high: at_rank(slopes, high)?,
            intercept: values - slope * times,
        })
    }
}

/// The element at a rank that was computed, or at the end that it is beyond.
fn at_rank(slopes: &[f64], rank: f64) -> Option<f64> {
    let found = slopes.iter().zip(0_u32..).find(|(_, n)| f64::from(*n) >= rank).map(|(slope, _)| *slope);
    found.or(slopes.last().copied())
}
