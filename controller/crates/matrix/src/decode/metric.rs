//! Metrics: what a trial's samples are called, which way they improve, and what they must fulfil.

use drover_model::Direction;

use super::{
    across::{self, Used},
    fields::{self, Fields, Problems},
    role::{RoleDraft, Roles},
    value,
};
use crate::{
    expr::Expression,
    keys, lex,
    metrics::{IMPLICIT_SAMPLES, MetricDraft},
    scalar::Scalar,
    spec::{Across, Metric, SampleSource},
    suggest,
    tree::{Entry, Kind, Node},
};

/// Decodes `metrics`.
pub(crate) fn metrics(node: &Node, roles: Roles<'_>, problems: &mut Problems) -> Vec<MetricDraft> {
    let example = "metrics: { conn_per_s: { unit: conn/s, better: higher, primary: true } }";
    let entries = fields::entries(node, "`metrics`", example, problems);
    if entries.is_empty() && matches!(node.kind, Kind::Map(_)) {
        problems.add(node.span.clone(), "`metrics` is empty, so nothing would be measured", example);
    }
    let before = problems.count();
    let mut list: Vec<MetricDraft> =
        entries.iter().filter_map(|entry| metric(entry, roles, problems)).collect();
    primary(entries, &mut list, problems.count() == before, problems);
    list
}

/// Exactly one primary metric; a single metric is it by itself.
fn primary(entries: &[Entry], list: &mut [MetricDraft], complete: bool, problems: &mut Problems) {
    let declared: Vec<&Entry> = entries
        .iter()
        .filter(|entry| {
            list.iter().any(|draft| draft.metric.primary && draft.metric.name.as_str() == entry.key.text)
        })
        .collect();
    if let [first, second, ..] = declared.as_slice() {
        let message = format!("`{}` and `{}` are both primary", first.key.text, second.key.text);
        let help = "a table shows one metric by default: keep one `primary: true`";
        problems.add(second.key.span.clone(), message, help);
    }
    if let ([only], [entry]) = (list, entries) {
        only.metric.primary |=
            !matches!(&entry.value.kind, Kind::Map(keys) if keys.iter().any(|k| k.key.text == "primary"));
        if only.metric.primary {
            return;
        }
    }
    if let (true, [], Some(first)) = (complete, declared.as_slice(), entries.first()) {
        let help = "add `primary: true` to the one that a table shows by default";
        problems.add(first.key.span.clone(), "no metric is primary", help);
    }
}

fn metric(entry: &Entry, roles: Roles<'_>, problems: &mut Problems) -> Option<MetricDraft> {
    let key = &entry.key.text;
    let name = value::name(&entry.key, "the name of a metric", false, problems);
    let fields = Fields::open(&entry.value, format!("metric `{key}`"), keys::METRIC, problems)?;
    let what = |field: &str| format!("`{field}` of metric `{key}`");
    let required = |field: &str, example: &str, problems: &mut Problems| {
        let node = fields.get(field);
        if fields.lacks(field) {
            let message = format!("metric `{key}` has no `{field}`");
            problems.add(entry.key.span.clone(), message, format!("add `{field}: {example}`"));
        }
        node
    };
    let unit =
        required("unit", "conn/s", problems).and_then(|node| value::text(node, &what("unit"), problems));
    let directions = [("higher", Direction::Higher), ("lower", Direction::Lower)];
    let better = required("better", "higher (or lower)", problems)
        .and_then(|node| value::choice(node, &what("better"), &directions, problems));
    let primary = fields.get("primary").and_then(|node| value::boolean(node, &what("primary"), problems));
    let about = fields.get("about").and_then(|node| value::text(node, &what("about"), problems));
    let from = fields.get("from").and_then(|node| source(node, key, roles, problems));
    let expression = fields.get("value").and_then(|node| expression(node, &what("value"), roles, problems));
    let must = fields.get("must").and_then(|node| must(node, &what("must"), problems));
    let how = Across::ALL.map(|across| (across.as_str(), across));
    let across =
        fields.get("across").map(|node| (node, value::choice(node, &what("across"), &how, problems)));
    match (fields.get("value"), fields.entry("from")) {
        (Some(_), Some(from)) => {
            let message = format!("metric `{key}` has both `from` and `value`");
            let help = "keep `from` for a sample as it is, or `value` for an expression";
            problems.add(from.key.span.clone(), message, help);
        }
        (None, None) => implicit_origin(&entry.key, roles, problems),
        _ => {}
    }
    let used = used(&entry.key, from.as_ref(), expression.as_ref(), &fields);
    across::check(&entry.key, across.map(|(node, found)| (&node.span, found)), &used, roles, problems);
    let metric = Metric {
        name: name?,
        unit: unit?,
        better: better?,
        primary: primary.unwrap_or(false),
        from,
        value: expression.as_ref().map(|expression| expression.scalar.text.clone()),
        across: across.and_then(|(_, found)| found),
        must: must.as_ref().map(|must| must.scalar.text.clone()),
        about: about.unwrap_or_default(),
    };
    Some(MetricDraft { metric, value: expression, must })
}

