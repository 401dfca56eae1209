//! Durations (`10s`, `1m30s`) and sizes (`64MiB`), always with their unit.

use std::{ops::RangeInclusive, time::Duration};

use super::{fields::Problems, value};
use crate::{suggest, tree::Node};

/// Longest duration allowed anywhere in a matrix: 30 days.
const MAX_DURATION: Duration = Duration::from_secs(30 * 24 * 3600);

const DURATION_HELP: &str = "a number with a unit: 500ms, 10s, 2m, 1h, or parts joined: 1m30s";
const DURATION_UNITS: [(&str, u64); 10] = [
    ("us", 1),
    ("ms", 1_000),
    ("s", 1_000_000),
    ("sec", 1_000_000),
    ("m", 60_000_000),
    ("min", 60_000_000),
    ("h", 3_600_000_000),
    ("hr", 3_600_000_000),
    ("d", 86_400_000_000),
    ("day", 86_400_000_000),
];

const SIZE_HELP: &str = "a number with a unit: 512KiB, 64MiB, 1GiB (or B, kB, MB, GB)";
const SIZE_UNITS: [(&str, u64); 7] = [
    ("B", 1),
    ("kB", 1_000),
    ("KiB", 1 << 10),
    ("MB", 1_000_000),
    ("MiB", 1 << 20),
    ("GB", 1_000_000_000),
    ("GiB", 1 << 30),
];

/// Why a quantity cannot be read.
#[derive(Debug, PartialEq, Eq)]
enum QuantityError {
    NoNumber,
    NoUnit,
    Unit(String),
    TooLarge,
}

/// Sums `number unit` pairs; numbers may have a fraction (`1.5s`).
fn quantity(text: &str, units: &[(&str, u64)]) -> Result<u64, QuantityError> {
    let mut rest = text.trim();
    let mut sum: u64 = 0;
    if rest.is_empty() {
        return Err(QuantityError::NoNumber);
    }
    while !rest.is_empty() {
        let end = rest.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(rest.len());
        let (number, tail) = rest.split_at(end);
        let tail = tail.trim_start();
        let unit_end = tail.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit_end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        if !digits(whole) || !digits(fraction) || fraction.len() > 6 {
            return Err(QuantityError::NoNumber);
        }
        if unit.is_empty() {
            return Err(if tail.is_empty() { QuantityError::NoUnit } else { QuantityError::NoNumber });
        }
        let Some((_, factor)) = units.iter().find(|(name, _)| *name == unit) else {
            return Err(QuantityError::Unit(unit.to_owned()));
        };
        let part = scaled(whole, fraction, *factor).ok_or(QuantityError::TooLarge)?;
        sum = sum.checked_add(part).ok_or(QuantityError::TooLarge)?;
        rest = tail.trim_start();
    }
    Ok(sum)
}

/// `whole.fraction` times `factor`, rounded down.
fn scaled(whole: &str, fraction: &str, factor: u64) -> Option<u64> {
    let power = 10_u64.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let whole = whole.parse::<u64>().ok()?.checked_mul(factor)?;
    let fraction = u128::from(fraction.parse::<u64>().ok()?) * u128::from(factor) / u128::from(power);
    whole.checked_add(u64::try_from(fraction).ok()?)
}

fn report(
    node: &Node,
    what: &str,
    text: &str,
    error: &QuantityError,
    (kind, known, help): (&str, &[(&str, u64)], &str),
    problems: &mut Problems,
) {
    let message = match error {
        QuantityError::NoNumber => format!("{what} must be {kind}, found `{text}`"),
        QuantityError::NoUnit => format!("{what} has no unit: `{text}`"),
        QuantityError::Unit(unit) => format!("{what} has the unknown unit `{unit}`"),
        QuantityError::TooLarge => format!("{what} is too large: `{text}`"),
    };
    let help = match error {
        QuantityError::NoUnit => {
            format!("write `{text}{}`, or {help}", if kind == "a size" { "MiB" } else { "s" })
        }
        QuantityError::Unit(unit) => match suggest::closest(unit, known.iter().map(|(name, _)| *name)) {
            Some(close) => format!("did you mean `{close}`? {help}"),
            None => help.to_owned(),
        },
        _ => help.to_owned(),
    };
    problems.add(node.span.clone(), message, help);
}

/// A duration, above zero.
pub(crate) fn duration(node: &Node, what: &str, problems: &mut Problems) -> Option<Duration> {
    let scalar = value::scalar(node, what, problems)?;
    let error = match quantity(&scalar.text, &DURATION_UNITS).map(Duration::from_micros) {
        Ok(Duration::ZERO) => {
            problems.add(node.span.clone(), format!("{what} must be above zero"), DURATION_HELP);
            return None;
        }
        Ok(duration) if duration <= MAX_DURATION => return Some(duration),
        Ok(_) => QuantityError::TooLarge,
        Err(error) => error,
    };
    report(node, what, &scalar.text, &error, ("a duration", &DURATION_UNITS, DURATION_HELP), problems);
    None
}

/// A size in bytes.
pub(crate) fn size(node: &Node, what: &str, problems: &mut Problems) -> Option<u64> {
    let scalar = value::scalar(node, what, problems)?;
    match quantity(&scalar.text, &SIZE_UNITS) {
        Ok(bytes) => Some(bytes),
        Err(error) => {
            report(node, what, &scalar.text, &error, ("a size", &SIZE_UNITS, SIZE_HELP), problems);
            None
        }
    }
}

/// A size in bytes, in a range.
pub(crate) fn size_within(
    node: &Node,
    what: &str,
    range: RangeInclusive<u64>,
    problems: &mut Problems,
) -> Option<u64> {
    let bytes = size(node, what, problems)?;
    if range.contains(&bytes) {
        return Some(bytes);
    }
    let (low, high) = (shown(*range.start()), shown(*range.end()));
    problems.add(node.span.clone(), format!("{what} must lie between {low} and {high}"), SIZE_HELP);
    None
}

/// A size in the largest unit that divides it.
fn shown(bytes: u64) -> String {
    let mut units = SIZE_UNITS.iter().rev().filter(|(name, _)| name.ends_with("iB"));
    match units.find(|(_, factor)| bytes > 0 && bytes.is_multiple_of(*factor)) {
        Some((name, factor)) => format!("{}{name}", bytes / factor),
        None => format!("{bytes}B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expect_microseconds_and_bytes_when_units_are_given() {
        assert_eq!(quantity("10s", &DURATION_UNITS), Ok(10_000_000));
        assert_eq!(quantity("1m30s", &DURATION_UNITS), Ok(90_000_000));
        assert_eq!(quantity("1h 5 min", &DURATION_UNITS), Ok(3_900_000_000));
        assert_eq!(quantity("1.5s", &DURATION_UNITS), Ok(1_500_000));
        assert_eq!(quantity("64MiB", &SIZE_UNITS), Ok(64 << 20));
        assert_eq!(quantity("10", &DURATION_UNITS), Err(QuantityError::NoUnit));
        assert_eq!(quantity("10 parsecs", &DURATION_UNITS), Err(QuantityError::Unit("parsecs".into())));
        assert_eq!(quantity("-3s", &DURATION_UNITS), Err(QuantityError::NoNumber));
        assert_eq!(quantity("99999999999999999999s", &DURATION_UNITS), Err(QuantityError::TooLarge));
        assert_eq!(quantity("soon", &DURATION_UNITS), Err(QuantityError::NoNumber));
    }
}
