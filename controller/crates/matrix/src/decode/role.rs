//! Roles: what is launched, in which order, with which files, and how its output is read.

use std::{ops::Range, time::Duration};

use drover_model::{CpuPart, Name};

use super::{
    fields::{self, Fields, Problems},
    files, measure, ready,
    seats::{self, SeatsDraft},
    soak, units, value,
};
use crate::{
    keys,
    scalar::Scalar,
    scope,
    spec::{Command, ExitStatuses, FileReference, Role},
    suggest,
    template::Template,
    tree::{Entry, Kind, Node},
    words,
};

const DEFAULT_OUTPUT: u64 = 64 << 20;
const MAX_OUTPUT: u64 = 16 << 30;

/// A role with the places that later checks point at.
pub(crate) struct RoleDraft {
    pub(crate) role: Role,
    /// Its key.
    pub(crate) span: Range<usize>,
    /// Roles of `after`, with their places.
    pub(crate) after: Vec<Scalar>,
    /// Its `load`, where it has one.
    pub(crate) load: Option<Range<usize>>,
    /// Its `timeout`, where it has one.
    pub(crate) timeout: Option<Range<usize>>,
    /// What it says of its hosts.
    pub(crate) seats: SeatsDraft,
}

/// Decodes `roles`; `timeout` is the matrix's own. References to files are added to `references`.
pub(crate) fn roles(
    node: &Node,
    timeout: Duration,
    references: &mut Vec<FileReference>,
    problems: &mut Problems,
) -> Vec<RoleDraft> {
    let entries = fields::entries(node, "`roles`", "roles: { client: { run: [ab, ...] } }", problems);
    if entries.is_empty() && matches!(node.kind, Kind::Map(_)) {
        problems.add(node.span.clone(), "`roles` is empty, so nothing would run", "add a role with a `run`");
    }
    entries.iter().filter_map(|entry| role(entry, timeout, references, problems)).collect()
}

fn role(
    entry: &Entry,
    timeout: Duration,
    references: &mut Vec<FileReference>,
    problems: &mut Problems,
) -> Option<RoleDraft> {
    let key = &entry.key.text;
    let mut name = value::name(&entry.key, "the name of a role", true, problems);
    if let Some(why) = scope::reserved(key) {
        let message = format!("a role cannot be called `{key}`: {why}");
        problems.add(entry.key.span.clone(), message, format!("for instance `{key}_role`"));
        name = None;
    }
    let fields = Fields::open(&entry.value, format!("role `{key}`"), keys::ROLE, problems)?;
    let command = command(&fields, &entry.key, problems);
    let ports = ready::ports(fields.get("ports"), key, problems);
    let (ready, within) = ready::ready(fields.get("ready"), key, &ports, problems);
    let stop = ready::stop(fields.get("stop"), key, problems);
    let after = after(fields.get("after"), problems);
    let env = env(fields.get("env"), key, problems);
    // A file belongs to a role even if the name is broken; the name is only for messages then.
    let owner = name.clone().or_else(|| "role".parse().ok());
    let files = files::files(fields.get("files"), owner.as_ref()?, references, problems);
    let measure = fields.get("measure").and_then(|node| measure::measure(node, key, problems));
    let status = fields.get("status").map(|node| (status(node, problems), node));
    if let Some((_, node)) = status.as_ref().filter(|_| fields.get("ready").is_some()) {
        let message = format!(
            "`status` has no meaning in role `{key}`: a role with `ready` is stopped, it does not exit"
        );
        problems.add(node.span.clone(), message, "leave it out");
    }
    let timeout = fields
        .get("timeout")
        .and_then(|node| units::duration(node, "`timeout`", problems))
        .unwrap_or(timeout);
    let output = fields.get("output").and_then(|node| output(node, problems)).unwrap_or(DEFAULT_OUTPUT);
    let seats = seats::seats(&fields, &ports, problems);
    let (artifacts, artifact_limit) = files::artifacts(&fields, problems);
    let load = fields.get("load");
    let span = |key: &str| fields.get(key).map(|node| node.span.clone());
    let role = Role {
        name: name?,
        command: command?,
        after: after.iter().filter_map(|scalar| scalar.text.parse::<Name>().ok()).collect(),
        ports,
        ready,
        within,
        stop,
        env,
        files,
        measure,
        status: status.and_then(|(status, _)| status).unwrap_or_else(|| ExitStatuses::These(vec![0])),
        timeout,
        output,
        placement: None,
        on: seats.on.clone(),
        hosts: seats.hosts.unwrap_or(1),
        instances: seats.instances.unwrap_or(1),
        same_host_as: seats.same.as_ref().and_then(|scalar| scalar.text.parse().ok()),
        other_host_than: seats.other.iter().filter_map(|scalar| scalar.text.parse().ok()).collect(),
        artifacts,
        artifact_limit,
        load: load.and_then(|node| value::choice(node, "`load`", &soak::LOADS, problems)).unwrap_or_default(),
    };
    Some(RoleDraft {
        role,
        span: entry.key.span.clone(),
        after,
        load: span("load"),
        timeout: span("timeout"),
        seats,
    })
}

