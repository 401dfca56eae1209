//! One host of the host file.

use std::net::IpAddr;

use drover_model::Name;

use super::{
    boot_draft::{self, MachineDraft},
    file::{HostEntry, HostLimits, Power, Reach, SshReach, TlsReach},
    machine,
    power::{self, PowerDraft},
    reach,
};
use crate::{
    decode::{
        fields::{self, Fields, Problems},
        units, value,
    },
    keys,
    scalar::Scalar,
    tree::{Entry, Node},
};

const ONE_WAY: &str = "say how it is reached: `ssh: [USER@]HOST[:PORT]`, `tls: HOST:PORT` of a resident agent, \
                       `local: true`, or `vm: { kernel: LABEL }`";

/// Largest bound on anything stored: 1 TiB.
const MAX_BYTES: u64 = 1 << 40;

/// A host with the places that later checks point at.
pub(super) struct HostDraft {
    pub(super) host: HostEntry,
    pub(super) key: Scalar,
    /// Its own labels, not those of `defaults`.
    pub(super) labels: Vec<Scalar>,
    /// Where it says how it is reached.
    pub(super) reach: std::ops::Range<usize>,
    /// Where it says its address, if it does.
    pub(super) address: Option<std::ops::Range<usize>>,
}

/// What `defaults` and a host can both say.
#[derive(Clone, Default)]
pub(super) struct Settings {
    user: Option<String>,
    port: Option<u16>,
    identity: Option<String>,
    jump: Option<String>,
    known_hosts: Option<String>,
    config: Option<String>,
    pki: Option<String>,
    dir: Option<String>,
    pub(super) labels: Vec<Scalar>,
    limits: [Option<u64>; 3],
    sysrq: Option<bool>,
    power: Option<PowerDraft>,
    machine: MachineDraft,
}

/// Decodes the settings of a host or of `defaults`.
pub(super) fn settings(fields: &Fields<'_>, problems: &mut Problems) -> Settings {
    let what = fields.what();
    let path = |key: &str, problems: &mut Problems| {
        fields.get(key).and_then(|node| reach::path(node, &format!("`{key}` of {what}"), problems))
    };
    let identity = path("identity", problems);
    let known_hosts = path("known_hosts", problems);
    let config = path("config", problems);
    let pki = path("pki", problems);
    let port = fields.get("port").and_then(|node| {
        let port = value::small(node, &format!("`port` of {what}"), 1..=65_535, problems);
        port.and_then(|port| u16::try_from(port).ok())
    });
    let user = fields.get("user").and_then(|node| user(node, problems));
    let jump = fields.get("jump").and_then(|node| {
        let scalar = value::scalar(node, "`jump`", problems)?;
        if scalar.text.contains(',') {
            let help =
                "name the last one, and put the ones before it into the ssh configuration of that host";
            problems.add(scalar.span.clone(), "`jump` names several hosts, one is allowed", help);
            return None;
        }
        reach::hop(scalar, "`jump`", problems).map(|_| scalar.text.clone())
    });
    let dir = fields.get("dir").and_then(|node| reach::dir(node, problems));
    let labels = fields.get("labels").map(|node| labels(node, problems)).unwrap_or_default();
    let limits = fields.get("limits").map(|node| limits(node, what, problems)).unwrap_or_default();
    let sysrq = fields.get("sysrq").and_then(|node| value::boolean(node, "`sysrq`", problems));
    let power = fields.entry("power").and_then(|entry| power::draft(entry, what, problems));
    let machine = boot_draft::draft(fields, problems);
    Settings {
        user,
        port,
        identity,
        jump,
        known_hosts,
        config,
        pki,
        dir,
        labels,
        limits,
        sysrq,
        power,
        machine,
    }
}

fn user(node: &Node, problems: &mut Problems) -> Option<String> {
    let text = value::text(node, "`user`", problems)?;
    let good =
        !text.is_empty() && !text.starts_with('-') && !text.contains(|c: char| c.is_control() || c == '@');
    if !good {
        problems.add(
            node.span.clone(),
            format!("`{text}` is not the name of a user"),
            "for instance: user: perf",
        );
    }
    good.then_some(text)
}

