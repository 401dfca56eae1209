//! QEMU's arguments for a machine.

use std::path::Path;

use drover_model::NONCE_KEY;

use super::spec::{Accelerator, OnReboot, SpecError, Topology, VmSpec};
use crate::PORT_NAME;

/// Names in the machine's folder, which is QEMU's working directory: a socket's path may have 107 bytes only.
pub(super) const QMP_SOCKET: &str = "qmp.sock";
pub(super) const AGENT_SOCKET: &str = "agent.sock";
/// For people: QEMU serves one connection to each socket, and we hold those of the others.
pub(super) const MONITOR_SOCKET: &str = "monitor.sock";

/// All of them.
pub(super) const SOCKETS: [&str; 3] = [QMP_SOCKET, AGENT_SOCKET, MONITOR_SOCKET];

/// Id of the console's backend.
pub(super) const CONSOLE_ID: &str = "console";

/// The most CPUs of a machine.
const MAX_CPUS: u32 = 1024;
/// The least memory, in MiB.
const MIN_MEMORY: u32 = 64;

/// How long a kernel that panicked goes on, in seconds: what it says must reach the console, and a dump may be wanted.
const PANIC_SECONDS: u32 = 5;

/// The arguments. `console` is the console's file.
///
/// # Errors
/// When the machine is impossible.
pub(super) fn args(
    spec: &VmSpec,
    accelerator: Accelerator,
    console: &Path,
) -> Result<Vec<String>, SpecError> {
    let cpus = spec.topology.cpus();
    if !(1..=MAX_CPUS).contains(&cpus) {
        return Err(SpecError::Cpus(cpus));
    }
    if spec.memory_mib < MIN_MEMORY {
        return Err(SpecError::Memory(spec.memory_mib));
    }
    // No devices but those named here, and no configuration of the user's.
    let mut args = vec!["-nodefaults".to_owned(), "-no-user-config".to_owned()];
    let mut add = |name: &str, value: String| args.extend([name.to_owned(), value]);
    add("-name", "drover,debug-threads=on".to_owned());
    add("-display", "none".to_owned());
    add("-accel", accelerator.to_string());
    if let Some(machine) = &spec.machine {
        add("-machine", machine.clone());
    }
    add("-cpu", spec.cpu.clone().unwrap_or_else(|| cpu(accelerator, spec.topology)));
    add("-m", format!("{}M", spec.memory_mib));
    let Topology { sockets, cores, threads } = spec.topology;
    add("-smp", format!("{cpus},sockets={sockets},cores={cores},threads={threads},maxcpus={cpus}"));
    add("-kernel", text(&spec.kernel)?.to_owned());
    if let Some(initrd) = &spec.initrd {
        add("-initrd", text(initrd)?.to_owned());
    }
    add("-append", cmdline(spec)?);
    add("-chardev", format!("file,id={CONSOLE_ID},path={},append=on", escaped(console)?));
    add("-serial", format!("chardev:{CONSOLE_ID}"));
    for (id, socket) in [("qmp", QMP_SOCKET), ("monitor", MONITOR_SOCKET)] {
        add("-chardev", format!("socket,id={id},path={socket},server=on,wait=off"));
        add("-mon", format!("chardev={id},mode=control"));
    }
    add("-chardev", format!("socket,id=agent,path={AGENT_SOCKET},server=on,wait=off"));
    add("-device", "virtio-serial-pci".to_owned());
    add("-device", format!("virtserialport,chardev=agent,name={PORT_NAME}"));
    add("-device", "virtio-rng-pci".to_owned());
    add("-device", "pvpanic-pci".to_owned());
    // A panic must not stop the guest before all of it is on the console.
    let reboot = match spec.on_reboot {
        OnReboot::End => "shutdown",
        OnReboot::Again => "reset",
    };
    add("-action", format!("panic=none,reboot={reboot}"));
    args.extend(spec.more_args.iter().cloned());
    Ok(args)
}

/// All that the accelerator can do. The CPU that TCG has by default cannot have threads: it is an AMD of a family without.
fn cpu(accelerator: Accelerator, topology: Topology) -> String {
    match accelerator {
        Accelerator::Tcg if topology.threads > 1 => "max,vendor=GenuineIntel".to_owned(),
        Accelerator::Tcg | Accelerator::Kvm => "max".to_owned(),
    }
}

