//! The kernel's switches, and what it says of CPUs while they are online.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::OpenOptions,
    io::{self, Write},
    path::{Path, PathBuf},
};

use super::{order::Cpu, switch::Switches};
use crate::{
    source::{Source, cpu_list},
    topology,
};

const CPUS: &str = "sys/devices/system/cpu";

/// The kernel's files, below `/` or another root.
#[derive(Clone, Debug)]
pub struct Sysfs {
    root: PathBuf,
}

impl Sysfs {
    /// Files below `root`: `/`, or a recorded tree.
    #[must_use]
    pub fn below(root: PathBuf) -> Self {
        Self { root }
    }

    /// Where it looks.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// What changes at every boot.
    ///
    /// # Errors
    /// When the kernel does not say.
    pub fn boot_id(&self) -> io::Result<String> {
        let text = std::fs::read_to_string(self.root.join("proc/sys/kernel/random/boot_id"))?;
        Ok(text.trim().to_owned())
    }

    /// The online CPUs and their places, by number.
    ///
    /// # Errors
    /// When the kernel does not say which are online.
    pub fn cpus(&self) -> io::Result<Vec<Cpu>> {
        let source = Source { root: &self.root };
        let online = self.online()?;
        let mut first_of: BTreeMap<(u32, u32), u32> = BTreeMap::new();
        let mut cpus = Vec::with_capacity(online.len());
        for place in topology::online(source) {
            if !online.contains(&place.cpu) {
                continue;
            }
            let dir = format!("{CPUS}/cpu{}", place.cpu);
            // Numbers of cores may begin anew in every die or cluster; the lists of siblings do not lie.
            let siblings = ["core_cpus_list", "thread_siblings_list"]
                .iter()
                .find_map(|name| source.text(&format!("{dir}/topology/{name}")))
                .map(|list| cpu_list(&list));
            let lowest = siblings.and_then(|cpus| cpus.into_iter().min());
            let core = lowest.unwrap_or(*first_of.entry((place.package, place.core)).or_insert(place.cpu));
            let fixed = place.cpu == 0 || !source.path(&format!("{dir}/online")).exists();
            let (package, node) = (place.package, place.node);
            cpus.push(Cpu { number: place.cpu, core, package, node, fixed });
        }
        Ok(cpus)
    }
}

impl Switches for Sysfs {
    fn online(&self) -> io::Result<BTreeSet<u32>> {
        let text = std::fs::read_to_string(self.root.join(CPUS).join("online"))?;
        let cpus: BTreeSet<u32> = cpu_list(&text).into_iter().collect();
        // There is always one that reads the file.
        if cpus.is_empty() { Err(io::ErrorKind::InvalidData.into()) } else { Ok(cpus) }
    }

    fn switch(&self, cpu: u32, on: bool) -> io::Result<()> {
        let path = self.root.join(format!("{CPUS}/cpu{cpu}/online"));
        // Never made: a switch that is not there cannot be used.
        let mut file = OpenOptions::new().write(true).open(path)?;
        file.write_all(if on { b"1" } else { b"0" })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn expect_cores_by_their_siblings_and_switches_where_there_are_files() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        write(root, &format!("{CPUS}/online"), "0-3,6\n");
        write(root, &format!("{CPUS}/present"), "0-7\n");
        write(root, "sys/devices/system/node/node0/cpulist", "0-1\n");
        write(root, "sys/devices/system/node/node1/cpulist", "2-3,6\n");
        // Both dies of the package number their cores from 0; an old kernel knows the older name only.
        for (cpu, siblings, name) in
            [(0, "0-1", "core_cpus_list"), (1, "0-1", "core_cpus_list"), (2, "2-3", "thread_siblings_list")]
        {
            write(root, &format!("{CPUS}/cpu{cpu}/topology/core_id"), "0\n");
            write(root, &format!("{CPUS}/cpu{cpu}/topology/physical_package_id"), "0\n");
            write(root, &format!("{CPUS}/cpu{cpu}/topology/{name}"), siblings);
        }
        for (cpu, core) in [(3, 9), (6, 9)] {
            write(root, &format!("{CPUS}/cpu{cpu}/topology/core_id"), &format!("{core}\n"));
        }
        for cpu in [0, 1, 2, 7] {
            write(root, &format!("{CPUS}/cpu{cpu}/online"), "1\n");
        }
        let sysfs = Sysfs::below(root.to_owned());
        let found: Vec<_> = sysfs.cpus().unwrap();
        let found: Vec<_> = found.iter().map(|cpu| (cpu.number, cpu.core, cpu.node, cpu.fixed)).collect();
        assert_eq!(
            found,
            [(0, 0, 0, true), (1, 0, 0, false), (2, 2, 1, false), (3, 3, 1, true), (6, 3, 1, true)]
        );

        sysfs.switch(1, false).unwrap();
        assert_eq!(fs::read_to_string(root.join(CPUS).join("cpu1/online")).unwrap(), "0\n");
        assert_eq!(sysfs.switch(3, false).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert!(!root.join(CPUS).join("cpu3/online").exists());
        write(root, &format!("{CPUS}/online"), "\n");
        assert!(sysfs.online().is_err() && sysfs.cpus().is_err());
    }
}
