//! What a virtual machine is to be.

use std::{fmt, path::PathBuf};

/// What runs the guest's instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Accelerator {
    /// The host's CPUs do.
    Kvm,
    /// QEMU translates them. Numbers from such a guest show that something works, not how fast it is.
    Tcg,
}

impl fmt::Display for Accelerator {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Kvm => "kvm",
            Self::Tcg => "tcg",
        })
    }
}

/// Which accelerator is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AcceleratorWish {
    /// KVM if a kernel has booted with it here, else TCG.
    #[default]
    Auto,
    /// KVM, or no machine.
    Kvm,
    /// TCG.
    Tcg,
}

/// What becomes of a guest that reboots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnReboot {
    /// QEMU ends: a guest without a disk has lost all there was.
    #[default]
    End,
    /// The same kernel boots again, with another boot id.
    Again,
}

/// How the CPUs are arranged; the product is their number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Topology {
    /// Sockets.
    pub sockets: u32,
    /// Cores of each socket.
    pub cores: u32,
    /// Threads of each core.
    pub threads: u32,
}

impl Topology {
    /// One socket with so many cores of one thread.
    #[must_use]
    pub fn cores(cores: u32) -> Self {
        Self { sockets: 1, cores, threads: 1 }
    }

    /// How many CPUs there are.
    #[must_use]
    pub fn cpus(self) -> u32 {
        self.sockets.saturating_mul(self.cores).saturating_mul(self.threads)
    }
}

/// A virtual machine to be started.
#[derive(Clone, Debug)]
pub struct VmSpec {
    /// QEMU, by its path or by a name that is looked up in `PATH`.
    pub qemu: PathBuf,
    /// What is to run the guest's instructions.
    pub accelerator: AcceleratorWish,
    /// The kernel image.
    pub kernel: PathBuf,
    /// The first root file system, as a file; `None` for a kernel that finds its root on a disk.
    pub initrd: Option<PathBuf>,
    /// The kernel's command line. The console and the nonce are added.
    pub cmdline: String,
    /// Put on the command line, and found there again in the guest: letters, digits and `-`.
    pub nonce: String,
    /// In MiB.
    pub memory_mib: u32,
    /// The CPUs.
    pub topology: Topology,
    /// QEMU's `-machine`, such as `q35`; `None` for its default.
    pub machine: Option<String>,
    /// QEMU's `-cpu`; `None` for all that the accelerator can do.
    pub cpu: Option<String>,
    /// More arguments for QEMU, as they are.
    pub more_args: Vec<String>,
    /// What becomes of a guest that reboots.
    pub on_reboot: OnReboot,
    /// A folder for sockets, console and QEMU's own messages; made, for its owner only, if it does not exist.
    pub dir: PathBuf,
    /// The console's file; `None` for `console.log` in the folder. Appended to.
    pub console: Option<PathBuf>,
    /// The most that the console's file may grow to, in bytes. What comes then is lost, and said.
    pub console_limit: u64,
}

impl VmSpec {
    /// A machine with one CPU and 512 MiB; `dir` is its folder.
    #[must_use]
    pub fn new(kernel: PathBuf, dir: PathBuf) -> Self {
        Self {
            qemu: PathBuf::from("qemu-system-x86_64"),
            accelerator: AcceleratorWish::Auto,
            kernel,
            initrd: None,
            cmdline: String::new(),
            nonce: String::new(),
            memory_mib: 512,
            topology: Topology::cores(1),
            machine: None,
            cpu: None,
            more_args: Vec::new(),
            on_reboot: OnReboot::End,
            dir,
            console: None,
            console_limit: 64 << 20,
        }
    }
}

/// What is asked for cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// No CPUs, or more than any machine has.
    #[error("a machine of {0} CPUs is impossible: 1 to 1024 are possible")]
    Cpus(u32),
    /// Too little memory for any kernel.
    #[error("{0} MiB of memory are too few: a kernel and its first root file system need 64 at least")]
    Memory(u32),
    /// The nonce has other characters than letters, digits and `-`.
    #[error("the nonce `{0}` has other characters than letters, digits and `-`")]
    Nonce(String),
    /// A path is not UTF-8 and cannot be told to QEMU.
    #[error("the path `{}` is not UTF-8", .0.display())]
    Path(PathBuf),
    /// The command line has a character that ends it.
    #[error("the kernel's command line has a line break or a NUL in it")]
    Cmdline,
}