/// Exactly one of `run` and `shell`.
fn command(fields: &Fields<'_>, key: &Scalar, problems: &mut Problems) -> Option<Command> {
    match (fields.get("run"), fields.entry("shell")) {
        (Some(run), None) => {
            command_words(run, &format!("`run` of {}", fields.what()), problems).map(Command::Argv)
        }
        (None, Some(shell)) => {
            let scalar = value::scalar(&shell.value, &format!("`shell` of {}", fields.what()), problems)?;
            Some(Command::Shell(Template::new(scalar)))
        }
        (Some(_), Some(shell)) => {
            let message = format!("{} has both `run` and `shell`", fields.what());
            problems.add(
                shell.key.span.clone(),
                message,
                "keep `run` (no shell, safer) or `shell` (text for `sh -c`)",
            );
            None
        }
        (None, None) if !fields.lacks("run") || !fields.lacks("shell") => None,
        (None, None) => {
            let message = format!("{} has no `run`", fields.what());
            problems.add(key.span.clone(), message, "add the command: run: [COMMAND, ARGUMENT, ...]");
            None
        }
    }
}

/// A list of arguments, or one text that is split by the rules of shell quoting.
pub(crate) fn command_words(node: &Node, what: &str, problems: &mut Problems) -> Option<Vec<Template>> {
    const HELP: &str =
        "write [COMMAND, ARGUMENT, ...], or one text that is split into words: \"COMMAND ARGUMENT ...\"";
    let empty = |node: &Node, problems: &mut Problems| {
        problems.add(node.span.clone(), format!("{what} is empty"), HELP);
        None
    };
    let list: Vec<Template> = match &node.kind {
        Kind::List(items) if items.is_empty() => return empty(node, problems),
        Kind::List(items) => {
            let scalars: Vec<Option<&Scalar>> =
                items.iter().map(|item| argument(item, what, problems)).collect();
            scalars.into_iter().map(|scalar| scalar.map(Template::new)).collect::<Option<_>>()?
        }
        Kind::Scalar(scalar) if scalar.text.trim().is_empty() => return empty(node, problems),
        Kind::Scalar(scalar) => match words::split(scalar, problems.source()) {
            Ok(words) => words.iter().map(Template::new).collect(),
            Err(error) => {
                problems.add(node.span.clone(), format!("{what} cannot be split into words: {error}"), HELP);
                return None;
            }
        },
        Kind::Map(_) | Kind::Broken => {
            problems.expected(node, what, "a list of strings or one string", HELP);
            return None;
        }
    };
    if list.first().is_some_and(|command| command.as_str().is_empty()) {
        problems.add(node.span.clone(), format!("{what} has an empty command"), HELP);
        return None;
    }
    Some(list)
}

fn argument<'a>(item: &'a Node, what: &str, problems: &mut Problems) -> Option<&'a Scalar> {
    let help = "quote an argument that has a `: `, begins with a bracket, or is empty: \"...\"";
    match &item.kind {
        Kind::Scalar(scalar) if !scalar.is_nothing() => Some(scalar),
        _ => {
            problems.expected(item, &format!("an argument in {what}"), "a string", help);
            None
        }
    }
}

fn after(node: Option<&Node>, problems: &mut Problems) -> Vec<Scalar> {
    let Some(node) = node else { return Vec::new() };
    let mut list: Vec<Scalar> = Vec::new();
    for item in fields::one_or_many(node) {
        let Some(scalar) = value::scalar(item, "`after`", problems) else { continue };
        if list.iter().any(|other| other.text == scalar.text) {
            problems.add(
                item.span.clone(),
                format!("`after` names `{}` twice", scalar.text),
                "keep one of them",
            );
            continue;
        }
        list.push(scalar.clone());
    }
    list
}

