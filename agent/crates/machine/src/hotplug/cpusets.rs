//! Cpusets of cgroup v1. When a CPU goes offline the kernel strikes it from them, and does not put it back when it comes again;
//! a cpuset that has no CPU left loses its processes to the one above. With cgroup v2, and v1 mounted with `cpuset_v2_mode`, what was
//! asked for is kept apart from what is there, and nothing is lost.

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};

use crate::source::{Source, cpu_list, list_of};

/// The list of a cpuset's CPUs, and the processes in it.
const LIST: &str = "cpuset.cpus";
const PROCESSES: &str = "cgroup.procs";

/// Longest wait for the kernel to know of CPUs that came back: it tells its cpusets a moment later.
const SETTLE: Duration = Duration::from_secs(5);
/// Pause between two looks.
const PAUSE: Duration = Duration::from_millis(10);

/// Deepest cpuset that is looked at, and most of them.
const DEPTH: usize = 64;
const MOST: usize = 100_000;

/// A cpuset below the root of its hierarchy, and its CPUs as the kernel writes them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cpuset {
    /// Its directory.
    pub path: PathBuf,
    /// What is in its `cpuset.cpus`.
    pub cpus: String,
}

/// Why cpusets cannot be left or be made as they were.
#[derive(Debug, thiserror::Error)]
pub enum CpusetError {
    /// It would have none of its CPUs left.
    #[error(
        "the cpuset `{}` has processes and CPUs {cpus} only, all of which would go offline; end what runs in it, or ask for more CPUs",
        path.display()
    )]
    Stranded {
        /// Its directory.
        path: PathBuf,
        /// Its CPUs.
        cpus: String,
    },
    /// It cannot be made as it was.
    #[error(
        "the cpuset `{}` has lost CPUs: write {cpus} to its cpuset.cpus again (it has {})",
        path.display(), list_of(left.iter().copied())
    )]
    PutBack {
        /// Its directory.
        path: PathBuf,
        /// The CPUs that it had.
        cpus: String,
        /// Those that it has.
        left: BTreeSet<u32>,
        /// Why.
        source: io::Error,
    },
}

/// Cpusets as they were.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cpusets {
    /// Those above before those below.
    pub all: Vec<Cpuset>,
}

impl Cpusets {
    /// Those of cgroup v1 as they are, below the mounts that `proc/self/mountinfo` under `root` names. None where there are none.
    #[must_use]
    pub fn read(root: &Path) -> Self {
        let source = Source { root };
        let mounts = source.text("proc/self/mountinfo").unwrap_or_default();
        let mut all = Vec::new();
        for mount in mounts.lines().filter_map(Mount::parse) {
            let point = root.join(mount.point.trim_start_matches('/'));
            // The root of the hierarchy follows the kernel; a container sees a cpuset in its place.
            if mount.is_part {
                all.extend(Cpuset::read(&point));
            }
            let mut next = vec![(point, 0)];
            while let Some((dir, depth)) = next.pop() {
                for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
                    let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
                    if is_dir && depth < DEPTH && all.len() < MOST {
                        all.extend(Cpuset::read(&entry.path()));
                        next.push((entry.path(), depth + 1));
                    }
                }
            }
        }
        all.sort_by_key(|set| set.path.components().count());
        Self { all }
    }

    /// Whether all of these can do with the CPUs that stay.
    ///
    /// # Errors
    /// Which one cannot.
    pub fn can_do_with(&self, stay: &BTreeSet<u32>) -> Result<(), CpusetError> {
        for set in &self.all {
            let cpus = cpu_list(&set.cpus);
            let stranded = !cpus.is_empty() && !cpus.iter().any(|cpu| stay.contains(cpu));
            let used = || fs::read(set.path.join(PROCESSES)).is_ok_and(|pids| !pids.is_empty());
            if stranded && used() {
                return Err(CpusetError::Stranded { path: set.path.clone(), cpus: set.cpus.clone() });
            }
        }
        Ok(())
    }

    /// Gives the CPUs back that were struck; those that are gone, or that somebody has given other CPUs meanwhile, are left alone.
    ///
    /// # Errors
    /// When the kernel does not take them.
    pub fn put_back(&self) -> Result<(), CpusetError> {
        let until = Instant::now() + SETTLE;
        self.all.iter().try_for_each(|set| set.put_back(until))
    }
}

impl Cpuset {
    fn read(path: &Path) -> Option<Self> {
        let cpus = fs::read_to_string(path.join(LIST)).ok()?;
        Some(Self { path: path.to_owned(), cpus: cpus.trim().to_owned() })
    }

    fn left(&self) -> Option<BTreeSet<u32>> {
        let text = fs::read_to_string(self.path.join(LIST)).ok()?;
        Some(cpu_list(&text).into_iter().collect())
    }

