//! The keys of every mapping with fixed keys: one list for decoding, "did you mean" and the test that the schema knows
//! the same ones.

pub(crate) const ROOT: &[&str] = &[
    "version",
    "name",
    "about",
    "requires",
    "axes",
    "zip",
    "include",
    "exclude",
    "placement",
    "roles",
    "metrics",
    "repeat",
    "order",
    "seed",
    "timeout",
    "retries",
    "after_ng",
    "limits",
    "table",
    "spread",
    "mix_hosts",
    "skew_limit",
    "observe",
    "doubt",
    "soak",
];
pub(crate) const REQUIREMENT: &[&str] = &["command", "package"];
pub(crate) const EXCLUDE: &[&str] = &["when", "because"];
pub(crate) const ROLE: &[&str] = &[
    "run",
    "shell",
    "after",
    "ports",
    "ready",
    "stop",
    "env",
    "files",
    "measure",
    "status",
    "timeout",
    "output",
    "on",
    "hosts",
    "instances",
    "same_host_as",
    "other_host_than",
    "artifacts",
    "artifact_limit",
    "load",
];
pub(crate) const READY: &[&str] = &["tcp", "unix", "log", "http", "command", "processes", "within"];
pub(crate) const STOP: &[&str] = &["signal", "grace"];
pub(crate) const FILE: &[&str] = &["text", "from", "raw", "executable"];
pub(crate) const MEASURE: &[&str] = &["json", "regex"];
pub(crate) const METRIC: &[&str] = &["unit", "better", "primary", "from", "value", "must", "across", "about"];
pub(crate) const LIMITS: &[&str] = &["cells", "file"];
pub(crate) const SOAK: &[&str] = &["for", "every", "until", "warm_up", "stall", "share"];
pub(crate) const TABLE: &[&str] = &["rows", "cols", "facet"];

pub(crate) const HOST_FILE: &[&str] = &["version", "defaults", "kernels", "hosts"];
pub(crate) const KERNEL: &[&str] = &["catalogue", "image", "modules", "initrd", "cmdline"];
pub(crate) const VM: &[&str] = &[
    "kernel",
    "cmdline",
    "memory",
    "cpus",
    "sockets",
    "threads",
    "accelerator",
    "machine",
    "cpu",
    "qemu",
    "files",
    "boot",
];
pub(crate) const HOST: &[&str] = &[
    "ssh",
    "tls",
    "local",
    "vm",
    "labels",
    "address",
    "user",
    "port",
    "identity",
    "jump",
    "known_hosts",
    "config",
    "pki",
    "dir",
    "limits",
    "sysrq",
    "power",
    "boot",
    "cpus",
];
pub(crate) const BOOT: &[&str] = &["by", "within", "times", "reboot", "folder", "command", "kernels"];
pub(crate) const BOOT_KERNEL: &[&str] = &["entry", "image", "initrd", "cmdline", "release"];
pub(crate) const HOST_CPUS: &[&str] = &["by", "word"];
pub(crate) const POWER: &[&str] = &["cycle", "off", "on", "within", "times"];
pub(crate) const HOST_LIMITS: &[&str] = &["free_disk", "output", "files"];
/// How a host is reached: exactly one of these.
pub(crate) const WAYS: &[&str] = &["ssh", "tls", "local", "vm"];
/// Keys of a host that belong to `ssh`.
pub(crate) const OF_SSH: &[&str] = &["user", "port", "identity", "jump", "known_hosts", "config"];
/// Keys of a host that belong to `ssh` or `tls`.
pub(crate) const OF_NETWORK: &[&str] = &["user", "port", "identity", "jump", "known_hosts", "config", "pki"];
/// Keys of a host that mean nothing for a virtual machine, which has no network, lives in memory, and is made anew.
pub(crate) const NOT_OF_VM: &[&str] = &["address", "dir", "power", "boot", "cpus"];
