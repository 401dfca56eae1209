//! The JSON Schema of the host file. The types exist for the schema only: files are read by `decode`, and a test holds the
//! two together.

use std::collections::BTreeMap;

use crate::schema::{self, Either, Named, OneOrMany, Size, Text, Time};

/// The schema as text, ending in a newline.
pub(crate) fn text() -> String {
    schema::root::<HostFile>("Drover hosts")
}

schema::piece!(HostName, {
    "type": "string",
    "pattern": "^[A-Za-z_][A-Za-z0-9_-]{0,63}$",
    "description": "A letter or _, then letters, digits, _ and -.",
});

schema::piece!(Place, {
    "type": "string",
    "minLength": 1,
    "description": "[USER@]HOST[:PORT], an IPv6 address in brackets.",
});

schema::piece!(TlsPlace, {
    "type": "string",
    "pattern": ":[0-9]+$",
    "description": "HOST:PORT of a resident agent, an IPv6 address in brackets.",
});

schema::piece!(Address, { "type": "string", "pattern": "^[0-9a-fA-F.:]+$", "description": "An IP address." });

schema::piece!(Accelerator, { "enum": ["auto", "kvm", "tcg"], "description": "What runs the instructions." });

schema::piece!(BootBy, {
    "enum": ["grub", "efi-bootnext", "systemd-boot", "kexec", "command"],
    "description": "Who is told which kernel comes next.",
});

schema::piece!(CpusBy, {
    "enum": ["affinity", "hotplug", "boot"],
    "description": "By keeping tasks to some CPUs, by taking the others offline, or by the kernel's command line.",
});

schema::piece!(CpuWord, { "enum": ["nr_cpus", "maxcpus"], "description": "The word on the command line (default nr_cpus)." });

schema::piece!(Yes, { "const": true, "description": "It is this machine." });

