//! Keeps the layers of the workspace apart: what is pure stays pure, the agent stays small.

#![expect(clippy::expect_used, reason = "a test that cannot go on fails")]

use std::{collections::BTreeSet, process::Command};

use cargo_metadata::{Metadata, MetadataCommand};

const MANIFEST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml");

/// Everything a crate links when it is built alone, by name; dev and build dependencies left out. (`cargo metadata` knows
/// only the features of the whole workspace together.)
fn linked(root: &str) -> BTreeSet<String> {
    let mut command = Command::new(env!("CARGO"));
    command.args(["tree", "--offline", "--edges", "normal", "--prefix", "none", "--format", "{p}"]);
    let output = command.args(["--package", root, "--manifest-path", MANIFEST]).output().expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("cargo prints text");
    let names = text.lines().filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != root).map(ToOwned::to_owned).collect()
}

fn metadata() -> Metadata {
    MetadataCommand::new().manifest_path(MANIFEST).exec().expect("cargo metadata runs")
}

#[test]
fn expect_only_the_model_below_the_pure_crates() {
    for pure in ["drover-bisect", "drover-matrix", "drover-sched", "drover-measure", "drover-model"] {
        let linked = linked(pure);
        let ours: Vec<_> = linked.iter().filter(|name| name.starts_with("drover-")).collect();
        let expected: &[&str] =
            if ["drover-bisect", "drover-model"].contains(&pure) { &[] } else { &["drover-model"] };
        assert_eq!(ours, expected, "workspace crates below {pure}");
        for io in ["tokio", "tonic", "hyper", "rusqlite", "ssh2", "rustix", "mio", "socket2"] {
            assert!(!linked.contains(io), "{pure} links {io}, which does I/O");
        }
    }
}

#[test]
fn expect_no_openssl_and_no_sqlite_in_the_agent() {
    let linked = linked("drover-agent");
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
