//! What an agent can do on this host, and why not: some of it needs root, some a kernel that has it.

use std::{fs::OpenOptions, os::unix::fs::OpenOptionsExt, path::Path};

use drover_model::HostFeature;
use rustix::{
    fs::{Access, OFlags, access},
    io::Errno,
};

use crate::{boot, source::Source};

/// Bits of capability masks, from `capability(7)`.
const CAP_SETUID: u32 = 7;
const CAP_NET_BIND_SERVICE: u32 = 10;
const CAP_SYS_BOOT: u32 = 22;

/// What the namespaces that the machine starts with are called (`PROC_PID_INIT_INO` and `PROC_USER_INIT_INO` of Linux).
const FIRST_NAMESPACES: [(&str, &str); 2] = [("pid", "pid:[4026531836]"), ("user", "user:[4026531837]")];

/// Everything that may fall away. `containment` is how process trees are contained.
pub(crate) fn features(source: Source<'_>, containment: &str) -> Vec<HostFeature> {
    let mut features = vec![
        ("cgroups", cgroups(containment)),
        ("cpu-hotplug", cpu_hotplug(source)),
        ("kernel-log", kernel_log(source)),
        ("low-ports", low_ports(source)),
        ("other-users", needs(source, CAP_SETUID, "CAP_SETUID")),
        ("reboot", reboot(source)),
        ("sysctls", sysctls(source)),
    ];
    features.extend(boot::features(source));
    features.sort_unstable_by_key(|(name, _)| *name);
    let feature = |(name, missing): (&str, Option<String>)| HostFeature { name: name.to_owned(), missing };
    features.into_iter().map(feature).collect()
}

fn cgroups(containment: &str) -> Option<String> {
    let why = "no cgroup can be made here; process trees are followed by sessions and a marker instead";
    (!containment.starts_with("cgroup")).then(|| why.to_owned())
}

/// The first CPU cannot be taken offline on many machines, the others can.
fn cpu_hotplug(source: Source<'_>) -> Option<String> {
    const DIR: &str = "sys/devices/system/cpu";
    let is_cpu = |name: &String| {
        name.strip_prefix("cpu").is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
    };
    let cpus: Vec<_> = source.names(DIR).into_iter().filter(is_cpu).collect();
    let switches = cpus.iter().filter(|name| *name != "cpu0").map(|name| format!("{DIR}/{name}/online"));
    let switch = switches.map(|path| source.path(&path)).find(|path| path.exists());
    let Some(switch) = switch else {
        let why = match cpus.len() {
            0 => "/sys shows none",
            1 => "it has one",
            _ => "its kernel has no CPU hotplug",
        };
        return Some(format!("no CPU of this host can be taken offline: {why}"));
    };
    match access(&switch, Access::WRITE_OK) {
        Ok(()) => None,
        Err(Errno::ACCESS | Errno::PERM) => Some(format!("needs root, to write {}", switch.display())),
        Err(Errno::ROFS) => Some("/sys is read-only here, as in a container".to_owned()),
        Err(_) => not_writable(&switch),
    }
}

fn kernel_log(source: Source<'_>) -> Option<String> {
    let path = source.path("dev/kmsg");
    let nonblocking = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
    match OpenOptions::new().read(true).custom_flags(nonblocking).open(&path) {
        Ok(_) => None,
        Err(error) => Some(format!("cannot read {}: {error}", path.display())),
    }
}

fn low_ports(source: Source<'_>) -> Option<String> {
    let first: u32 = source.number("proc/sys/net/ipv4/ip_unprivileged_port_start").unwrap_or(1024);
    if first <= 1 {
        return None;
    }
    needs(source, CAP_NET_BIND_SERVICE, "CAP_NET_BIND_SERVICE")
        .map(|why| format!("ports below {first}: {why}"))
}

/// Why the agent may not reboot the machine.
pub(crate) fn reboot(source: Source<'_>) -> Option<String> {
    // In a PID namespace of its own, reboot(2) ends the namespace and not the machine; in a user namespace of its own, no
    // capability counts for the machine.
    for (name, first) in FIRST_NAMESPACES {
        let own = std::fs::read_link(source.path(&format!("proc/self/ns/{name}")));
        if own.is_ok_and(|own| own != Path::new(first)) {
            return Some(format!("the agent runs in a {name} namespace of its own"));
        }
    }
    needs(source, CAP_SYS_BOOT, "CAP_SYS_BOOT")
}

fn sysctls(source: Source<'_>) -> Option<String> {
    not_writable(&source.path("proc/sys/net/core/somaxconn"))
}

fn not_writable(path: &Path) -> Option<String> {
    access(path, Access::WRITE_OK).err().map(|error| {
        let error = std::io::Error::from(error);
        format!("cannot write {}: {error}", path.display())
    })
}

