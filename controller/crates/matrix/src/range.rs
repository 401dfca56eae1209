//! Ranges of axis values: `1..8`, `0..100 +25`, `2..1024 *2`. Both ends belong to the range.

use std::sync::Arc;

use drover_model::AxisValue;

/// Most values of one axis.
pub(crate) const MAX_VALUES: u64 = 1_000_000;

pub(crate) const HELP: &str =
    "ranges are written `1..8`, `0..100 +25` or `2..1024 *2`, with whole numbers from low to high";

/// How a range goes from one value to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Add(u64),
    Multiply(u64),
}

/// The values of a text that has the form of a range. `None` if it has not (it is an ordinary value then), an error if it
/// has, but makes no sense.
pub(crate) fn expand(text: &str) -> Option<Result<Vec<AxisValue>, String>> {
    let (bounds, step) = match text.split_once(char::is_whitespace) {
        Some((bounds, step)) => (bounds, Some(step.trim())),
        None => (text, None),
    };
    let (low, high) = bounds.split_once("..")?;
    let numeric =
        |text: &str| !text.is_empty() && text.trim_start_matches('-').bytes().all(|b| b.is_ascii_digit());
    // `a..b`, `../x` and `1...8` are text.
    (numeric(low) && numeric(high)).then(|| range(low, high, step))
}

fn range(low: &str, high: &str, step: Option<&str>) -> Result<Vec<AxisValue>, String> {
    let number = |text: &str| text.parse::<i64>().map_err(|_| format!("`{text}` is too large"));
    let (low, high) = (number(low)?, number(high)?);
    let step = step.map_or(Ok(Step::Add(1)), parse_step)?;
    if low > high {
        return Err(format!("the range begins at {low}, above its end {high}"));
    }
    if matches!(step, Step::Multiply(_)) && low < 1 {
        return Err(format!("a range that multiplies cannot begin at {low}"));
    }
    let mut values: Vec<AxisValue> = Vec::new();
    let mut next = Some(low);
    if let Step::Add(step) = step {
        let count = high.abs_diff(low) / step;
        if count >= MAX_VALUES {
            let count = u128::from(count) + 1;
            return Err(format!(
                "the range has {count} values, an axis can have {MAX_VALUES}; use a larger step"
            ));
        }
    }
    while let Some(value) = next.filter(|value| *value <= high) {
        values.push(Arc::from(value.to_string()));
        next = match step {
            Step::Add(step) => value.checked_add_unsigned(step),
            Step::Multiply(factor) => i64::try_from(factor).ok().and_then(|factor| value.checked_mul(factor)),
        };
    }
    Ok(values)
}

fn parse_step(text: &str) -> Result<Step, String> {
    let number = |digits: &str| digits.trim().parse::<u64>().ok();
    let step = match text.split_at_checked(1) {
        Some(("+", digits)) => number(digits).filter(|step| *step >= 1).map(Step::Add),
        Some(("*", digits)) => number(digits).filter(|factor| *factor >= 2).map(Step::Multiply),
        _ => None,
    };
    step.ok_or_else(|| format!("`{text}` is no step: write `+N` with N from 1, or `*N` with N from 2"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(text: &str) -> Vec<String> {
        expand(text).unwrap().unwrap().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn expect_both_ends_and_steps_when_a_range_is_written() {
        assert_eq!(values("1..4"), ["1", "2", "3", "4"]);
        assert_eq!(values("0..100 +25"), ["0", "25", "50", "75", "100"]);
        assert_eq!(values("2..1024 *8"), ["2", "16", "128", "1024"]);
        assert_eq!(values("-1..1"), ["-1", "0", "1"]);
        assert_eq!(values("5..5"), ["5"]);
        assert_eq!(values("9223372036854775806..9223372036854775807").len(), 2);
    }

    #[test]
    fn expect_an_error_and_no_memory_when_a_range_is_absurd() {
        for text in [
            "8..1",
            "1..9999999999",
            "1..8 -1",
            "0..8 *2",
            "1..8 *1",
            "1..8 +0",
            "1..8 by 2",
            "1..99999999999999999999",
        ] {
            assert!(expand(text).unwrap().is_err(), "{text}");
        }
    }

    #[test]
    fn expect_ordinary_text_when_it_is_no_range() {
        for text in ["6.10", "a..b", "../x", "1..", "..8", "1...8", "x 1..8", "", "1..8.."] {
            assert!(expand(text).is_none(), "{text}");
        }
    }
}
