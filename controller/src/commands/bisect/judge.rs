//! Whether a finished trial shows the failure that is searched for.

use std::{fmt, str::FromStr};

use drover_bisect::Outcome;
use drover_model::Verdict;
use drover_store::{AttemptRecord, RunResults};
use serde::{Deserialize, Serialize};

/// What is bad.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Condition {
    /// Any failure of the system under test, or one with this cause.
    Ng(Option<String>),
    /// A metric beyond a bound.
    Bound { metric: String, comparison: Comparison, bound: f64 },
}

/// How a metric compares with a bound when it is bad.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Comparison {
    const ALL: [(&'static str, Self); 4] =
        [("<=", Self::LessOrEqual), (">=", Self::GreaterOrEqual), ("<", Self::Less), (">", Self::Greater)];

    fn holds(self, value: f64, bound: f64) -> bool {
        match self {
            Self::Less => value < bound,
            Self::LessOrEqual => value <= bound,
            Self::Greater => value > bound,
            Self::GreaterOrEqual => value >= bound,
        }
    }
}

impl FromStr for Condition {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = "expected `ng`, `ng:CAUSE` such as ng:lockup, or a bound such as 'conn_per_s < 900'";
        if text == "ng" {
            return Ok(Self::Ng(None));
        }
        if let Some(cause) = text.strip_prefix("ng:") {
            let known = drover_model::NgCause::ALL.iter().map(|cause| cause.as_str());
            let known: Vec<&str> = known.collect();
            return match known.contains(&cause) {
                true => Ok(Self::Ng(Some(cause.to_owned()))),
                false => Err(format!("no failure has the cause `{cause}`; there are {}", known.join(", "))),
            };
        }
        let split = Comparison::ALL.into_iter().find_map(|(sign, comparison)| {
            let (metric, bound) = text.split_once(sign)?;
            Some((metric.trim(), comparison, bound.trim()))
        });
        let (metric, comparison, bound) = split.ok_or_else(|| expected.to_owned())?;
        match bound.parse::<f64>() {
            Ok(bound) if bound.is_finite() && !metric.is_empty() => {
                Ok(Self::Bound { metric: metric.to_owned(), comparison, bound })
            }
            _ => Err(format!("`{bound}` is no bound of a metric; {expected}")),
        }
    }
}

impl TryFrom<String> for Condition {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Condition> for String {
    fn from(condition: Condition) -> Self {
        condition.to_string()
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ng(None) => f.write_str("ng"),
            Self::Ng(Some(cause)) => write!(f, "ng:{cause}"),
            Self::Bound { metric, comparison, bound } => {
                let sign = Comparison::ALL
                    .iter()
                    .find(|(_, known)| known == comparison)
                    .map_or("", |(sign, _)| *sign);
                write!(f, "{metric} {sign} {bound}")
            }
        }
    }
}

/// What the only trial of a run shows, and why.
pub fn judge(condition: &Condition, results: &RunResults) -> (Outcome, String) {
    match results.attempts.iter().rfind(|attempt| attempt.is_final) {
        Some(attempt) => judge_attempt(condition, attempt),
        None => (Outcome::Skipped, "it was not measured".to_owned()),
    }
}

fn judge_attempt(condition: &Condition, attempt: &AttemptRecord) -> (Outcome, String) {
    let verdict = &attempt.verdict;
    let said = |verdict: &Verdict| {
        let text = format!("{} {}: {}", verdict.outcome().as_str(), verdict.cause(), verdict.detail());
        text.lines().next().unwrap_or_default().to_owned()
    };
    match (condition, verdict) {
        (_, Verdict::Error { .. } | Verdict::Missing { .. }) => (Outcome::Skipped, said(verdict)),
        (Condition::Ng(wanted), Verdict::Ng { cause, .. }) => {
            // Another failure is neither the one that is searched for nor its absence.
            let is_wanted = wanted.as_ref().is_none_or(|wanted| wanted == cause.as_str());
            (if is_wanted { Outcome::Bad } else { Outcome::Skipped }, said(verdict))
        }
        (Condition::Ng(_), Verdict::Ok | Verdict::Suspect { .. }) => {
            (Outcome::Good, verdict.outcome().as_str().to_owned())
        }
        (Condition::Bound { .. }, Verdict::Ng { .. }) => (Outcome::Skipped, said(verdict)),
        (Condition::Bound { metric, comparison, bound }, Verdict::Ok | Verdict::Suspect { .. }) => {
            match attempt.metrics.iter().find(|(name, _)| name.as_str() == metric) {
                Some((_, value)) => {
                    let outcome = if comparison.holds(*value, *bound) { Outcome::Bad } else { Outcome::Good };
                    (outcome, format!("{metric} = {}", drover_report::format_number(*value)))
                }
                None => (Outcome::Skipped, format!("it has no {metric}")),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expect_the_same_condition_when_it_is_written_and_read() {
        for text in ["ng", "ng:lockup", "conn_per_s < 900", "failed >= 1", "x <= -0.5", "y > 1000000"] {
            assert_eq!(text.parse::<Condition>().unwrap().to_string(), text);
        }
        assert_eq!("a<3".parse::<Condition>().unwrap().to_string(), "a < 3");
    }

    #[test]
    fn expect_what_is_known_named_when_a_condition_makes_no_sense() {
        assert!("ng:lokup".parse::<Condition>().unwrap_err().contains("lockup"));
        for text in ["", "bad", "conn_per_s", "x < many", "< 3", "x < NaN", "x == 3"] {
            assert!(text.parse::<Condition>().unwrap_err().contains("expected"), "{text}");
        }
    }
}
