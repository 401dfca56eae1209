//! Metrics of a trial: declared metrics from the samples of its measured roles, and their `must` conditions.

use std::{borrow::Cow, collections::BTreeMap};

use drover_model::{Name, Sample};
use minijinja::Value;

use crate::{
    expr::{self, Expression},
    merged,
    spec::{Across, Metric, Role},
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

impl Across {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Sum, Self::Max, Self::Min, Self::Mean, Self::Merged];

    /// The word in the matrix file.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sum => "sum",
            Self::Max => "max",
            Self::Min => "min",
            Self::Mean => "mean",
            Self::Merged => "merged",
        }
    }
}

/// The declared metrics of a matrix, ready to be evaluated.
#[derive(Clone, Debug)]
pub struct Metrics {
    list: Vec<MetricDraft>,
    /// Roles with several instances, and how many.
    several: Vec<(Name, u32)>,
}

/// What the parser found in the output of one instance of a measured role.
#[derive(Clone, Copy, Debug)]
pub struct RoleSamples<'a> {
    /// The role.
    pub role: &'a Name,
    /// Which instance of it, from 0.
    pub instance: u32,
    /// Its samples, the implicit ones (`wall_s`, `cpu_s`, ...) included.
    pub samples: &'a [Sample],
    /// The histogram of its latencies in nanoseconds, if it has one: HdrHistogram V2 encoding in base64.
    pub histogram: Option<&'a str>,
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
    /// Some instances of the role have one, others do not. A metric never stands for a part of its instances.
    #[error(
        "metric `{metric}`: sample `{sample}` is missing in {} of {of} instances: {}",
        without.len(),
        listed(role, without)
    )]
    Partial {
        /// The metric.
        metric: Name,
        /// The sample it needs.
        sample: String,
        /// The role.
        role: Name,
        /// The instances that do not have it.
        without: Vec<u32>,
        /// How many there are.
        of: u32,
    },
    /// Several instances have one, and nothing says how they become one.
    #[error(
        "metric `{metric}`: sample `{sample}` was found in {of} instances of `{role}`; say how they become one with `across`"
    )]
    Several {
        /// The metric.
        metric: Name,
        /// The sample it needs.
        sample: String,
        /// The role.
        role: Name,
        /// How many have it.
        of: u32,
    },
    /// The latencies of the instances cannot be merged.
    #[error("metric `{metric}`: the latencies of `{role}` {instance} cannot be merged: {problem}")]
    Histogram {
        /// The metric.
        metric: Name,
        /// The role.
        role: Name,
        /// The instance whose histogram is missing or broken.
        instance: u32,
        /// What is wrong with it.
        problem: String,
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

/// A few instances, and how many more.
fn listed(role: &Name, instances: &[u32]) -> String {
    let shown: Vec<String> = instances.iter().take(5).map(|instance| format!("{role}.{instance}")).collect();
    let more = instances.len() - shown.len();
    let tail = if more > 0 { format!(" and {more} more") } else { String::new() };
    shown.join(", ") + &tail
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
    pub(crate) fn new(list: Vec<MetricDraft>, roles: &[Role]) -> Self {
        let several = roles.iter().filter(|role| role.tasks() > 1);
        Self { list, several: several.map(|role| (role.name.clone(), role.tasks())).collect() }
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

    /// The value of every declared metric, in the order of the file. `samples` has one item per instance of every measured
    /// role; the order does not matter.
    ///
    /// # Errors
    ///
    /// Every metric that has no value, with the reason.
    pub fn evaluate(&self, samples: &[RoleSamples<'_>]) -> Result<Vec<(Name, f64)>, MetricErrors> {
        let mut values = Vec::with_capacity(self.list.len());
        let mut errors = Vec::new();
        for (metric, outcome) in self.evaluate_each(samples) {
            match outcome {
                Ok(value) => values.push((metric.name.clone(), value)),
                Err(error) => errors.push(error),
            }
        }
        if errors.is_empty() { Ok(values) } else { Err(MetricErrors { list: errors }) }
    }

    /// The value of every declared metric, in the order of the file, or why it has none: what [`Metrics::evaluate`] does, for
    /// samples that need not be all.
    #[must_use]
    pub fn evaluate_each(&self, samples: &[RoleSamples<'_>]) -> Vec<(&Metric, Result<f64, MetricError>)> {
        let found = self.found(samples);
        self.list.iter().map(|draft| (&draft.metric, draft.evaluate(&found))).collect()
    }

    /// The roles whose samples a metric names, one by one where it is computed; none where its name alone says it.
    #[must_use]
    pub fn roles_of(&self, metric: &Name) -> Vec<&str> {
        let Some(draft) = self.list.iter().find(|draft| draft.metric.name == *metric) else {
            return Vec::new();
        };
        let computed = draft.value.iter().flat_map(|expression| &expression.variables);
        let computed = computed.filter_map(|path| path.split_once('.').map(|(role, _)| role));
        let from = draft.metric.from.iter().map(|from| from.role.as_str());
        computed.chain(from).collect()
    }

    /// The samples by role, in the order in which the roles come.
    fn found<'a>(&self, samples: &'a [RoleSamples<'a>]) -> Vec<Found<'a>> {
        let mut roles: Vec<Found<'a>> = Vec::new();
        for one in samples {
            match roles.iter_mut().find(|found| found.role == one.role) {
                Some(found) => found.instances.push(one),
                None => {
                    let declared = self.several.iter().find(|(name, _)| name == one.role);
                    let of = declared.map_or(1, |(_, of)| *of);
                    roles.push(Found { role: one.role, instances: vec![one], of });
                }
            }
        }
        roles
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

/// What was found in all instances of one role.
struct Found<'a> {
    role: &'a Name,
    instances: Vec<&'a RoleSamples<'a>>,
    /// How many instances the role has.
    of: u32,
}

impl Found<'_> {
    /// Whether any instance has a sample of that name.
    fn has(&self, name: &str) -> bool {
        self.instances.iter().any(|one| value(one, name).is_some())
    }
}

impl MetricDraft {
    fn evaluate(&self, found: &[Found<'_>]) -> Result<f64, MetricError> {
        let metric = &self.metric;
        if let Some(expression) = &self.value {
            return self.computed(expression, found);
        }
        match &metric.from {
            Some(from) => {
                let name = from.sample.as_deref().unwrap_or(metric.name.as_str());
                self.of_role(from.role.as_str(), name, found)
            }
            None => self.bare(metric.name.as_str(), found),
        }
    }

    /// A sample by its name alone, from whichever role has it.
    fn bare(&self, name: &str, found: &[Found<'_>]) -> Result<f64, MetricError> {
        let having: Vec<&Found<'_>> = found.iter().filter(|found| found.has(name)).collect();
        match having.as_slice() {
            [] => Err(self.missing(name, found)),
            [only] => self.across(only, name),
            many => Err(MetricError::Ambiguous {
                metric: self.metric.name.clone(),
                sample: name.to_owned(),
                roles: many.iter().map(|found| found.role.to_string()).collect(),
            }),
        }
    }

    /// A sample of one role.
    fn of_role(&self, role: &str, name: &str, found: &[Found<'_>]) -> Result<f64, MetricError> {
        let having = found.iter().find(|found| found.role.as_str() == role && found.has(name));
        let having = having.ok_or_else(|| self.missing(&format!("{role}.{name}"), found))?;
        self.across(having, name)
    }

    /// The samples of all instances of a role as one. Some instance has one.
    fn across(&self, found: &Found<'_>, name: &str) -> Result<f64, MetricError> {
        let metric = self.metric.name.clone();
        let (role, sample) = (found.role.clone(), name.to_owned());
        let mut values: BTreeMap<u32, f64> = BTreeMap::new();
        values.extend(found.instances.iter().filter_map(|one| Some((one.instance, value(one, name)?))));
        let of = found.instances.iter().map(|one| one.instance.saturating_add(1)).fold(found.of, u32::max);
        let without: Vec<u32> = (0..of).filter(|instance| !values.contains_key(instance)).collect();
        if !without.is_empty() {
            return Err(MetricError::Partial { metric, sample, role, without, of });
        }
        let values: Vec<f64> = values.into_values().collect();
        // The samples of a single instance are the metric's, whatever is said.
        if let [only] = values.as_slice() {
            return Ok(*only);
        }
        let sum: f64 = values.iter().sum();
        Ok(match self.metric.across {
            None => return Err(MetricError::Several { metric, sample, role, of }),
            Some(Across::Sum) => sum,
            Some(Across::Max) => values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            Some(Across::Min) => values.iter().copied().fold(f64::INFINITY, f64::min),
            Some(Across::Mean) => sum / f64::from(of),
            Some(Across::Merged) => self.merged(found, name)?,
        })
    }

    /// The same figure of all latencies together.
    fn merged(&self, found: &Found<'_>, name: &str) -> Result<f64, MetricError> {
        let failed = |instance: u32, problem: Cow<'_, str>| MetricError::Histogram {
            metric: self.metric.name.clone(),
            role: found.role.clone(),
            instance,
            problem: problem.into_owned(),
        };
        let mut histograms = Vec::with_capacity(found.instances.len());
        for one in &found.instances {
            let none = || failed(one.instance, "its output has no histogram; use `across: max`".into());
            histograms.push(one.histogram.ok_or_else(none)?);
        }
        let Some(figure) = merged::figure(name) else {
            let instance = found.instances.first().map_or(0, |one| one.instance);
            return Err(failed(instance, format!("`{name}` is no figure of latencies").into()));
        };
        merged::merged(&histograms, figure).map_err(|(place, problem)| {
            let instance = found.instances.get(place).map_or(0, |one| one.instance);
            failed(instance, format!("its histogram {problem}").into())
        })
    }

    /// The value of an expression over samples, each of which is one of all instances first.
    fn computed(&self, expression: &Expression, found: &[Found<'_>]) -> Result<f64, MetricError> {
        let mut plain: BTreeMap<String, Value> = BTreeMap::new();
        let mut roles: BTreeMap<String, BTreeMap<String, Value>> = BTreeMap::new();
        for path in &expression.variables {
            match path.split_once('.') {
                Some((role, name)) => {
                    let value = self.of_role(role, name, found)?;
                    roles.entry(role.to_owned()).or_default().insert(name.to_owned(), Value::from(value));
                }
                None => {
                    plain.insert(path.clone(), Value::from(self.bare(path, found)?));
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

    fn missing(&self, sample: &str, found: &[Found<'_>]) -> MetricError {
        // What the parser found says more than what is always there.
        let mut own: Vec<String> = Vec::new();
        for (role, one) in
            found.iter().flat_map(|role| role.instances.iter().map(move |one| (role.role, one)))
        {
            let names = one.samples.iter().map(|sample| sample.name.as_str());
            for name in names.filter(|name| !IMPLICIT_SAMPLES.contains(name)) {
                let name = format!("{role}.{name}");
                if !own.contains(&name) {
                    own.push(name);
                }
            }
        }
        let found = if own.is_empty() { "nothing".to_owned() } else { own.join(", ") };
        MetricError::Missing { metric: self.metric.name.clone(), sample: sample.to_owned(), found }
    }
}

fn value(found: &RoleSamples<'_>, name: &str) -> Option<f64> {
    found.samples.iter().find(|sample| sample.name == name).map(|sample| sample.value)
}