fn labels(node: &Node, problems: &mut Problems) -> Vec<Scalar> {
    let mut list: Vec<Scalar> = Vec::new();
    for item in fields::one_or_many(node) {
        let Some(scalar) = value::scalar(item, "a label", problems) else { continue };
        if value::name(scalar, "a label", false, problems).is_none() {
            continue;
        }
        if list.iter().any(|other| other.text == scalar.text) {
            problems.add(
                item.span.clone(),
                format!("the label `{}` is here twice", scalar.text),
                "keep one of them",
            );
            continue;
        }
        list.push(scalar.clone());
    }
    list
}

fn limits(node: &Node, what: &str, problems: &mut Problems) -> [Option<u64>; 3] {
    let Some(fields) = Fields::open(node, format!("`limits` of {what}"), keys::HOST_LIMITS, problems) else {
        return [None; 3];
    };
    let mut size = |key: &str, least: u64| {
        let node = fields.get(key)?;
        units::size_within(node, &format!("`{key}`"), least..=MAX_BYTES, problems)
    };
    [size("free_disk", 0), size("output", 4096), size("files", 1)]
}

/// Decodes one host.
pub(super) fn host(entry: &Entry, defaults: &Settings, problems: &mut Problems) -> Option<HostDraft> {
    let key = &entry.key;
    let name = value::name(key, "the name of a host", false, problems);
    let fields = Fields::open(&entry.value, format!("host `{}`", key.text), keys::HOST, problems)?;
    let own = settings(&fields, problems);
    let address = fields.entry("address");
    let place = address.map(|entry| entry.value.span.clone());
    let address = address.and_then(|entry| reach::address(&entry.value, problems));
    let labels = own.labels.clone();
    let (reach, at) = reach_of(&fields, key, &own, defaults, problems)?;
    let power = power_of(&own, defaults, key, &reach, address, problems);
    let (boot, cpus) = boot_draft::of_host(&own.machine, &defaults.machine, key, &reach, problems);
    let name = name?;
    let [free_disk, output, files] = [0, 1, 2]
        .map(|at| own.limits.get(at).copied().flatten().or(defaults.limits.get(at).copied().flatten()));
    let usual = match &reach {
        Reach::Vm(_) => HostLimits::of_vm(),
        _ => HostLimits::default(),
    };
    let mut all: Vec<Name> = Vec::new();
    for label in defaults.labels.iter().chain(&labels).filter_map(|label| label.text.parse().ok()) {
        if !all.contains(&label) {
            all.push(label);
        }
    }
    let dir = own.dir.or_else(|| defaults.dir.clone()).filter(|_| !matches!(reach, Reach::Vm(_)));
    let host = HostEntry {
        name,
        reach,
        labels: all,
        address,
        dir,
        limits: HostLimits {
            free_disk: free_disk.unwrap_or(usual.free_disk),
            output: output.unwrap_or(usual.output),
            files: files.unwrap_or(usual.files),
        },
        sysrq: own.sysrq.or(defaults.sysrq).unwrap_or(false),
        power,
        boot,
        cpus,
    };
    Some(HostDraft { host, key: key.clone(), labels, reach: at, address: place })
}

/// Its own `power`, or that of `defaults`, which leaves this machine alone.
fn power_of(
    own: &Settings,
    defaults: &Settings,
    key: &Scalar,
    reach: &Reach,
    address: Option<IpAddr>,
    problems: &mut Problems,
) -> Option<Power> {
    if matches!(reach, Reach::Vm(_)) {
        return None;
    }
    if matches!(reach, Reach::Local) {
        if let Some(power) = &own.power {
            let message = format!("`power` of host `{}`, which is this machine", key.text);
            problems.add(power.span.clone(), message, "leave it out: the run would end with it");
        }
        return None;
    }
    let address = address.map_or_else(|| power::address(reach).to_owned(), |address| address.to_string());
    power::of_host(own.power.as_ref().or(defaults.power.as_ref())?, &key.text, &address, problems)
}

