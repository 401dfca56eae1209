//! One plan for whatever boots the host, what undoes it, and why there is none.

use std::path::{Path, PathBuf};

use drover_model::BootOnce;
use rustix::process::geteuid;
use serde::{Deserialize, Serialize};

use super::{
    Words, command,
    efi::{BootNextError, next},
    grub::{self, GrubError},
    kexec::{self, KexecError},
    run::RunError,
    systemd_boot::{self, SystemdBootError},
};
use crate::source::Source;

/// Why a host cannot be told to boot a kernel once, or not to do so any more.
#[derive(Debug, thiserror::Error)]
pub enum BootError {
    /// The agent may not.
    #[error("it takes root to tell a boot loader what to boot, and the agent runs as user {user}")]
    NotRoot {
        /// The agent's user.
        user: u32,
    },
    /// By GRUB.
    #[error("grub")]
    Grub(#[from] GrubError),
    /// By the firmware.
    #[error("efi-bootnext")]
    EfiBootNext(#[from] BootNextError),
    /// By systemd-boot.
    #[error("systemd-boot")]
    SystemdBoot(#[from] SystemdBootError),
    /// By the running kernel.
    #[error("kexec")]
    Kexec(#[from] KexecError),
    /// By a command.
    #[error("the command that has the host boot another kernel failed")]
    Command(#[from] RunError),
}

/// How a kernel is booted once, looked into and not yet done.
#[derive(Debug)]
pub struct Plan {
    steps: Steps,
    words_taken: bool,
    undo: Undo,
}

#[derive(Debug)]
enum Steps {
    Grub(grub::Plan),
    EfiBootNext(u16),
    SystemdBoot(systemd_boot::Plan),
    Kexec(kexec::Plan),
    Command(Vec<String>),
}

/// What takes it back. Its form in JSON is what agents find that were started after a crash.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Undo {
    /// In the environment block of GRUB.
    Grub {
        /// The block.
        block: PathBuf,
    },
    /// In the firmware.
    EfiBootNext,
    /// Of systemd-boot.
    SystemdBoot {
        /// The entry that was made for one boot.
        once: Option<PathBuf>,
    },
    /// The kernel that was loaded.
    Kexec,
    /// Nobody but the user knows what the command did.
    Command,
}

/// Looks whether the host whose files are below `root` can boot a kernel once, with these words on its command line. Changes
/// nothing.
///
/// # Errors
/// When it cannot, or would not boot the usual kernel after that.
pub fn plan(root: &Path, boot: &BootOnce, words: &Words) -> Result<Plan, BootError> {
    let source = Source { root };
    let user = geteuid();
    if root == Path::new("/") && !user.is_root() && !matches!(boot, BootOnce::Command { .. }) {
        return Err(BootError::NotRoot { user: user.as_raw() });
    }
    Ok(match boot {
        BootOnce::Grub { entry, folder } => {
            let plan = grub::plan(source, entry, folder.as_deref(), words)?;
            let undo = Undo::Grub { block: plan.path.clone() };
            Plan { words_taken: plan.words_taken, steps: Steps::Grub(plan), undo }
        }
        BootOnce::EfiBootNext { entry } => Plan {
            steps: Steps::EfiBootNext(next::plan(source, entry)?),
            words_taken: false,
            undo: Undo::EfiBootNext,
        },
        BootOnce::SystemdBoot { entry } => {
            let plan = systemd_boot::plan(source, entry, words)?;
            let once = plan.once.as_ref().map(|(path, _)| path.clone());
            Plan {
                words_taken: once.is_some(),
                steps: Steps::SystemdBoot(plan),
                undo: Undo::SystemdBoot { once },
            }
        }
        BootOnce::Kexec { image, initrd, cmdline } => {
            let plan = kexec::plan(source, image, initrd.as_deref(), cmdline.as_deref(), words)?;
            Plan { steps: Steps::Kexec(plan), words_taken: true, undo: Undo::Kexec }
        }
        BootOnce::Command { argv } => Plan {
            steps: Steps::Command(argv.clone()),
            words_taken: command::takes_words(argv, words),
            undo: Undo::Command,
        },
    })
}

impl Plan {
    /// Whether the nonce and the other words will be on the kernel's command line.
    #[must_use]
    pub fn words_taken(&self) -> bool {
        self.words_taken
    }

    /// What takes it back, to be written down before it is done.
    #[must_use]
    pub fn undo(&self) -> &Undo {
        &self.undo
    }

    /// Does it, and reads it back.
    ///
    /// # Errors
    /// When it cannot be done; some of it may be, then.
    pub fn carry_out(self, root: &Path) -> Result<(), BootError> {
        let source = Source { root };
        match self.steps {
            Steps::Grub(plan) => plan.carry_out()?,
            Steps::EfiBootNext(number) => next::carry_out(source, number)?,
            Steps::SystemdBoot(plan) => plan.carry_out(source)?,
            Steps::Kexec(plan) => plan.carry_out(source)?,
            Steps::Command(argv) => command::carry_out(&argv)?,
        }
        Ok(())
    }
}

impl Undo {
    /// Takes it back. Returns whether a kernel was still to be booted; after the boot, the boot loader should have seen to that.
    ///
    /// # Errors
    /// When it cannot be taken back.
    pub fn carry_out(&self, root: &Path) -> Result<bool, BootError> {
        let source = Source { root };
        Ok(match self {
            Self::Grub { block } => grub::disarm(block)?,
            Self::EfiBootNext => next::disarm(source)?,
            Self::SystemdBoot { once } => systemd_boot::disarm(source, once.as_deref())?,
            Self::Kexec => kexec::disarm(source)?,
            Self::Command => false,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expect_the_same_undo_when_it_was_written_down() {
        let all = [
            Undo::Grub { block: PathBuf::from("/boot/grub/grubenv") },
            Undo::EfiBootNext,
            Undo::SystemdBoot { once: Some(PathBuf::from("/boot/loader/entries/drover-once.conf")) },
            Undo::Kexec,
            Undo::Command,
        ];
        for undo in all {
            let text = serde_json::to_string(&undo).unwrap();
            assert_eq!(serde_json::from_str::<Undo>(&text).unwrap(), undo, "{text}");
        }
    }

    #[test]
    fn expect_words_and_nothing_to_undo_when_a_command_does_it() {
        let words = Words::new("n1", &[]).unwrap();
        let boot = BootOnce::Command { argv: vec!["true".to_owned(), "n1".to_owned()] };
        let plan = plan(Path::new("/"), &boot, &words).unwrap();
        assert!(plan.words_taken());
        let undo = plan.undo().clone();
        plan.carry_out(Path::new("/")).unwrap();
        assert!(!undo.carry_out(Path::new("/")).unwrap());
    }
}
