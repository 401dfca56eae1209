//! What a host can be made, as its entry in the host file says: for `hosts`, `plan`, `check` and `doctor`.

use std::collections::BTreeSet;

use drover_matrix::{CpusBy, HostEntry, HostFile, Matrix, Reach};
use drover_model::HostFacts;

use super::vms::catalogue;
use crate::{
    commands::preflight::{Finding, bad, doubtful, good},
    driver::HostSetup,
};

/// Kernels that are named at most.
const MOST_KERNELS: usize = 8;

/// `boots 6.1, mine by grub; CPUs by hotplug`; `None` if the file says nothing of that.
pub fn abilities(host: &HostEntry) -> Option<String> {
    let mut parts = Vec::new();
    if let Some(boot) = &host.boot {
        let labels: Vec<&str> = boot.kernels.iter().map(|kernel| kernel.label.as_str()).collect();
        parts.push(format!("boots {} by {}", some_of(&labels), boot.by.as_str()));
    }
    parts.extend(host.cpus.map(cpus));
    if parts.is_empty() { None } else { Some(parts.join("; ")) }
}

fn cpus(by: CpusBy) -> String {
    match by {
        CpusBy::Affinity => "CPUs by affinity".to_owned(),
        CpusBy::Hotplug => "CPUs by hotplug".to_owned(),
        CpusBy::Boot(word) => format!("CPUs by boot ({})", word.as_str()),
    }
}

fn some_of(labels: &[&str]) -> String {
    let more = labels.len().saturating_sub(MOST_KERNELS);
    let mut list = labels.iter().take(MOST_KERNELS).copied().collect::<Vec<_>>().join(", ");
    if more > 0 {
        list.push_str(&format!(" and {more} more"));
    }
    list
}

/// Kernels of a matrix that no host under test knows how to boot, in the order of the matrix.
pub fn unknown_kernels(matrix: &Matrix, hosts: &HostFile) -> Vec<String> {
    let Some(axis) = matrix.axes().iter().find(|axis| axis.name.as_str() == "kernel") else {
        return Vec::new();
    };
    let services = matrix.roles().iter().filter(|role| role.is_service());
    let mut roles: Vec<_> = services.collect();
    if roles.is_empty() {
        roles = matrix.roles().iter().collect();
    }
    let places: BTreeSet<usize> = roles.iter().flat_map(|role| hosts.matching(&role.on)).collect();
    let under_test: Vec<&HostEntry> = places.iter().filter_map(|place| hosts.hosts.get(*place)).collect();
    let has_vm = under_test.iter().any(|host| matches!(host.reach, Reach::Vm(_)));
    let in_catalogue: Vec<String> = if has_vm {
        let kernels = catalogue(None).ok().and_then(|catalogue| catalogue.list().ok());
        kernels.unwrap_or_default().into_iter().map(|kernel| kernel.label).collect()
    } else {
        Vec::new()
    };
    let boots = |host: &&HostEntry, label: &str| match (&host.reach, &host.boot) {
        (Reach::Vm(_), _) => {
            hosts.kernels.iter().any(|kernel| kernel.label == label)
                || in_catalogue.iter().any(|known| known == label)
        }
        (_, Some(boot)) => boot.kernel(label).is_some(),
        _ => false,
    };
    let labels = axis.values.iter().map(|value| value.to_string()).filter(|label| label != "running");
    labels.filter(|label| !under_test.iter().any(|host| boots(host, label))).collect()
}

/// Whether a host that answers can be made what its entry says.
pub fn check_abilities(setup: &HostSetup, facts: &HostFacts) -> Vec<Finding> {
    let missing = |name: &str| {
        let feature = facts.features.iter().find(|feature| feature.name == name);
        feature.and_then(|feature| feature.missing.clone())
    };
    let mut findings = Vec::new();
    if let Some(boot) = &setup.boot {
        let by = boot.by.as_str();
        let running = &facts.kernel_release;
        let present = boot.kernels.iter().find(|kernel| kernel.release == *running);
        findings.push(match (missing("reboot"), present) {
            (Some(why), _) => {
                bad("kernels", format!("it cannot be rebooted: {why}"), "let its agent run as root there")
            }
            (None, None) if matches!(setup.cpus, Some(CpusBy::Boot(_))) => {
                let text =
                    format!("{} by {by}; {running}, which runs, is not among them", boot.kernels.len());
                let remedy = "name it, too: its CPUs are limited by booting it again";
                doubtful("kernels", text, remedy)
            }
            (None, _) => good("kernels", format!("{} by {by}; {running} runs", boot.kernels.len())),
        });
    }
    match setup.cpus {
        Some(CpusBy::Hotplug) => findings.push(match missing("cpu-hotplug") {
            Some(why) => {
                bad("cpus", format!("they cannot be taken offline: {why}"), "use `cpus: { by: affinity }`")
            }
            None => good("cpus", format!("{} online, others by hotplug", facts.cpus.len())),
        }),
        Some(by) => findings.push(good("cpus", format!("{} online; {}", facts.cpus.len(), cpus(by)))),
        None => {}
    }
    findings
}