/// Whether the agent lacks a capability.
fn needs(source: Source<'_>, bit: u32, name: &str) -> Option<String> {
    let status = source.text("proc/self/status").unwrap_or_default();
    let mask = line(&status, "CapEff").and_then(|mask| u64::from_str_radix(mask, 16).ok()).unwrap_or(0);
    ((mask >> bit) & 1 == 0).then(|| format!("needs root, or {name}"))
}

fn line<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':')).map(str::trim)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// Of all but the ways to boot another kernel.
    fn missing(root: &Path, containment: &str) -> Vec<(String, Option<String>)> {
        let features = features(Source { root }, containment).into_iter();
        features
            .filter(|feature| !feature.name.starts_with("boot-"))
            .map(|feature| (feature.name, feature.missing))
            .collect()
    }

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    #[test]
    fn expect_everything_when_the_agent_is_root_on_a_machine_of_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        write(root, "proc/self/status", "Name:\tx\nCapEff:\t000001ffffffffff\n");
        write(root, "proc/sys/net/core/somaxconn", "4096\n");
        write(root, "proc/sys/net/ipv4/ip_unprivileged_port_start", "1024\n");
        write(root, "sys/devices/system/cpu/cpu1/online", "1\n");
        write(root, "dev/kmsg", "");
        std::fs::create_dir_all(root.join("proc/self/ns")).unwrap();
        symlink("pid:[4026531836]", root.join("proc/self/ns/pid")).unwrap();
        symlink("user:[4026531837]", root.join("proc/self/ns/user")).unwrap();
        let names = ["cgroups", "cpu-hotplug", "kernel-log", "low-ports", "other-users", "reboot", "sysctls"];
        let all = names.map(|name| (name.to_owned(), None));
        assert_eq!(missing(root, "cgroup2"), all);

        // In a container there is no machine to reboot.
        std::fs::remove_file(root.join("proc/self/ns/pid")).unwrap();
        symlink("pid:[4026532000]", root.join("proc/self/ns/pid")).unwrap();
        let lost: Vec<_> = missing(root, "cgroup2").into_iter().filter(|(_, why)| why.is_some()).collect();
        assert_eq!(
            lost,
            [("reboot".to_owned(), Some("the agent runs in a pid namespace of its own".to_owned()))]
        );
    }

    #[test]
    fn expect_the_reasons_when_there_is_neither_root_nor_hardware() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        write(root, "proc/self/status", "CapEff:\t0000000000000000\n");
        write(root, "sys/devices/system/cpu/cpuidle/x", "");
        let missing = missing(root, "process-group");
        assert!(missing.iter().all(|(_, why)| why.is_some()), "{missing:?}");
        let why = |name: &str| {
            let found = missing.iter().find(|(found, _)| found == name);
            found.and_then(|(_, why)| why.clone()).unwrap()
        };
        assert!(why("cgroups").contains("no cgroup"));
        assert_eq!(why("cpu-hotplug"), "no CPU of this host can be taken offline: /sys shows none");
        assert!(why("kernel-log").contains("dev/kmsg"), "{}", why("kernel-log"));
        assert_eq!(why("low-ports"), "ports below 1024: needs root, or CAP_NET_BIND_SERVICE");
        assert_eq!(why("other-users"), "needs root, or CAP_SETUID");
        assert_eq!(why("reboot"), "needs root, or CAP_SYS_BOOT");
        assert!(why("sysctls").contains("somaxconn"));
    }

    #[test]
    fn expect_the_reason_when_no_cpu_can_be_taken_offline() {
        let dir = tempfile::tempdir().unwrap();
        let why = || cpu_hotplug(Source { root: dir.path() });
        write(dir.path(), "sys/devices/system/cpu/cpu0/online", "1\n");
        assert!(why().unwrap().ends_with("it has one"));
        write(dir.path(), "sys/devices/system/cpu/cpu1/topology/core_id", "0\n");
        assert!(why().unwrap().ends_with("its kernel has no CPU hotplug"));
        write(dir.path(), "sys/devices/system/cpu/cpu1/online", "1\n");
        assert_eq!(why(), None);
        // What nobody can write, not even root.
        let switch = dir.path().join("sys/devices/system/cpu/cpu1/online");
        std::fs::remove_file(&switch).unwrap();
        symlink("/proc/self/stat", &switch).unwrap();
        let read_only = access("/proc/self/stat", Access::WRITE_OK).is_err();
        assert_eq!(why().is_some_and(|why| why.starts_with("needs root, to write ")), read_only);
    }

    #[test]
    fn expect_low_ports_when_the_kernel_gives_them_to_everybody() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), "proc/self/status", "CapEff:\t0000000000000000\n");
        write(dir.path(), "proc/sys/net/ipv4/ip_unprivileged_port_start", "0\n");
        assert!(missing(dir.path(), "cgroup2").contains(&("low-ports".to_owned(), None)));
    }
}
