//! Facts about the host, from `/proc` and `/sys`. Whatever the kernel does not expose stays `None` or empty.

use std::path::Path;

use drover_model::HostFacts;
use rustix::process::{Resource, getrlimit};

use crate::{features::features, notes::gnu_build_id, source::Source, topology};

/// Settings that change what the network and process experiments measure, and so belong to every record.
pub const SYSCTLS: [&str; 9] = [
    "net.core.somaxconn",
    "net.ipv4.tcp_tw_reuse",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.tcp_max_syn_backlog",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_max_tw_buckets",
    "fs.file-max",
    "kernel.sem",
];

/// Facts about this host, of which an agent keeps its state in `state_dir`. What the kernel does not expose is `None` or empty.
#[must_use]
pub fn agent_facts(containment: &str, cgroup_version: u32, state_dir: &Path) -> HostFacts {
    let free = rustix::fs::statvfs(state_dir).ok();
    HostFacts {
        uid: Some(rustix::process::geteuid().as_raw()),
        state_free_bytes: free.map(|free| free.f_bavail.saturating_mul(free.f_frsize)),
        open_files_limit: getrlimit(Resource::Nofile).current,
        features: features(Source { root: Path::new("/") }, containment),
        ..facts(containment, cgroup_version)
    }
}

/// Facts about this host that do not depend on who asks. What the kernel does not expose is `None` or empty.
#[must_use]
pub fn facts(containment: &str, cgroup_version: u32) -> HostFacts {
    let name = rustix::system::uname();
    HostFacts {
        machine: name.machine().to_string_lossy().into_owned(),
        ..facts_below(Path::new("/"), containment, cgroup_version)
    }
}

/// Facts read from `proc` and `sys` below another root; for tests on recorded trees. The hardware name, which is in neither, is empty.
#[must_use]
pub fn facts_below(root: &Path, containment: &str, cgroup_version: u32) -> HostFacts {
    let source = Source { root };
    let text = |path: &str| source.text(path);
    let kernel = |name: &str| text(&format!("proc/sys/kernel/{name}")).unwrap_or_default();
    let cpuinfo = text("proc/cpuinfo").unwrap_or_default();
    let cpus = topology::online(source);
    let cpus_present = topology::present(source).or_else(|| u32::try_from(cpus.len()).ok()).unwrap_or(0);
    HostFacts {
        hostname: kernel("hostname"),
        kernel_release: kernel("osrelease"),
        kernel_version: kernel("version"),
        machine: String::new(),
        boot_id: kernel("random/boot_id"),
        cpus,
        cpus_present,
        cpu_model: cpu_model(source, &cpuinfo),
        memory_bytes: text("proc/meminfo").and_then(|info| memory(&info)).unwrap_or(0),
        governor: text("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        mitigations: mitigations(source),
        cgroup_version,
        containment: containment.to_owned(),
        sysctls: sysctls(source),
        cmdline: text("proc/cmdline").unwrap_or_default(),
        kernel_build_id: std::fs::read(root.join("sys/kernel/notes"))
            .ok()
            .and_then(|notes| gnu_build_id(&notes)),
        smt: smt(source),
        tainted: source.number("proc/sys/kernel/tainted").unwrap_or(0),
        hypervisor: hypervisor(source, &cpuinfo),
        clocksource: text("sys/devices/system/clocksource/clocksource0/current_clocksource")
            .unwrap_or_default(),
        ..HostFacts::default()
    }
}

/// Whether cores run more than one thread at once.
fn smt(source: Source<'_>) -> Option<bool> {
    match source.text("sys/devices/system/cpu/smt/active")?.as_str() {
        "0" => Some(false),
        "1" => Some(true),
        _ => None,
    }
}

/// The value of the first line `KEY : value`.
fn field<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == key).then(|| value.trim()).filter(|value| !value.is_empty())
    })
}

/// x86 names the model in `/proc/cpuinfo`; Arm boards name themselves in the device tree, and otherwise the implementer and part numbers
/// are all there is.
fn cpu_model(source: Source<'_>, cpuinfo: &str) -> String {
    let named = ["model name", "cpu model", "Processor", "cpu"].iter().find_map(|key| field(cpuinfo, key));
    if let Some(name) = named {
        return name.to_owned();
    }
    let board = source.text("proc/device-tree/model").map(|name| name.trim_end_matches('\0').to_owned());
    let numbers = match (field(cpuinfo, "CPU implementer"), field(cpuinfo, "CPU part")) {
        (Some(implementer), Some(part)) => Some(format!("implementer {implementer} part {part}")),
        _ => None,
    };
    match (board, numbers) {
        (Some(board), Some(numbers)) => format!("{board} ({numbers})"),
        (board, numbers) => board.or(numbers).unwrap_or_default(),
    }
}

/// `MemTotal:       24683656 kB`; the kernel's kB are KiB.
fn memory(meminfo: &str) -> Option<u64> {
    let kib: u64 = field(meminfo, "MemTotal")?.strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

fn mitigations(source: Source<'_>) -> Vec<(String, String)> {
    const DIR: &str = "sys/devices/system/cpu/vulnerabilities";
    let state = |name: String| source.text(&format!("{DIR}/{name}")).map(|state| (name, state));
    source.names(DIR).into_iter().filter_map(state).collect()
}

/// Values of several numbers are separated by one blank.
fn sysctls(source: Source<'_>) -> Vec<(String, String)> {
    let value = |name: &str| source.text(&format!("proc/sys/{}", name.replace('.', "/")));
    let words = |text: String| text.split_ascii_whitespace().collect::<Vec<_>>().join(" ");
    SYSCTLS.iter().filter_map(|&name| Some((name.to_owned(), words(value(name)?)))).collect()
}

/// x86 CPUs say that there is a hypervisor; who it is stands in the firmware's tables or, for Xen, in `/sys/hypervisor`. Where only the flag
/// is known the answer is `an unknown hypervisor`. Arm guests are recognised by their device tree or firmware.
fn hypervisor(source: Source<'_>, cpuinfo: &str) -> Option<String> {
    let flagged = field(cpuinfo, "flags")
        .is_some_and(|flags| flags.split_ascii_whitespace().any(|f| f == "hypervisor"));
    let named = source
        .text("sys/hypervisor/type")
        .or_else(|| source.text("proc/device-tree/hypervisor/compatible"))
        .map(|name| name.trim_end_matches('\0').to_owned());
    if let Some(name) = named {
        return Some(name);
    }
    let dmi = |name: &str| source.text(&format!("sys/class/dmi/id/{name}"));
    let product =
        [dmi("sys_vendor"), dmi("product_name")].into_iter().flatten().collect::<Vec<_>>().join(" ");
    let known = [
        ("QEMU", "qemu"),
        ("KVM", "kvm"),
        ("VMware", "vmware"),
        ("VirtualBox", "virtualbox"),
        ("Microsoft Corporation Virtual", "hyper-v"),
        ("Xen", "xen"),
        ("Amazon EC2", "amazon-ec2"),
        ("Google Compute Engine", "google-compute-engine"),
    ];
    let guess = known.iter().find(|(mark, _)| product.contains(mark)).map(|(_, name)| (*name).to_owned());
    if flagged {
        Some(guess.unwrap_or_else(|| "an unknown hypervisor".to_owned()))
    } else {
        guess.filter(|_| !cpuinfo.contains("flags"))
    }
}
