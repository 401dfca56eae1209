//! Axes and what combines them: `axes`, `zip`, `include`, `exclude`.

use std::{collections::HashSet, ops::Range};

use drover_model::{AxisValue, Name};

use super::{
    fields::{self, Fields, Problems},
    spread, value,
};
use crate::{
    expr::Expression,
    range,
    scalar::Scalar,
    scope, suggest,
    tree::{Entry, Kind, Node},
};

/// An axis as declared.
pub(crate) struct AxisDraft {
    pub(crate) name: Name,
    pub(crate) values: Vec<AxisValue>,
}

/// A group of axes that advance together, as places in the list of axes.
pub(crate) type ZipGroup = Vec<usize>;

/// An extra cell: one value per axis, in the order of the axes.
pub(crate) struct IncludeDraft {
    pub(crate) values: Vec<AxisValue>,
    pub(crate) span: Range<usize>,
}

/// A rule that takes cells out.
pub(crate) struct ExcludeDraft {
    pub(crate) when: Expression,
    pub(crate) because: String,
}

/// Most values of the axis `cpus`: what a Linux machine can have.
const MAX_CPUS: u32 = 8192;

/// Decodes `axes`. Broken ones are left out, and reported.
pub(crate) fn axes(node: Option<&Node>, problems: &mut Problems) -> Vec<AxisDraft> {
    let Some(node) = node else { return Vec::new() };
    let entries = fields::entries(node, "`axes`", "axes: { servers: [1, 2, 4] }", problems);
    entries.iter().filter_map(|entry| axis(entry, problems)).collect()
}

fn axis(entry: &Entry, problems: &mut Problems) -> Option<AxisDraft> {
    let name = value::name(&entry.key, "the name of an axis", true, problems);
    if entry.key.text == spread::HOST {
        let message = "an axis cannot be called `host`: it comes from the hosts themselves";
        let help = "take it out and write `spread: each`; any other factor needs another name";
        problems.add(entry.key.span.clone(), message, help);
        return None;
    }
    if let Some(why) = scope::reserved(&entry.key.text) {
        let message = format!("an axis cannot be called `{}`: {why}", entry.key.text);
        problems.add(entry.key.span.clone(), message, format!("for instance `{}_value`", entry.key.text));
        return None;
    }
    let values = axis_values(&entry.value, &entry.key.text, problems)?;
    Some(AxisDraft { name: name?, values })
}

fn axis_values(node: &Node, axis: &str, problems: &mut Problems) -> Option<Vec<AxisValue>> {
    let items = fields::one_or_many(node);
    if items.is_empty() {
        let message = format!("the axis `{axis}` has no values, so the matrix expands to nothing");
        problems.add(node.span.clone(), message, "give it at least one value, or leave the axis out");
        return None;
    }
    let mut values: Vec<AxisValue> = Vec::new();
    let mut good = true;
    for item in items {
        match item_values(item, axis, problems) {
            Some(more) => {
                let before = values.len();
                values.extend(more);
                // A single range has no value twice.
                if items.len() > 1 {
                    good &= no_duplicates(item, axis, values.split_at(before), problems);
                }
            }
            None => good = false,
        }
    }
    let limit = usize::try_from(range::MAX_VALUES).unwrap_or(usize::MAX);
    if values.len() > limit {
        let message = format!("the axis `{axis}` has {} values, {limit} are allowed", values.len());
        problems.add(node.span.clone(), message, "use a larger step");
        return None;
    }
    good.then_some(values)
}

/// The values that one item of an axis stands for.
fn item_values(item: &Node, axis: &str, problems: &mut Problems) -> Option<Vec<AxisValue>> {
    match &item.kind {
        Kind::Scalar(scalar) if !scalar.is_nothing() => values_of(scalar, axis, problems),
        _ => {
            let what = format!("a value of the axis `{axis}`");
            let help = format!("{axis}: [1, 2, 4], {axis}: 1..8, or a single value; \"\" is an empty text");
            problems.expected(item, &what, "a word, a number or a range", help);
            None
        }
    }
}

/// The values that a text stands for: those of its range, or itself.
pub(crate) fn values_of(scalar: &Scalar, axis: &str, problems: &mut Problems) -> Option<Vec<AxisValue>> {
    let values = match range::expand(&scalar.text) {
        Some(Ok(values)) => values,
        Some(Err(problem)) => {
            problems.add(scalar.span.clone(), format!("`{}`: {problem}", scalar.text), range::HELP);
            return None;
        }
        None => vec![scalar.text.as_str().into()],
    };
    let bad = values.iter().find(|value| axis == "cpus" && !is_cpu_count(value));
    if let Some(bad) = bad {
        let message = format!("`{bad}` is not a number of CPUs");
        let help = format!(
            "the machine axis `cpus` takes whole numbers from 1 to {MAX_CPUS}; name the axis differently \
                            if it only feeds templates"
        );
        problems.add(scalar.span.clone(), message, help);
        return None;
    }
    Some(values)
}

