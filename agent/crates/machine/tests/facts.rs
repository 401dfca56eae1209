//! Facts of machines that are not this one, from recorded trees, and of this one.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{fs, path::Path};

use drover_machine::{facts, facts_below};
use drover_model::HostFacts;

/// A tree of files given as (path, contents).
fn read(files: &[(&str, &str)]) -> HostFacts {
    let dir = tempfile::tempdir().unwrap();
    for (path, contents) in files {
        write(dir.path(), path, contents);
    }
    facts_below(dir.path(), "cgroup2", 2)
}

fn write(root: &Path, path: &str, contents: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, contents).unwrap();
}

#[test]
fn expect_cores_packages_and_nodes_when_the_host_has_two_sockets_with_smt() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    write(root, "sys/devices/system/cpu/online", "0-7\n");
    write(root, "sys/devices/system/cpu/present", "0-15\n");
    for cpu in 0..8 {
        let topology = format!("sys/devices/system/cpu/cpu{cpu}/topology");
        write(root, &format!("{topology}/core_id"), &format!("{}\n", cpu % 2 * 4));
        write(root, &format!("{topology}/physical_package_id"), &format!("{}\n", cpu / 2 % 2));
    }
    write(root, "sys/devices/system/node/node0/cpulist", "0-1,4-5\n");
    write(root, "sys/devices/system/node/node1/cpulist", "2-3,6-7\n");
    write(root, "sys/devices/system/node/possible", "0-1\n");
    write(root, "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance\n");
    write(root, "sys/devices/system/cpu/vulnerabilities/meltdown", "Mitigation: PTI\n");
    write(root, "sys/devices/system/cpu/vulnerabilities/l1tf", "Not affected\n");
    write(root, "sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n");
    write(
        root,
        "proc/cpuinfo",
        "processor\t: 0\nmodel name\t: Xeon(R) Gold 6130 CPU @ 2.10GHz\nflags\t\t: fpu ht\n",
    );
    write(root, "proc/meminfo", "MemTotal:       98765432 kB\nMemFree: 1 kB\n");
    write(root, "proc/sys/kernel/hostname", "box\n");
    write(root, "proc/sys/kernel/osrelease", "6.10.0\n");
    write(root, "proc/sys/kernel/version", "#1 SMP\n");
    write(root, "proc/sys/kernel/random/boot_id", "0123\n");
    write(root, "proc/sys/kernel/tainted", "4096\n");
    write(root, "proc/sys/kernel/sem", "32000\t1024000000\t500\t32000\n");
    write(root, "proc/sys/net/core/somaxconn", "4096\n");
    write(root, "proc/cmdline", "quiet ro\n");

    let facts = facts_below(root, "cgroup2", 2);

    let places: Vec<_> = facts.cpus.iter().map(|c| (c.cpu, c.core, c.package, c.node)).collect();
    assert_eq!(places[..4], [(0, 0, 0, 0), (1, 4, 0, 0), (2, 0, 1, 1), (3, 4, 1, 1)]);
    assert_eq!(places[4..], [(4, 0, 0, 0), (5, 4, 0, 0), (6, 0, 1, 1), (7, 4, 1, 1)]);
    assert_eq!(facts.cpus_present, 16);
    assert_eq!(facts.cpu_model, "Xeon(R) Gold 6130 CPU @ 2.10GHz");
    assert_eq!(facts.memory_bytes, 98_765_432 * 1024);
    assert_eq!(facts.governor.as_deref(), Some("performance"));
    assert_eq!(
        facts.mitigations,
        [("l1tf".into(), "Not affected".into()), ("meltdown".into(), "Mitigation: PTI".into())]
    );
    assert_eq!(
        facts.sysctls,
        [
            ("net.core.somaxconn".into(), "4096".into()),
            ("kernel.sem".into(), "32000 1024000000 500 32000".into())
        ]
    );
    assert_eq!((facts.hostname.as_str(), facts.kernel_release.as_str()), ("box", "6.10.0"));
    assert_eq!((facts.kernel_version.as_str(), facts.boot_id.as_str()), ("#1 SMP", "0123"));
    assert_eq!((facts.cmdline.as_str(), facts.tainted), ("quiet ro", 4096));
    assert_eq!((facts.clocksource.as_str(), facts.hypervisor), ("tsc", None));
    assert_eq!((facts.containment.as_str(), facts.cgroup_version), ("cgroup2", 2));
}

