//! From entries of the host file to virtual machines.

use std::path::{Path, PathBuf};

use drover_connect::{AgentBinary, KernelPlace, Machine, Target, VmHost, VmOptions};
use drover_matrix::{KernelEntry, KernelSource, VmAccelerator, VmReach};
use drover_model::Name;
use drover_vm::{AcceleratorWish, Catalogue, NewKernel};

use super::targets::expand_home;
use crate::{driver::chain, error::Failure, exit::ExitStatus};

/// Names the folder of the catalogue.
const CATALOGUE: &str = "DROVER_KERNELS";
/// QEMU, where the host file does not say.
const QEMU: &str = "qemu-system-x86_64";

/// The catalogue of kernels: in this folder, in the one that the environment names, or the user's.
pub fn catalogue(dir: Option<&Path>) -> Result<Catalogue, Failure> {
    let named = std::env::var_os(CATALOGUE).filter(|dir| !dir.is_empty()).map(PathBuf::from);
    match dir.map(Path::to_owned).or(named) {
        Some(dir) => Ok(Catalogue::new(dir)),
        None => Catalogue::of_user().map_err(|error| Failure::new(ExitStatus::Infrastructure, chain(&error))),
    }
}

/// A virtual machine, which is not started yet.
pub(super) fn target(
    name: &Name,
    vm: &VmReach,
    kernels: &[KernelEntry],
    agent: &AgentBinary,
) -> Result<Target, Failure> {
    let init = std::env::current_exe().map_err(|error| {
        Failure::new(ExitStatus::Infrastructure, format!("cannot find the path of this program: {error}"))
    })?;
    Ok(Target::Vm(VmHost::new(VmOptions {
        name: name.clone(),
        usual: Machine { kernel: vm.kernel.clone(), cpus: vm.cpus },
        kernels: kernels.iter().map(|entry| (entry.label.clone(), place(entry))).collect(),
        catalogue: catalogue(None)?,
        cmdline: vm.cmdline.clone(),
        memory_mib: vm.memory_mib,
        sockets: vm.sockets,
        threads: vm.threads,
        accelerator: match vm.accelerator {
            VmAccelerator::Auto => AcceleratorWish::Auto,
            VmAccelerator::Kvm => AcceleratorWish::Kvm,
            VmAccelerator::Tcg => AcceleratorWish::Tcg,
        },
        machine: vm.machine.clone(),
        cpu: vm.cpu.clone(),
        qemu: vm.qemu.as_deref().map_or_else(|| PathBuf::from(QEMU), expand_home),
        files: vm.files.clone(),
        boot: vm.boot,
        agent: agent.clone(),
        init,
    })))
}

fn place(entry: &KernelEntry) -> KernelPlace {
    match &entry.source {
        KernelSource::Catalogue(label) => {
            KernelPlace::Catalogue { label: label.clone(), cmdline: entry.cmdline.clone() }
        }
        KernelSource::Files { image, modules, initrd } => KernelPlace::Files(NewKernel {
            label: entry.label.clone(),
            image: expand_home(image),
            modules: modules.as_deref().map(expand_home),
            initrd: initrd.as_deref().map(expand_home),
            cmdline: entry.cmdline.clone(),
        }),
    }
}
