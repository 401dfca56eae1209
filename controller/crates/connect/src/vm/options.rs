//! What a virtual machine is to be.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use drover_model::Name;
use drover_vm::{AcceleratorWish, Catalogue, CatalogueError, Kernel, NewKernel, Topology};

use super::VmError;
use crate::AgentBinary;

/// What can be asked of a machine: another one of either needs another boot.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Machine {
    /// Label of the kernel.
    pub kernel: String,
    /// How many CPUs.
    pub cpus: u32,
}

/// Where a kernel is that the host file names.
#[derive(Clone, Debug)]
pub enum KernelPlace {
    /// In the catalogue.
    Catalogue {
        /// Its label there.
        label: String,
        /// More words for its command line.
        cmdline: String,
    },
    /// In files of this machine.
    Files(NewKernel),
}

/// A virtual machine.
#[derive(Clone, Debug)]
pub struct VmOptions {
    /// The host's name.
    pub name: Name,
    /// What it is where nothing else is asked for.
    pub usual: Machine,
    /// Kernels by label; others are looked for in the catalogue.
    pub kernels: BTreeMap<String, KernelPlace>,
    /// The catalogue.
    pub catalogue: Catalogue,
    /// Words for every kernel's command line.
    pub cmdline: String,
    /// In MiB.
    pub memory_mib: u32,
    /// Sockets over which the CPUs are spread.
    pub sockets: u32,
    /// Threads of each core.
    pub threads: u32,
    /// What runs the instructions.
    pub accelerator: AcceleratorWish,
    /// QEMU's `-machine`.
    pub machine: Option<String>,
    /// QEMU's `-cpu`.
    pub cpu: Option<String>,
    /// QEMU.
    pub qemu: PathBuf,
    /// Files of this machine that the guest has at the same place.
    pub files: Vec<String>,
    /// Longest time from the start until the agent answers.
    pub boot: Duration,
    /// The agent's program.
    pub agent: AgentBinary,
    /// The program that is the guest's first process when it is called `/init`.
    pub init: PathBuf,
}

impl VmOptions {
    /// The kernel with this label. Reads its image if it is not in the catalogue.
    ///
    /// # Errors
    /// No kernel has the label, or its files cannot be used.
    pub(super) fn kernel(&self, label: &str) -> Result<Kernel, VmError> {
        let found = match self.kernels.get(label) {
            Some(KernelPlace::Catalogue { label, cmdline }) => self.catalogue.get(label).map(|kernel| {
                let cmdline = format!("{} {cmdline}", kernel.cmdline);
                Kernel { cmdline, ..kernel }
            }),
            Some(KernelPlace::Files(new)) => Kernel::of_files(new),
            None => self.catalogue.get(label),
        };
        let (host, label) = (self.name.clone(), label.to_owned());
        found.map_err(|source| match source {
            CatalogueError::Unknown { .. } => VmError::Kernel { host, label, source },
            _ => VmError::Files { host, label, source },
        })
    }

    /// Whether a machine can be had, as far as that can be told without booting or reading much.
    ///
    /// # Errors
    /// No kernel has the label, or the CPUs cannot be arranged.
    pub(super) fn check(&self, machine: &Machine) -> Result<(), VmError> {
        self.topology(machine.cpus)?;
        match self.kernels.get(&machine.kernel) {
            Some(KernelPlace::Files(_)) => Ok(()),
            _ => self.kernel(&machine.kernel).map(drop),
        }
    }

    /// How so many CPUs are arranged.
    ///
    /// # Errors
    /// They are not a multiple of what belongs together.
    pub(super) fn topology(&self, cpus: u32) -> Result<Topology, VmError> {
        let (sockets, threads) = (self.sockets.max(1), self.threads.max(1));
        let unit = sockets.saturating_mul(threads);
        if cpus == 0 || !cpus.is_multiple_of(unit) {
            return Err(VmError::Cpus { host: self.name.clone(), cpus, sockets, threads });
        }
        Ok(Topology { sockets, cores: cpus / unit, threads })
    }
}
