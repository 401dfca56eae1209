//! Metrics of a trial: declared metrics from the samples of its measured roles, and their `must` conditions.

use drover_model::{Name, Sample};

use crate::spec::Metric;

/// The declared metrics of a matrix, ready to be evaluated.
#[derive(Clone, Debug)]
pub struct Metrics {
    list: Vec<Metric>,
}

/// What the parsers found in the output of one measured role.
#[derive(Clone, Copy, Debug)]
pub struct RoleSamples<'a> {
    /// The role.
    pub role: &'a Name,
    /// Its samples, the implicit ones (`wall_s`, `cpu_s`, ...) included.
    pub samples: &'a [Sample],
}

/// Why a declared metric has no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MetricError {
    /// No measured role has a sample of that name.
    #[error("metric `{metric}`: no sample `{sample}` was found; found: {found}")]
    Missing {
        /// The metric.
        metric: Name,
        /// The sample it needs.
        sample: String,
        /// Samples that were found, as `role.sample, ...`.
        found: String,
    },
    /// Several measured roles have one.
    #[error("metric `{metric}`: sample `{sample}` was found in {}; say which with `from: ROLE`", roles.join(" and "))]
    Ambiguous {
        /// The metric.
        metric: Name,
        /// The sample it needs.
        sample: String,
        /// The roles that have it.
        roles: Vec<String>,
    },
    /// Its expression failed or did not give a finite number.
    #[error("metric `{metric}`: `{expression}` {problem}")]
    Expression {
        /// The metric.
        metric: Name,
        /// The expression.
        expression: String,
        /// What happened.
        problem: String,
    },
}

/// All metrics of a trial that have no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", list.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
pub struct MetricErrors {
    /// One per metric, at least one.
    pub list: Vec<MetricError>,
}

/// A metric whose value does not fulfil its `must`.
#[derive(Clone, Debug, PartialEq)]
pub struct MustFailure {
    /// The metric.
    pub metric: Name,
    /// Its value.
    pub value: f64,
    /// For a verdict: `failed = 3 connections, must be == 0`.
    pub text: String,
}

impl Metrics {
    /// The metrics in the order of the file.
    #[must_use]
    pub fn list(&self) -> &[Metric] {
        &self.list
    }

    /// The metric that tables show by default.
    #[must_use]
    pub fn primary(&self) -> Option<&Metric> {
        self.list.iter().find(|metric| metric.primary)
    }

    /// The value of every declared metric, in the order of the file.
    ///
    /// # Errors
    ///
    /// Every metric that has no value, with the reason.
    pub fn evaluate(&self, samples: &[RoleSamples<'_>]) -> Result<Vec<(Name, f64)>, MetricErrors> {
        let _ = samples;
        Ok(Vec::new())
    }

    /// The metrics whose value does not fulfil their `must`.
    #[must_use]
    pub fn failures(&self, values: &[(Name, f64)]) -> Vec<MustFailure> {
        let _ = values;
        Vec::new()
    }
}
