//! Strict reading of numbers as tools print them, with their units. A text that is not wholly a number in the C
//! locale is refused: `1,5` is neither 15 nor 1. Used by every parser of text.

/// A number together with half a unit of its last printed digit: what rounding may have hidden.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Figure {
    pub value: f64,
    pub half: f64,
}

impl Figure {
    /// A number that was not rounded for printing.
    pub fn exact(value: f64) -> Self {
        Self { value, half: 0.0 }
    }

    /// In a unit that is `factor` times smaller.
    pub fn times(self, factor: f64) -> Self {
        Self { value: self.value * factor, half: self.half * factor }
    }

    /// In a unit that is `divisor` times larger. Dividing by a whole number keeps `104 ms` the `0.104 s` it is;
    /// multiplying by its inverse would not.
    pub fn over(self, divisor: f64) -> Self {
        Self { value: self.value / divisor, half: self.half / divisor }
    }

    /// How much rounding may matter, as a share of the value; infinite for zero.
    pub fn coarseness(self) -> f64 {
        if self.value > 0.0 { self.half / self.value } else { f64::INFINITY }
    }
}

/// The nearest `f64` (exact up to 2^53).
pub(crate) fn approx(count: u64) -> f64 {
    let half = |n: u64| f64::from(u32::try_from(n & u64::from(u32::MAX)).unwrap_or(u32::MAX));
    half(count >> 32) * 4_294_967_296.0 + half(count)
}

/// Digits with at most one `.` and at most one exponent, nothing else, in the range of `f64`.
pub(crate) fn plain(text: &str) -> Option<Figure> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (unsigned, None),
    };
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (mantissa, None),
    };
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    let power: i32 = match exponent {
        Some(exponent) => {
            let bare = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
            digits(bare).then(|| exponent.parse().ok()).flatten()?
        }
        None => 0,
    };
    // awk and bc print `.5`.
    let whole_ok = digits(whole) || (whole.is_empty() && fraction.is_some());
    if !whole_ok || !fraction.is_none_or(digits) {
        return None;
    }
    let value: f64 = text.parse().ok()?;
    let decimals = i32::try_from(fraction.map_or(0, str::len)).ok()?;
    let half = 0.5 * 10_f64.powi(power.saturating_sub(decimals));
    (value.is_finite() && half.is_finite()).then_some(Figure { value, half })
}

/// A count: digits only.
pub(crate) fn count(text: &str) -> Option<u64> {
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

/// Name of a unit, by what to multiply, by what to divide.
type Unit = (&'static str, f64, f64);

/// A number with one of the units of a table behind it, with or without a space.
pub(crate) fn with_unit(text: &str, units: &[Unit]) -> Option<Figure> {
    let at = text.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '-' | '+'))).unwrap_or(text.len());
    let (number, unit) = text.split_at(at);
    let unit = unit.trim_start();
    let (_, factor, divisor) = units.iter().find(|(name, ..)| *name == unit)?;
    Some(plain(number)?.times(*factor).over(*divisor))
}

/// Units of time, in seconds. Go writes microseconds with either of two letters that look alike.
const TIME: [Unit; 8] = [
    ("ns", 1.0, 1e9),
    ("us", 1.0, 1e6),
    ("µs", 1.0, 1e6),
    ("μs", 1.0, 1e6),
    ("ms", 1.0, 1e3),
    ("s", 1.0, 1.0),
    ("m", 60.0, 1.0),
    ("h", 3600.0, 1.0),
];

