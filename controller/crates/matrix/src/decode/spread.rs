//! `spread: each`: the hosts become the first axis.

use drover_model::Name;

use super::{
    axes::{AxisDraft, ZipGroup},
    fields::{Fields, Problems},
    role::RoleDraft,
};
use crate::spec::Spread;

/// The axis that `spread: each` gives.
pub(crate) const HOST: &str = "host";

/// The only host as long as nobody has said which there are.
const UNKNOWN: &str = "local";

/// Puts the axis `host` in front of the others.
pub(crate) fn add_axis(axes: &mut Vec<AxisDraft>, declared: &mut Vec<String>, hosts: Option<&[Name]>) {
    let values = match hosts {
        Some(hosts) => hosts.iter().map(|host| host.as_str().into()).collect(),
        None => vec![UNKNOWN.into()],
    };
    // The name is a good one.
    let Ok(name) = HOST.parse() else { return };
    axes.insert(0, AxisDraft { name, values });
    declared.insert(0, HOST.to_owned());
}

/// What `spread: each` does not go with.
pub(crate) fn check(
    root: &Fields<'_>,
    spread: Spread,
    zip: &[ZipGroup],
    roles: &[RoleDraft],
    problems: &mut Problems,
) {
    if spread == Spread::Any {
        return;
    }
    if let Some(entry) = root.entry("zip").filter(|_| zip.iter().flatten().any(|axis| *axis == 0)) {
        let help = "take `host` out: every cell is measured on every host";
        problems.add(entry.key.span.clone(), "the axis `host` of `spread: each` cannot be zipped", help);
    }
    // The role that is measured is the one that goes from host to host.
    let main = roles.iter().find(|draft| draft.role.is_service()).or_else(|| roles.first());
    let Some((main, entry)) = main.zip(root.entry("spread")) else { return };
    if main.role.hosts > 1 || main.role.same_host_as.is_some() || !main.role.other_host_than.is_empty() {
        let message = format!("`spread: each` needs role `{}` on one host, that of the cell", main.role.name);
        let help = "take `hosts`, `same_host_as` and `other_host_than` out of that role: the first service, or else the \
                    first role";
        problems.add(entry.key.span.clone(), message, help);
    }
}
