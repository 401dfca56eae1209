//! The course of a metric as one line of ASCII.

use std::time::Duration;

use super::blocks::middle;

/// Most columns.
const WIDEST: u32 = 60;
/// From low to high.
const LEVELS: [char; 8] = ['_', '.', ':', '-', '=', '+', '*', '#'];
/// Where nothing was measured.
const NOTHING: char = ' ';
/// Where it broke.
const BROKE: char = 'X';
/// Least range as a share of the largest value, so that noise looks like noise.
const LEAST_RANGE: f64 = 0.1;

/// A drawn course.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Spark {
    /// One character for each part of the planned time.
    pub(super) line: String,
    /// The value that the lowest level stands for.
    pub(super) low: f64,
    /// The value that the highest level stands for.
    pub(super) high: f64,
}

/// Draws block medians (seconds since the load began, value) over the planned time. `None` if there are none.
pub(super) fn spark(blocks: &[(f64, f64)], planned: Duration, broke: Option<Duration>) -> Option<Spark> {
    let planned = planned.as_secs_f64();
    let last = blocks.last()?.0;
    if planned <= 0.0 {
        return None;
    }
    // Of few points, each has a column, and so has the time in which they should have come.
    let apart = middle(&mut blocks.windows(2).filter_map(distance).collect::<Vec<_>>()).unwrap_or(planned);
    let width = (1..WIDEST).find(|width| f64::from(*width + 1) * apart > planned).unwrap_or(WIDEST);
    let column = |seconds: f64| {
        let share = seconds / planned * f64::from(width);
        (0..width).find(|column| share < f64::from(*column + 1)).unwrap_or(width - 1)
    };
    let mut columns: Vec<Option<f64>> = Vec::new();
    let mut blocks = blocks.iter().peekable();
    for at in 0..width {
        let mut values = Vec::new();
        while let Some((_, value)) = blocks.next_if(|(seconds, _)| column(*seconds) <= at) {
            values.push(*value);
        }
        columns.push(middle(&mut values));
    }
    let known = columns.iter().flatten().copied();
    let high = known.clone().fold(f64::NEG_INFINITY, f64::max);
    let low = known.fold(f64::INFINITY, f64::min).min(high - LEAST_RANGE * high.abs());
    let level = |value: f64| {
        let share = if high > low { (value - low) / (high - low) } else { 1.0 };
        let step = (0..7_u32).find(|step| share * 8.0 < f64::from(*step + 1)).unwrap_or(7);
        usize::try_from(step).ok().and_then(|step| LEVELS.get(step)).copied().unwrap_or(NOTHING)
    };
    let mut line: Vec<char> = columns.iter().map(|value| value.map_or(NOTHING, level)).collect();
    if let Some(broke) = broke {
        let place = column(broke.as_secs_f64().max(last.min(planned)));
        if let Some(slot) = usize::try_from(place).ok().and_then(|place| line.get_mut(place)) {
            *slot = BROKE;
        }
    }
    Some(Spark { line: line.into_iter().collect(), low, high })
}

fn distance(pair: &[(f64, f64)]) -> Option<f64> {
    let (first, second) = (pair.first()?, pair.last()?);
    Some(second.0 - first.0).filter(|distance| *distance > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(points: &[(f64, f64)], planned: u64, broke: Option<u64>) -> String {
        let spark = spark(points, Duration::from_secs(planned), broke.map(Duration::from_secs));
        spark.unwrap().line
    }

    #[test]
    fn expect_a_column_for_each_part_of_the_time_when_drawn() {
        let rising: Vec<_> = (0..600).map(|n| (f64::from(n) * 10.0, f64::from(n))).collect();
        let line = drawn(&rising, 6000, None);
        assert_eq!(
            (line.len(), line.as_str()),
            (60, "________.......::::::::-------=======++++++++*******########")
        );
    }

    #[test]
    fn expect_blanks_and_a_cross_when_it_broke_or_points_are_missing() {
        let mut flat: Vec<_> = (0..300).map(|n| (f64::from(n) * 10.0, 5.0)).collect();
        flat.retain(|(at, _)| !(500.0..800.0).contains(at));
        let line = drawn(&flat, 6000, Some(3005));
        assert_eq!(line, format!("{}   {}X{}", "#".repeat(5), "#".repeat(22), " ".repeat(29)));
    }

    #[test]
    fn expect_a_column_for_each_point_when_there_are_few() {
        assert_eq!(drawn(&[(0.0, 1.0), (10.0, 2.0), (20.0, 1.0)], 40, None), "_#_ ");
        assert_eq!(drawn(&[(0.0, 0.0)], 40, None), "#");
        assert_eq!(spark(&[], Duration::from_secs(1), None), None);
        assert_eq!(drawn(&[(0.0, 100.0), (10.0, 98.0)], 20, None), "#*", "noise looks like noise");
    }
}
