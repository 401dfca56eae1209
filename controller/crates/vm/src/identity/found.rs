//! What a machine says about its kernel and its CPUs, from `/proc` and `/sys`.

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
};

use drover_machine::gnu_build_id;
use drover_model::{HostFacts, NONCE_KEY};
use serde::{Deserialize, Serialize};

/// The highest CPU number that is believed, against damaged lists.
const MAX_CPU: u32 = 65_535;

/// What is found on a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    /// `uname -r`.
    pub release: String,
    /// `uname -v`.
    pub version: String,
    /// The kernel's GNU build id, in hexadecimal digits; `None` if it shows none.
    pub build_id: Option<String>,
    /// The kernel's command line.
    pub cmdline: String,
    /// The nonce on it.
    pub nonce: Option<String>,
    /// New at every boot.
    pub boot_id: String,
    /// CPUs that are online.
    pub cpus: BTreeSet<u32>,
    /// Whether cores run more than one thread at once; `None` if the kernel does not say.
    pub smt: Option<bool>,
    /// NUMA nodes that are online; `None` if the kernel knows none.
    pub numa_nodes: Option<usize>,
}

/// Something that every kernel says could not be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read `{}` to find out which kernel runs", path.display())]
pub struct IdentityError {
    /// The file.
    pub path: PathBuf,
    /// Why.
    pub source: io::Error,
}

impl Found {
    /// What an agent says of its machine.
    #[must_use]
    pub fn of_facts(facts: &HostFacts) -> Self {
        let nodes: BTreeSet<u32> = facts.cpus.iter().map(|cpu| cpu.node).collect();
        Self {
            release: facts.kernel_release.clone(),
            version: facts.kernel_version.clone(),
            build_id: facts.kernel_build_id.clone(),
            nonce: nonce(&facts.cmdline),
            cmdline: facts.cmdline.clone(),
            boot_id: facts.boot_id.clone(),
            cpus: facts.cpus.iter().map(|cpu| cpu.cpu).collect(),
            smt: facts.smt,
            numa_nodes: Some(nodes.len()),
        }
    }

    /// What the machine says whose `/proc` and `/sys` are below `root`, which is `/` but for tests.
    ///
    /// # Errors
    /// When release, version, command line, boot id or CPUs cannot be read.
    pub fn collect(root: &Path) -> Result<Self, IdentityError> {
        let needed = |path: &str| {
            let path = root.join(path);
            match fs::read(&path) {
                Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).trim().to_owned()),
                Err(source) => Err(IdentityError { path, source }),
            }
        };
        let optional = |path: &str| needed(path).ok();
        let cmdline = needed("proc/cmdline")?;
        Ok(Self {
            release: needed("proc/sys/kernel/osrelease")?,
            version: needed("proc/sys/kernel/version")?,
            build_id: fs::read(root.join("sys/kernel/notes")).ok().and_then(|notes| gnu_build_id(&notes)),
            nonce: nonce(&cmdline),
            cmdline,
            boot_id: needed("proc/sys/kernel/random/boot_id")?,
            cpus: numbers(&needed("sys/devices/system/cpu/online")?),
            smt: optional("sys/devices/system/cpu/smt/active").and_then(|active| match active.as_str() {
                "0" => Some(false),
                "1" => Some(true),
                _ => None,
            }),
            numa_nodes: optional("sys/devices/system/node/online").map(|nodes| numbers(&nodes).len()),
        })
    }
}

/// The last nonce on a command line; a boot loader may have put others before.
fn nonce(cmdline: &str) -> Option<String> {
    let mut words = cmdline.split_whitespace().rev();
    words.find_map(|word| Some(word.strip_prefix(NONCE_KEY)?.strip_prefix('=')?.to_owned()))
}

/// The numbers of a list in the kernel's format, `0-3,8`; what is no number is left out.
fn numbers(list: &str) -> BTreeSet<u32> {
    let mut numbers = BTreeSet::new();
    for part in list.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.trim().parse(), last.trim().parse::<u32>()) {
            numbers.extend(first..=last.min(MAX_CPU));
        }
    }
    numbers
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::{Found, nonce, numbers};

    #[test]
    fn expect_the_fields_when_a_recorded_tree_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let put = |path: &str, bytes: &[u8]| {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        };
        put("proc/cmdline", b"console=ttyS0 drover.nonce=old drover.nonce=n1\n");
        put("proc/sys/kernel/osrelease", b"6.1.0-57-cloud-amd64\n");
        put("proc/sys/kernel/version", b"#1 SMP\n");
        put("proc/sys/kernel/random/boot_id", b"11111111-2222-3333-4444-555555555555\n");
        put("sys/devices/system/cpu/online", b"0-1,3\n");
        put("sys/devices/system/cpu/smt/active", b"1\n");
        put("sys/devices/system/node/online", b"0\n");
        put("sys/kernel/notes", b"\x04\0\0\0\x02\0\0\0\x03\0\0\0GNU\0\xab\xcd\0\0");
        let found = Found::collect(dir.path()).unwrap();
        assert_eq!(found.nonce.as_deref(), Some("n1"));
        assert_eq!(found.build_id.as_deref(), Some("abcd"));
        assert_eq!(found.cpus, [0, 1, 3].into());
        assert_eq!((found.smt, found.numa_nodes), (Some(true), Some(1)));
    }

    #[test]
    fn expect_this_machine_told_when_its_own_files_are_read() {
        let found = Found::collect(Path::new("/")).unwrap();
        assert!(!found.cpus.is_empty() && !found.release.is_empty(), "{found:?}");
    }

    #[test]
    fn expect_the_unreadable_file_named_when_there_is_no_proc() {
        let error = Found::collect(Path::new("/nonexistent")).unwrap_err();
        assert!(error.to_string().contains("/nonexistent/proc/cmdline"));
    }

    #[test]
    fn expect_only_what_is_meant_when_lists_and_words_are_odd() {
        assert_eq!(numbers("0,2-3,x,5-"), [0, 2, 3].into());
        assert_eq!(nonce("xdrover.nonce=1 drover.nonce"), None);
    }
}
