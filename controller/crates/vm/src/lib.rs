//! Boots kernels in QEMU and proves which one runs. Called by the controller's driver for the hosts of kind `vm`.
//!
//! - [`Catalogue`]: kernels by label, and how to get them out of Debian's packages without root.
//! - [`build`] makes the first root file system of a guest: [`init`] as its first process, the agent, modules.
//! - [`Vm`]: a QEMU process, its console, its power, and the way to the agent in it.
//! - [`Found`] and [`Expected`]: the proof that the kernel and the CPUs are those that were asked for.
//!
//! # The way to the agent
//!
//! A virtio port of the guest is a Unix socket here, in a folder that only its owner may enter: the file system's
//! permissions authenticate, nothing listens on a network, and the guest needs no network card and no address. Since
//! QEMU takes one connection to the socket, which [`Vm`] holds from before the guest's first instruction, nobody else can
//! come in later, either. [`Vm::connect`] gives streams over it, one at a time; HTTP/2 carries many calls over one. The same
//! goes for QEMU's control. A second control, `monitor.sock` in the same folder, is left to the owner.
//!
//! The others were worse. vsock needs `/dev/vhost-vsock`, thus a module and rights on the host, and its ports are open to
//! every local user. A forwarded TCP port is open to them as well, so that it needs certificates; QEMU forwards to Unix
//! sockets only since version 10.
//!
//! # Processes
//!
//! | process | group | started by | ends |
//! |---|---|---|---|
//! | QEMU | its own | a thread of [`Vm::start`] that then waits for it | when the guest powers off or reboots; by SIGKILL when [`Vm`] is dropped, and when the controller dies, however it does (`PR_SET_PDEATHSIG`, set by `setpriv`) |
//! | QEMU with KVM, to try it | the controller's | [`kvm_works`] | by itself, or by SIGKILL after [`KVM_LIMIT`] |
//! | apt-get, apt-cache, dpkg-deb | the controller's | [`Catalogue::fetch`] | by themselves |
//!
//! Threads: `qemu`, one per [`Vm`], from start to end of its QEMU. Tasks: one for QMP, those of the channel (see
//! there), and one that watches the size of the console; they end with QEMU.

mod catalogue;
mod channel;
mod guest;
mod identity;
mod image;
mod initramfs;
mod machine;

pub use catalogue::{AptOptions, Catalogue, CatalogueError, FetchError, Kernel, NewKernel};
pub use guest::{init, is_init};
pub use identity::{Expected, Found, IdentityError, Mismatch};
pub use image::{Banner, ImageError, UnpackError, banner, build_id};
pub use initramfs::{
    Cpio, InitramfsError, InitramfsSpec, Module, Modules, ModulesError, ProgramError, TooLarge, build,
};
pub use machine::{
    Accelerator, AcceleratorWish, BootError, Console, End, KVM_LIMIT, KvmVerdict, OnReboot, Qmp, QmpError,
    Shutdown, SpecError, StartError, Topology, Vm, VmEvent, VmSpec, VmState, kvm_works,
};

/// Name of the virtio port.
pub(crate) const PORT_NAME: &str = "drover.agent";
