//! Has the host boot a kernel once, and takes it back. Synchronous: [`super::turn`] calls it where it may take its time.

use std::{
    io,
    path::{Path, PathBuf},
};

use drover_machine::boot::{BootError, RebootBy, RebootError, Undo, Words, plan};
use drover_model::{BootOnce, RunId};

use super::intent::{Armed, Intent};
use crate::{
    journal::{Journal, JournalError},
    text::chain,
};

/// What is armed, and how it is taken back.
#[derive(Debug)]
pub struct BootKeeper {
    root: PathBuf,
    journal: Journal<Intent>,
    intent: Option<Intent>,
    /// This agent is taking the host down.
    going_down: bool,
}

/// Why the host does not boot what it should.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// It cannot boot that; nothing is armed.
    #[error("this host cannot boot that kernel once")]
    Boot(#[from] BootError),
    /// What is to be done cannot be written down; nothing is armed.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// It is not known which boot this is.
    #[error("cannot read the boot id")]
    BootId(#[source] io::Error),
    /// Something else is armed.
    #[error("{}; arm a kernel first, or arm it again", armed(there.as_deref(), named))]
    NotArmed {
        /// The nonce of what is armed.
        there: Option<String>,
        /// The nonce that was named.
        named: String,
    },
    /// The host cannot be rebooted.
    #[error(transparent)]
    Reboot(#[from] RebootError),
    /// What is armed is not taken back.
    #[error("the host may boot another kernel than its usual one at its next boot: {why}")]
    NotBack {
        /// Why, in full.
        why: String,
    },
}

fn armed(there: Option<&str>, named: &str) -> String {
    let quoted = |nonce: &str| format!("`{nonce}`");
    let named = if named.is_empty() { "nothing".to_owned() } else { quoted(named) };
    format!("{} is armed, and {named} is to be booted", there.map_or_else(|| "nothing".to_owned(), quoted))
}

impl KernelError {
    fn not_back(error: &dyn std::error::Error) -> Self {
        Self::NotBack { why: chain(error) }
    }
}

impl BootKeeper {
    /// For the host whose files are below `root`, with its journal at `path`. Reads and changes nothing yet.
    #[must_use]
    pub fn new(root: PathBuf, path: PathBuf) -> Self {
        Self { root, journal: Journal::new(path), intent: None, going_down: false }
    }

    /// Whether there is nothing to take back.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.intent.is_none()
    }

    /// Whether nothing is done but for this run.
    #[must_use]
    pub fn is_as_wanted_by(&self, run: RunId) -> bool {
        self.intent.as_ref().is_none_or(|intent| intent.run == run)
    }

    /// Whether the host is about to go down because this agent takes it down: what it boots then is settled.
    #[must_use]
    pub fn is_going_down(&self) -> bool {
        self.going_down
    }

    /// Whether a reboot was asked for, of this agent or of one before it.
    #[must_use]
    pub fn is_rebooting(&self) -> bool {
        self.intent.as_ref().is_some_and(|intent| intent.reboot)
    }

    /// Takes up what an earlier agent has left: after a boot, sees to it that the next one is as usual; in the same boot, takes
    /// back what is armed, unless a reboot was asked for.
    ///
    /// # Errors
    /// When something is not taken back.
    pub fn take_up(&mut self) -> Result<(), KernelError> {
        let intent = self.journal.read().map_err(|error| KernelError::not_back(&error))?;
        let Some(intent) = intent else { return Ok(()) };
        let same_boot = self.boot_id()? == intent.boot_id;
        let reboot = intent.reboot;
        if same_boot && reboot {
            tracing::warn!("a reboot was asked for, and the host has not gone down yet");
            self.intent = Some(intent);
            return Ok(());
        }
        if !same_boot && !reboot {
            tracing::warn!("the host was rebooted, and nobody has asked this agent for it");
        }
        let undo = intent.armed.as_ref().map(|armed| armed.undo.clone());
        self.intent = Some(intent);
        let was_set = match (self.disarm(), undo) {
            // These are cleared before the boot. The kernel that was booted may just not show the variables of the firmware.
            (Err(error), Some(Undo::EfiBootNext | Undo::SystemdBoot { .. })) if !same_boot => {
                tracing::warn!(error = %chain(&error), "it is not known whether what was set for one boot is cleared");
                self.intent = None;
                self.journal.remove()?;
                false
            }
            (disarmed, _) => disarmed?,
        };
        if was_set && same_boot {
            tracing::warn!("the kernel that an earlier agent has armed is armed no more");
        } else if was_set {
            tracing::warn!("the boot loader has left in place what was set for one boot; it is cleared now");
        }
        Ok(())
    }

    /// Has the host boot a kernel at the next boot, and only then. Whatever was armed before is not any more. Returns whether the
    /// nonce and the words will be on its command line.
    ///
    /// # Errors
    /// When that cannot be: then nothing is armed, but for [`KernelError::NotBack`].
    pub fn arm(
        &mut self,
        run: RunId,
        boot: &BootOnce,
        nonce: &str,
        words: &Words,
    ) -> Result<bool, KernelError> {
        self.disarm()?;
        let plan = plan(&self.root, boot, words)?;
        let armed = Armed { nonce: nonce.to_owned(), undo: plan.undo().clone() };
        let intent = Intent { run, boot_id: self.boot_id()?, armed: Some(armed), reboot: false };
        self.journal.write(&intent)?;
        self.intent = Some(intent);
        let words_taken = plan.words_taken();
        match plan.carry_out(&self.root) {
            Ok(()) => {
                tracing::info!(
                    nonce,
                    method = boot.method(),
                    ?boot,
                    words_taken,
                    "armed a kernel for one boot"
                );
                Ok(words_taken)
            }
            Err(error) => {
                tracing::warn!(nonce, error = %chain(&error), "a kernel could not be armed");
                self.disarm()?;
                Err(error.into())
            }
        }
    }

    /// Takes back what is armed, and that a reboot was asked for. Returns whether a kernel was still to be booted.
    ///
    /// # Errors
    /// When it is not taken back; it is tried again at the next call, and by the next agent.
    pub fn disarm(&mut self) -> Result<bool, KernelError> {
        let Some(intent) = &self.intent else { return Ok(false) };
        let was_set = match &intent.armed {
            Some(armed) => {
                if armed.undo == Undo::Command && intent.boot_id == self.boot_id()? {
                    tracing::warn!(
                        "what the command did that had the host boot another kernel cannot be taken back"
                    );
                }
                armed.undo.carry_out(&self.root).map_err(|error| KernelError::not_back(&error))?
            }
            None => false,
        };
        self.journal.remove().map_err(|error| KernelError::not_back(&error))?;
        self.intent = None;
        Ok(was_set)
    }

    /// Writes down that the host is to be rebooted, to what is armed under `nonce`, or, if that is empty, to what it boots by
    /// itself. Returns how that is done.
    ///
    /// # Errors
    /// When something else is armed, the host cannot be rebooted, or it cannot be written down.
    pub fn announce(&mut self, run: RunId, nonce: &str, command: &[String]) -> Result<RebootBy, KernelError> {
        let there = self.intent.as_ref().and_then(|intent| intent.armed.clone());
        if there.as_ref().map_or("", |armed| armed.nonce.as_str()) != nonce {
            let there = there.map(|armed| armed.nonce);
            return Err(KernelError::NotArmed { there, named: nonce.to_owned() });
        }
        let by = RebootBy::choose(&self.root, command)?;
        let intent = Intent { run, boot_id: self.boot_id()?, armed: there, reboot: true };
        self.journal.write(&intent)?;
        self.intent = Some(intent);
        self.going_down = true;
        Ok(by)
    }

    /// The host does not go down: what is armed stays, and is taken back in time.
    ///
    /// # Errors
    /// When it cannot be written down.
    pub fn stays_up(&mut self) -> Result<(), JournalError> {
        self.going_down = false;
        match self.intent.take() {
            Some(intent) if intent.armed.is_some() => {
                let intent = self.intent.insert(Intent { reboot: false, ..intent });
                self.journal.write(intent)
            }
            _ => self.journal.remove(),
        }
    }

    fn boot_id(&self) -> Result<String, KernelError> {
        const FILE: &str = "proc/sys/kernel/random/boot_id";
        let text = std::fs::read_to_string(self.root.join(Path::new(FILE))).map_err(KernelError::BootId)?;
        Ok(text.trim().to_owned())
    }
}
