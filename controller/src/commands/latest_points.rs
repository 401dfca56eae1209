//! What a soak that goes on gave last, from the series on disk: for those who begin to watch it.

use std::collections::BTreeMap;

use drover_model::RunId;
use drover_store::{Point, ResultsDir, SeriesReader, SqliteStore, Store};

use crate::{error::Failure, time::utc};

/// A line for each attempt that has a series and no verdict: the last point of every metric.
pub fn latest_points(run: RunId, store: &SqliteStore, results: &ResultsDir) -> Result<Vec<String>, Failure> {
    let mut lines = Vec::new();
    for intent in store.journalled(run).map_err(|error| Failure::infrastructure(&error))? {
        // Most attempts have no series: looked for first.
        if !results.series_path(&intent.id).exists()
            || store.is_finished(&intent.id).map_err(|error| Failure::infrastructure(&error))?
        {
            continue;
        }
        let reader = SeriesReader::open(results, &intent.id);
        let points = reader.and_then(|reader| reader.map(|reader| reader.points()).transpose());
        // A line that is being written is no reason not to watch.
        let points = points.ok().flatten().into_iter().flatten().map_while(Result::ok);
        lines.extend(line(&format!("{}a{}", intent.id.trial, intent.id.number), points));
    }
    Ok(lines)
}

/// Of several points of a metric, the last one; `None` if there are none.
fn line(attempt: &str, points: impl Iterator<Item = Point>) -> Option<String> {
    let mut last: BTreeMap<_, _> = BTreeMap::new();
    let mut at = 0;
    for point in points {
        at = at.max(point.at_unix_us);
        last.insert(point.metric, point.value);
    }
    let values: Vec<String> = last
        .iter()
        .map(|(metric, value)| format!("{metric} {}", drover_report::format_number(*value)))
        .collect();
    (!values.is_empty())
        .then(|| format!("last points of {attempt}, {}: {}", utc(at / 1000), values.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expect_the_last_point_of_every_metric() {
        let point = |at_unix_us, metric: &str, value| Point {
            at_unix_us,
            round: 1,
            metric: metric.parse().unwrap(),
            value,
        };
        let points =
            [point(1_000_000, "rate", 5.0), point(1_000_000, "p99", 2.5), point(61_000_000, "rate", 1234.0)];
        let text = line("c0r1a1", points.into_iter());
        let expected = "last points of c0r1a1, 1970-01-01 00:01:01Z: p99 2.500, rate 1,234";
        assert_eq!(text.as_deref(), Some(expected));
        assert_eq!(line("c0r1a1", std::iter::empty()), None);
    }
}
