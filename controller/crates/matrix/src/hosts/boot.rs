//! How a host that is no virtual machine boots another kernel, and how it gets another number of CPUs.

use std::time::Duration;

use drover_model::BootOnce;

use super::placeholders;

/// How a host is booted as another machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Boot {
    /// Who is told which kernel comes next.
    pub by: BootMethod,
    /// Longest time from the reboot until the agent answers.
    pub within: Duration,
    /// Times that it may be booted in one run for the sake of a cell.
    pub times: u32,
    /// How to reboot; empty: as the agent finds best.
    pub reboot: Vec<String>,
    /// The kernels that it can boot, at least one, in the order of the file.
    pub kernels: Vec<BootKernel>,
}

/// Who is told which kernel comes next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BootMethod {
    /// GRUB.
    Grub {
        /// Folder of `grub.cfg` and `grubenv`; `None`: the one that the system uses.
        folder: Option<String>,
    },
    /// The firmware.
    EfiBootNext,
    /// systemd-boot.
    SystemdBoot,
    /// The kernel that runs.
    Kexec,
    /// A command on the host: program and arguments, in which `{{ kernel }}` and `{{ words }}` stand for the kernel's entry and
    /// for the words that its command line is to have.
    Command(Vec<String>),
}

/// A kernel of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootKernel {
    /// What matrices call it: free text.
    pub label: String,
    /// What the boot loader, or the command, calls it. For `kexec`: the file of the image on the host.
    pub entry: String,
    /// For `kexec`: the file of the first root file system on the host.
    pub initrd: Option<String>,
    /// For `kexec`: the command line; `None`: that of the kernel that runs.
    pub cmdline: Option<String>,
    /// What `uname -r` says when it runs.
    pub release: String,
}

/// How a host gets the number of CPUs that a cell asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CpusBy {
    /// Tasks are kept to so many of its CPUs.
    Affinity,
    /// The others are taken offline.
    Hotplug,
    /// It is booted with a word on its kernel's command line.
    Boot(CpuWord),
}

/// A word on a kernel's command line that limits its CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CpuWord {
    /// The kernel knows of no more CPUs.
    NrCpus,
    /// The kernel starts no more CPUs.
    MaxCpus,
}

impl CpuWord {
    /// Its text before the `=`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NrCpus => "nr_cpus",
            Self::MaxCpus => "maxcpus",
        }
    }
}

impl Boot {
    /// The kernel of that label.
    #[must_use]
    pub fn kernel(&self, label: &str) -> Option<&BootKernel> {
        self.kernels.iter().find(|kernel| kernel.label == label)
    }

    /// What the agent is asked to boot, once. `words` go on the command line where the method allows that.
    #[must_use]
    pub fn once(&self, kernel: &BootKernel, words: &[String]) -> BootOnce {
        let entry = kernel.entry.clone();
        match &self.by {
            BootMethod::Grub { folder } => BootOnce::Grub { entry, folder: folder.clone() },
            BootMethod::EfiBootNext => BootOnce::EfiBootNext { entry },
            BootMethod::SystemdBoot => BootOnce::SystemdBoot { entry },
            BootMethod::Kexec => BootOnce::Kexec {
                image: entry,
                initrd: kernel.initrd.clone(),
                cmdline: kernel.cmdline.clone(),
            },
            BootMethod::Command(argv) => {
                let words = words.join(" ");
                let values = [("kernel", kernel.entry.as_str()), ("words", &words)];
                // What has no value is a mistake of the file, and reported there.
                let word =
                    |word: &String| placeholders::render(word, &values).unwrap_or_else(|_| word.clone());
                BootOnce::Command { argv: argv.iter().map(word).collect() }
            }
        }
    }
}

impl BootMethod {
    /// Its name in host files.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Grub { .. } => "grub",
            Self::EfiBootNext => "efi-bootnext",
            Self::SystemdBoot => "systemd-boot",
            Self::Kexec => "kexec",
            Self::Command(_) => "command",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn boot(by: BootMethod) -> Boot {
        Boot { by, within: Duration::from_secs(1), times: 1, reboot: Vec::new(), kernels: Vec::new() }
    }

    #[test]
    fn expect_kernel_and_words_in_a_command_that_asks_for_them() {
        let kernel = BootKernel {
            label: "6.1".into(),
            entry: "second".into(),
            initrd: None,
            cmdline: None,
            release: "6.1.0".into(),
        };
        let argv = ["next", "{{ kernel }}", "--words={{ words }}"].map(str::to_owned).to_vec();
        let by = boot(BootMethod::Command(argv));
        let once = by.once(&kernel, &["drover.nonce=1".into(), "nr_cpus=2".into()]);
        let argv = ["next", "second", "--words=drover.nonce=1 nr_cpus=2"].map(str::to_owned).to_vec();
        assert_eq!(once, BootOnce::Command { argv });
    }
}
