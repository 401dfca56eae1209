//! Takes the machine down, so that it boots anew.

use std::{
    fs,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use rustix::{io::Errno, system::RebootCommand};

use super::{
    kexec,
    mounts::mounts,
    run::{RunError, run},
};
use crate::{features, source::Source};

/// Longest time for a command to say that the host will go down.
const COMMAND_LIMIT: Duration = Duration::from_secs(60);

/// Longest wait for file systems to become read-only.
const READ_ONLY_LIMIT: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Why the machine does not go down.
#[derive(Debug, thiserror::Error)]
pub enum RebootError {
    /// The agent may not.
    #[error("the agent may not reboot this host: {0}")]
    MayNot(String),
    /// The command failed.
    #[error("the command that reboots the host failed")]
    Command(#[from] RunError),
    /// The kernel refused.
    #[error("the kernel refuses to reboot")]
    Kernel(#[source] Errno),
}

/// How the machine is taken down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RebootBy {
    /// By a command.
    Command(Vec<String>),
    /// By the kernel at once: there is nobody to ask. `kexec` says whether it starts the kernel that is loaded.
    Kernel {
        /// Whether another kernel was loaded.
        kexec: bool,
    },
}

impl RebootBy {
    /// By `command`, or, if that is empty, as the host whose files are below `root` is best taken down: by systemd where it
    /// runs.
    ///
    /// # Errors
    /// When the agent may not reboot the host, and no command is given that may know better.
    pub fn choose(root: &Path, command: &[String]) -> Result<Self, RebootError> {
        if !command.is_empty() {
            return Ok(Self::Command(command.to_vec()));
        }
        // Only this machine can be rebooted.
        let why = if root == Path::new("/") {
            features::reboot(Source { root })
        } else {
            Some("it is a copy".into())
        };
        why.map_or_else(|| Ok(Self::best(root)), |why| Err(RebootError::MayNot(why)))
    }

    fn best(root: &Path) -> Self {
        let source = Source { root };
        let kexec = kexec::is_loaded(source);
        if source.path("run/systemd/system").is_dir() {
            Self::Command(vec!["systemctl".to_owned(), if kexec { "kexec" } else { "reboot" }.to_owned()])
        } else {
            Self::Kernel { kexec }
        }
    }

    /// Does it. Returns when a command has said that the host will go down; the kernel never returns.
    ///
    /// # Errors
    /// When the host will not go down.
    pub fn carry_out(&self) -> Result<(), RebootError> {
        rustix::fs::sync();
        match self {
            Self::Command(argv) => {
                run(argv, COMMAND_LIMIT)?;
                Ok(())
            }
            Self::Kernel { kexec } => {
                make_read_only();
                let command = if *kexec { RebootCommand::Kexec } else { RebootCommand::Restart };
                rustix::system::reboot(command).map_err(RebootError::Kernel)
            }
        }
    }
}

/// Makes all file systems read-only (sysrq u), so that nothing is left in their journals, which boot loaders do not read. What
/// cannot be is left as it is: all is synced.
fn make_read_only() {
    if fs::write("/proc/sysrq-trigger", "u").is_err() {
        return;
    }
    let begun = Instant::now();
    let source = Source { root: Path::new("/") };
    let is_writable = |kind: &str| ["ext2", "ext3", "ext4", "vfat", "xfs"].contains(&kind);
    while mounts(source).iter().any(|mount| is_writable(&mount.kind) && !mount.all_read_only)
        && begun.elapsed() < READ_ONLY_LIMIT
    {
        thread::sleep(LOOK_EVERY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expect_systemd_asked_when_it_runs_and_a_command_before_all() {
        let dir = tempfile::tempdir().unwrap();
        let words = |text: &str| RebootBy::Command(text.split(' ').map(str::to_owned).collect());
        assert_eq!(RebootBy::best(dir.path()), RebootBy::Kernel { kexec: false });
        fs::create_dir_all(dir.path().join("sys/kernel")).unwrap();
        fs::write(dir.path().join("sys/kernel/kexec_loaded"), "1\n").unwrap();
        assert_eq!(RebootBy::best(dir.path()), RebootBy::Kernel { kexec: true });
        fs::create_dir_all(dir.path().join("run/systemd/system")).unwrap();
        assert_eq!(RebootBy::best(dir.path()), words("systemctl kexec"));
        fs::write(dir.path().join("sys/kernel/kexec_loaded"), "0\n").unwrap();
        assert_eq!(RebootBy::best(dir.path()), words("systemctl reboot"));
        assert_eq!(RebootBy::choose(dir.path(), &["my-reboot".to_owned()]).unwrap(), words("my-reboot"));
        assert!(RebootBy::choose(dir.path(), &[]).unwrap_err().to_string().contains("may not reboot"));
    }

    #[test]
    fn expect_the_reason_when_the_command_fails() {
        let by = RebootBy::Command(["sh", "-c", "exit 7"].map(str::to_owned).to_vec());
        let error = by.carry_out().unwrap_err();
        assert_eq!(std::error::Error::source(&error).unwrap().to_string(), "`sh` ended with exit status 7");
    }
}
