//! One boot of a virtual machine.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use drover_agent::Paths;
use drover_model::HostFacts;
use drover_vm::{Accelerator, Expected, InitramfsSpec, Kernel, OnReboot, Vm, VmSpec, build};
use tokio::time::timeout;

use super::{Machine, VmError, VmOptions, watch::Watch};
use crate::{Connection, greet::greet};

/// The agent's folder in the guest.
const AGENT_DIR: &str = "/run/drover";

/// The agent of a guest is needed for as long as the guest is.
const LINGER: &str = "3650d";

/// QEMU's machines have one where nothing else is asked for, and the host file cannot ask for more.
const NUMA_NODES: usize = 1;

/// A machine that has booted.
#[derive(Debug)]
pub(super) struct Running {
    pub vm: Arc<Vm>,
    pub machine: Machine,
    /// What it must say of itself, now and later.
    pub expected: Expected,
    pub watch: Watch,
    /// Its folder.
    pub dir: PathBuf,
}

impl Running {
    /// Whether it has ended, or its kernel has reported a failure.
    pub fn is_over(&self) -> bool {
        self.vm.state().borrow().end.is_some() || self.watch.failure().is_some()
    }

    /// A connection to its agent.
    pub async fn greet(&self, options: &VmOptions) -> Result<Connection, VmError> {
        let paths = Paths::new(PathBuf::from(format!("{}:{AGENT_DIR}", options.name)));
        let mut connection =
            greet(self.vm.connect(), &paths, None).await.map_err(|source| VmError::Agent {
                host: options.name.clone(),
                label: self.machine.kernel.clone(),
                source: Box::new(source),
            })?;
        // The guest knows of QEMU, and not what runs its instructions.
        connection.hello.facts.hypervisor = Some(match self.vm.accelerator() {
            Accelerator::Kvm => "qemu-kvm".to_owned(),
            Accelerator::Tcg => HostFacts::TRANSLATED.to_owned(),
        });
        Ok(connection)
    }
}

/// Boots a machine in a new folder `dir`. The first root file systems are kept in `made`, by kernel.
pub(super) async fn boot(
    options: &VmOptions,
    machine: &Machine,
    dir: &Path,
    made: &mut BTreeMap<String, PathBuf>,
) -> Result<(Running, Connection), VmError> {
    let topology = options.topology(machine.cpus)?;
    let kernel = {
        let (options, label) = (options.clone(), machine.kernel.clone());
        blocking(move || options.kernel(&label)).await?
    };
    let initrd = match made.get(&machine.kernel) {
        Some(path) => path.clone(),
        None => {
            let path = dir.with_extension("initramfs");
            let (options, kernel, at) = (options.clone(), kernel.clone(), path.clone());
            blocking(move || make_initramfs(&options, &kernel, &at)).await?;
            made.insert(machine.kernel.clone(), path.clone());
            path
        }
    };
    let nonce = uuid::Uuid::now_v7().simple().to_string();
    let spec = VmSpec {
        qemu: options.qemu.clone(),
        accelerator: options.accelerator,
        initrd: Some(initrd),
        cmdline: format!("{} {}", kernel.cmdline.trim(), options.cmdline.trim()),
        nonce: nonce.clone(),
        memory_mib: options.memory_mib,
        topology,
        machine: options.machine.clone(),
        cpu: options.cpu.clone(),
        on_reboot: OnReboot::End,
        ..VmSpec::new(kernel.image.clone(), dir.to_owned())
    };
    let (host, label) = (options.name.clone(), machine.kernel.clone());
    let vm = Vm::start(&spec).await.map_err(|source| VmError::Start { host, label, source })?;
    let (host, label) = (options.name.clone(), machine.kernel.clone());
    let vm = Arc::new(vm);
    let watch = Watch::start(&vm);
    let boot_id = vm.booted(options.boot).await.map_err(|error| VmError::Boot { host, label, error })?;
    let expected = Expected {
        release: Some(kernel.release),
        version: Some(kernel.version),
        build_id: kernel.build_id,
        nonce: Some(nonce),
        boot_id: Some(boot_id),
        cpu_count: usize::try_from(machine.cpus).ok(),
        cpus: Some((0..machine.cpus).collect()),
        smt: Some(topology.threads > 1),
        numa_nodes: Some(NUMA_NODES),
    };
    let running = Running { vm, machine: machine.clone(), expected, watch, dir: dir.to_owned() };
    let connection = timeout(options.boot, running.greet(options)).await.unwrap_or_else(|_| {
        let path = PathBuf::from(AGENT_DIR);
        Err(VmError::Folder { path, source: io::ErrorKind::TimedOut.into() })
    })?;
    Ok((running, connection))
}

fn make_initramfs(options: &VmOptions, kernel: &Kernel, path: &Path) -> Result<(), VmError> {
    let mut args = options.agent.args.clone();
    args.extend(["serve", "--dir", AGENT_DIR, "--linger", LINGER].map(str::to_owned));
    let made = build(&InitramfsSpec {
        init: options.init.clone(),
        program: options.agent.path.clone(),
        args,
        socket: Paths::new(PathBuf::from(AGENT_DIR)).socket(),
        modules: kernel.modules.clone(),
        more_modules: Vec::new(),
        files: options.files.iter().map(|file| (PathBuf::from(file), file.clone())).collect(),
    });
    let made = made.map_err(|source| VmError::Initramfs { label: kernel.label.clone(), source })?;
    let mut archives = match &kernel.initrd {
        Some(first) => fs::read(first).map_err(|source| VmError::Folder { path: first.clone(), source })?,
        None => Vec::new(),
    };
    // An archive begins at a multiple of four.
    archives.resize(archives.len().next_multiple_of(4), 0);
    archives.extend(made);
    fs::write(path, archives).map_err(|source| VmError::Folder { path: path.to_owned(), source })
}

/// Runs what waits for disks on a thread of its own.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, VmError> + Send + 'static,
) -> Result<T, VmError> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| {
        Err(VmError::Folder { path: PathBuf::from("initramfs"), source: io::Error::other(error) })
    })
}