/// Exactly one of `ssh`, `tls` and `local`, and nothing that belongs to another.
fn reach_of(
    fields: &Fields<'_>,
    key: &Scalar,
    own: &Settings,
    defaults: &Settings,
    problems: &mut Problems,
) -> Option<(Reach, std::ops::Range<usize>)> {
    let ways: Vec<&Entry> = keys::WAYS.iter().filter_map(|way| fields.entry(way)).collect();
    let (way, rest) = match ways.as_slice() {
        [] => {
            if keys::WAYS.iter().all(|way| fields.lacks(way)) {
                let message = format!("{} does not say how it is reached", fields.what());
                problems.add(key.span.clone(), message, ONE_WAY);
            }
            return None;
        }
        [way, rest @ ..] => (way, rest),
    };
    for other in rest {
        let message = format!("{} has both `{}` and `{}`", fields.what(), way.key.text, other.key.text);
        problems.add(other.key.span.clone(), message, "keep the way that it is reached by");
    }
    if !rest.is_empty() {
        return None;
    }
    let foreign: &[&str] = match way.key.text.as_str() {
        "ssh" => &["pki"],
        "tls" => keys::OF_SSH,
        _ => keys::OF_NETWORK,
    };
    for entry in foreign.iter().filter_map(|key| fields.entry(key)) {
        let belongs = if entry.key.text == "pki" { "tls" } else { "ssh" };
        let message = format!(
            "`{}` belongs to `{belongs}`, and {} has `{}`",
            entry.key.text,
            fields.what(),
            way.key.text
        );
        problems.add(entry.key.span.clone(), message, "leave it out");
    }
    if way.key.text == "vm" {
        for entry in keys::NOT_OF_VM.iter().filter_map(|key| fields.entry(key)) {
            let message =
                format!("`{}` means nothing for {}, a virtual machine", entry.key.text, fields.what());
            let help = match entry.key.text.as_str() {
                "power" => "leave it out: it is started anew without that",
                "boot" | "cpus" => "leave it out: it is made anew with the kernel and the CPUs of each cell",
                _ => "leave it out: it has no network, and its files live in its memory",
            };
            problems.add(entry.key.span.clone(), message, help);
        }
    }
    let span = way.value.span.clone();
    let reach = match way.key.text.as_str() {
        "vm" => Reach::Vm(Box::new(machine::vm(&way.value, fields.what(), problems)?)),
        "local" => {
            if !value::boolean(&way.value, "`local`", problems)? {
                problems.add(span, "`local: false` says nothing of how the host is reached", ONE_WAY);
                return None;
            }
            Reach::Local
        }
        "tls" => {
            let scalar = value::scalar(&way.value, "`tls`", problems)?;
            let pki = own.pki.clone().or_else(|| defaults.pki.clone());
            Reach::Tls(TlsReach { address: reach::tls(scalar, problems)?, pki })
        }
        _ => {
            let scalar = value::scalar(&way.value, "`ssh`", problems)?;
            let hop = reach::hop(scalar, "`ssh`", problems)?;
            for (part, given) in [("user", hop.user.is_some()), ("port", hop.port.is_some())] {
                if let Some(entry) = fields.entry(part).filter(|_| given) {
                    let message = format!("the {part} is given twice: `ssh: {}` has one", scalar.text);
                    problems.add(entry.key.span.clone(), message, "keep one of them");
                }
            }
            let (own, defaults) = (own.clone(), defaults.clone());
            Reach::Ssh(SshReach {
                host: hop.host,
                user: hop.user.or(own.user).or(defaults.user),
                port: hop.port.or(own.port).or(defaults.port),
                identity: own.identity.or(defaults.identity),
                jump: own.jump.or(defaults.jump),
                known_hosts: own.known_hosts.or(defaults.known_hosts),
                config: own.config.or(defaults.config),
            })
        }
    };
    Some((reach, span))
}
