//! The whole document: every section decoded, and the rules that tie sections together.

use std::ops::Range;

use drover_model::{CpuPart, Name};

use super::{
    axes::{self, Axes, AxisDraft, ExcludeDraft, IncludeDraft, ZipGroup},
    fields::{Fields, Problems},
    metric,
    policy::{self, Limits},
    role::{self, RoleDraft, Roles},
    seats,
    soak::{self, SoakDraft},
    spread, value,
};
use crate::{
    keys,
    metrics::MetricDraft,
    spec::{FileReference, Policy, Requirement, Role, Spread, Table},
    tree::{Kind, Node},
};

const VERSION: &str = "1";

/// Everything a document says, before it is expanded and its templates are tried.
pub(crate) struct Draft {
    pub(crate) name: String,
    pub(crate) about: String,
    pub(crate) requires: Vec<Requirement>,
    pub(crate) axes: Vec<AxisDraft>,
    /// Names of all axes, those with broken values included: nobody else should complain about them.
    pub(crate) declared: Vec<String>,
    /// Where to report what concerns all axes.
    pub(crate) axes_span: Range<usize>,
    pub(crate) zip: Vec<ZipGroup>,
    pub(crate) include: Vec<IncludeDraft>,
    pub(crate) exclude: Vec<ExcludeDraft>,
    pub(crate) roles: Vec<Role>,
    /// Names of all roles, the broken ones included.
    pub(crate) declared_roles: Vec<String>,
    pub(crate) metrics: Vec<MetricDraft>,
    pub(crate) policy: Policy,
    pub(crate) soak: Option<SoakDraft>,
    pub(crate) limits: Limits,
    /// Where to report what concerns the hosts of `spread: each`.
    pub(crate) spread_span: Range<usize>,
    pub(crate) table: Table,
    pub(crate) references: Vec<FileReference>,
}

/// Decodes a document. `hosts` are the values of the axis `host`, once they are known. `None` if there is nothing to go on
/// with; all mistakes are in `problems` either way.
pub(crate) fn root(node: &Node, hosts: Option<&[Name]>, problems: &mut Problems) -> Option<Draft> {
    if !matches!(node.kind, Kind::Map(_) | Kind::Broken) {
        let help = "a matrix begins with `version: 1` and has `name:`, `axes:`, `roles:` and `metrics:`; a `:` needs a space \
                    behind it";
        problems.expected(node, "a matrix", "a mapping (`key: value`)", help);
        return None;
    }
    let root = Fields::open(node, "the matrix", keys::ROOT, problems)?;
    version(&root, problems);
    let name = name(&root, problems);
    let about = root.get("about").and_then(|node| value::text(node, "`about`", problems)).unwrap_or_default();
    let requires = policy::requires(root.get("requires"), problems);
    let policy = policy::policy(&root, problems);
    let limits = policy::limits(&root, problems);
    let soak = root.get("soak").and_then(|node| soak::soak(node, problems));

    let mut axes = axes::axes(root.get("axes"), problems);
    let mut declared = declared_names(root.get("axes"));
    if policy.spread == Spread::Each && !declared.iter().any(|name| name == spread::HOST) {
        spread::add_axis(&mut axes, &mut declared, hosts);
    }
    let names: Vec<&str> = declared.iter().map(String::as_str).collect();
    let known = Axes { list: &axes, declared: &declared };
    let zip = axes::zip(root.get("zip"), known, problems);
    let include = axes::include(root.get("include"), known, problems);
    let exclude = axes::exclude(root.get("exclude"), &names, problems);
    let table = policy::table(root.get("table"), known, problems);

    let mut references = Vec::new();
    let roles = required(&root, "roles", "roles: { client: { run: [COMMAND, ...] } }", problems);
    let mut roles =
        roles.map(|node| role::roles(node, policy.timeout, &mut references, problems)).unwrap_or_default();
    let role_names = declared_names(root.get("roles"));
    let known = Roles { list: &roles, declared: &role_names };
    relations(known, problems);
    seats::relations(known, problems);
    seats::follow(&mut roles, &role_names, problems);
    spread::check(&root, policy.spread, &zip, &roles, problems);
    soak::check(&root, policy.repeat, &roles, roles.len() == role_names.len(), problems);
    place_roles(&root, &names, &mut roles, &role_names, problems);
    clashes(&roles, &names, problems);
    // Without metrics, a matrix says whether its trials pass.
    let metrics = root.get("metrics");
    let known = Roles { list: &roles, declared: &role_names };
    let metrics = metrics.map(|node| metric::metrics(node, known, problems)).unwrap_or_default();

    Some(Draft {
        name: name?,
        about,
        requires,
        axes,
        declared,
        axes_span: root.entry("axes").map_or_else(|| root.place(), |entry| entry.key.span.clone()),
        zip,
        include,
        exclude,
        roles: roles.into_iter().map(|draft| draft.role).collect(),
        declared_roles: role_names,
        metrics,
        policy,
        soak,
        limits,
        spread_span: root.entry("spread").map_or_else(|| root.place(), |entry| entry.key.span.clone()),
        table,
        references,
    })
}

fn required<'a>(root: &Fields<'a>, key: &str, example: &str, problems: &mut Problems) -> Option<&'a Node> {
    let node = root.get(key);
    if root.lacks(key) {
        problems.add(root.place(), format!("the matrix has no `{key}`"), format!("add `{example}`"));
    }
    node
}

