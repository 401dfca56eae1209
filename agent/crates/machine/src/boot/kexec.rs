//! The running kernel starts the other one, without firmware and boot loader. `kexec` of kexec-tools loads it, by the system call
//! that takes files and checks their signatures where the host wants that. What the boot loader boots is not touched.

use std::{io, path::PathBuf, time::Duration};

use super::{
    Words,
    run::{RunError, run},
};
use crate::source::Source;

/// Longest time to load a kernel.
const LIMIT: Duration = Duration::from_secs(120);

/// Why a kernel cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum KexecError {
    /// This kernel cannot.
    #[error("the running kernel is built without kexec")]
    NotBuiltIn,
    /// It is forbidden until the next boot.
    #[error(
        "kexec is forbidden here: the sysctl kernel.kexec_load_disabled is set, which only a boot undoes"
    )]
    Disabled,
    /// The file cannot be used.
    #[error("cannot read `{}`", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The command line cannot be passed on.
    #[error("the command line has a line break")]
    Cmdline,
    /// The program failed.
    #[error("cannot load the kernel{}", if *locked_down { " (this kernel is locked down: it takes signed ones only)" } else { "" })]
    Run {
        /// Whether signatures are wanted.
        locked_down: bool,
        /// Why.
        source: RunError,
    },
    /// There is no such program.
    #[error("there is no program `kexec` on this host; install kexec-tools")]
    NoProgram,
    /// The kernel does not say that it has another one.
    #[error("`/sys/kernel/kexec_loaded` says that it is {}loaded", if *.0 { "still " } else { "not " })]
    NotTaken(bool),
}

/// What is to be done.
#[derive(Debug)]
pub(super) struct Plan {
    argv: Vec<String>,
}

/// Looks whether the kernel can be started.
pub(super) fn plan(
    source: Source<'_>,
    image: &str,
    initrd: Option<&str>,
    cmdline: Option<&str>,
    words: &Words,
) -> Result<Plan, KexecError> {
    usable(source)?;
    for file in std::iter::once(image).chain(initrd) {
        let path = source.path(file.trim_start_matches('/'));
        std::fs::File::open(&path).map_err(|source| KexecError::Read { path, source })?;
    }
    let running = source.text("proc/cmdline").unwrap_or_default();
    let line = words.after(cmdline.unwrap_or(&running));
    if line.contains(['\n', '\0']) {
        return Err(KexecError::Cmdline);
    }
    let mut argv = vec!["kexec".to_owned(), "--kexec-file-syscall".to_owned(), "--load".to_owned()];
    argv.push(format!("--command-line={line}"));
    argv.extend(initrd.map(|initrd| format!("--initrd={initrd}")));
    argv.push(image.to_owned());
    Ok(Plan { argv })
}

/// Whether another kernel may be started at all.
pub(super) fn usable(source: Source<'_>) -> Result<(), KexecError> {
    if !source.path("sys/kernel/kexec_loaded").exists() {
        return Err(KexecError::NotBuiltIn);
    }
    match source.number::<u32>("proc/sys/kernel/kexec_load_disabled") {
        Some(0) | None => Ok(()),
        Some(_) => Err(KexecError::Disabled),
    }
}

impl Plan {
    /// Loads it, and looks whether it is.
    pub(super) fn carry_out(self, source: Source<'_>) -> Result<(), KexecError> {
        kexec(source, &self.argv)?;
        if is_loaded(source) { Ok(()) } else { Err(KexecError::NotTaken(false)) }
    }
}

/// Forgets what was loaded; whether something was.
pub(super) fn disarm(source: Source<'_>) -> Result<bool, KexecError> {
    if !is_loaded(source) {
        return Ok(false);
    }
    kexec(source, &["kexec", "--kexec-file-syscall", "--unload"].map(str::to_owned))?;
    if is_loaded(source) { Err(KexecError::NotTaken(true)) } else { Ok(true) }
}

pub(super) fn is_loaded(source: Source<'_>) -> bool {
    source.text("sys/kernel/kexec_loaded").as_deref() == Some("1")
}

fn kexec(source: Source<'_>, argv: &[String]) -> Result<(), KexecError> {
    run(argv, LIMIT).map(drop).map_err(|error| match error {
        RunError::Start { source, .. } if source.kind() == io::ErrorKind::NotFound => KexecError::NoProgram,
        error => {
            let locked_down = source.text("sys/kernel/security/lockdown");
            let locked_down = locked_down.is_some_and(|modes| !modes.contains("[none]"));
            KexecError::Run { locked_down, source: error }
        }
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn host(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        dir
    }

    fn words() -> Words {
        Words::new("n1", &["nr_cpus=2".to_owned()]).unwrap()
    }

    #[test]
    fn expect_the_running_kernels_command_line_when_none_is_given() {
        let dir = host(&[
            ("sys/kernel/kexec_loaded", "0\n"),
            ("proc/cmdline", "BOOT_IMAGE=/vmlinuz-6.1 root=/dev/sda1 ro drover.nonce=n0 nr_cpus=4\n"),
            ("boot/new", "x"),
            ("boot/initrd", "x"),
        ]);
        let source = Source { root: dir.path() };
        let plan = plan(source, "/boot/new", Some("/boot/initrd"), None, &words()).unwrap();
        assert_eq!(
            plan.argv[3..],
            [
                "--command-line=root=/dev/sda1 ro drover.nonce=n1 nr_cpus=2",
                "--initrd=/boot/initrd",
                "/boot/new"
            ]
        );
        let given = super::plan(source, "/boot/new", None, Some("root=/dev/sdb1"), &words()).unwrap();
        assert_eq!(given.argv[3..], ["--command-line=root=/dev/sdb1 drover.nonce=n1 nr_cpus=2", "/boot/new"]);
    }

    #[test]
    fn expect_the_reason_when_no_kernel_can_be_loaded() {
        let refused = |files: &[(&str, &str)]| {
            plan(Source { root: host(files).path() }, "/boot/new", None, None, &words())
                .unwrap_err()
                .to_string()
        };
        assert!(refused(&[]).contains("without kexec"));
        let loaded = ("sys/kernel/kexec_loaded", "0");
        assert!(
            refused(&[loaded, ("proc/sys/kernel/kexec_load_disabled", "1")]).contains("kexec_load_disabled")
        );
        assert!(refused(&[loaded]).contains("boot/new"));
    }
}