/// The kernel's command line. What the caller says comes after what is usual, so that it wins.
fn cmdline(spec: &VmSpec) -> Result<String, SpecError> {
    if spec.cmdline.contains(['\n', '\0']) {
        return Err(SpecError::Cmdline);
    }
    let mut line = format!("console=ttyS0,115200 panic={PANIC_SECONDS} {}", spec.cmdline.trim());
    if !spec.nonce.is_empty() {
        if !spec.nonce.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') {
            return Err(SpecError::Nonce(spec.nonce.clone()));
        }
        line = format!("{} {NONCE_KEY}={}", line.trim_end(), spec.nonce);
    }
    Ok(line.trim_end().to_owned())
}

fn text(path: &Path) -> Result<&str, SpecError> {
    path.to_str().ok_or_else(|| SpecError::Path(path.to_owned()))
}

/// A path within an option of QEMU, where a comma ends a value unless it is doubled.
fn escaped(path: &Path) -> Result<String, SpecError> {
    Ok(text(path)?.replace(',', ",,"))
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::{Accelerator, OnReboot, SpecError, Topology, VmSpec, args};

    fn spec() -> VmSpec {
        VmSpec::new(PathBuf::from("/k/vmlinuz"), PathBuf::from("/d"))
    }

    fn made(spec: &VmSpec) -> Vec<String> {
        args(spec, Accelerator::Tcg, Path::new("/d/a,b.log")).unwrap()
    }

    fn after<'a>(args: &'a [String], name: &str) -> &'a str {
        let at = args.iter().position(|arg| arg == name).unwrap();
        &args[at + 1]
    }

    #[test]
    fn expect_cpus_topology_and_memory_told_when_they_are_asked_for() {
        let topology = Topology { sockets: 2, cores: 2, threads: 2 };
        let args = made(&VmSpec { topology, memory_mib: 1024, ..spec() });
        assert_eq!(after(&args, "-smp"), "8,sockets=2,cores=2,threads=2,maxcpus=8");
        assert_eq!(after(&args, "-m"), "1024M");
        assert_eq!(after(&args, "-accel"), "tcg");
        assert_eq!(after(&args, "-cpu"), "max,vendor=GenuineIntel");
        assert_eq!(after(&made(&spec()), "-cpu"), "max");
    }

    #[test]
    fn expect_the_callers_words_to_win_when_the_command_line_is_made() {
        let spec = VmSpec { cmdline: " panic=1 quiet ".into(), nonce: "a1-b2".into(), ..spec() };
        assert_eq!(
            after(&made(&spec), "-append"),
            "console=ttyS0,115200 panic=5 panic=1 quiet drover.nonce=a1-b2"
        );
    }

    #[test]
    fn expect_commas_doubled_when_a_path_has_some() {
        let args = made(&spec());
        assert!(args.contains(&"file,id=console,path=/d/a,,b.log,append=on".to_owned()), "{args:?}");
    }

    #[test]
    fn expect_the_reboot_followed_when_that_is_wanted() {
        let args = made(&VmSpec { on_reboot: OnReboot::Again, ..spec() });
        assert_eq!(after(&args, "-action"), "panic=none,reboot=reset");
    }

    #[test]
    fn expect_a_refusal_when_the_machine_is_impossible() {
        let refused = |spec: VmSpec| args(&spec, Accelerator::Tcg, Path::new("c")).unwrap_err();
        let none = Topology { sockets: 0, cores: 1, threads: 1 };
        assert_eq!(refused(VmSpec { topology: none, ..spec() }), SpecError::Cpus(0));
        let huge = Topology { sockets: u32::MAX, cores: u32::MAX, threads: 2 };
        assert_eq!(refused(VmSpec { topology: huge, ..spec() }), SpecError::Cpus(u32::MAX));
        assert_eq!(refused(VmSpec { memory_mib: 1, ..spec() }), SpecError::Memory(1));
        let nonce = "a init=/bin/sh".to_owned();
        assert_eq!(refused(VmSpec { nonce: nonce.clone(), ..spec() }), SpecError::Nonce(nonce));
        assert_eq!(refused(VmSpec { cmdline: "a\nb".into(), ..spec() }), SpecError::Cmdline);
    }
}
