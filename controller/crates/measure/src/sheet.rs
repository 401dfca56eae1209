//! Where a parser writes what it found; keeps the promises of [`Measurement`] (finite values, each name once) in one
//! place.

use std::{collections::HashMap, fmt::Display};

use drover_model::{Doubt, DoubtKind, Measurement, Sample};

use crate::{ParseError, error::shorten};

/// Samples that one task may have; a table with more columns is a mistake.
const MAX_SAMPLES: usize = 1000;

/// Longest histogram handed on, in bytes of its text: far above any of three digits.
const MAX_HISTOGRAM: usize = 1 << 20;

/// Doubts kept; they say little more after that.
const MAX_DOUBTS: usize = 20;

/// A measurement in the making.
#[derive(Debug, Default)]
pub(crate) struct Sheet {
    measurement: Measurement,
    places: HashMap<String, usize>,
    doubts_left_out: usize,
}

impl Sheet {
    /// Adds a sample. What is not finite is not a figure, and not added. A later value of the same name replaces the
    /// earlier one.
    pub fn put(&mut self, name: impl Into<String>, unit: &str, value: f64) {
        let samples = &mut self.measurement.samples;
        if !value.is_finite() || samples.len() > MAX_SAMPLES {
            return;
        }
        let sample = Sample { name: name.into(), value, unit: unit.to_owned() };
        match self.places.get(&sample.name).and_then(|place| samples.get_mut(*place)) {
            Some(known) => *known = sample,
            None => {
                self.places.insert(sample.name.clone(), samples.len());
                samples.push(sample);
            }
        }
    }

    /// Adds a sample if there is one: an absent figure is no sample, never a zero.
    pub fn put_some(&mut self, name: impl Into<String>, unit: &str, value: Option<f64>) {
        if let Some(value) = value {
            self.put(name, unit, value);
        }
    }

    /// Keeps a figure as the tool reported it.
    pub fn report(&mut self, name: &str, value: impl Display) {
        self.measurement.reported.insert(name.to_owned(), shorten(&value.to_string(), 200));
    }

    /// Keeps the histogram of all latencies, in nanoseconds: HdrHistogram V2 encoding in base64.
    pub fn histogram(&mut self, encoded: String) {
        if encoded.len() <= MAX_HISTOGRAM {
            self.measurement.histogram = Some(encoded);
        }
    }

    /// Adds a doubt.
    pub fn doubt(&mut self, kind: DoubtKind, detail: String) {
        if self.measurement.doubts.len() == MAX_DOUBTS {
            self.doubts_left_out += 1;
            return;
        }
        self.measurement.doubts.push(Doubt { kind, detail: shorten(&detail, 400) });
    }

    /// Whether there is no sample yet.
    pub fn is_empty(&self) -> bool {
        self.measurement.samples.is_empty()
    }

    /// Doubts unless `left` and `right` agree within `slack`; `what` names both.
    pub fn check_equal(&mut self, what: &str, left: f64, right: f64, slack: f64) {
        let agree = (left - right).abs() <= slack;
        // A NaN agrees with nothing.
        if !agree {
            self.doubt(DoubtKind::Inconsistent, format!("{what}: {} against {}", show(left), show(right)));
        }
    }

    /// Whether there were more samples than a task may have.
    pub fn overflowed(&self) -> bool {
        self.measurement.samples.len() > MAX_SAMPLES
    }

    /// The measurement of an output read by `parser`.
    pub fn finish(mut self, parser: &'static str) -> Result<Measurement, ParseError> {
        if self.overflowed() {
            return Err(ParseError::TooMany { parser, limit: MAX_SAMPLES });
        }
        if let (Some(last), true) = (self.measurement.doubts.last_mut(), self.doubts_left_out > 0) {
            last.detail.push_str(&format!(" (and {} more)", self.doubts_left_out));
        }
        Ok(self.measurement)
    }

    /// What is not read from an output, and small by construction.
    pub fn into_measurement(self) -> Measurement {
        self.measurement
    }
}

/// A figure for a footnote: whole, or with five significant digits.
pub(crate) fn show(value: f64) -> String {
    let magnitude = value.abs();
    if magnitude >= 1e6 || magnitude == 0.0 || value.fract() == 0.0 {
        return format!("{value:.0}");
    }
    let mut decimals = 2;
    let mut floor = 100.0;
    while decimals < 9 && magnitude < floor {
        decimals += 1;
        floor /= 10.0;
    }
    let text = format!("{value:.decimals$}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A text as sample name: lower-case letters, digits and single `_` between them, at most 64.
pub(crate) fn sample_name(text: &str) -> String {
    let mut name = String::new();
    for c in text.chars().take(64) {
        if c.is_ascii_alphanumeric() {
            name.push(c.to_ascii_lowercase());
        } else if !name.is_empty() && !name.ends_with('_') {
            name.push('_');
        }
    }
    name.trim_end_matches('_').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expect_no_sample_when_a_value_is_not_finite() {
        let mut sheet = Sheet::default();
        sheet.put("a", "1", f64::NAN);
        sheet.put("a", "1", f64::INFINITY);
        sheet.put_some("b", "1", None);
        assert_eq!(sheet.into_measurement().samples, []);
    }

    #[test]
    fn expect_the_last_value_when_a_name_comes_twice() {
        let mut sheet = Sheet::default();
        sheet.put("a", "1", 1.0);
        sheet.put("a", "s", 2.0);
        let measurement = sheet.into_measurement();
        assert_eq!(measurement.samples.len(), 1);
        assert_eq!(measurement.value("a"), Some(2.0));
    }

    #[test]
    fn expect_an_error_when_there_are_too_many_samples() {
        let mut sheet = Sheet::default();
        for i in 0..2 * MAX_SAMPLES {
            sheet.put(format!("s{i}"), "1", 1.0);
        }
        assert!(matches!(sheet.finish("test"), Err(ParseError::TooMany { .. })));
    }

    #[test]
    fn expect_a_bounded_list_when_there_are_many_doubts() {
        let mut sheet = Sheet::default();
        for i in 0..100 {
            sheet.doubt(DoubtKind::Incomplete, format!("{i}").repeat(1000));
        }
        let measurement = sheet.finish("test").unwrap();
        assert_eq!(measurement.doubts.len(), MAX_DOUBTS);
        assert!(measurement.doubts.last().unwrap().detail.ends_with("(and 80 more)"));
        assert!(measurement.doubts.iter().all(|doubt| doubt.detail.len() < 500));
    }

    #[test]
    fn expect_short_figures_when_shown() {
        assert_eq!(show(0.000123456), "0.00012346");
        assert_eq!(show(18.0456), "18.046");
        assert_eq!(show(12345678.9), "12345679");
        assert_eq!(show(500.0), "500");
        assert_eq!(sample_name("LRANGE_100 (first 100 elements)"), "lrange_100_first_100_elements");
        assert_eq!(sample_name("--"), "");
    }
}
