//! What a host says of itself, and who holds it.

use serde::{Deserialize, Serialize};

use crate::{LeaseEpoch, RunId};

/// Facts about a host, read by its agent. Anything the kernel does not expose is `None` or empty, never guessed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HostFacts {
    /// Name the host has of itself.
    pub hostname: String,
    /// Kernel release, as `uname -r`.
    pub kernel_release: String,
    /// Kernel version, as `uname -v`.
    pub kernel_version: String,
    /// Hardware name, as `uname -m`.
    pub machine: String,
    /// Changes at every boot.
    pub boot_id: String,
    /// Online CPUs with their place in the topology, by ascending number.
    pub cpus: Vec<CpuCore>,
    /// CPUs the kernel knows of, online or not.
    pub cpus_present: u32,
    /// Model name of the first CPU.
    pub cpu_model: String,
    /// Physical memory in bytes.
    pub memory_bytes: u64,
    /// Frequency governor of the first CPU, where exposed.
    pub governor: Option<String>,
    /// CPU vulnerability -> state of its mitigation, where exposed.
    pub mitigations: Vec<(String, String)>,
    /// 2 when a cgroup v2 hierarchy serves containment, 1 for v1, 0 for neither.
    pub cgroup_version: u32,
    /// How process trees are contained: `cgroup2`, `cgroup1` or `process-group`.
    pub containment: String,
    /// Settings that belong to every record: sysctl name -> value.
    pub sysctls: Vec<(String, String)>,
    /// Kernel command line.
    pub cmdline: String,
    /// Kernel taint mask.
    pub tainted: u64,
    /// The kernel's GNU build id, in hexadecimal digits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel_build_id: Option<String>,
    /// Whether cores run more than one thread at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub smt: Option<bool>,
    /// Hypervisor, when the CPU says that there is one.
    pub hypervisor: Option<String>,
    /// Clock source in use.
    pub clocksource: String,
    /// User id of the agent; without 0, some features fall away.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// Bytes that the agent may still write to the file system of its state directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state_free_bytes: Option<u64>,
    /// Descriptors that the agent and each of its tasks may have open (`RLIMIT_NOFILE`, soft); `None` for no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_files_limit: Option<u64>,
    /// What the agent can do here, and what falls away.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub features: Vec<HostFeature>,
}

impl HostFacts {
    /// What [`Self::hypervisor`] is where QEMU translates the instructions.
    pub const TRANSLATED: &'static str = "qemu-tcg";

    /// Whether its instructions are translated: numbers from it show that something works, not how fast it is.
    #[must_use]
    pub fn is_functional_only(&self) -> bool {
        self.hypervisor.as_deref() == Some(Self::TRANSLATED)
    }
}

/// Something that an agent can do on some hosts only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostFeature {
    /// What: `cgroups`, `cpu-hotplug`, `kernel-log`, `low-ports`, `other-users`, `reboot` or `sysctls`.
    pub name: String,
    /// Why it is not available; `None` if it is.
    pub missing: Option<String>,
}

/// One online CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuCore {
    /// The kernel's number of it.
    pub cpu: u32,
    /// Physical core, unique within its package.
    pub core: u32,
    /// Package (socket).
    pub package: u32,
    /// NUMA node.
    pub node: u32,
}

/// Who holds a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseInfo {
    /// The run that holds it.
    pub run: RunId,
    /// Fences older owners.
    pub epoch: LeaseEpoch,
    /// Who that is, for people: user, machine, process.
    pub holder: String,
    /// Since when, in milliseconds since the Unix epoch, UTC.
    pub since_unix_ms: u64,
}
