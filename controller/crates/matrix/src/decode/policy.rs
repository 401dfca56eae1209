//! How a matrix is run and shown: repetitions, order, bounds, `requires`, `table`.

use std::time::Duration;

use drover_model::Name;

use super::{
    axes::Axes,
    fields::{self, Fields, Problems},
    observe, units, value,
};
use crate::{
    keys,
    spec::{Order, Policy, Requirement, Spread, Table},
    tree::{Kind, Node},
};

/// Cells allowed when neither the matrix nor the command line says otherwise.
pub(crate) const DEFAULT_CELLS: u64 = 100_000;
/// Cells that no limit can exceed: their places are 32-bit numbers.
pub(crate) const MAX_CELLS: u64 = 4_000_000_000;
/// Bytes that a file may have when the matrix does not say.
const DEFAULT_FILE: u64 = 16 << 20;
const MAX_FILE: u64 = 1 << 30;
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(120);
const DEFAULT_SKEW_LIMIT: Duration = Duration::from_millis(10);
const SPREADS: [(&str, Spread); 2] = [("any", Spread::Any), ("each", Spread::Each)];
const ORDERS: [(&str, Order); 3] =
    [("interleaved", Order::Interleaved), ("declared", Order::Declared), ("shuffled", Order::Shuffled)];

/// Decodes the keys that say how trials are run.
pub(crate) fn policy(root: &Fields<'_>, problems: &mut Problems) -> Policy {
    let mut small = |key: &str, range, default| {
        let node = root.get(key);
        node.and_then(|node| value::small(node, &format!("`{key}`"), range, problems)).unwrap_or(default)
    };
    let repeat = small("repeat", 1..=100_000, 1);
    let retries = small("retries", 0..=100, 3);
    let after_ng = small("after_ng", 0..=100, 0);
    let order = root.get("order").and_then(|node| value::choice(node, "`order`", &ORDERS, problems));
    // As far as a signed 64-bit column of a database goes.
    let seeds = 0..=u64::MAX / 2;
    let seed = root.get("seed").and_then(|node| value::integer(node, "`seed`", seeds, problems));
    let timeout = root.get("timeout").and_then(|node| units::duration(node, "`timeout`", problems));
    let spread = root.get("spread").and_then(|node| value::choice(node, "`spread`", &SPREADS, problems));
    let mix_hosts = root.get("mix_hosts").and_then(|node| value::boolean(node, "`mix_hosts`", problems));
    let skew_limit = root.get("skew_limit").and_then(|node| units::duration(node, "`skew_limit`", problems));
    let observe = observe::observe(root.get("observe"), problems);
    let doubts = observe::weights(root.get("doubt"), problems);
    Policy {
        repeat,
        order: order.unwrap_or_default(),
        seed,
        timeout: timeout.unwrap_or(DEFAULT_TIMEOUT),
        retries,
        after_ng,
        spread: spread.unwrap_or_default(),
        mix_hosts: mix_hosts.unwrap_or(false),
        skew_limit: skew_limit.unwrap_or(DEFAULT_SKEW_LIMIT),
        observe,
        doubts,
    }
}

/// What a matrix may amount to.
#[derive(Clone, Copy)]
pub(crate) struct Limits {
    /// Most cells.
    pub(crate) cells: u64,
    /// Largest file for an attempt's folder, in bytes.
    pub(crate) file: u64,
}

/// Decodes `limits`.
pub(crate) fn limits(root: &Fields<'_>, problems: &mut Problems) -> Limits {
    let limits = root.get("limits").and_then(|node| Fields::open(node, "`limits`", keys::LIMITS, problems));
    let get = |key| limits.as_ref().and_then(|limits| limits.get(key));
    let cells = get("cells").and_then(|node| value::integer(node, "`cells`", 1..=MAX_CELLS, problems));
    let file = get("file").and_then(|node| units::size_within(node, "`file`", 1..=MAX_FILE, problems));
    Limits { cells: cells.unwrap_or(DEFAULT_CELLS), file: file.unwrap_or(DEFAULT_FILE) }
}

/// Decodes `requires`.
pub(crate) fn requires(node: Option<&Node>, problems: &mut Problems) -> Vec<Requirement> {
    let Some(node) = node else { return Vec::new() };
    let mut list: Vec<Requirement> = Vec::new();
    for item in fields::one_or_many(node) {
        let requirement = match &item.kind {
            Kind::Map(_) => requirement(item, problems),
            _ => value::text(item, "a required command", problems)
                .map(|command| Requirement { command, package: None }),
        };
        let Some(requirement) = requirement else { continue };
        let bad = requirement.command.is_empty() || requirement.command.contains(char::is_whitespace);
        if bad || requirement.command.contains("{{") {
            let message = format!("`{}` is not the name of a command", requirement.command);
            problems.add(
                item.span.clone(),
                message,
                "name the program alone, without arguments: requires: [httperf]",
            );
        } else if list.iter().any(|other| other.command == requirement.command) {
            let message = format!("the command `{}` is required twice", requirement.command);
            problems.add(item.span.clone(), message, "keep one of them");
        } else {
            list.push(requirement);
        }
    }
    list
}

fn requirement(item: &Node, problems: &mut Problems) -> Option<Requirement> {
    let fields = Fields::open(item, "an item of `requires`", keys::REQUIREMENT, problems)?;
    let Some(command) = fields.get("command") else {
        let help = "for instance: { command: ab, package: apache2-utils }";
        if fields.lacks("command") {
            problems.add(fields.place(), "an item of `requires` has no `command`", help);
        }
        return None;
    };
    let command = value::text(command, "`command`", problems);
    let package = fields.get("package").and_then(|node| value::text(node, "`package`", problems));
    command.map(|command| Requirement { command, package })
}

/// Decodes `table`: every axis in one place at most.
pub(crate) fn table(node: Option<&Node>, axes: Axes<'_>, problems: &mut Problems) -> Table {
    let mut table = Table::default();
    let Some(node) = node else { return table };
    let Some(fields) = Fields::open(node, "`table`", keys::TABLE, problems) else { return table };
    let mut used: Vec<(Name, &str)> = Vec::new();
    for (key, list) in [("rows", &mut table.rows), ("cols", &mut table.cols), ("facet", &mut table.facet)] {
        let Some(node) = fields.get(key) else { continue };
        for item in fields::one_or_many(node) {
            let Some(scalar) = value::scalar(item, &format!("`{key}`"), problems) else { continue };
            let Some(place) = axes.place(scalar, &format!("`{key}`"), problems) else { continue };
            let Some(axis) = axes.list.get(place) else { continue };
            if let Some((_, other)) = used.iter().find(|(name, _)| *name == axis.name) {
                let message = format!("the axis `{}` is in `{other}` already", axis.name);
                problems.add(item.span.clone(), message, "an axis has one place in a table");
                continue;
            }
            used.push((axis.name.clone(), key));
            list.push(axis.name.clone());
        }
    }
    table
}
