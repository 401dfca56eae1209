//! Numbers that are no performance claim: those of machines whose instructions are translated.

use drover_store::{AttemptRecord, RunResults};

/// Names of the hosts whose numbers show only that something works.
pub(crate) fn functional_hosts(results: &RunResults) -> Vec<&str> {
    let hosts = results.hosts.iter().filter(|(_, facts)| facts.is_functional_only());
    hosts.map(|(name, _)| name.as_str()).collect()
}

/// Whether an attempt ran on one of these hosts.
pub(crate) fn is_functional(hosts: &[&str], attempt: &AttemptRecord) -> bool {
    attempt.hosts.iter().any(|host| hosts.contains(&host.as_str()))
}
