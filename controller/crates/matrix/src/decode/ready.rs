//! How a role becomes ready and how it is stopped: `ready`, `stop`, `ports`.

use std::time::Duration;

use drover_model::{Name, StopPolicy};

use super::{
    fields::{self, Fields, Problems},
    role::command_words,
    units, value,
};
use crate::{
    keys, scope,
    spec::{Port, ReadyTemplate},
    suggest,
    template::Template,
    tree::{Entry, Kind, Node},
};

const DEFAULT_WITHIN: Duration = Duration::from_secs(10);
const DEFAULT_GRACE: Duration = Duration::from_secs(5);

/// Signals that ask a process to end, with their numbers on Linux.
const SIGNALS: [(&str, i32); 10] = [
    ("TERM", 15),
    ("INT", 2),
    ("QUIT", 3),
    ("HUP", 1),
    ("KILL", 9),
    ("USR1", 10),
    ("USR2", 12),
    ("ALRM", 14),
    ("WINCH", 28),
    ("PIPE", 13),
];

/// Decodes `ports`: names, or names with a fixed number.
pub(crate) fn ports(node: Option<&Node>, role: &str, problems: &mut Problems) -> Vec<Port> {
    let Some(node) = node else { return Vec::new() };
    let mut list: Vec<Port> = Vec::new();
    let mut add = |port: Option<Port>, node: &Node, problems: &mut Problems| {
        let Some(port) = port else { return };
        let clash = list
            .iter()
            .find(|other| other.name == port.name || (other.fixed.is_some() && other.fixed == port.fixed));
        if clash.is_some() {
            let message = format!("the port `{}` is declared twice in role `{role}`", port.name);
            problems.add(node.span.clone(), message, "every port has its own name and number");
            return;
        }
        list.push(port);
    };
    for item in fields::one_or_many(node) {
        match &item.kind {
            Kind::Map(entries) => {
                for entry in entries {
                    add(fixed_port(entry, problems), &entry.value, problems);
                }
            }
            Kind::Broken => {}
            _ => {
                let help = "a list of names, [port, admin], or names with fixed numbers, { port: 8080 }";
                let Kind::Scalar(scalar) = &item.kind else {
                    problems.expected(item, "a port", "a name", help);
                    continue;
                };
                if !scalar.text.is_empty() && scalar.text.bytes().all(|b| b.is_ascii_digit()) {
                    let message = format!("a port needs a name, found the number `{}`", scalar.text);
                    problems.add(
                        item.span.clone(),
                        message,
                        format!("write ports: {{ port: {} }}", scalar.text),
                    );
                    continue;
                }
                let name = port_name(scalar, problems);
                add(name.map(|name| Port { name, fixed: None }), item, problems);
            }
        }
    }
    list
}

fn port_name(scalar: &crate::scalar::Scalar, problems: &mut Problems) -> Option<Name> {
    if let Some(why) = scope::reserved_for_ports(&scalar.text) {
        let message = format!("a port cannot be called `{}`: {why}", scalar.text);
        problems.add(scalar.span.clone(), message, format!("for instance `{}_port`", scalar.text));
        return None;
    }
    value::name(scalar, "the name of a port", true, problems)
}

fn fixed_port(entry: &Entry, problems: &mut Problems) -> Option<Port> {
    let name = port_name(&entry.key, problems);
    let number =
        value::integer(&entry.value, &format!("the port `{}`", entry.key.text), 1..=65_535, problems)?;
    Some(Port { name: name?, fixed: u16::try_from(number).ok() })
}

/// Decodes `ready`: all conditions, and the time until they must hold.
pub(crate) fn ready(
    node: Option<&Node>,
    role: &str,
    ports: &[Port],
    problems: &mut Problems,
) -> (Vec<ReadyTemplate>, Duration) {
    let mut checks = Vec::new();
    let Some(node) = node else { return (checks, DEFAULT_WITHIN) };
    let what = format!("`ready` of role `{role}`");
    let Some(fields) = Fields::open(node, what.clone(), keys::READY, problems) else {
        return (checks, DEFAULT_WITHIN);
    };
    let within = fields.get("within").and_then(|node| units::duration(node, "`within`", problems));
    let before = problems.count();
    if let Some(node) = fields.get("tcp") {
        checks.extend(tcp(node, role, ports, problems));
    }
    let template = |key: &str, problems: &mut Problems| {
        let node = fields.get(key)?;
        value::scalar(node, &format!("`{key}` of {what}"), problems).map(Template::new)
    };
    checks.extend(template("unix", problems).map(ReadyTemplate::Unix));
    checks.extend(template("log", problems).map(ReadyTemplate::Log));
    checks.extend(template("http", problems).map(ReadyTemplate::Http));
    if let Some(node) = fields.get("command") {
        let words = command_words(node, &format!("`command` of {what}"), problems);
        checks.extend(words.map(ReadyTemplate::Command));
    }
    checks.extend(template("processes", problems).map(ReadyTemplate::Processes));
    if checks.is_empty() && problems.count() == before {
        let help = "add at least one condition: tcp, unix, log, http, command or processes";
        problems.add(node.span.clone(), format!("{what} has no condition"), help);
    }
    (checks, within.unwrap_or(DEFAULT_WITHIN))
}

/// `tcp`: the name of a port of this role, or `address:port`.
fn tcp(node: &Node, role: &str, ports: &[Port], problems: &mut Problems) -> Option<ReadyTemplate> {
    let scalar = value::scalar(node, "`tcp`", problems)?;
    if let Some(place) = ports.iter().position(|port| port.name.as_str() == scalar.text) {
        return Some(ReadyTemplate::Port(place));
    }
    if scalar.text.contains(':') {
        return Some(ReadyTemplate::Tcp(Template::new(scalar)));
    }
    let message = format!("role `{role}` declares no port `{}`", scalar.text);
    let names = ports.iter().map(|port| port.name.as_str());
    let known = suggest::remedy(&scalar.text, names, "its ports");
    let help = if scalar.text.bytes().all(|b| b.is_ascii_digit()) {
        format!("write an address: \"{{{{ address }}}}:{}\", or the name of one of its ports", scalar.text)
    } else if known.is_empty() {
        format!("declare it: `ports: [{}]`; or write an address: \"{{{{ address }}}}:8080\"", scalar.text)
    } else {
        format!("{known}; or write an address: \"{{{{ address }}}}:8080\"")
    };
    problems.add(scalar.span.clone(), message, help);
    None
}

/// Decodes `stop`.
pub(crate) fn stop(node: Option<&Node>, role: &str, problems: &mut Problems) -> StopPolicy {
    let default = StopPolicy { signal: 15, grace: DEFAULT_GRACE };
    let Some(node) = node else { return default };
    let Some(fields) = Fields::open(node, format!("`stop` of role `{role}`"), keys::STOP, problems) else {
        return default;
    };
    let signal = fields.get("signal").and_then(|node| {
        let scalar = value::scalar(node, "`signal`", problems)?;
        let word = scalar.text.strip_prefix("SIG").unwrap_or(&scalar.text);
        let found = SIGNALS.iter().find(|(name, _)| *name == word);
        if found.is_none() {
            let help = suggest::remedy(word, SIGNALS.iter().map(|(name, _)| *name), "one of");
            problems.add(
                scalar.span.clone(),
                format!("`{}` is not a signal for stopping", scalar.text),
                help,
            );
        }
        found.map(|(_, number)| *number)
    });
    let grace = fields.get("grace").and_then(|node| units::duration(node, "`grace`", problems));
    StopPolicy { signal: signal.unwrap_or(default.signal), grace: grace.unwrap_or(default.grace) }
}