schema::shape! {
    /// The hosts that Drover can use, and how each is reached.
    struct HostFile {
        version: schema::FormatVersion,
        /// What holds for all hosts that do not say otherwise; labels are added.
        defaults: Option<Defaults>,
        /// Kernels for virtual machines: label -> label of the catalogue, or where it is.
        kernels: Option<BTreeMap<String, Either<Text, Kernel>>>,
        /// Name -> host.
        hosts: Named<Host>,
    }

    /// What holds for all hosts that do not say otherwise.
    struct Defaults {
        user: Option<Text>,
        #[schemars(range(min = 1, max = 65535))]
        port: Option<u16>,
        /// File of the private key.
        identity: Option<Text>,
        jump: Option<Place>,
        /// File of host keys (default ~/.ssh/known_hosts).
        known_hosts: Option<Text>,
        /// ssh configuration (default ~/.ssh/config).
        config: Option<Text>,
        /// Folder of the certificates (default ./drover-pki).
        pki: Option<Text>,
        /// The agent's folder on the host.
        dir: Option<Text>,
        labels: Option<OneOrMany<HostName>>,
        limits: Option<Limits>,
        /// Ask its kernel for the stacks of all tasks when a soak has failed there (default false).
        sysrq: Option<bool>,
        power: Option<Power>,
        boot: Option<Boot>,
        cpus: Option<Cpus>,
    }

    /// A host. Exactly one of `ssh`, `tls`, `local` and `vm`.
    #[schemars(extend("oneOf" = [{ "required": ["ssh"] }, { "required": ["tls"] }, { "required": ["local"] }, { "required": ["vm"] }]))]
    struct Host {
        /// Reached by ssh; Drover brings its agent along.
        ssh: Option<Place>,
        /// A resident agent, reached by mTLS.
        tls: Option<TlsPlace>,
        local: Option<Yes>,
        /// A virtual machine on this machine; Drover boots it.
        vm: Option<Vm>,
        /// Pools that it belongs to.
        labels: Option<OneOrMany<HostName>>,
        /// What roles on other hosts connect to (default: the address that it is reached at).
        address: Option<Address>,
        user: Option<Text>,
        #[schemars(range(min = 1, max = 65535))]
        port: Option<u16>,
        /// File of the private key.
        identity: Option<Text>,
        /// The host to go through.
        jump: Option<Place>,
        /// File of host keys (default ~/.ssh/known_hosts).
        known_hosts: Option<Text>,
        /// ssh configuration (default ~/.ssh/config).
        config: Option<Text>,
        /// Folder of the certificates (default ./drover-pki).
        pki: Option<Text>,
        /// The agent's folder on the host.
        dir: Option<Text>,
        limits: Option<Limits>,
        /// Ask its kernel for the stacks of all tasks when a soak has failed there (default false).
        sysrq: Option<bool>,
        power: Option<Power>,
        boot: Option<Boot>,
        cpus: Option<Cpus>,
    }

    /// How a host that does not answer any more is switched off and on, by commands on the controller's machine: `cycle`, or
    /// `off` (if need be) and `on`. Each is a list of arguments, or one text that is split into words without a shell;
    /// {{ host }} and {{ address }} stand for the host.
    #[schemars(extend("oneOf" = [{ "required": ["cycle"] }, { "required": ["on"] }]))]
    struct Power {
        cycle: Option<OneOrMany<Text>>,
        off: Option<OneOrMany<Text>>,
        on: Option<OneOrMany<Text>>,
        /// Longest time until it can be used again (default 5m).
        within: Option<Time>,
        /// Times that this may be done in one run (default 2).
        #[schemars(range(min = 1, max = 100))]
        times: Option<u32>,
    }

    /// How the host boots other kernels than it does by itself; it boots each once, and afterwards what it booted before.
    struct Boot {
        by: BootBy,
        /// Longest time from the reboot until its agent answers (default 5m).
        within: Option<Time>,
        /// Times that it may be booted for the sake of cells in one run (default 100).
        #[schemars(range(min = 1, max = 10000))]
        times: Option<u32>,
        /// The command on the host that reboots it (default: the agent's choice).
        reboot: Option<OneOrMany<Text>>,
        /// Folder of grub.cfg and grubenv, for grub (default: the system's).
        folder: Option<Text>,
        /// The command on the host that sets the next kernel, for command; {{ kernel }} and {{ words }} stand for it and
        /// for what its command line is to have.
        command: Option<OneOrMany<Text>>,
        /// Label -> entry of the boot loader (for kexec: file of the image), or more of it.
        kernels: BTreeMap<String, Either<Text, BootKernel>>,
    }

    /// A kernel of a host.
    struct BootKernel {
        /// What the boot loader calls it: for grub the title, with those of its submenus before it, separated by >.
        entry: Option<Text>,
        /// File of the image on the host, for kexec.
        image: Option<Text>,
        /// File of the first root file system on the host, for kexec.
        initrd: Option<Text>,
        /// The command line, for kexec (default: that of the kernel that runs).
        cmdline: Option<Text>,
        /// What `uname -r` says when it runs (default: the label).
        release: Option<Text>,
    }

    /// How the host gets the number of CPUs that a cell asks for.
    struct Cpus {
        by: CpusBy,
        word: Option<CpuWord>,
    }

    /// A kernel: in the catalogue, or in files of this machine.
    struct Kernel {
        /// Its label in the catalogue (`drover kernels list`).
        catalogue: Option<Text>,
        /// File of the image.
        image: Option<Text>,
        /// What /lib/modules/RELEASE is for it.
        modules: Option<Text>,
        /// A first root file system that it needs besides the one that Drover makes.
        initrd: Option<Text>,
        /// Words for its command line.
        cmdline: Option<Text>,
    }

    /// A virtual machine.
    struct Vm {
        /// Label of the kernel that it runs where a matrix does not say.
        kernel: Text,
        /// Words for every kernel's command line.
        cmdline: Option<Text>,
        /// Memory (default 512MiB).
        memory: Option<Size>,
        /// CPUs where a matrix does not say (default 1).
        #[schemars(range(min = 1, max = 1024))]
        cpus: Option<u32>,
        /// Sockets over which its CPUs are spread (default 1).
        #[schemars(range(min = 1, max = 1024))]
        sockets: Option<u32>,
        /// Threads of each core (default 1).
        #[schemars(range(min = 1, max = 1024))]
        threads: Option<u32>,
        /// What runs its instructions (default auto: kvm where a kernel boots with it, else tcg).
        accelerator: Option<Accelerator>,
        /// QEMU's -machine.
        machine: Option<Text>,
        /// QEMU's -cpu.
        cpu: Option<Text>,
        /// Path or name of QEMU (default qemu-system-x86_64).
        qemu: Option<Text>,
        /// Files of this machine that it has at the same place; programs with their libraries.
        files: Option<OneOrMany<Text>>,
        /// Longest time from its start until its agent answers (default 2m).
        boot: Option<Time>,
    }

    /// Bounds on what is stored on a host.
    struct Limits {
        /// Least free space in the agent's folder when a task starts (default 256MiB).
        free_disk: Option<Size>,
        /// Most bytes kept of one output stream (default 1GiB).
        output: Option<Size>,
        /// Most bytes of files staged for one task (default 64MiB).
        files: Option<Size>,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys;

    #[test]
    fn expect_the_schema_to_know_the_keys_that_are_decoded() {
        let schema: serde_json::Value = serde_json::from_str(&text()).unwrap();
        let mut defaults = keys::HOST.to_vec();
        defaults.retain(|key| !keys::WAYS.contains(key) && *key != "address");
        for (pointer, known) in [
            ("/properties", keys::HOST_FILE),
            ("/$defs/Defaults/properties", &defaults),
            ("/$defs/Host/properties", keys::HOST),
            ("/$defs/Limits/properties", keys::HOST_LIMITS),
            ("/$defs/Kernel/properties", keys::KERNEL),
            ("/$defs/Vm/properties", keys::VM),
            ("/$defs/Power/properties", keys::POWER),
            ("/$defs/Boot/properties", keys::BOOT),
            ("/$defs/BootKernel/properties", keys::BOOT_KERNEL),
            ("/$defs/Cpus/properties", keys::HOST_CPUS),
        ] {
            schema::assert_keys(&schema, pointer, known);
        }
    }
}