fn env(node: Option<&Node>, role: &str, problems: &mut Problems) -> Vec<(String, Template)> {
    let Some(node) = node else { return Vec::new() };
    let what = format!("`env` of role `{role}`");
    let mut list = Vec::new();
    for entry in fields::entries(node, &what, "env: { LANG: C }", problems) {
        let name = &entry.key.text;
        let good = !name.is_empty() && !name.contains(['=', ' ', '\n', '\0']);
        if !good {
            let message = format!("`{name}` cannot be the name of an environment variable");
            problems.add(entry.key.span.clone(), message, "use letters, digits and `_`");
        }
        let template =
            value::scalar(&entry.value, &format!("`{name}` in {what}"), problems).map(Template::new);
        list.extend(template.filter(|_| good).map(|template| (name.clone(), template)));
    }
    list
}

fn status(node: &Node, problems: &mut Problems) -> Option<ExitStatuses> {
    const HELP: &str = "an exit status (0), a list of them ([0, 1]), or `any`";
    match &node.kind {
        Kind::Scalar(scalar) if scalar.text == "any" => return Some(ExitStatuses::Any),
        Kind::Map(_) | Kind::Broken => {
            problems.expected(node, "`status`", "an exit status, a list of them, or `any`", HELP);
            return None;
        }
        Kind::List(items) if items.is_empty() => {
            problems.add(node.span.clone(), "`status` accepts no exit status", HELP);
            return None;
        }
        Kind::Scalar(_) | Kind::List(_) => {}
    }
    let numbers: Vec<Option<u32>> = fields::one_or_many(node)
        .iter()
        .map(|item| value::small(item, "an exit status", 0..=255, problems))
        .collect();
    let numbers = numbers.into_iter().map(|number| number.and_then(|number| i32::try_from(number).ok()));
    numbers.collect::<Option<Vec<i32>>>().map(ExitStatuses::These)
}

fn output(node: &Node, problems: &mut Problems) -> Option<u64> {
    let bytes = units::size(node, "`output`", problems)?;
    let bounds = 4096..=MAX_OUTPUT;
    if !bounds.contains(&bytes) {
        problems.add(node.span.clone(), "`output` must lie between 4KiB and 16GiB", "64MiB is the default");
        return None;
    }
    Some(bytes)
}

/// Decodes `placement`: role -> side of the cell's CPUs.
pub(crate) fn placement(
    node: Option<&Node>,
    roles: Roles<'_>,
    problems: &mut Problems,
) -> Vec<(usize, CpuPart)> {
    let Some(node) = node else { return Vec::new() };
    let entries = fields::entries(node, "`placement`", "placement: { client: disjoint }", problems);
    let mut list = Vec::new();
    for entry in entries {
        let place = roles.place(&entry.key.text, entry.key.span.clone(), "`placement`", problems);
        let sides = [("shared", CpuPart::Inside), ("disjoint", CpuPart::Outside)];
        let part = value::choice(&entry.value, "a placement", &sides, problems);
        list.extend(place.zip(part));
    }
    list
}

/// The roles that other sections can name.
#[derive(Clone, Copy)]
pub(crate) struct Roles<'a> {
    /// The good ones.
    pub(crate) list: &'a [RoleDraft],
    /// Names of all, the broken ones included: those are reported once, not wherever they are named.
    pub(crate) declared: &'a [String],
}

impl<'a> Roles<'a> {
    /// The place of a role by name; reported if there is none.
    pub(crate) fn place(
        self,
        name: &str,
        span: Range<usize>,
        what: &str,
        problems: &mut Problems,
    ) -> Option<usize> {
        let place = self.list.iter().position(|draft| draft.role.name.as_str() == name);
        if place.is_none() && !self.is_broken(name) {
            let help = suggest::remedy(name, self.declared.iter().map(String::as_str), "roles");
            problems.add(span, format!("{what} names no role `{name}`"), help);
        }
        place
    }

    /// Whether the role exists and could not be read.
    pub(crate) fn is_broken(self, name: &str) -> bool {
        self.find(name).is_none() && self.declared.iter().any(|declared| declared == name)
    }

    pub(crate) fn find(self, name: &str) -> Option<&'a RoleDraft> {
        self.list.iter().find(|draft| draft.role.name.as_str() == name)
    }

    /// Names of the roles whose output is read.
    pub(crate) fn measured(self) -> impl Iterator<Item = &'a str> + Clone {
        self.list.iter().filter(|draft| draft.role.measure.is_some()).map(|draft| draft.role.name.as_str())
    }
}