fn version(root: &Fields<'_>, problems: &mut Problems) {
    let Some(node) = required(root, "version", "version: 1", problems) else { return };
    let Some(text) = value::text(node, "`version`", problems) else { return };
    if text != VERSION {
        let message = format!("version `{text}` of the matrix file is not known");
        problems.add(node.span.clone(), message, "this program reads version 1");
    }
}

fn name(root: &Fields<'_>, problems: &mut Problems) -> Option<String> {
    let node = required(root, "name", "name: accept-serialisation", problems)?;
    let scalar = value::scalar(node, "`name`", problems)?;
    value::name(scalar, "the name of the matrix", false, problems).map(|name| name.to_string())
}

fn declared_names(node: Option<&Node>) -> Vec<String> {
    match node.map(|node| &node.kind) {
        Some(Kind::Map(entries)) => entries.iter().map(|entry| entry.key.text.clone()).collect(),
        _ => Vec::new(),
    }
}

/// `after` names roles, and no role waits for itself by any way; something ends a trial.
fn relations(known: Roles<'_>, problems: &mut Problems) {
    let roles = known.list;
    let mut good = true;
    for draft in roles {
        for scalar in &draft.after {
            if scalar.text == draft.role.name.as_str() {
                let message = format!("role `{}` waits for itself", draft.role.name);
                problems.add(scalar.span.clone(), message, "`after` names other roles");
                good = false;
            } else {
                good &= known.place(&scalar.text, scalar.span.clone(), "`after`", problems).is_some();
            }
        }
    }
    let complete = roles.len() == known.declared.len();
    if let Some(circle) = circle(roles).filter(|_| good) {
        let first = circle.first().and_then(|place| roles.get(*place));
        let around = circle.iter().skip(1).chain(circle.first());
        let name = |at: &usize| roles.get(*at).map_or("", |draft| draft.role.name.as_str());
        let waits: Vec<String> = circle
            .iter()
            .zip(around)
            .map(|(a, b)| format!("`{}` waits for `{}`", name(a), name(b)))
            .collect();
        if let Some(first) = first {
            let span = first.after.first().map_or_else(|| first.span.clone(), |scalar| scalar.span.clone());
            let message = format!("roles wait in a circle: {}", waits.join(", "));
            problems.add(span, message, "take one `after` out: a trial could never start");
        }
    }
    let all_services = complete && roles.iter().all(|draft| draft.role.is_service());
    if let (true, Some(first)) = (all_services, roles.first()) {
        let message = "every role has `ready`, so all are services and nothing ends a trial";
        let help = "take `ready` out of the role whose end is the end of the trial, usually the client";
        problems.add(first.span.clone(), message, help);
    }
}

/// The roles of a circle of `after`, if there is one.
fn circle(roles: &[RoleDraft]) -> Option<Vec<usize>> {
    let next = |at: usize| -> Vec<usize> {
        let after = roles.get(at).map_or(&[][..], |draft| &draft.after);
        after.iter().filter_map(|s| roles.iter().position(|d| d.role.name.as_str() == s.text)).collect()
    };
    // Depth first, with the way that led here; `done` roles lead into no circle.
    let mut done = vec![false; roles.len()];
    for start in 0..roles.len() {
        let mut way: Vec<(usize, Vec<usize>)> = vec![(start, next(start))];
        while let Some((at, open)) = way.last_mut() {
            let at = *at;
            match open.pop() {
                Some(to) => {
                    if let Some(begin) = way.iter().position(|(place, _)| *place == to) {
                        return Some(way.iter().skip(begin).map(|(place, _)| *place).collect());
                    }
                    if !done.get(to).copied().unwrap_or(true) {
                        way.push((to, next(to)));
                    }
                }
                None => {
                    way.pop();
                    if let Some(flag) = done.get_mut(at) {
                        *flag = true;
                    }
                }
            }
        }
    }
    None
}

/// Roles run on the cell's CPUs unless `placement` says otherwise, if there is an axis `cpus`.
fn place_roles(
    root: &Fields<'_>,
    axes: &[&str],
    roles: &mut [RoleDraft],
    declared: &[String],
    problems: &mut Problems,
) {
    let placement = role::placement(root.get("placement"), Roles { list: roles, declared }, problems);
    if !axes.contains(&"cpus") {
        if let Some(entry) = root.entry("placement") {
            let help = "add the machine axis `cpus`, for instance `cpus: [1, 2]`, or take `placement` out";
            problems.add(entry.key.span.clone(), "`placement` needs the axis `cpus`", help);
        }
        return;
    }
    for (place, draft) in roles.iter_mut().enumerate() {
        let part = placement.iter().find(|(at, _)| *at == place).map_or(CpuPart::Inside, |(_, part)| *part);
        draft.role.placement = Some(part);
    }
}

/// Axes, roles and ports share one space of names in templates.
fn clashes(roles: &[RoleDraft], axes: &[&str], problems: &mut Problems) {
    let role_names: Vec<Name> = roles.iter().map(|draft| draft.role.name.clone()).collect();
    for draft in roles {
        let name = draft.role.name.as_str();
        if axes.contains(&name) {
            let message = format!("the role `{name}` has the name of an axis");
            problems.add(draft.span.clone(), message, "rename one: `{{ ... }}` could not tell them apart");
        }
        for port in &draft.role.ports {
            let taken = if axes.contains(&port.name.as_str()) {
                "an axis"
            } else if role_names.contains(&port.name) {
                "a role"
            } else {
                continue;
            };
            let message = format!("the port `{}` of role `{name}` has the name of {taken}", port.name);
            problems.add(
                draft.span.clone(),
                message,
                format!("rename it, for instance `{}_port`", port.name),
            );
        }
    }
}
