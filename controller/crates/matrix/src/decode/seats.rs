//! On which hosts a role runs, and how often: `on`, `hosts`, `instances`, `same_host_as`, `other_host_than`.

use std::ops::Range;

use drover_model::Name;

use super::{
    fields::{self, Fields, Problems},
    role::{RoleDraft, Roles},
    value,
};
use crate::{scalar::Scalar, spec::Port, tree::Node};

/// Most tasks of one role in one attempt.
const MAX_TASKS: u32 = 10_000;

/// What a role says of its hosts, with the places that later checks point at.
#[derive(Default)]
pub(crate) struct SeatsDraft {
    pub(crate) on: Vec<Name>,
    pub(crate) hosts: Option<u32>,
    pub(crate) instances: Option<u32>,
    pub(crate) same: Option<Scalar>,
    pub(crate) other: Vec<Scalar>,
    /// Keys that say which hosts those are, with their places.
    chosen: Vec<(&'static str, Range<usize>)>,
}

/// Decodes what a role says of its hosts.
pub(crate) fn seats(fields: &Fields<'_>, ports: &[Port], problems: &mut Problems) -> SeatsDraft {
    let what = fields.what();
    let mut count = |key: &str| {
        let node = fields.get(key)?;
        value::small(node, &format!("`{key}` of {what}"), 1..=MAX_TASKS, problems)
    };
    let (hosts, instances) = (count("hosts"), count("instances"));
    let tasks = hosts.unwrap_or(1).saturating_mul(instances.unwrap_or(1));
    if let Some(entry) = fields.entry("hosts").filter(|_| tasks > MAX_TASKS) {
        too_many(what, tasks, entry.key.span.clone(), problems);
    }
    let fixed = ports.iter().find_map(|port| Some((&port.name, port.fixed?)));
    if let (Some((name, number)), Some(node)) = (fixed, fields.get("instances"))
        && instances.unwrap_or(1) > 1
    {
        let message = format!("instances of {what} on one host cannot share the fixed port {number}");
        problems.add(node.span.clone(), message, format!("let the agent choose: ports: [{name}]"));
    }
    let same = fields.get("same_host_as");
    let same = same.and_then(|node| value::scalar(node, "`same_host_as`", problems)).cloned();
    let other = fields.get("other_host_than").map(|node| names(node, "`other_host_than`", problems));
    let on = fields.get("on").map(|node| on(node, problems)).unwrap_or_default();
    let key = |key: &'static str| fields.entry(key).map(|entry| (key, entry.key.span.clone()));
    let chosen = ["on", "hosts", "other_host_than"].into_iter().filter_map(key).collect();
    SeatsDraft { on, hosts, instances, same, other: other.unwrap_or_default(), chosen }
}

/// Labels and names of hosts, which no expression ever sees.
fn on(node: &Node, problems: &mut Problems) -> Vec<Name> {
    let list = names(node, "`on`", problems);
    if list.is_empty() && matches!(&node.kind, crate::tree::Kind::List(items) if items.is_empty()) {
        let help = "name labels or hosts of the host file, or leave `on` out: then any host will do";
        problems.add(node.span.clone(), "`on` names no host", help);
    }
    let name = |scalar: &Scalar| value::name(scalar, "the label or name of a host", false, problems);
    list.iter().filter_map(name).collect()
}

/// One text or several, none of them twice.
fn names(node: &Node, what: &str, problems: &mut Problems) -> Vec<Scalar> {
    let mut list: Vec<Scalar> = Vec::new();
    for item in fields::one_or_many(node) {
        let Some(scalar) = value::scalar(item, what, problems) else { continue };
        if list.iter().any(|other| other.text == scalar.text) {
            let message = format!("{what} names `{}` twice", scalar.text);
            problems.add(item.span.clone(), message, "keep one of them");
            continue;
        }
        list.push(scalar.clone());
    }
    list
}

fn too_many(what: &str, tasks: u32, span: Range<usize>, problems: &mut Problems) {
    let message = format!("{what} has {tasks} tasks (hosts x instances), {MAX_TASKS} are allowed");
    problems.add(span, message, "use fewer hosts, or fewer instances on each");
}

/// The roles that others name exist, and what all say together can be.
pub(crate) fn relations(known: Roles<'_>, problems: &mut Problems) {
    for draft in known.list {
        let name = draft.role.name.as_str();
        if let Some(same) = &draft.seats.same {
            if same.text == name {
                let message = format!("role `{name}` follows itself");
                problems.add(same.span.clone(), message, "`same_host_as` names another role");
            } else {
                known.place(&same.text, same.span.clone(), "`same_host_as`", problems);
            }
            for (key, span) in &draft.seats.chosen {
                let message =
                    format!("role `{name}` runs where `{}` runs, so `{key}` contradicts", same.text);
                let help = format!("say it of role `{}`, or take `same_host_as` out", same.text);
                problems.add(span.clone(), message, help);
            }
        }
        for other in &draft.seats.other {
            if other.text == name {
                let message = format!("role `{name}` cannot run on other hosts than its own");
                let help = "for instances on hosts of their own, `hosts: N` is enough";
                problems.add(other.span.clone(), message, help);
                continue;
            }
            known.place(&other.text, other.span.clone(), "`other_host_than`", problems);
            // A role with `same_host_as` of its own is reported above.
            let leader = draft.seats.same.is_none().then(|| leader(known, &other.text)).flatten();
            if leader.is_some_and(|leader| leader.role.name.as_str() == name) {
                let message = format!("role `{}` runs on the same hosts as `{name}`", other.text);
                let help = "take `other_host_than` out here, or `same_host_as` there";
                problems.add(other.span.clone(), message, help);
            }
        }
    }
    circles(known, problems);
}

/// The role whose hosts a role runs on in the end; `None` if that is not clear.
fn leader<'a>(known: Roles<'a>, name: &str) -> Option<&'a RoleDraft> {
    let mut at = known.find(name)?;
    for _ in known.list {
        match &at.seats.same {
            None => return Some(at),
            Some(same) => at = known.find(&same.text)?,
        }
    }
    None
}