    fn put_back(&self, until: Instant) -> Result<(), CpusetError> {
        let had: BTreeSet<u32> = cpu_list(&self.cpus).into_iter().collect();
        let mut refused = None;
        loop {
            let Some(left) = self.left() else { return Ok(()) };
            if left == had || !left.is_subset(&had) {
                return Ok(());
            }
            if let Some(source) = refused {
                if Instant::now() >= until {
                    let (path, cpus) = (self.path.clone(), self.cpus.clone());
                    return Err(CpusetError::PutBack { path, cpus, left, source });
                }
                // The one above may not have its CPUs yet: then it is refused for a moment.
                thread::sleep(PAUSE);
            }
            let written = fs::write(self.path.join(LIST), format!("{}\n", self.cpus));
            refused = Some(written.err().unwrap_or_else(|| io::Error::other("the kernel shows others")));
        }
    }
}

/// A mount of cpusets of cgroup v1 that lose CPUs.
struct Mount {
    point: String,
    /// It shows a part of the hierarchy only.
    is_part: bool,
}

impl Mount {
    /// A line of `mountinfo`, see proc_pid_mountinfo(5); `None` for a mount of something else.
    fn parse(line: &str) -> Option<Self> {
        let (left, right) = line.split_once(" - ")?;
        let mut right = right.split(' ');
        let (kind, options) = (right.next()?, right.nth(1)?);
        let has = |wanted: &str| options.split(',').any(|option| option == wanted);
        if kind != "cgroup" || !has("cpuset") || has("cpuset_v2_mode") || has("noprefix") {
            return None;
        }
        let mut left = left.split(' ').skip(3);
        let (root, point) = (left.next()?, left.next()?);
        let codes = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
        let point = codes.iter().fold(point.to_owned(), |text, (code, plain)| text.replace(code, plain));
        Some(Self { point, is_part: root != "/" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    const MOUNTS: &str = "\
30 23 0:26 / /cg/v2 rw - cgroup2 cgroup2 rw
31 23 0:27 / /cg/memory rw shared:3 - cgroup cgroup rw,memory
32 23 0:28 / /cg/my\\040cpus rw - cgroup cgroup rw,cpuset
33 23 0:29 / /cg/other rw - cgroup cgroup rw,cpuset,cpuset_v2_mode
34 23 0:28 /pod /cg/pod rw - cgroup cgroup rw,cpuset
";

    #[test]
    fn expect_what_was_struck_put_back_and_nothing_else_touched() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        write(root, "proc/self/mountinfo", MOUNTS);
        write(root, "cg/my cpus/cpuset.cpus", "0-3\n");
        for (path, cpus) in
            [("docker", "0-3"), ("docker/a", "2-3"), ("docker/b", "1"), ("new", ""), ("own", "0-3")]
        {
            write(root, &format!("cg/my cpus/{path}/cpuset.cpus"), &format!("{cpus}\n"));
            write(root, &format!("cg/my cpus/{path}/cgroup.procs"), "");
        }
        write(root, "cg/other/x/cpuset.cpus", "3\n");
        write(root, "cg/pod/cpuset.cpus", "1\n");
        write(root, "cg/my cpus/docker/a/cgroup.procs", "77\n");
        let sets = Cpusets::read(root);
        let names: Vec<_> = sets.all.iter().map(|s| s.path.file_name().unwrap().to_str().unwrap()).collect();
        assert!(names.len() == 6 && names.contains(&"pod"), "{names:?}");
        assert!(names.iter().position(|n| *n == "docker") < names.iter().position(|n| *n == "a"));

        let refused = sets.can_do_with(&[0, 1].into()).unwrap_err();
        assert!(refused.to_string().contains("docker/a` has processes and CPUs 2-3 only"), "{refused}");
        // Nobody is in the one that has CPU 1.
        sets.can_do_with(&[0, 2].into()).unwrap();

        let read = |path: &str| fs::read_to_string(root.join("cg/my cpus").join(path).join(LIST)).unwrap();
        for (path, cpus) in [("docker", "0,2"), ("docker/a", "2"), ("own", "0,5")] {
            write(root, &format!("cg/my cpus/{path}/cpuset.cpus"), &format!("{cpus}\n"));
        }
        fs::remove_dir_all(root.join("cg/my cpus/docker/b")).unwrap();
        sets.put_back().unwrap();
        assert_eq!((read("docker"), read("docker/a")), ("0-3\n".to_owned(), "2-3\n".to_owned()));
        // Somebody has given it another CPU meanwhile.
        assert_eq!(read("own"), "0,5\n");
        assert_eq!(Cpusets::read(&root.join("nowhere")), Cpusets::default());
    }

    #[test]
    fn expect_the_cpuset_and_what_to_write_when_it_cannot_be_put_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        write(dir.path(), "a/cpuset.cpus", "0\n");
        // What is written is lost.
        fs::remove_file(path.join(LIST)).unwrap();
        std::os::unix::fs::symlink("/dev/null", path.join(LIST)).unwrap();
        let set = Cpuset { path, cpus: "0-1".to_owned() };
        let error = set.put_back(Instant::now()).unwrap_err();
        assert!(error.to_string().contains("write 0-1 to its cpuset.cpus again (it has none)"), "{error}");
    }
}
