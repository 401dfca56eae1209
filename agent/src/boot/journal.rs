//! What is armed, and whether a reboot was asked for, on disk before it is done.

use std::{io, path::PathBuf};

use drover_machine::boot::Undo;
use drover_model::RunId;
use serde::{Deserialize, Serialize};

use crate::whole_file;

/// What was done in a boot for the next one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Intent {
    /// For which run.
    pub run: RunId,
    /// The boot in which it was done.
    pub boot_id: String,
    /// The kernel for the next boot.
    pub armed: Option<Armed>,
    /// A reboot was asked for.
    pub reboot: bool,
}

/// A kernel that is booted once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Armed {
    /// The nonce of the boot.
    pub nonce: String,
    /// What takes it back.
    pub undo: Undo,
}

/// The file.
#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
}

impl Journal {
    pub fn new(path: PathBuf) -> Self {
        Self { path }
    }

    /// What it says; `None` if there is none.
    pub fn read(&self) -> Result<Option<Intent>, JournalError> {
        let Some(text) = whole_file::read(&self.path).map_err(self.fail("read"))? else { return Ok(None) };
        let intent = serde_json::from_slice(&text);
        intent.map(Some).map_err(|source| JournalError::Damaged { path: self.path.clone(), source })
    }

    /// Writes it down for good.
    pub fn write(&self, intent: &Intent) -> Result<(), JournalError> {
        let text = serde_json::to_vec(intent)
            .map_err(|source| JournalError::Damaged { path: self.path.clone(), source })?;
        whole_file::write(&self.path, &text).map_err(self.fail("write"))
    }

    /// Nothing is to be undone any more.
    pub fn remove(&self) -> Result<(), JournalError> {
        whole_file::remove(&self.path).map_err(self.fail("remove"))
    }

    fn fail(&self, action: &'static str) -> impl Fn(io::Error) -> JournalError {
        let path = self.path.clone();
        move |source| JournalError::Io { action, path: path.clone(), source }
    }
}

/// Why it is not known, or not written down, what the host is to boot.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The file system said no.
    #[error("cannot {action} `{}`, which says what the host is to boot", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It makes no sense.
    #[error(
        "`{}` says what the host is to boot, and is damaged; see to it that the boot loader boots the usual kernel, then remove it",
        path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: serde_json::Error,
    },
}
