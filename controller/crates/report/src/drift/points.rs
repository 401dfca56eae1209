//! Points before they are judged: in order, without warm-up, not too many.

use crate::statistics::quantile;

/// The most block medians of a series.
pub const MAX_BLOCKS: usize = 600;

const SHORTEST_WARM_UP: f64 = 60.0;
const LONGEST_WARM_UP: f64 = 600.0;

/// Points whose time and value are finite, by time, then value.
pub(super) fn sorted(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut points: Vec<_> = points.iter().copied().filter(|(x, y)| x.is_finite() && y.is_finite()).collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    points
}

/// The points (seconds, value) after the warm-up: the first tenth of the time, but at least one and at most ten minutes.
#[must_use]
pub fn without_warm_up(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut points = sorted(points);
    if let (Some((first, _)), Some((last, _))) = (points.first(), points.last()) {
        let end = first + ((last - first) / 10.0).clamp(SHORTEST_WARM_UP, LONGEST_WARM_UP);
        points.retain(|(x, _)| *x >= end);
    }
    points
}

/// The points (seconds, value) that are so many seconds after the first one or later.
pub(super) fn after(points: &[(f64, f64)], seconds: f64) -> Vec<(f64, f64)> {
    let mut points = sorted(points);
    if let Some((first, _)) = points.first().copied() {
        points.retain(|(x, _)| *x >= first + seconds);
    }
    points
}

/// At most `blocks` points: medians, of time and of value, of equally many successive points (the last block may have less). Points that are
/// few enough stay as they are, in order of time.
#[must_use]
pub fn block_medians(points: &[(f64, f64)], blocks: usize) -> Vec<(f64, f64)> {
    let points = sorted(points);
    let size = points.len().div_ceil(blocks.max(1)).max(1);
    if size == 1 {
        return points;
    }
    let block = |block: &[(f64, f64)]| {
        let of = |axis: fn(&(f64, f64)) -> f64| median(block.iter().map(axis).collect());
        Some((of(|point| point.0)?, of(|point| point.1)?))
    };
    points.chunks(size).filter_map(block).collect()
}

pub(super) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    quantile(&values, 0.5)
}

/// A count as a number.
#[expect(clippy::cast_precision_loss, reason = "counts of pairs of points are far below 2^53")]
pub(super) fn count(n: u64) -> f64 {
    n as f64
}

/// A length as a number.
pub(super) fn length(n: usize) -> f64 {
    u64::try_from(n).map_or(f64::INFINITY, count)
}

/// How many neighbours are equal, for each run of more than one.
pub(super) fn ties<T: PartialEq>(sorted: &[T]) -> impl Iterator<Item = u64> {
    sorted.chunk_by(PartialEq::eq).filter_map(|run| u64::try_from(run.len()).ok()).filter(|run| *run > 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expect_a_tenth_between_one_and_ten_minutes_when_warm_up_is_cut() {
        let first = |seconds: i32| {
            let points: Vec<_> = (0..=seconds).map(|s| (1000.0 + f64::from(s), 0.0)).collect();
            without_warm_up(&points).first().map(|(x, _)| x - 1000.0)
        };
        assert_eq!(first(50), None);
        assert_eq!(first(100), Some(60.0));
        assert_eq!(first(1800), Some(180.0));
        assert_eq!(first(28_800), Some(600.0));
    }

    #[test]
    fn expect_medians_of_equal_blocks_when_points_are_too_many() {
        let points =
            [(5.0, 1.0), (1.0, 10.0), (2.0, 30.0), (3.0, 20.0), (4.0, 9.0), (6.0, f64::NAN), (7.0, 2.0)];
        assert_eq!(block_medians(&points, 2), [(2.0, 20.0), (5.0, 2.0)]);
        assert_eq!(block_medians(&points, 6).len(), 6);
        assert_eq!(block_medians(&points, 4).len(), 3, "never more than asked for");
        assert_eq!(block_medians(&[], 6), []);
        let night: Vec<_> = (0..28_800).map(|s| (f64::from(s), 1.0)).collect();
        assert_eq!(block_medians(&night, MAX_BLOCKS).len(), 600);
    }
}