fn is_cpu_count(text: &str) -> bool {
    !text.starts_with(['0', '+']) && text.parse::<u32>().is_ok_and(|count| count <= MAX_CPUS)
}

fn no_duplicates(
    item: &Node,
    axis: &str,
    (before, added): (&[AxisValue], &[AxisValue]),
    problems: &mut Problems,
) -> bool {
    // Small lists are compared directly; long ones through a set.
    let twice = if before.len() * added.len() < 10_000 {
        added.iter().find(|value| before.contains(value))
    } else {
        let seen: HashSet<&AxisValue> = before.iter().collect();
        added.iter().find(|value| seen.contains(value))
    };
    if let Some(value) = twice {
        let message = format!("the value `{value}` is twice in the axis `{axis}`");
        problems.add(item.span.clone(), message, "keep one of them: equal cells cannot be told apart");
    }
    twice.is_none()
}

/// The axes that other sections can name.
#[derive(Clone, Copy)]
pub(crate) struct Axes<'a> {
    /// The good ones.
    pub(crate) list: &'a [AxisDraft],
    /// Names of all, the broken ones included: those are reported once, not wherever they are named.
    pub(crate) declared: &'a [String],
}

impl Axes<'_> {
    /// The place of an axis by name; reported if there is none.
    pub(crate) fn place(self, scalar: &Scalar, what: &str, problems: &mut Problems) -> Option<usize> {
        let place = self.list.iter().position(|axis| axis.name.as_str() == scalar.text);
        if place.is_none() && !self.declared.contains(&scalar.text) {
            let message = format!("{what} names no axis `{}`", scalar.text);
            let help = suggest::remedy(&scalar.text, self.declared.iter().map(String::as_str), "axes");
            problems.add(scalar.span.clone(), message, help);
        }
        place
    }
}

/// Decodes `zip`.
pub(crate) fn zip(node: Option<&Node>, axes: Axes<'_>, problems: &mut Problems) -> Vec<ZipGroup> {
    const HELP: &str = "a list of lists of axes that advance together: zip: [[client, options]]";
    let Some(node) = node else { return Vec::new() };
    let Kind::List(groups) = &node.kind else {
        problems.expected(node, "`zip`", "a list of lists of axes", HELP);
        return Vec::new();
    };
    let mut used: Vec<usize> = Vec::new();
    let mut result = Vec::new();
    for group in groups {
        let Kind::List(names) = &group.kind else {
            problems.expected(group, "an item of `zip`", "a list of axes", HELP);
            continue;
        };
        let places: Vec<usize> = names
            .iter()
            .filter_map(|item| value::scalar(item, "an axis of `zip`", problems))
            .collect::<Vec<_>>()
            .into_iter()
            .filter_map(|scalar| {
                let place = axes.place(scalar, "`zip`", problems)?;
                if used.contains(&place) {
                    let message = format!("the axis `{}` is zipped twice", scalar.text);
                    problems.add(scalar.span.clone(), message, "an axis can advance with one group only");
                    return None;
                }
                used.push(place);
                Some(place)
            })
            .collect();
        if places.len() < names.len() {
            continue;
        }
        if places.len() < 2 {
            problems.add(group.span.clone(), "a group of `zip` needs at least two axes", HELP);
            continue;
        }
        let lengths: Vec<(&str, usize)> = places
            .iter()
            .filter_map(|place| axes.list.get(*place))
            .map(|a| (a.name.as_str(), a.values.len()))
            .collect();
        if lengths.windows(2).any(|pair| matches!(pair, [(_, a), (_, b)] if a != b)) {
            let each: Vec<String> =
                lengths.iter().map(|(name, count)| format!("`{name}` has {count}")).collect();
            let message = format!("zipped axes need the same number of values: {}", each.join(", "));
            problems.add(
                group.span.clone(),
                message,
                "the first values go together, then the second ones, and so on",
            );
            continue;
        }
        result.push(places);
    }
    result
}

/// Decodes `include`.
pub(crate) fn include(node: Option<&Node>, axes: Axes<'_>, problems: &mut Problems) -> Vec<IncludeDraft> {
    let Some(node) = node else { return Vec::new() };
    let Kind::List(items) = &node.kind else {
        problems.expected(
            node,
            "`include`",
            "a list of cells",
            "for instance: include: [{ servers: 1000, mode: fast }]",
        );
        return Vec::new();
    };
    items.iter().filter_map(|item| included_cells(item, axes, problems)).flatten().collect()
}

