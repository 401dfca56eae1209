//! Where cgroup hierarchies are mounted and which cgroup this process is in. Parsers are pure.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// Directories under which cgroups could be made, best first. The root of a hierarchy comes before the agent's own cgroup, so that the agent of a later session finds
/// what an earlier one left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CgroupPlaces {
    pub(crate) v2: Vec<PathBuf>,
    pub(crate) freezer: Vec<PathBuf>,
}

impl CgroupPlaces {
    /// Reads the mounts and cgroups of this process.
    pub(crate) fn find() -> io::Result<Self> {
        let cgroups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        Ok(Self::parse(&fs::read_to_string("/proc/self/mountinfo")?, &cgroups))
    }

    fn parse(mountinfo: &str, cgroups: &str) -> Self {
        let mut places = Self::default();
        let own_v2 = own_path(cgroups, |controllers| controllers.is_empty());
        let own_freezer = own_path(cgroups, |c| c.split(',').any(|name| name == "freezer"));
        for mount in mountinfo.lines().filter_map(parse_mount) {
            match mount.kind.as_str() {
                "cgroup2" => places.v2.extend(candidates(&mount, own_v2)),
                "cgroup" if mount.options.split(',').any(|option| option == "freezer") => {
                    places.freezer.extend(candidates(&mount, own_freezer));
                }
                _ => {}
            }
        }
        places
    }
}

struct Mount {
    root: String,
    point: String,
    kind: String,
    options: String,
}

/// `36 35 98:0 /root /point rw,noatime master:1 - ext3 /dev/root rw,errors=continue`, see proc_pid_mountinfo(5).
fn parse_mount(line: &str) -> Option<Mount> {
    let (left, right) = line.split_once(" - ")?;
    let mut left = left.split(' ').skip(3);
    let mut right = right.split(' ');
    Some(Mount {
        root: unescape(left.next()?),
        point: unescape(left.next()?),
        kind: right.next()?.to_owned(),
        options: right.nth(1)?.to_owned(),
    })
}

/// Blanks, tabs, newlines and backslashes are written as three octal digits.
fn unescape(text: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(text.to_owned(), |text, (code, plain)| text.replace(code, plain))
}

/// The path of this process's cgroup in one hierarchy: `ID:CONTROLLERS:PATH`.
fn own_path(cgroups: &str, wanted: impl Fn(&str) -> bool) -> Option<&str> {
    cgroups.lines().find_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        wanted(controllers).then_some(path)
    })
}

fn candidates(mount: &Mount, own: Option<&str>) -> Vec<PathBuf> {
    let point = Path::new(&mount.point);
    let mut places = vec![point.to_owned()];
    // Paths in /proc/self/cgroup start at the root of the hierarchy, of which a bind mount may show a part only.
    let below = own.and_then(|own| Path::new(own).strip_prefix(&mount.root).ok());
    if let Some(below) = below.filter(|below| !below.as_os_str().is_empty() && !below.starts_with("..")) {
        places.push(point.join(below));
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(places: &[PathBuf]) -> Vec<&str> {
        places.iter().map(|place| place.to_str().unwrap()).collect()
    }

    #[test]
    fn expect_both_hierarchies_when_the_host_mounts_them_side_by_side() {
        let mounts = "\
22 27 0:21 / /proc rw,relatime - proc proc rw
37 31 0:34 / /sys/fs/cgroup/freezer rw,relatime - cgroup cgroup rw,freezer
36 31 0:33 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime shared:9 - cgroup2 cgroup2 rw";
        let places = CgroupPlaces::parse(mounts, "6:freezer:/a\n4:memory:/m\n0::/\n");
        assert_eq!(paths(&places.v2), ["/sys/fs/cgroup/unified"]);
        assert_eq!(paths(&places.freezer), ["/sys/fs/cgroup/freezer", "/sys/fs/cgroup/freezer/a"]);
    }

    #[test]
    fn expect_the_own_cgroup_as_second_choice_when_systemd_delegates_it() {
        let mounts = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate";
        let places = CgroupPlaces::parse(mounts, "0::/user.slice/user-1000.slice/session-2.scope\n");
        assert_eq!(
            paths(&places.v2),
            ["/sys/fs/cgroup", "/sys/fs/cgroup/user.slice/user-1000.slice/session-2.scope"]
        );
    }

    #[test]
    fn expect_only_the_visible_part_when_a_container_binds_a_subtree() {
        let mounts = "30 23 0:26 /pod /sys/fs/my\\040cgroup ro - cgroup2 cgroup2 rw";
        assert_eq!(
            paths(&CgroupPlaces::parse(mounts, "0::/pod/x\n").v2),
            ["/sys/fs/my cgroup", "/sys/fs/my cgroup/x"]
        );
        assert_eq!(paths(&CgroupPlaces::parse(mounts, "0::/other\n").v2), ["/sys/fs/my cgroup"]);
        assert_eq!(CgroupPlaces::parse("", ""), CgroupPlaces::default());
    }
}
