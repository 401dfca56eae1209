//! `across` of a metric: how the samples of several instances of one role become one.

use std::ops::Range;

use drover_model::{ParserSpec, Tool};

use super::{
    fields::Problems,
    role::{RoleDraft, Roles},
};
use crate::{merged, scalar::Scalar, spec::Across};

/// A sample that a metric is made of.
pub(crate) struct Used {
    /// The role it is of; `None` for a sample of whichever role has it.
    pub(crate) role: Option<String>,
    pub(crate) sample: String,
}

/// Reports samples that need `across`, and those that do not go with it. `across` is what is written and, if it could be
/// read, what it means.
pub(crate) fn check(
    key: &Scalar,
    across: Option<(&Range<usize>, Option<Across>)>,
    used: &[Used],
    roles: Roles<'_>,
    problems: &mut Problems,
) {
    match across {
        None => missing(key, used, roles, problems),
        Some((_, None)) => {}
        Some((span, Some(across))) => {
            // A sample of a single instance stays what it is, unless there is no other.
            let several = |used: &&Used| origins(used, roles).any(|draft| draft.role.tasks() > 1);
            let any = used.iter().any(|used| several(&used));
            let problem =
                used.iter().filter(|used| !any || several(used)).find_map(|u| unfit(across, u, roles));
            if let Some((problem, help)) = problem {
                let message = format!("`across: {}` of metric `{}`: {problem}", across.as_str(), key.text);
                problems.add(span.clone(), message, help);
            }
        }
    }
}

/// Measured roles that a sample can come from.
fn origins<'a>(used: &'a Used, roles: Roles<'a>) -> impl Iterator<Item = &'a RoleDraft> {
    roles.list.iter().filter(|draft| {
        let named = used.role.as_ref().is_none_or(|role| draft.role.name.as_str() == role);
        named && draft.role.measure.is_some()
    })
}

fn missing(key: &Scalar, used: &[Used], roles: Roles<'_>, problems: &mut Problems) {
    let several = |used: &Used| {
        let draft = origins(used, roles).find(|draft| draft.role.tasks() > 1)?;
        Some((draft.role.name.clone(), draft.role.tasks()))
    };
    let Some((used, (role, tasks))) = used.iter().find_map(|used| Some((used, several(used)?))) else {
        return;
    };
    let message = format!(
        "metric `{}` does not say how the samples of the {tasks} instances of `{role}` become one",
        key.text
    );
    let how = if merged::figure(&used.sample).is_some() {
        "`across: merged` (from histograms) or `across: max`"
    } else if merged::quantile(&used.sample).is_some() {
        "`across: max`"
    } else {
        "`across: sum`, `max`, `min` or `mean`"
    };
    let single = roles.list.iter().any(|draft| draft.role.measure.is_some() && draft.role.tasks() == 1);
    let elsewhere = if used.role.is_none() && single {
        "; or say with `from: ROLE` that it is of another role"
    } else {
        ""
    };
    problems.add(key.span.clone(), message, format!("add {how}{elsewhere}"));
}

/// Why a sample cannot be made one this way, and what to do.
fn unfit(across: Across, used: &Used, roles: Roles<'_>) -> Option<(String, &'static str)> {
    let sample = &used.sample;
    match across {
        Across::Sum | Across::Mean if merged::quantile(sample).is_some() => {
            let problem = format!("`{sample}` is a percentile, and percentiles are never averaged");
            Some((problem, "use `across: merged` (histograms) or `max`"))
        }
        Across::Merged if merged::figure(sample).is_none() => {
            let problem = format!("`{sample}` is no figure of latencies");
            let help = "`merged` reads latency_p50_s, latency_p99_s, latency_mean_s, latency_max_s and the like from \
                        histograms; use `sum`, `max`, `min` or `mean`";
            Some((problem, help))
        }
        Across::Merged => {
            let mut others = origins(used, roles).filter(|draft| {
                draft.role.tasks() > 1 && draft.role.measure != Some(ParserSpec::Tool(Tool::Workload))
            });
            let role = &others.next().filter(|_| used.role.is_some())?.role;
            let problem = format!("the output of `{}` has no histogram", role.name);
            Some((problem, "only `measure: workload` gives one; use `across: max`"))
        }
        Across::Sum | Across::Mean | Across::Max | Across::Min => None,
    }
}
