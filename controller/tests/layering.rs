//! Keeps the layers of the workspace apart: what is pure stays pure, the agent stays small.

use std::collections::{BTreeMap, BTreeSet};

use cargo_metadata::{DependencyKind, Metadata, MetadataCommand, PackageId};

/// Everything `root` links, by name, dev and build dependencies left out.
fn linked(metadata: &Metadata, root: &str) -> BTreeSet<String> {
    let names: BTreeMap<&PackageId, &str> =
        metadata.packages.iter().map(|package| (&package.id, package.name.as_str())).collect();
    let nodes = &metadata.resolve.as_ref().expect("cargo metadata resolves").nodes;
    let by_id: BTreeMap<&PackageId, _> = nodes.iter().map(|node| (&node.id, node)).collect();
    let start = metadata.packages.iter().find(|package| package.name.as_str() == root).expect(root);
    let mut seen = BTreeSet::from([&start.id]);
    let mut open = vec![&start.id];
    while let Some(id) = open.pop() {
        for dependency in &by_id[id].deps {
            let normal = dependency.dep_kinds.iter().any(|kind| kind.kind == DependencyKind::Normal);
            if normal && seen.insert(&dependency.pkg) {
                open.push(&dependency.pkg);
            }
        }
    }
    seen.remove(&start.id);
    seen.into_iter().map(|id| names[id].to_owned()).collect()
}

fn metadata() -> Metadata {
    MetadataCommand::new()
        .manifest_path(concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml"))
        .exec()
        .expect("cargo metadata runs")
}

#[test]
fn expect_only_the_model_below_the_pure_crates() {
    let metadata = metadata();
    for pure in ["drover-matrix", "drover-sched", "drover-measure", "drover-model"] {
        let linked = linked(&metadata, pure);
        let ours: Vec<_> = linked.iter().filter(|name| name.starts_with("drover-")).collect();
        let expected: &[&str] = if pure == "drover-model" { &[] } else { &["drover-model"] };
        assert_eq!(ours, expected, "workspace crates below {pure}");
        for io in ["tokio", "tonic", "hyper", "rusqlite", "ssh2", "rustix", "mio", "socket2"] {
            assert!(!linked.contains(io), "{pure} links {io}, which does I/O");
        }
    }
}

#[test]
fn expect_no_openssl_and_no_sqlite_in_the_agent() {
    let linked = linked(&metadata(), "drover-agent");
    for heavy in ["openssl-sys", "libsqlite3-sys", "libssh2-sys", "drover-store", "drover-matrix"] {
        assert!(!linked.contains(heavy), "the agent links {heavy}");
    }
}

#[test]
fn expect_storage_and_ssh_to_be_known_to_one_crate_each() {
    let metadata = metadata();
    for (library, owner) in [("rusqlite", "drover-store"), ("ssh2", "drover-connect")] {
        for package in metadata.workspace_packages() {
            let direct = package.dependencies.iter().any(|dependency| dependency.name == library);
            assert!(!direct || package.name.as_str() == owner, "{} uses {library}", package.name);
        }
    }
}