/// The samples that a metric is made of; none if that could not be read.
fn used(
    key: &Scalar,
    from: Option<&SampleSource>,
    expression: Option<&Expression>,
    fields: &Fields<'_>,
) -> Vec<Used> {
    if let Some(expression) = expression {
        let used = |path: &String| match path.split_once('.') {
            Some((role, sample)) => Used { role: Some(role.to_owned()), sample: sample.to_owned() },
            None => Used { role: None, sample: path.clone() },
        };
        return expression.variables.iter().map(used).collect();
    }
    match from {
        Some(from) => {
            let sample = from.sample.clone().unwrap_or_else(|| key.text.clone());
            vec![Used { role: Some(from.role.to_string()), sample }]
        }
        None if fields.get("from").is_none() && fields.get("value").is_none() => {
            vec![Used { role: None, sample: key.text.clone() }]
        }
        None => Vec::new(),
    }
}

/// Where a metric without `from` and `value` comes from must be clear.
fn implicit_origin(key: &Scalar, roles: Roles<'_>, problems: &mut Problems) {
    let measured: Vec<&str> = roles.measured().collect();
    let implicit = IMPLICIT_SAMPLES.contains(&key.text.as_str());
    if implicit && measured.len() > 1 {
        let message = format!("`{}` is a sample of every measured role: {}", key.text, measured.join(", "));
        problems.add(
            key.span.clone(),
            message,
            format!("say which: `from: {}`", measured.join("` or `from: ")),
        );
    }
}

/// `role` or `role.sample`.
fn source(node: &Node, metric: &str, roles: Roles<'_>, problems: &mut Problems) -> Option<SampleSource> {
    let scalar = value::scalar(node, &format!("`from` of metric `{metric}`"), problems)?;
    let (role, sample) = match scalar.text.split_once('.') {
        Some((role, sample)) => (role, Some(sample.to_owned())),
        None => (scalar.text.as_str(), None),
    };
    roles.place(role, scalar.span.clone(), "`from`", problems)?;
    let draft = roles.find(role)?;
    if !must_be_measured(draft, scalar, 0..role.len(), problems) {
        return None;
    }
    if sample.as_deref() == Some("") {
        problems.add(
            scalar.span.clone(),
            "`from` names no sample behind the dot",
            "write `role` or `role.sample`",
        );
        return None;
    }
    Some(SampleSource { role: draft.role.name.clone(), sample })
}

fn must_be_measured(
    draft: &RoleDraft,
    scalar: &Scalar,
    within: std::ops::Range<usize>,
    problems: &mut Problems,
) -> bool {
    let good = draft.role.measure.is_some();
    if !good {
        let message = format!("the role `{}` is not measured, so it has no samples", draft.role.name);
        problems.add_within(scalar, within, message, "add `measure: PARSER` to the role");
    }
    good
}

/// `value`: an expression over `role.sample` and bare samples.
fn expression(node: &Node, what: &str, roles: Roles<'_>, problems: &mut Problems) -> Option<Expression> {
    let scalar = value::scalar(node, what, problems)?;
    let expression = Expression::check(scalar, "", what, problems)?;
    let tokens = lex::tokens(&scalar.text);
    let mut good = true;
    for path in &expression.variables {
        let within = lex::find_path(&scalar.text, &tokens, path).unwrap_or(0..scalar.text.len());
        let (root, sample) =
            path.split_once('.').map_or((path.as_str(), None), |(role, sample)| (role, Some(sample)));
        if roles.is_broken(root) {
            continue;
        }
        match (roles.find(root), sample) {
            (Some(draft), Some(_)) => good &= must_be_measured(draft, scalar, within, problems),
            (Some(_), None) => {
                let message = format!("`{root}` is a role, not a number");
                problems.add_within(
                    scalar,
                    within,
                    message,
                    format!("name one of its samples: `{root}.SAMPLE`"),
                );
                good = false;
            }
            (None, Some(_)) => {
                let help = suggest::remedy(root, roles.measured(), "measured roles");
                problems.add_within(scalar, within, format!("`{path}`: there is no role `{root}`"), help);
                good = false;
            }
            (None, None) => {}
        }
    }
    if expression.variables.is_empty() {
        problems.add(
            scalar.span.clone(),
            format!("{what} uses no sample"),
            "name samples: client.completed / 2",
        );
        good = false;
    }
    good.then_some(expression)
}

/// `must`: a comparison (`== 0`) or an expression over `value`.
fn must(node: &Node, what: &str, problems: &mut Problems) -> Option<Expression> {
    let help = "compare it: \"== 0\", \">= 1\", or an expression over `value`: value > 0 and value < 5";
    let scalar = value::scalar(node, what, problems)?;
    let comparison = scalar.text.trim_start().starts_with(['=', '<', '>', '!']);
    let must = Expression::check(scalar, if comparison { "value " } else { "" }, what, problems)?;
    let mut good = true;
    for name in must.variables.iter().filter(|name| *name != "value") {
        let tokens = lex::tokens(&scalar.text);
        let within = lex::find_path(&scalar.text, &tokens, name).unwrap_or(0..scalar.text.len());
        problems.add_within(scalar, within, format!("{what} can only use `value`, not `{name}`"), help);
        good = false;
    }
    if must.variables.is_empty() {
        problems.add(scalar.span.clone(), format!("{what} does not look at the value"), help);
        good = false;
    }
    // What it gives is known beforehand: a comparison gives true or false for any number.
    let tried = must.evaluate(minijinja::Value::from_pairs([("value", minijinja::Value::from(1.0))]));
    let problem = match tried {
        Ok(result) => crate::expr::truth(&result).err().map(|problem| (0..scalar.text.len(), problem)),
        Err(error) => Some((error.within, error.problem)),
    };
    if let Some((within, problem)) = problem.filter(|_| good) {
        problems.add_within(scalar, within, format!("{what}: {problem}"), help);
        good = false;
    }
    good.then_some(must)
}
