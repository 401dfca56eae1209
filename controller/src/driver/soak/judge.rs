//! Evaluates metrics, and their `must`, of what loads found. Pure.

use std::sync::Arc;

use drover_matrix::{Matrix, MustFailure, RoleSamples};
use drover_model::Name;

use super::sweep::Occasion;

/// What was found in one combination of rounds.
#[derive(Clone, Debug, PartialEq)]
pub struct Judged {
    pub occasion: Occasion,
    /// Metrics that have a value.
    pub values: Vec<(Name, f64)>,
    /// A `must` that does not hold, with the figures.
    pub unfulfilled: Option<String>,
    /// Metrics that should have a value and have none.
    pub problem: Option<String>,
}

/// Evaluates metrics. Remembers what did not hold, since rounds of one load can be judged with the same round of another one
/// several times.
#[derive(Debug)]
pub struct Judge {
    matrix: Arc<Matrix>,
    before: Vec<MustFailure>,
}

impl Judge {
    pub fn new(matrix: &Arc<Matrix>) -> Self {
        Self { matrix: Arc::clone(matrix), before: Vec::new() }
    }

    /// Judges what there is of all loads.
    pub fn judge(&mut self, samples: &[RoleSamples<'_>], occasion: Occasion) -> Judged {
        let metrics = self.matrix.metrics();
        let (mut values, mut problems) = (Vec::new(), Vec::new());
        for (metric, outcome) in metrics.evaluate_each(samples) {
            match outcome {
                Ok(value) => values.push((metric.name.clone(), value)),
                Err(error) if occasion == Occasion::Point && self.is_of_loads(&metric.name) => {
                    problems.push(error.to_string());
                }
                Err(_) => {}
            }
        }
        let failures = metrics.failures(&values);
        let is_new = |failure: &&MustFailure| {
            occasion == Occasion::Point || !self.before.iter().any(|before| before == *failure)
        };
        let texts: Vec<&str> = failures.iter().filter(is_new).map(|failure| failure.text.as_str()).collect();
        let unfulfilled = (!texts.is_empty()).then(|| texts.join("; "));
        self.before = failures;
        let problem = (!problems.is_empty()).then(|| problems.join("; "));
        Judged { occasion, values, unfulfilled, problem }
    }

    /// Whether a metric comes from loads alone: what services tell at their end comes later.
    fn is_of_loads(&self, metric: &Name) -> bool {
        let roles = self.matrix.roles();
        let is_service =
            |name: &str| roles.iter().any(|role| role.name.as_str() == name && role.is_service());
        let named = self.matrix.metrics().roles_of(metric);
        if named.is_empty() {
            !roles.iter().any(|role| role.is_service() && role.measure.is_some())
        } else {
            !named.into_iter().any(is_service)
        }
    }
}
