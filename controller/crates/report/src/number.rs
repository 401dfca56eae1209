//! Numbers as people read them: few digits, thousands separated, the same number of decimals down a table.

use crate::statistics::Spread;

/// How many decimals a table shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decimals {
    /// The same for all its numbers, so that decimal points line up.
    Fixed(usize),
    /// Four significant digits for each, where the numbers are of too different sizes for one choice.
    Each,
}

/// Significant digits that the smallest number of a table keeps.
const SIGNIFICANT: i32 = 3;
/// Decimals above which a table goes over to [`Decimals::Each`].
const MOST_DECIMALS: i32 = 6;
/// Digits before and after the point of the largest number, above which decimals are noise.
const MOST_DIGITS: i32 = 6;

impl Decimals {
    /// Enough decimals for three significant digits of the smallest number that is not zero; none if all are whole.
    pub(crate) fn for_all(values: impl Iterator<Item = f64> + Clone) -> Self {
        if values.clone().all(|value| value.fract() == 0.0 && value.abs() < 1e15) {
            return Self::Fixed(0);
        }
        let sizes = values.filter(|value| *value != 0.0).map(magnitude);
        let (Some(smallest), Some(largest)) = (sizes.clone().min(), sizes.max()) else {
            return Self::Fixed(0);
        };
        let wanted = (SIGNIFICANT - 1 - smallest).max(0);
        if wanted > MOST_DECIMALS || largest >= 15 || (wanted > 0 && largest + 1 + wanted > MOST_DIGITS) {
            return Self::Each;
        }
        Self::Fixed(usize::try_from(wanted).unwrap_or(0))
    }
}

/// A number with thousands separated by commas.
pub(crate) fn number(value: f64, decimals: Decimals) -> String {
    match decimals {
        Decimals::Fixed(decimals) => thousands(&format!("{value:.decimals$}")),
        Decimals::Each => {
            let size = magnitude(value);
            if value != 0.0 && !(-5..15).contains(&size) {
                return format!("{value:.3e}");
            }
            let decimals =
                if value.fract() == 0.0 { 0 } else { usize::try_from(SIGNIFICANT - size).unwrap_or(0) };
            thousands(&format!("{value:.decimals$}"))
        }
    }
}

/// A spread: `1.2%`, `35%`, or in the unit of the number.
pub(crate) fn spread(spread: Spread) -> String {
    match spread {
        Spread::Relative(fraction) if fraction < 0.0995 => format!("{:.1}%", fraction * 100.0),
        Spread::Relative(fraction) => format!("{}%", number((fraction * 100.0).round(), Decimals::Each)),
        Spread::Absolute(distance) => number(distance, Decimals::Each),
    }
}

/// The decimal exponent: 0 for 1 to 9.99, 3 for 1000.
fn magnitude(value: f64) -> i32 {
    // The exponent as printed, since `log10().floor()` is off by one beside powers of ten.
    let printed = format!("{value:e}");
    printed.rsplit_once('e').and_then(|(_, exponent)| exponent.parse().ok()).unwrap_or(0)
}

fn thousands(plain: &str) -> String {
    let (sign, digits) = plain.strip_prefix('-').map_or(("", plain), |digits| ("-", digits));
    let (whole, fraction) = digits.split_once('.').map_or((digits, None), |(w, f)| (w, Some(f)));
    let mut text = String::from(sign);
    for (i, digit) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    if let Some(fraction) = fraction {
        text.push('.');
        text.push_str(fraction);
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shown(values: &[f64]) -> Vec<String> {
        let decimals = Decimals::for_all(values.iter().copied());
        values.iter().map(|value| number(*value, decimals)).collect()
    }

    #[test]
    fn expect_three_or_four_digits_when_numbers_are_of_one_size() {
        assert_eq!(shown(&[938.04, 697.1, 99.91, 1117.44]), ["938.0", "697.1", "99.9", "1,117.4"]);
        assert_eq!(shown(&[0.394, 5.48]), ["0.394", "5.480"]);
        assert_eq!(shown(&[18599.4, 17460.0, 7776.0]), ["18,599", "17,460", "7,776"]);
        assert_eq!(shown(&[3.0, 1_234_567.0, 0.0, -4000.0]), ["3", "1,234,567", "0", "-4,000"]);
    }

    #[test]
    fn expect_own_decimals_when_numbers_are_of_different_sizes() {
        assert_eq!(shown(&[0.001_234_6, 12_345.6]), ["0.001235", "12,346"]);
        assert_eq!(shown(&[1e-9, 2.5e20]), ["1.000e-9", "2.500e20"]);
    }

    #[test]
    fn expect_short_spreads_when_shown() {
        let texts = [0.0, 0.0123, 0.0996, 0.345, 12.0].map(|s| spread(Spread::Relative(s)));
        assert_eq!(texts, ["0.0%", "1.2%", "10%", "35%", "1,200%"]);
        assert_eq!(spread(Spread::Absolute(2.5)), "2.500");
    }

    proptest! {
        #[test]
        fn shown_numbers_are_near_the_value(values in prop::collection::vec(-1e12..1e12_f64, 1..10)) {
            for (value, text) in values.iter().zip(shown(&values)) {
                let back: f64 = text.replace(',', "").parse().unwrap();
                prop_assert!((back - value).abs() <= 0.005 * value.abs(), "{value} as {text}");
            }
        }
    }
}