#[test]
fn expect_the_board_as_model_when_the_host_is_arm() {
    let facts = read(&[
        ("proc/cpuinfo", "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n\nprocessor\t: 1\n"),
        ("proc/device-tree/model", "Raspberry Pi 5\0"),
        ("sys/devices/system/cpu/online", "0-1"),
        ("sys/devices/system/cpu/cpu0/topology/core_id", "0"),
        ("sys/devices/system/cpu/cpu0/topology/physical_package_id", "-1"),
        ("sys/devices/system/cpu/cpu1/topology/core_id", "1"),
        ("sys/devices/system/cpu/cpu1/topology/physical_package_id", "-1"),
    ]);
    assert_eq!(facts.cpu_model, "Raspberry Pi 5 (implementer 0x41 part 0xd0c)");
    let places: Vec<_> = facts.cpus.iter().map(|c| (c.cpu, c.core, c.package)).collect();
    assert_eq!(places, [(0, 0, 0), (1, 1, 0)]);
    assert_eq!(facts.hypervisor, None);
}

#[test]
fn expect_nothing_guessed_when_a_container_hides_the_files() {
    let facts = read(&[("proc/cpuinfo", "processor\t: 0\nprocessor\t: 3\nflags\t: fpu hypervisor\n")]);
    let places: Vec<_> = facts.cpus.iter().map(|c| (c.cpu, c.core)).collect();
    assert_eq!(places, [(0, 0), (3, 3)]);
    assert_eq!(facts.cpus_present, 2);
    assert_eq!(facts.hypervisor.as_deref(), Some("an unknown hypervisor"));
    assert_eq!((facts.governor, facts.memory_bytes, facts.tainted), (None, 0, 0));
    assert!(facts.mitigations.is_empty() && facts.sysctls.is_empty());

    let nothing = read(&[]);
    assert!(nothing.cpus.is_empty() && nothing.boot_id.is_empty() && nothing.cpu_model.is_empty());
}

#[test]
fn expect_its_name_when_a_hypervisor_shows_one() {
    let flags = ("proc/cpuinfo", "flags\t: hypervisor\n");
    let vendor = |vendor| read(&[flags, ("sys/class/dmi/id/sys_vendor", vendor)]).hypervisor;
    assert_eq!(vendor("QEMU").as_deref(), Some("qemu"));
    assert_eq!(vendor("VMware, Inc.").as_deref(), Some("vmware"));
    assert_eq!(read(&[flags, ("sys/hypervisor/type", "xen\n")]).hypervisor.as_deref(), Some("xen"));
    // An x86 host that is sold under a hypervisor's name but runs on the metal has no flag.
    let metal = [("proc/cpuinfo", "flags\t: fpu\n"), ("sys/class/dmi/id/sys_vendor", "Amazon EC2")];
    assert_eq!(read(&metal).hypervisor, None);
    let arm = [("proc/cpuinfo", "Features\t: fp\n"), ("sys/class/dmi/id/sys_vendor", "QEMU")];
    assert_eq!(read(&arm).hypervisor.as_deref(), Some("qemu"));
}

#[test]
fn expect_what_every_linux_host_has_when_this_one_is_read() {
    let facts = facts("process-group", 0);
    assert!(!facts.cpus.is_empty());
    assert!(facts.cpus.is_sorted_by_key(|core| core.cpu));
    assert!(facts.memory_bytes > 0);
    assert!(!facts.boot_id.is_empty() && !facts.kernel_release.is_empty() && !facts.machine.is_empty());
    assert!(facts.sysctls.iter().any(|(name, _)| name == "fs.file-max"));
}
