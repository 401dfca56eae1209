//! The checked host file as plain types, for the controller.

use std::{net::IpAddr, time::Duration};

use drover_model::Name;

use super::{
    boot::{Boot, CpusBy},
    machine::{KernelEntry, VmReach},
};

/// The hosts of a run, in the order of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostFile {
    /// Kernels that virtual machines can boot, in the order of the file.
    pub kernels: Vec<KernelEntry>,
    /// At least one host.
    pub hosts: Vec<HostEntry>,
}

/// A host. Paths are as written: the caller expands a leading `~/`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostEntry {
    /// Its name in tables, records and `on`.
    pub name: Name,
    /// How its agent is reached.
    pub reach: Reach,
    /// Pools that it belongs to; none is the name of a host.
    pub labels: Vec<Name>,
    /// Address that roles on other hosts connect to; `None` means the one that it is reached at, and loopback while all
    /// roles of a trial share the host.
    pub address: Option<IpAddr>,
    /// The agent's folder on the host, an absolute path or one that begins with `~/`; `None` leaves it to the agent.
    pub dir: Option<String>,
    /// Bounds on what is stored there.
    pub limits: HostLimits,
    /// Its kernel may be asked for the stacks of all tasks (sysrq w, l and t) when a soak has failed there.
    pub sysrq: bool,
    /// How it is switched off and on when it does not answer any more, if that can be done from here.
    pub power: Option<Power>,
    /// How it boots other kernels, if it can.
    pub boot: Option<Boot>,
    /// How it gets the number of CPUs that a cell asks for; `None`: it is checked that they are there.
    pub cpus: Option<CpusBy>,
}

impl HostEntry {
    /// Whether it has to boot for another number of CPUs.
    #[must_use]
    pub fn boots_for_cpus(&self) -> bool {
        matches!(self.reach, Reach::Vm(_)) || matches!(self.cpus, Some(CpusBy::Boot(_)))
    }
}

/// How a host is switched off and on, by commands on the controller's machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Power {
    /// Commands with their arguments, to be run one after the other.
    pub commands: Vec<Vec<String>>,
    /// Longest time from then on until it can be used again.
    pub within: Duration,
    /// Times that this may be done in one run.
    pub times: u32,
}

/// Bounds on what is stored on a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostLimits {
    /// Least free space in the agent's folder when a task starts, in bytes.
    pub free_disk: u64,
    /// Most bytes kept of one output stream.
    pub output: u64,
    /// Most bytes of files staged for one task.
    pub files: u64,
}

impl HostLimits {
    /// What holds for virtual machines, whose files live in their memory.
    pub(super) fn of_vm() -> Self {
        Self { free_disk: 16 << 20, ..Self::default() }
    }
}

impl Default for HostLimits {
    fn default() -> Self {
        Self { free_disk: 256 << 20, output: 1 << 30, files: 64 << 20 }
    }
}

/// How the agent of a host is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reach {
    /// It is this machine; the controller starts an agent of its own.
    Local,
    /// By ssh; the controller brings the agent along.
    Ssh(SshReach),
    /// By mTLS; a resident agent listens.
    Tls(TlsReach),
    /// It is a virtual machine on this machine; the controller boots it.
    Vm(Box<VmReach>),
}

/// How to reach a host by ssh. What is not said comes from the ssh configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SshReach {
    /// Host name, address (IPv6 without brackets) or `Host` entry of the ssh configuration.
    pub host: String,
    /// Who to log in as.
    pub user: Option<String>,
    /// Port.
    pub port: Option<u16>,
    /// File of the private key.
    pub identity: Option<String>,
    /// The host to go through: `[user@]host[:port]`, as written.
    pub jump: Option<String>,
    /// File of host keys instead of `~/.ssh/known_hosts`.
    pub known_hosts: Option<String>,
    /// Configuration instead of `~/.ssh/config`.
    pub config: Option<String>,
}

/// How to reach a resident agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsReach {
    /// `host:port`; an IPv6 address is in brackets.
    pub address: String,
    /// Folder of the certificates; `None` means `./drover-pki`.
    pub pki: Option<String>,
}

impl HostFile {
    /// What holds when there is no file: this machine alone, called `local`.
    #[must_use]
    pub fn local() -> Self {
        let local = |name: Name| HostEntry {
            name,
            reach: Reach::Local,
            labels: Vec::new(),
            address: None,
            dir: None,
            // Nobody has asked for any room here.
            limits: HostLimits { free_disk: 0, ..HostLimits::default() },
            sysrq: false,
            power: None,
            boot: None,
            cpus: None,
        };
        // `local` is a good name.
        Self { kernels: Vec::new(), hosts: "local".parse().ok().map(local).into_iter().collect() }
    }

    /// Places of the hosts whose name or one of whose labels is among `on`, in the order of the file; of all hosts if `on`
    /// is empty.
    #[must_use]
    pub fn matching(&self, on: &[Name]) -> Vec<usize> {
        let wanted = |host: &HostEntry| {
            on.is_empty() || on.contains(&host.name) || host.labels.iter().any(|label| on.contains(label))
        };
        self.hosts.iter().enumerate().filter(|(_, host)| wanted(host)).map(|(place, _)| place).collect()
    }
}