/// Roles that follow each other in a circle have no host.
fn circles(known: Roles<'_>, problems: &mut Problems) {
    let mut reported: Vec<&str> = Vec::new();
    for draft in known.list {
        let mut way: Vec<&RoleDraft> = vec![draft];
        while let Some(same) = way.last().and_then(|last| last.seats.same.as_ref()) {
            let Some(next) = known.find(&same.text) else { break };
            if way.iter().any(|seen| seen.role.name == next.role.name) {
                // One report per circle, at the role where it begins; a role that follows itself has its own.
                let names: Vec<&str> = way.iter().map(|seen| seen.role.name.as_str()).collect();
                let closed = next.role.name == draft.role.name && names.len() > 1;
                if closed && !names.iter().any(|name| reported.contains(name)) {
                    let message = format!("roles follow each other in a circle: {}", names.join(", "));
                    let span =
                        draft.seats.same.as_ref().map_or_else(|| draft.span.clone(), |s| s.span.clone());
                    problems.add(span, message, "take one `same_host_as` out: none of them has a host");
                    reported.extend(names);
                }
                break;
            }
            way.push(next);
        }
    }
}

/// A role that follows another runs on as many hosts.
pub(crate) fn follow(roles: &mut [RoleDraft], declared: &[String], problems: &mut Problems) {
    let hosts = |draft: &RoleDraft| {
        let same = draft.seats.same.as_ref()?;
        leader(Roles { list: roles, declared }, &same.text).map(|leader| leader.role.hosts)
    };
    let found: Vec<Option<u32>> = roles.iter().map(hosts).collect();
    for (draft, hosts) in roles.iter_mut().zip(found) {
        let Some(hosts) = hosts else { continue };
        draft.role.hosts = hosts;
        if draft.role.tasks() > MAX_TASKS {
            too_many(
                &format!("role `{}`", draft.role.name),
                draft.role.tasks(),
                draft.span.clone(),
                problems,
            );
        }
    }
}
