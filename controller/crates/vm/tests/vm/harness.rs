//! Kernels, initramfs and machines for tests.

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use drover_vm::{
    AcceleratorWish, AptOptions, Catalogue, Found, InitramfsSpec, Kernel, Topology, Vm, VmSpec, build,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// A kernel with uncompressed modules, and virtio in them.
pub const OLD: &str = "debian:linux-image-cloud-amd64";
/// A kernel with modules compressed by xz, and virtio built in.
pub const NEW: &str = "debian:linux-image-6.12-cloud-amd64";

/// The longest that a boot may take on a busy machine. Not what it takes, which is printed.
pub const LIMIT: Duration = Duration::from_secs(120);

/// Where the payload serves in the guest.
const SOCKET: &str = "/run/payload.sock";

/// A machine, and the folder that goes with it.
pub struct Lab {
    pub dir: tempfile::TempDir,
    pub kernel: Kernel,
}

pub fn catalogue() -> Catalogue {
    Catalogue::new(Path::new(env!("CARGO_TARGET_TMPDIR")).join("kernels"))
}

/// An example of this crate, which cargo builds for its tests.
pub fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.parent().and_then(Path::parent).unwrap().join("examples").join(name)
}

impl Lab {
    pub fn new(package: &str) -> Self {
        let kernel = catalogue().fetch(package, None, &AptOptions::default()).unwrap();
        Self { dir: tempfile::tempdir().unwrap(), kernel }
    }

    /// A machine that runs the payload with these arguments.
    pub fn spec_with(&self, args: &[&str]) -> VmSpec {
        let initramfs = build(&InitramfsSpec {
            init: PathBuf::from(env!("CARGO_BIN_EXE_drover-init")),
            program: example("vm_payload"),
            args: args.iter().map(|arg| (*arg).to_owned()).collect(),
            socket: PathBuf::from(SOCKET),
            modules: self.kernel.modules.clone(),
            more_modules: Vec::new(),
            files: Vec::new(),
        });
        let initrd = self.dir.path().join("initramfs");
        std::fs::write(&initrd, initramfs.unwrap()).unwrap();
        VmSpec { initrd: Some(initrd), ..self.bare() }
    }

    pub fn spec(&self, cpus: u32) -> VmSpec {
        VmSpec { topology: Topology::cores(cpus), ..self.spec_with(&[SOCKET]) }
    }

    /// A machine without a first root file system.
    pub fn bare(&self) -> VmSpec {
        VmSpec {
            accelerator: AcceleratorWish::Tcg,
            memory_mib: 256,
            nonce: "n0nce-1".to_owned(),
            ..VmSpec::new(self.kernel.image.clone(), self.dir.path().join("vm"))
        }
    }

    pub async fn boot(&self, spec: &VmSpec) -> Vm {
        let start = Instant::now();
        let vm = Vm::start(spec).await.unwrap();
        vm.booted(LIMIT).await.unwrap_or_else(|error| panic!("{error}\n{}", error.console()));
        let cpus = spec.topology.cpus();
        println!(
            "{} on {cpus} CPUs: {:.1} s to its program",
            self.kernel.release,
            start.elapsed().as_secs_f64()
        );
        vm
    }
}

/// Says a word to the payload, and hears its answer.
pub async fn ask(vm: &Vm, word: &str) -> String {
    let mut stream = vm.connect();
    stream.write_all(format!("{word}\n").as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer.trim().to_owned()
}

/// Says a word to which there is no answer.
pub async fn tell(vm: &Vm, word: &str) -> tokio::io::DuplexStream {
    let mut stream = vm.connect();
    stream.write_all(format!("{word}\n").as_bytes()).await.unwrap();
    stream
}

pub async fn identity(vm: &Vm) -> Found {
    let answer = ask(vm, "identity").await;
    serde_json::from_str(&answer).unwrap_or_else(|error| panic!("{error}: {answer}"))
}
