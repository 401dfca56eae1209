//! What is searched: the values of one axis in their order, or axes that are off or on.

use drover_bisect::Toggles;
use drover_matrix::{Axis, Matrix};
use serde::{Deserialize, Serialize};

use crate::{error::Failure, exit::ExitStatus};

/// What is searched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Target {
    /// Along one axis.
    Order { axis: String, values: Vec<String> },
    /// Among axes of two values, off and on.
    Toggles { axes: Vec<(String, String, String)> },
}

/// One candidate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Candidate {
    /// Place of the value.
    Place(usize),
    /// Places of the axes that are on.
    On(Toggles),
}

fn usage(text: String) -> Failure {
    Failure::new(ExitStatus::Usage, text)
}

impl Target {
    /// What the command line names, if the matrix leaves nothing else to vary.
    pub fn of(matrix: &Matrix, axis: Option<&str>, toggles: &[String]) -> Result<Self, Failure> {
        let find = |name: &str| {
            let names: Vec<&str> = matrix.axes().iter().map(|axis| axis.name.as_str()).collect();
            let found = matrix.axes().iter().find(|axis| axis.name.as_str() == name);
            found
                .ok_or_else(|| usage(format!("the matrix has no axis `{name}`; it has {}", names.join(", "))))
        };
        let target = match axis {
            Some(name) => {
                let axis = find(name)?;
                if axis.values.len() < 2 {
                    return Err(usage(format!("axis `{name}` has one value: there is nothing to search")));
                }
                Self::Order { axis: name.to_owned(), values: texts(axis) }
            }
            None => {
                let mut axes: Vec<(String, String, String)> = Vec::new();
                for name in toggles {
                    let [off, on] =
                        <[String; 2]>::try_from(texts(find(name)?)).map_err(|values: Vec<String>| {
                            usage(format!(
                                "axis `{name}` has {} values; a toggle has two: off and on",
                                values.len()
                            ))
                        })?;
                    if axes.iter().any(|(known, ..)| known == name) {
                        return Err(usage(format!("the toggle `{name}` is named twice")));
                    }
                    axes.push((name.clone(), off, on));
                }
                Self::Toggles { axes }
            }
        };
        let open = |axis: &&Axis| axis.values.len() > 1 && !target.names().contains(&axis.name.as_str());
        if let Some(axis) = matrix.axes().iter().find(open) {
            let (name, first) = (&axis.name, axis.values.first().map_or("", |value| &**value));
            return Err(usage(format!(
                "axis `{name}` has {} values; a search varies nothing else: --set {name}={first}",
                axis.values.len()
            )));
        }
        let all = matrix.axes().iter().filter(|axis| target.names().contains(&axis.name.as_str()));
        match all.flat_map(texts).find(|value| value.contains(',')) {
            Some(value) => {
                Err(usage(format!("the value `{value}` has a comma: such a value cannot be set alone")))
            }
            None => Ok(target),
        }
    }

    fn names(&self) -> Vec<&str> {
        match self {
            Self::Order { axis, .. } => vec![axis],
            Self::Toggles { axes } => axes.iter().map(|(name, ..)| name.as_str()).collect(),
        }
    }

    /// How many candidates an order has, or how many toggles there are.
    pub fn count(&self) -> usize {
        match self {
            Self::Order { values, .. } => values.len(),
            Self::Toggles { axes } => axes.len(),
        }
    }

    /// The `--set` arguments that make a candidate.
    pub fn set(&self, candidate: &Candidate) -> Vec<String> {
        match (self, candidate) {
            (Self::Order { axis, values }, Candidate::Place(place)) => {
                values.get(*place).map(|value| format!("{axis}={value}")).into_iter().collect()
            }
            (Self::Toggles { axes }, Candidate::On(on)) => {
                let value = |place: usize, off: &String, is_on: &String| {
                    if on.contains(&place) { is_on.clone() } else { off.clone() }
                };
                let axes = axes.iter().enumerate();
                axes.map(|(place, (name, off, is_on))| format!("{name}={}", value(place, off, is_on)))
                    .collect()
            }
            _ => Vec::new(),
        }
    }

    /// A candidate in words.
    pub fn describe(&self, candidate: &Candidate) -> String {
        match (self, candidate) {
            (Self::Toggles { axes }, Candidate::On(on)) => {
                let names = axes.iter().enumerate().filter(|(place, _)| on.contains(place));
                let names: Vec<&str> = names.map(|(_, (name, ..))| name.as_str()).collect();
                if names.is_empty() { "all off".to_owned() } else { format!("on: {}", names.join(", ")) }
            }
            _ => self.set(candidate).join(" "),
        }
    }
}

fn texts(axis: &Axis) -> Vec<String> {
    axis.values.iter().map(|value| value.to_string()).collect()
}
