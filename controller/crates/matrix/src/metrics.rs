//! Metrics of a trial: declared metrics from the samples of its measured roles, and their `must` conditions.

use std::collections::BTreeMap;

use drover_model::{Name, Sample};
use minijinja::Value;

use crate::{
    expr::{self, Expression},
    spec::Metric,
};

/// Samples that every measured role has, whatever its parser finds: the agent measures them.
pub(crate) const IMPLICIT_SAMPLES: [&str; 14] = [
    "wall_s",
    "user_s",
    "system_s",
    "cpu_s",
    "cpu_share",
    "max_rss_bytes",
    "voluntary_switches",
    "involuntary_switches",
    "machine_switches",
    "listen_overflows",
    "listen_drops",
    "retransmits",
    "time_wait_overflows",
    "steal_s",
];

/// A metric with its expressions.
#[derive(Clone, Debug)]
pub(crate) struct MetricDraft {
    pub(crate) metric: Metric,
    pub(crate) value: Option<Expression>,
    pub(crate) must: Option<Expression>,
}

/// The declared metrics of a matrix, ready to be evaluated.
#[derive(Clone, Debug)]
pub struct Metrics {
    list: Vec<MetricDraft>,
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
        /// Samples that were found, as `role.sample, ...`; `nothing` if none.
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
    #[error("metric `{metric}`: `{expression}`: {problem}")]
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
    pub(crate) fn new(list: Vec<MetricDraft>) -> Self {
        Self { list }
    }

    /// The metrics in the order of the file.
    pub fn iter(&self) -> impl Iterator<Item = &Metric> {
        self.list.iter().map(|draft| &draft.metric)
    }

    /// The metric that tables show by default.
    #[must_use]
    pub fn primary(&self) -> Option<&Metric> {
        self.iter().find(|metric| metric.primary)
    }

    /// The value of every declared metric, in the order of the file.
    ///
    /// # Errors
    ///
    /// Every metric that has no value, with the reason.
    pub fn evaluate(&self, samples: &[RoleSamples<'_>]) -> Result<Vec<(Name, f64)>, MetricErrors> {
        let mut values = Vec::with_capacity(self.list.len());
        let mut errors = Vec::new();
        for draft in &self.list {
            match draft.evaluate(samples) {
                Ok(value) => values.push((draft.metric.name.clone(), value)),
                Err(error) => errors.push(error),
            }
        }
        if errors.is_empty() { Ok(values) } else { Err(MetricErrors { list: errors }) }
    }

    /// The metrics whose value does not fulfil their `must`.
    #[must_use]
    pub fn failures(&self, values: &[(Name, f64)]) -> Vec<MustFailure> {
        let failure = |draft: &MetricDraft| {
            let must = draft.must.as_ref()?;
            let value =
                values.iter().find(|(name, _)| *name == draft.metric.name).map(|(_, value)| *value)?;
            let context = Value::from_pairs([("value", Value::from(value))]);
            let verdict = must.evaluate(context).map_err(|error| error.problem);
            let problem = match verdict.and_then(|result| expr::truth(&result)) {
                Ok(true) => return None,
                Ok(false) => String::new(),
                Err(problem) => format!(" ({problem})"),
            };
            let Metric { name, unit, .. } = &draft.metric;
            let unit = if unit == "1" { String::new() } else { format!(" {unit}") };
            let text = format!("{name} = {value}{unit}, must be {}{problem}", must.scalar.text.trim());
            Some(MustFailure { metric: name.clone(), value, text })
        };
        self.list.iter().filter_map(failure).collect()
    }
}

impl MetricDraft {
    fn evaluate(&self, samples: &[RoleSamples<'_>]) -> Result<f64, MetricError> {
        let metric = &self.metric;
        if let Some(expression) = &self.value {
            return self.computed(expression, samples);
        }
        match &metric.from {
            Some(from) => {
                let name = from.sample.as_deref().unwrap_or(metric.name.as_str());
                let found = samples
                    .iter()
                    .filter(|found| *found.role == from.role)
                    .find_map(|found| value(found, name));
                found.ok_or_else(|| self.missing(&format!("{}.{name}", from.role), samples))
            }
            None => self.bare(metric.name.as_str(), samples),
        }
    }

    /// A sample by its name alone, from whichever role has it.
    fn bare(&self, name: &str, samples: &[RoleSamples<'_>]) -> Result<f64, MetricError> {
        let found: Vec<(&Name, f64)> =
            samples.iter().filter_map(|found| Some((found.role, value(found, name)?))).collect();
        match found.as_slice() {
            [] => Err(self.missing(name, samples)),
            [(_, value)] => Ok(*value),
            many => Err(MetricError::Ambiguous {
                metric: self.metric.name.clone(),
                sample: name.to_owned(),
                roles: many.iter().map(|(role, _)| role.to_string()).collect(),
            }),
        }
    }

    /// The value of an expression over samples.
    fn computed(&self, expression: &Expression, samples: &[RoleSamples<'_>]) -> Result<f64, MetricError> {
        let mut plain: BTreeMap<String, Value> = BTreeMap::new();
        let mut roles: BTreeMap<String, BTreeMap<String, Value>> = BTreeMap::new();
        for path in &expression.variables {
            match path.split_once('.') {
                Some((role, name)) => {
                    let found = samples.iter().filter(|found| found.role.as_str() == role);
                    let value = found.into_iter().find_map(|found| value(found, name));
                    let value = value.ok_or_else(|| self.missing(path, samples))?;
                    roles.entry(role.to_owned()).or_default().insert(name.to_owned(), Value::from(value));
                }
                None => {
                    plain.insert(path.clone(), Value::from(self.bare(path, samples)?));
                }
            }
        }
        let roles = roles.into_iter().map(|(role, values)| (role, Value::from_pairs(values)));
        let context = Value::from_pairs(plain.into_iter().chain(roles));
        let failed = |problem: String| MetricError::Expression {
            metric: self.metric.name.clone(),
            expression: expression.scalar.text.clone(),
            problem,
        };
        let result = expression.evaluate(context).map_err(|error| failed(error.problem))?;
        let number = f64::try_from(result.clone()).ok().filter(|number| number.is_finite());
        number.ok_or_else(|| failed(format!("it gives `{result}`, not a finite number")))
    }

    fn missing(&self, sample: &str, samples: &[RoleSamples<'_>]) -> MetricError {
        let implicit = |name: &str| IMPLICIT_SAMPLES.contains(&name);
        let all = samples
            .iter()
            .flat_map(|found| found.samples.iter().map(move |sample| (found.role, &sample.name)));
        // What the parser found says more than what is always there.
        let own: Vec<String> =
            all.filter(|(_, name)| !implicit(name)).map(|(role, name)| format!("{role}.{name}")).collect();
        let found = if own.is_empty() { "nothing".to_owned() } else { own.join(", ") };
        MetricError::Missing { metric: self.metric.name.clone(), sample: sample.to_owned(), found }
    }
}

fn value(found: &RoleSamples<'_>, name: &str) -> Option<f64> {
    found.samples.iter().find(|sample| sample.name == name).map(|sample| sample.value)
}
