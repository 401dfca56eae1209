//! Differences between samples: per-second rates of counters, gauges as they are.

use super::{
    sample::{Sample, Value, unsigned},
    schema::{Schema, SeriesKind},
};

/// What a counter did between two samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Delta {
    /// It grew by so much, or stayed.
    Forward(f64),
    /// It is less than before: it wrapped, or what it counts was restarted. By how much it grew is not known.
    WentBack,
}

/// The difference of two values of a counter; exact below 2^53 whatever the values are.
#[must_use]
pub fn delta(before: Value, after: Value) -> Delta {
    match (before, after) {
        (Value::Unsigned(before), Value::Unsigned(after)) => {
            after.checked_sub(before).map_or(Delta::WentBack, |grown| Delta::Forward(unsigned(grown)))
        }
        (Value::Signed(before), Value::Signed(after)) if after >= before => {
            Delta::Forward(unsigned(after.abs_diff(before)))
        }
        (before, after) => {
            let grown = after.as_f64() - before.as_f64();
            if grown >= 0.0 { Delta::Forward(grown) } else { Delta::WentBack }
        }
    }
}

/// A value at a moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RatePoint {
    /// The sample's time on the monotonic clock, nanoseconds.
    pub monotonic_ns: u64,
    /// Of a counter: its rate since the sample before that has one, per second. Of a gauge: its value.
    pub value: f64,
}

/// A series over time.
#[derive(Clone, Debug, PartialEq)]
pub struct Rates {
    /// Name of the series.
    pub name: String,
    /// Unit of the values: for a counter that of the series followed by `/s`.
    pub unit: String,
    /// Values, in order of time; where a counter went back there is none.
    pub points: Vec<RatePoint>,
    /// How often the counter went back.
    pub went_back: usize,
}

/// The rates of counters and the values of gauges, of every series that has some. `samples` are in order of time; of two with
/// the same time the later has no rate.
#[must_use]
pub fn rates(schema: &Schema, samples: &[Sample]) -> Vec<Rates> {
    let mut all = Vec::new();
    for (index, series) in schema.series().iter().enumerate() {
        let values = samples.iter().filter_map(|sample| {
            let value = sample.values().get(index).copied().flatten()?;
            Some((sample.monotonic_ns, value))
        });
        let mut points = Vec::new();
        let mut went_back = 0;
        let unit = match series.kind {
            SeriesKind::Gauge => {
                points.extend(
                    values.map(|(monotonic_ns, value)| RatePoint { monotonic_ns, value: value.as_f64() }),
                );
                series.unit.clone()
            }
            SeriesKind::Counter => {
                let mut before: Option<(u64, Value)> = None;
                for (monotonic_ns, value) in values {
                    if let Some((then, old)) = before {
                        let seconds = unsigned(monotonic_ns.saturating_sub(then)) / 1e9;
                        match delta(old, value) {
                            Delta::Forward(grown) if seconds > 0.0 => {
                                points.push(RatePoint { monotonic_ns, value: grown / seconds });
                            }
                            Delta::Forward(_) => {}
                            Delta::WentBack => went_back += 1,
                        }
                    }
                    before = Some((monotonic_ns, value));
                }
                format!("{}/s", series.unit)
            }
        };
        if !points.is_empty() || went_back > 0 {
            all.push(Rates { name: series.name.clone(), unit, points, went_back });
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sensors::{Series, ValueType};

    fn schema(kinds: &[(&str, SeriesKind)]) -> Schema {
        let mut schema = Schema::new();
        for (name, kind) in kinds {
            let series = Series {
                name: (*name).into(),
                unit: "bytes".into(),
                kind: *kind,
                values: ValueType::Unsigned,
            };
            schema.add(series).unwrap();
        }
        schema
    }

    #[test]
    fn expect_no_rate_when_a_counter_went_back() {
        let schema =
            schema(&[("c", SeriesKind::Counter), ("g", SeriesKind::Gauge), ("n", SeriesKind::Gauge)]);
        let (c, g) = (schema.find("c").unwrap(), schema.find("g").unwrap());
        let sample = |half_seconds: u64, counter: Option<u64>, gauge: u64| {
            let mut sample = Sample::new(half_seconds * 500_000_000, 0);
            if let Some(counter) = counter {
                sample.set(c, Value::Unsigned(counter));
            }
            sample.set(g, Value::Unsigned(gauge));
            sample
        };
        let samples = [
            sample(0, Some(u64::from(u32::MAX)), 5),
            sample(2, Some(3), 4),
            sample(3, None, 3),
            sample(6, Some(23), 9),
            sample(6, Some(24), 9),
        ];
        let rates = rates(&schema, &samples);
        assert_eq!(rates.len(), 2, "a series without values has no entry");
        assert_eq!((rates[0].unit.as_str(), rates[0].went_back), ("bytes/s", 1));
        let points: Vec<_> = rates[0].points.iter().map(|p| (p.monotonic_ns, p.value)).collect();
        assert_eq!(points, [(3_000_000_000, 10.0)]);
        let gauges: Vec<_> = rates[1].points.iter().map(|p| p.value).collect();
        assert_eq!((rates[1].unit.as_str(), gauges), ("bytes", vec![5.0, 4.0, 3.0, 9.0, 9.0]));
    }

    #[test]
    fn expect_exact_differences_when_counters_are_huge() {
        let unsigned = |value| Value::Unsigned(value);
        assert_eq!(delta(unsigned(u64::MAX - 1), unsigned(u64::MAX)), Delta::Forward(1.0));
        assert_eq!(delta(Value::Signed(i64::MIN), Value::Signed(i64::MIN + 2)), Delta::Forward(2.0));
        assert_eq!(delta(Value::Signed(2), Value::Signed(1)), Delta::WentBack);
        assert_eq!(delta(Value::Float(1.5), Value::Float(1.0)), Delta::WentBack);
        assert_eq!(delta(Value::Float(f64::NAN), Value::Float(1.0)), Delta::WentBack);
    }
}
