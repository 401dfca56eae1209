//! `soak`: how long, how often, until when; and what it asks of roles and repetitions.

use std::{ops::Range, time::Duration};

use drover_model::{ParserSpec, Tool};

use super::{
    fields::{Fields, Problems},
    role::RoleDraft,
    units, value,
};
use crate::{
    keys,
    soak::{Load, Soak, SoakUntil},
    tree::Node,
};

const SHORTEST_EVERY: Duration = Duration::from_secs(1);
const DEFAULT_STALL: Duration = Duration::from_secs(300);
const UNTIL: [(&str, SoakUntil); 2] = [("end", SoakUntil::End), ("first-ng", SoakUntil::FirstNg)];
pub(crate) const LOADS: [(&str, Load); 2] = [("rounds", Load::Rounds), ("stream", Load::Stream)];
const EXAMPLE: &str = "for instance: soak: { for: 8h, every: 10s }";

/// A soak with the place where its length is given.
#[derive(Clone)]
pub(crate) struct SoakDraft {
    pub(crate) soak: Soak,
    pub(crate) length_span: Range<usize>,
}

/// Decodes `soak`.
pub(crate) fn soak(node: &Node, problems: &mut Problems) -> Option<SoakDraft> {
    let fields = Fields::open(node, "`soak`", keys::SOAK, problems)?;
    for key in ["for", "every"] {
        if fields.lacks(key) {
            problems.add(fields.place(), format!("`soak` has no `{key}`"), EXAMPLE);
        }
    }
    let mut time = |key: &str| {
        let node = fields.get(key)?;
        units::duration(node, &format!("`{key}`"), problems).map(|time| (time, node.span.clone()))
    };
    let (length, every, warm_up, stall) = (time("for"), time("every"), time("warm_up"), time("stall"));
    let until = fields.get("until").and_then(|node| value::choice(node, "`until`", &UNTIL, problems));
    let share = fields.get("share").and_then(|node| value::boolean(node, "`share`", problems));
    let ((length, length_span), (every, every_span)) = length.zip(every)?;
    if every < SHORTEST_EVERY {
        let help = "write 1s or more: what happens faster, the sensors and the tool's own figures say";
        problems.add(every_span.clone(), "`every` must be at least 1s", help);
    }
    if length < every {
        let help =
            "make `for` longer or `every` shorter: a soak needs one point at least, and ten to tell drift";
        problems.add(length_span.clone(), "`for` is shorter than `every`", help);
    }
    if let Some((warm_up, span)) = &warm_up
        && *warm_up >= length
    {
        let message = "`warm_up` is not shorter than `for`, so nothing would be left to judge";
        problems.add(span.clone(), message, "make it a tenth of `for`, or leave it out");
    }
    if let Some((stall, span)) = &stall
        && *stall <= every
    {
        let message = "`stall` is not longer than `every`, so every pause between points would be a hang";
        problems.add(
            span.clone(),
            message,
            "5m is the default; three times `every` is the least that makes sense",
        );
    }
    let soak = Soak {
        length,
        every,
        until: until.unwrap_or_default(),
        warm_up: warm_up.map(|(time, _)| time),
        stall: stall.map_or_else(|| DEFAULT_STALL.max(every.saturating_mul(3)), |(time, _)| time),
        share: share.unwrap_or(false),
    };
    Some(SoakDraft { soak, length_span })
}

/// What a matrix with `soak` needs, and what only such a matrix can say.
pub(crate) fn check(
    root: &Fields<'_>,
    repeat: u32,
    roles: &[RoleDraft],
    complete: bool,
    problems: &mut Problems,
) {
    let Some(entry) = root.entry("soak") else {
        for draft in roles {
            if let Some(span) = &draft.load {
                let message = format!("`load` of role `{}` needs `soak`", draft.role.name);
                let help = "add `soak: { for: 8h, every: 10s }` to the matrix, or take `load` out";
                problems.add(span.clone(), message, help);
            }
        }
        return;
    };
    if let Some(node) = root.get("repeat").filter(|_| repeat != 1) {
        let help = "take `repeat` out; make `for` longer, or repeat the whole run another night";
        problems.add(node.span.clone(), "a soak is not repeated: its points are its repetitions", help);
    }
    for draft in roles {
        loads(draft, problems);
        waits(draft, roles, problems);
    }
    let place = entry.key.span.clone();
    if complete && !roles.iter().any(|draft| draft.role.is_service()) {
        let help = "give the role that is to hold a `ready`, for instance ready: { tcp: port }: it stays up for the whole time";
        problems.add(place.clone(), "`soak` needs a service", help);
    }
    // That all are services is reported already.
    let only_services = roles.iter().all(|draft| draft.role.is_service());
    if complete && !only_services && !roles.iter().any(|draft| draft.role.is_load()) {
        let help =
            "give the role that loads the service a `measure`; without `ready`, it is run again and again";
        problems.add(place, "`soak` needs a measured role that is awaited", help);
    }
}

/// `load` and `timeout` of one role.
fn loads(draft: &RoleDraft, problems: &mut Problems) {
    let role = &draft.role;
    let name = &role.name;
    if let Some(span) = draft.load.as_ref().filter(|_| !role.is_load()) {
        let (message, help) = if role.is_service() {
            (
                format!("role `{name}` is a service and stays up, it has no `load`"),
                "take `load` or `ready` out",
            )
        } else {
            (
                format!("role `{name}` has no `measure`, so its `load` gives no points"),
                "add `measure`, or take `load` out",
            )
        };
        problems.add(span.clone(), message, help);
        return;
    }
    let streams = role.is_load() && role.load == Load::Stream;
    let by_line = matches!(
        role.measure,
        Some(ParserSpec::Tool(Tool::Workload) | ParserSpec::Regex(_) | ParserSpec::Json(_))
    );
    if let Some(span) = draft.load.as_ref().filter(|_| streams && !by_line) {
        let message = format!("`load: stream` of role `{name}` needs a `measure` that reads single lines");
        let help = "use `measure: workload`, `{ regex: ... }` or `{ json: ... }`; a tool that only prints at its end runs in \
                    rounds: `load: rounds`";
        problems.add(span.clone(), message, help);
    }
    if let Some(span) = draft.timeout.as_ref().filter(|_| streams || role.is_service()) {
        let message = format!("`timeout` has no meaning in role `{name}`: it runs for the whole soak");
        problems.add(span.clone(), message, "take it out; `stall` of `soak` says when no progress is a hang");
    }
}

/// A role that puts load is not over before the soak is, so nobody can wait for its end.
fn waits(draft: &RoleDraft, roles: &[RoleDraft], problems: &mut Problems) {
    for scalar in &draft.after {
        let loads = roles.iter().any(|other| other.role.name.as_str() == scalar.text && other.role.is_load());
        if loads && scalar.text != draft.role.name.as_str() {
            let message = format!(
                "role `{}` would wait for `{}`, which goes on until the soak ends",
                draft.role.name, scalar.text
            );
            problems.add(scalar.span.clone(), message, "wait for a service, or leave `after` out");
        }
    }
}