/// A time such as `618.89us`, `2.10s`, `1.00m` or Go's `1m2.5s`, in seconds.
pub(crate) fn time(text: &str) -> Option<Figure> {
    if text == "0" {
        return Some(Figure::default());
    }
    let mut rest = text;
    let mut sum: Option<Figure> = None;
    while !rest.is_empty() {
        let unit_at = rest.find(|c: char| c.is_alphabetic())?;
        let unit_len = rest.get(unit_at..)?.find(|c: char| !c.is_alphabetic());
        let (part, next) = rest.split_at(unit_len.map_or(rest.len(), |len| unit_at + len));
        let part = with_unit(part, &TIME)?;
        sum = Some(Figure { value: sum.map_or(0.0, |s| s.value) + part.value, half: part.half });
        rest = next;
    }
    sum
}

/// Sizes of tools that mean powers of 1024 by `KB` or `K` (wrk, h2load), in bytes.
pub(crate) const BINARY_SIZES: [Unit; 9] = [
    ("B", 1.0, 1.0),
    ("K", 1024.0, 1.0),
    ("KB", 1024.0, 1.0),
    ("M", 1_048_576.0, 1.0),
    ("MB", 1_048_576.0, 1.0),
    ("G", 1_073_741_824.0, 1.0),
    ("GB", 1_073_741_824.0, 1.0),
    ("T", 1_099_511_627_776.0, 1.0),
    ("TB", 1_099_511_627_776.0, 1.0),
];

/// Words that tools print where there is no figure.
pub(crate) fn is_absent(text: &str) -> bool {
    let bare = text.trim_start_matches(['-', '+']).trim_end_matches('%').to_ascii_lowercase();
    matches!(bare.as_str(), "" | "nan" | "inf" | "infinity" | "n/a" | "null" | "none")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn expect_refusal_when_a_number_is_of_another_locale_or_in_pieces() {
        for text in [
            "1,5", "1.234,5", "1 000", "1'000", "1.", ".", "", "-", "0x10", "1_000", "nan", "inf", "1e",
            "1e999", "٣", "1.2.3", "--1",
        ] {
            assert_eq!(plain(text), None, "{text}");
        }
        assert_eq!(count("1,5"), None);
        assert_eq!(count("+1"), None);
        assert_eq!(count(""), None);
        assert_eq!(time("1,5ms"), None);
        assert_eq!(time("5"), None);
        assert_eq!(with_unit("4,87MB", &BINARY_SIZES), None);
    }

    #[test]
    fn expect_value_and_rounding_when_a_number_is_plain() {
        assert_eq!(plain("1.995"), Some(Figure { value: 1.995, half: 0.0005 }));
        assert_eq!(plain("-3"), Some(Figure { value: -3.0, half: 0.5 }));
        assert_eq!(plain("1.3e+07").unwrap().value, 1.3e7);
        assert_eq!(plain(".25").unwrap().value, 0.25);
    }

    #[test]
    fn expect_seconds_when_a_time_has_any_unit() {
        let close = |text: &str, seconds: f64| {
            let value = time(text).unwrap().value;
            assert!((value - seconds).abs() < 1e-12 * seconds.max(1.0), "{text} {value}");
        };
        close("618.89us", 618.89e-6);
        close("0.96ms", 0.96e-3);
        close("2.10s", 2.1);
        close("1.00m", 60.0);
        close("1h2m3.5s", 3723.5);
        close("90.5µs", 90.5e-6);
        close("0", 0.0);
        close("0s", 0.0);
    }

    proptest! {
        #[test]
        fn every_count_is_near_its_float(n: u64) {
            let text = format!("{n}");
            prop_assert_eq!(approx(n), text.parse::<f64>().unwrap());
            prop_assert_eq!(count(&text), Some(n));
        }

        #[test]
        fn no_text_makes_a_reader_of_numbers_panic_or_return_infinity(text in "\\PC{0,12}|[0-9.,eEkKmMs+-]{0,12}") {
            for figure in [plain(&text), time(&text), with_unit(&text, &BINARY_SIZES)].into_iter().flatten() {
                prop_assert!(figure.half.is_finite());
            }
            if let Some(figure) = plain(&text) {
                prop_assert!(figure.value.is_finite() && !text.contains(','));
            }
        }
    }
}
