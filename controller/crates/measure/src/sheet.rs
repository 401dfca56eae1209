//! Where a parser writes what it found; keeps the promises of [`Measurement`] (finite values, each name once) in one
//! place.

use std::fmt::Display;

use drover_model::{Doubt, DoubtKind, Measurement, Sample};

/// A measurement in the making.
#[derive(Debug, Default)]
pub(crate) struct Sheet {
    measurement: Measurement,
}

impl Sheet {
    /// Adds a sample. What is not finite is not a figure, and not added. A later value of the same name replaces the
    /// earlier one.
    pub fn put(&mut self, name: impl Into<String>, unit: &str, value: f64) {
        if !value.is_finite() {
            return;
        }
        let sample = Sample { name: name.into(), value, unit: unit.to_owned() };
        match self.measurement.samples.iter_mut().find(|known| known.name == sample.name) {
            Some(known) => *known = sample,
            None => self.measurement.samples.push(sample),
        }
    }

    /// Adds a sample if there is one: an absent figure is no sample, never a zero.
    pub fn put_some(&mut self, name: impl Into<String>, unit: &str, value: Option<f64>) {
        if let Some(value) = value {
            self.put(name, unit, value);
        }
    }

    /// Takes a sample away again.
    pub fn remove(&mut self, name: &str) {
        self.measurement.samples.retain(|sample| sample.name != name);
    }

    /// Keeps a figure as the tool reported it.
    pub fn report(&mut self, name: &str, value: impl Display) {
        self.measurement.reported.insert(name.to_owned(), value.to_string());
    }

    /// Adds a doubt.
    pub fn doubt(&mut self, kind: DoubtKind, detail: String) {
        self.measurement.doubts.push(Doubt { kind, detail });
    }

    /// Number of samples so far.
    pub fn len(&self) -> usize {
        self.measurement.samples.len()
    }

    /// Doubts unless `left` and `right` agree within `slack`; `what` names both.
    pub fn check_equal(&mut self, what: &str, left: f64, right: f64, slack: f64) {
        // Written so that a NaN counts as disagreement.
        if !((left - right).abs() <= slack) {
            self.doubt(DoubtKind::Inconsistent, format!("{what}: {} against {}", show(left), show(right)));
        }
    }

    pub fn finish(self) -> Measurement {
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

/// A text as sample name: lower-case letters, digits and single `_` between them.
pub(crate) fn sample_name(text: &str) -> String {
    let mut name = String::new();
    for c in text.chars() {
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
        assert_eq!(sheet.finish().samples, []);
    }

    #[test]
    fn expect_the_last_value_when_a_name_comes_twice() {
        let mut sheet = Sheet::default();
        sheet.put("a", "1", 1.0);
        sheet.put("a", "s", 2.0);
        let measurement = sheet.finish();
        assert_eq!(measurement.samples.len(), 1);
        assert_eq!(measurement.value("a"), Some(2.0));
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
