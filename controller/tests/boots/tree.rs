//! What is on the disk of a host: a small system of busybox, with the agent as a service.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::LazyLock,
};

use drover_connect::{DEFAULT_DAYS, PeerKind, pki_init, pki_issue};
use drover_vm::{AptOptions, Catalogue, Cpio, Kernel, Modules};

/// The host's name.
pub const NAME: &str = "big";

/// The kernel that a host boots by itself, and another one, as their files are called.
pub const GOLDEN: &str = "golden";
pub const OTHER: &str = "other";

/// Where the agent listens within the host.
pub const PORT: u16 = 7411;

/// Without these there is no disk and no network.
const WANTED: [&str; 3] = ["virtio_pci", "virtio_blk", "virtio_net"];
/// For firmware with EFI, and for entropy.
const WISHED: [&str; 5] = ["efivarfs", "vfat", "nls_cp437", "nls_ascii", "virtio_rng"];

/// The first program of the initial file system: takes the disk for its root.
const FIRST: &str = "#!/bin/busybox sh
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t sysfs sys /sys
/bin/busybox mount -t devtmpfs dev /dev
while read -r module; do /bin/busybox insmod \"/modules/$module\"; done < /modules/order
root=$(/bin/busybox sed -n 's/.*\\broot=\\([^ ]*\\).*/\\1/p' /proc/cmdline)
tries=0
while ! /bin/busybox mount -t ext4 \"$root\" /root 2>/dev/null; do
    tries=$((tries + 1))
    [ $tries -lt 600 ] || { echo \"no root file system on $root\"; exec /bin/busybox poweroff -f; }
    /bin/busybox usleep 50000
done
for place in proc sys dev; do /bin/busybox mount -o move /$place /root/$place; done
exec /bin/busybox switch_root /root /sbin/init
";

/// Processes of the system; busybox starts those again that end.
const INITTAB: &str = "::sysinit:/etc/rc
::respawn:/bin/drover-agent serve --dir /var/lib/drover --listen 0.0.0.0:PORT --tls /etc/drover-agent
::respawn:/usr/bin/tail -n +1 -F /var/lib/drover/agent.log
::shutdown:/bin/umount -a -r
";

/// Run once at boot. The address is what QEMU's user network gives to its only guest.
const RC: &str = "#!/bin/sh
mkdir -p /dev/pts /dev/shm
mount -t tmpfs run /run
mount -t tmpfs tmp /tmp
mount -t devpts pts /dev/pts
mount -t tmpfs shm /dev/shm
mount -t cgroup2 cgroup /sys/fs/cgroup
[ ! -d /sys/firmware/efi ] || mount -t efivarfs efivars /sys/firmware/efi/efivars
[ ! -x /etc/rc.local ] || /etc/rc.local
ip link set lo up
ip link set eth0 up
ip address add 10.0.2.15/24 dev eth0
ip route add default via 10.0.2.2
";

/// Kernels, their labels in the catalogue, which other tests use too, and their packages.
const PACKAGES: [(&str, &str, &str); 2] = [
    (GOLDEN, "old", "debian:linux-image-cloud-amd64"),
    (OTHER, "new+1", "debian:linux-image-6.12-cloud-amd64"),
];

/// The kernels, fetched once.
static KERNELS: LazyLock<Catalogue> = LazyLock::new(|| {
    let catalogue = Catalogue::new(Path::new(env!("CARGO_TARGET_TMPDIR")).join("kernels"));
    for (_, label, package) in PACKAGES {
        let fetch = || catalogue.fetch(package, Some(label), &AptOptions::default());
        if fetch().is_err() {
            // There may be a newer one by now.
            let _ = catalogue.remove(label);
            fetch().unwrap_or_else(|error| panic!("{package}: {error}"));
        }
    }
    catalogue
});

/// [`GOLDEN`] or [`OTHER`].
pub fn kernel(name: &str) -> Kernel {
    let (_, label, _) = PACKAGES.into_iter().find(|(known, ..)| *known == name).expect("one of them");
    KERNELS.get(label).expect("a kernel that was fetched")
}

/// A program of the system, which may be where only root looks.
pub fn tool(name: &str) -> Command {
    let mut command = Command::new(name);
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{path}:/usr/sbin:/sbin")).stdin(Stdio::null());
    command
}

/// Runs a program to its end, which must be a good one; what it printed.
#[track_caller]
pub fn run(command: &mut Command) -> String {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}; scripts/test installs what the tests need"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A folder that becomes the root file system of a host.
pub struct Tree {
    root: PathBuf,
}

impl Tree {
    /// Makes it in `root`, and the certificates in `pki`.
    pub fn new(root: PathBuf, pki: &Path) -> Self {
        let tree = Self { root };
        for place in ["dev", "proc", "sys", "run", "tmp", "root", "var/lib", "var/tmp", "boot"] {
            fs::create_dir_all(tree.path(place)).expect("a writable folder");
        }
        tree.program(Path::new("/bin/busybox"), "bin/busybox");
        for applet in run(tool("/bin/busybox").arg("--list-full")).lines() {
            let link = tree.path(applet);
            fs::create_dir_all(link.parent().expect("a folder")).expect("a writable folder");
            if !link.exists() {
                symlink("/bin/busybox", link).expect("a writable folder");
            }
        }
        fs::remove_file(tree.path("sbin/init")).ok();
        symlink("/bin/busybox", tree.path("sbin/init")).expect("a writable folder");
        tree.program(&agent(), "bin/drover-agent");
        let kexec = run(tool("sh").args(["-c", "command -v kexec"]));
        tree.program(Path::new(kexec.trim()), "sbin/kexec");
        tree.write("etc/inittab", 0o644, INITTAB.replace("PORT", &PORT.to_string()).as_bytes());
        tree.write("etc/rc", 0o755, RC.as_bytes());
        tree.write("etc/passwd", 0o644, b"root:x:0:0:root:/root:/bin/sh\n");
        tree.write("etc/hostname", 0o644, NAME.as_bytes());
        pki_init(pki, false).expect("certificates");
        let name = NAME.parse().expect("a name");
        let (issued, _) = pki_issue(pki, &name, PeerKind::Agent, DEFAULT_DAYS, false).expect("a certificate");
        for file in ["ca.pem", "cert.pem", "key.pem"] {
            let bytes = fs::read(issued.join(file)).expect("a certificate");
            tree.write(&format!("etc/drover-agent/{file}"), 0o600, &bytes);
        }
        for name in [GOLDEN, OTHER] {
            let kernel = kernel(name);
            tree.write(&format!("boot/vmlinuz-{name}"), 0o644, &read(&kernel.image));
            tree.write(&format!("boot/initrd.img-{name}"), 0o644, &initial(&kernel));
        }
        tree
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    pub fn write(&self, path: &str, mode: u32, bytes: &[u8]) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a writable folder");
        fs::write(&path, bytes).expect("a writable folder");
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("our own file");
    }

    /// A program of this machine, with the libraries that it needs.
    fn program(&self, from: &Path, to: &str) {
        self.write(to, 0o755, &read(from));
        // The loader knows; it says so by its exit status where there is nothing to load.
        let listed = tool("ldd").arg(from).output().expect("ldd");
        let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
        let libraries = listed.split_whitespace().filter(|word| word.starts_with('/'));
        for library in libraries.filter(|library| !self.path(library).exists()) {
            self.write(library, 0o755, &read(Path::new(library)));
        }
    }
}

fn read(path: &Path) -> Vec<u8> {
    fs::read(path).unwrap_or_else(|error| {
        panic!("{}: {error}; scripts/test installs what the tests need", path.display())
    })
}

/// The static agent: that of `DROVER_AGENT`, or one that is built now.
fn agent() -> PathBuf {
    if let Some(path) = std::env::var_os("DROVER_AGENT") {
        return PathBuf::from(path);
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/build-agent");
    PathBuf::from(run(tool(script).arg("--debug")).trim())
}

/// The initial file system of a kernel.
fn initial(kernel: &Kernel) -> Vec<u8> {
    let mut archive = Cpio::new();
    for directory in ["dev", "proc", "sys", "root"] {
        archive.directory(directory);
    }
    archive.device("dev/console", 0o600, 5, 1);
    archive.file("bin/busybox", 0o755, &read(Path::new("/bin/busybox"))).expect("a small file");
    archive.file("init", 0o755, FIRST.as_bytes()).expect("a small file");
    let modules = Modules::read(kernel.modules.as_deref().expect("modules")).expect("modules");
    let mut order = String::new();
    for module in modules.load_order(&WANTED, &WISHED).expect("modules that can be loaded") {
        archive.file(&format!("modules/{}", module.name), 0o644, &module.bytes).expect("a small file");
        order.push_str(&module.name);
        order.push('\n');
    }
    archive.file("modules/order", 0o644, order.as_bytes()).expect("a small file");
    archive.finish()
}
