//! What a host is asked to boot, once.

/// Key of the word on a kernel's command line that names a boot: `drover.nonce=VALUE`.
pub const NONCE_KEY: &str = "drover.nonce";

/// A kernel that a host is to boot at its next reboot only, and how its boot loader is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BootOnce {
    /// GRUB, by the variable `next_entry` of its environment block.
    Grub {
        /// Title or id of the menu entry, with those of its submenus before it, separated by `>`.
        entry: String,
        /// Folder of `grub.cfg` and `grubenv`; `None`: the one that the system uses.
        folder: Option<String>,
    },
    /// The firmware, by the EFI variable `BootNext`.
    EfiBootNext {
        /// Number of the boot entry, as four hexadecimal digits, or its name.
        entry: String,
    },
    /// systemd-boot, by the EFI variable `LoaderEntryOneShot`.
    SystemdBoot {
        /// Name of the entry's file, with or without `.conf`.
        entry: String,
    },
    /// The running kernel, which starts the other one.
    Kexec {
        /// File of the kernel on the host.
        image: String,
        /// File of the initial file system on the host.
        initrd: Option<String>,
        /// The command line; `None`: that of the running kernel.
        cmdline: Option<String>,
    },
    /// A command on the host that does what is needed before the reboot.
    Command {
        /// The program and its arguments.
        argv: Vec<String>,
    },
}

impl BootOnce {
    /// The method, by its name in host files.
    #[must_use]
    pub fn method(&self) -> &'static str {
        match self {
            Self::Grub { .. } => "grub",
            Self::EfiBootNext { .. } => "efi-bootnext",
            Self::SystemdBoot { .. } => "systemd-boot",
            Self::Kexec { .. } => "kexec",
            Self::Command { .. } => "command",
        }
    }
}
