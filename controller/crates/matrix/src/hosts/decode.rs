//! From the text of a host file to the checked hosts. Every mistake is reported, and all of them in one go.

use std::{
    collections::{HashMap, HashSet},
    net::IpAddr,
};

use super::{
    entry::{self, HostDraft, Settings},
    file::{HostEntry, HostFile, Reach, SshReach},
    machine,
};
use crate::{
    collected,
    decode::{
        fields::{self, Fields, Problems},
        value,
    },
    diagnostic::Diagnostics,
    keys,
    source::{FileKind, Source},
    syntax,
    tree::{self, Kind, Node},
};

const VERSION: &str = "1";
/// Most hosts of one file.
const MAX_HOSTS: usize = 10_000;
const EXAMPLE: &str = "hosts: { web1: { ssh: perf@10.0.0.1 } }";

static HOSTS: &FileKind = &FileKind {
    what: "a host file",
    smaller: "a host needs a few lines: split the file",
    example: "compare with the example in `docs/hosts.md`",
};

/// Parses and checks a host file.
pub(crate) fn parse(source: &Source) -> Result<HostFile, Diagnostics> {
    let text = syntax::decode_utf8(source, HOSTS)?;
    let (root, found) = tree::build(&text);
    let mut problems = Problems::new(text.clone());
    problems.extend(found);
    let file = match &root {
        Some(root) => decode(root, &mut problems),
        None => {
            if problems.is_empty() {
                let help = format!("a host file begins with `version: 1` and has `{EXAMPLE}`");
                problems.add(0..0, "the file is empty", help);
            }
            None
        }
    };
    match file.filter(|_| problems.is_empty()) {
        Some(file) => Ok(file),
        None => Err(collected(problems.into_list(), &text)),
    }
}

fn decode(node: &Node, problems: &mut Problems) -> Option<HostFile> {
    if !matches!(node.kind, Kind::Map(_) | Kind::Broken) {
        let help = "a host file begins with `version: 1` and has `hosts:`; a `:` needs a space behind it";
        problems.expected(node, "a host file", "a mapping (`key: value`)", help);
        return None;
    }
    let root = Fields::open(node, "the host file", keys::HOST_FILE, problems)?;
    let required = |key: &str, example: &str, problems: &mut Problems| {
        if root.lacks(key) {
            problems.add(root.place(), format!("the host file has no `{key}`"), format!("add `{example}`"));
        }
        root.get(key)
    };
    let version = required("version", "version: 1", problems);
    if let Some((node, text)) =
        version.and_then(|node| Some((node, value::text(node, "`version`", problems)?)))
        && text != VERSION
    {
        let message = format!("version `{text}` of the host file is not known");
        problems.add(node.span.clone(), message, "this program reads version 1");
    }
    let defaults = root.get("defaults").map(|node| defaults(node, problems)).unwrap_or_default();
    let kernels = root.get("kernels").map(|node| machine::kernels(node, problems)).unwrap_or_default();
    let hosts = required("hosts", EXAMPLE, problems)?;
    let entries = fields::entries(hosts, "`hosts`", EXAMPLE, problems);
    if entries.is_empty() && matches!(hosts.kind, Kind::Map(_)) {
        problems.add(
            hosts.span.clone(),
            "`hosts` is empty, so nothing could run",
            format!("for instance {EXAMPLE}"),
        );
    }
    if entries.len() > MAX_HOSTS {
        let message = format!("the file names {} hosts, {MAX_HOSTS} are allowed", entries.len());
        problems.add(root.place(), message, HOSTS.smaller);
        return None;
    }
    let names: Vec<&str> = entries.iter().map(|entry| entry.key.text.as_str()).collect();
    let drafts: Vec<HostDraft> =
        entries.iter().filter_map(|entry| entry::host(entry, &defaults, problems)).collect();
    labels(&names, &defaults, &drafts, problems);
    places(&drafts, problems);
    Some(HostFile { kernels, hosts: drafts.into_iter().map(|draft| draft.host).collect() })
}

/// What holds for all hosts that do not say otherwise.
fn defaults(node: &Node, problems: &mut Problems) -> Settings {
    let Some(fields) = Fields::open(node, "`defaults`", keys::HOST, problems) else {
        return Settings::default();
    };
    for key in keys::WAYS.iter().chain(&["address"]) {
        if let Some(entry) = fields.entry(key) {
            let message = format!("`{key}` in `defaults`: no two hosts have the same");
            problems.add(entry.key.span.clone(), message, "say it of each host");
        }
    }
    entry::settings(&fields, problems)
}

/// No label is the name of a host: `on` could mean either.
fn labels(names: &[&str], defaults: &Settings, drafts: &[HostDraft], problems: &mut Problems) {
    let names: HashSet<&str> = names.iter().copied().collect();
    for label in defaults.labels.iter().chain(drafts.iter().flat_map(|draft| &draft.labels)) {
        if names.contains(label.text.as_str()) {
            let message = format!("the label `{}` is the name of a host", label.text);
            let help = "rename it: `on` takes both, and could not tell them apart";
            problems.add(label.span.clone(), message, help);
        }
    }
}

/// No two hosts are the same machine, as far as the file shows it.
fn places(drafts: &[HostDraft], problems: &mut Problems) {
    let mut reached: HashMap<(u8, String), &HostDraft> = HashMap::new();
    let mut addresses: HashMap<IpAddr, &HostDraft> = HashMap::new();
    for draft in drafts {
        if let Some(first) = reached.get(&place(&draft.host)) {
            let message = format!("host `{}` is reached where `{}` is", draft.key.text, first.key.text);
            let line = problems.line(first.reach.start);
            let help =
                format!("two trials would disturb each other there: keep one (the other is in line {line})");
            problems.add(draft.reach.clone(), message, help);
        } else {
            reached.insert(place(&draft.host), draft);
        }
        let Some((address, span)) = draft.host.address.zip(draft.address.clone()) else { continue };
        if let Some(first) = addresses.get(&address) {
            let message = format!("`{}` has the address {address} already", first.key.text);
            problems.add(span, message, "give each host its own data address");
        } else {
            addresses.insert(address, draft);
        }
    }
}

/// What tells one machine from another. Behind different jump hosts the same address is another machine.
fn place(host: &HostEntry) -> (u8, String) {
    match &host.reach {
        Reach::Local => (0, String::new()),
        Reach::Tls(tls) => (1, tls.address.to_lowercase()),
        // Each is made for its host alone.
        Reach::Vm(_) => (3, host.name.to_string()),
        Reach::Ssh(SshReach { host, port, jump, .. }) => {
            let through = jump.as_deref().unwrap_or_default().to_lowercase();
            (2, format!("{}:{} {}", host.to_lowercase(), port.unwrap_or(22), through))
        }
    }
}