/// One cell; or, if the hosts are an axis that it says nothing of, one on each of them.
fn included_cells(item: &Node, axes: Axes<'_>, problems: &mut Problems) -> Option<Vec<IncludeDraft>> {
    let names_host =
        matches!(&item.kind, Kind::Map(entries) if entries.iter().any(|e| e.key.text == spread::HOST));
    let hosts = axes.list.first().filter(|axis| axis.name.as_str() == spread::HOST && !names_host);
    let cell = included_cell(item, axes, hosts.and_then(|axis| axis.values.first()), problems)?;
    let Some(hosts) = hosts else { return Some(vec![cell]) };
    let on = |host: &AxisValue| {
        let mut values = cell.values.clone();
        values.splice(..1, [host.clone()]);
        IncludeDraft { values, span: cell.span.clone() }
    };
    Some(hosts.values.iter().map(on).collect())
}

/// `host` is the value of the first axis, if the cell need not have one.
fn included_cell(
    item: &Node,
    axes: Axes<'_>,
    host: Option<&AxisValue>,
    problems: &mut Problems,
) -> Option<IncludeDraft> {
    let names: Vec<&str> = axes.declared.iter().map(String::as_str).collect();
    let Kind::Map(entries) = &item.kind else {
        let help = format!("one value per axis: {{ {}: ... }}", names.join(": ..., "));
        problems.expected(item, "an item of `include`", "a mapping of axes to values", help);
        return None;
    };
    let mut good = true;
    for entry in entries {
        good &= axes.place(&entry.key, "`include`", problems).is_some();
    }
    let mut values: Vec<AxisValue> = Vec::new();
    values.extend(host.cloned());
    for axis in axes.list.iter().skip(values.len()) {
        let given = entries.iter().find(|entry| entry.key.text == axis.name.as_str());
        match (given, axis.values.as_slice()) {
            (Some(entry), _) => {
                let what = format!("the value of `{}`", axis.name);
                values.push(value::text(&entry.value, &what, problems)?.into());
                if axis.name.as_str() == "cpus" && values.last().is_some_and(|v: &AxisValue| !is_cpu_count(v))
                {
                    let help = format!("the machine axis `cpus` takes whole numbers from 1 to {MAX_CPUS}");
                    problems.expected(&entry.value, "`cpus`", "a number of CPUs", help);
                    good = false;
                }
            }
            (None, [only]) => values.push(only.clone()),
            (None, _) => {
                let message = format!("the included cell has no value for the axis `{}`", axis.name);
                let help =
                    format!("add `{}: VALUE`; only an axis with a single value can be left out", axis.name);
                problems.add(item.span.clone(), message, help);
                good = false;
            }
        }
    }
    good.then(|| IncludeDraft { values, span: item.span.clone() })
}

/// Decodes `exclude`. `declared` are the names of all axes, broken ones included.
pub(crate) fn exclude(node: Option<&Node>, declared: &[&str], problems: &mut Problems) -> Vec<ExcludeDraft> {
    const EXAMPLE: &str = "for instance: exclude: [{ when: servers > 100, because: takes too long }]";
    let Some(node) = node else { return Vec::new() };
    let Kind::List(items) = &node.kind else {
        problems.expected(node, "`exclude`", "a list of rules", EXAMPLE);
        return Vec::new();
    };
    items.iter().filter_map(|item| exclude_rule(item, declared, problems)).collect()
}

fn exclude_rule(item: &Node, declared: &[&str], problems: &mut Problems) -> Option<ExcludeDraft> {
    let fields = Fields::open(item, "a rule of `exclude`", crate::keys::EXCLUDE, problems)?;
    let because = fields.get("because").and_then(|node| value::text(node, "`because`", problems));
    let Some(when) = fields.get("when") else {
        if fields.lacks("when") {
            problems.add(fields.place(), "the rule has no `when`", "add the condition: when: servers > 100");
        }
        return None;
    };
    let scalar = value::scalar(when, "`when`", problems)?;
    let when = Expression::check(scalar, "", "`when`", problems)?;
    if !when.check_variables(declared, "`when`", problems) {
        return None;
    }
    if when.variables.is_empty() {
        let message = "`when` names no axis, so it says nothing about a cell";
        problems.add(
            scalar.span.clone(),
            message,
            format!("compare one of the axes: {}", declared.join(", ")),
        );
        return None;
    }
    let because = because.unwrap_or_else(|| format!("excluded by `{}`", scalar.text));
    Some(ExcludeDraft { when, because })
}
