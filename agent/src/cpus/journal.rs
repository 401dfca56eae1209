//! What was online before anything was changed, on disk. Written whole or not at all, and synced before the first change.

use std::{collections::BTreeSet, io, path::PathBuf};

use drover_machine::hotplug::{Cpu, Cpusets};
use serde::{Deserialize, Serialize};

use crate::whole_file;

/// What was there before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Before {
    /// Of the boot in which it was so.
    pub boot_id: String,
    /// The online CPUs.
    pub cpus: Vec<Cpu>,
    /// Cpusets that lose CPUs when those go offline.
    pub cpusets: Cpusets,
}

impl Before {
    /// The numbers of the CPUs.
    pub fn online(&self) -> BTreeSet<u32> {
        self.cpus.iter().map(|cpu| cpu.number).collect()
    }
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
    pub fn read(&self) -> Result<Option<Before>, JournalError> {
        let Some(text) = whole_file::read(&self.path).map_err(self.fail("read"))? else { return Ok(None) };
        let before = serde_json::from_slice(&text);
        before.map(Some).map_err(|source| JournalError::Damaged { path: self.path.clone(), source })
    }

    /// Writes it down for good.
    pub fn write(&self, before: &Before) -> Result<(), JournalError> {
        let text = serde_json::to_vec(before)
            .map_err(|source| JournalError::Damaged { path: self.path.clone(), source })?;
        whole_file::write(&self.path, &text).map_err(self.fail("write"))
    }

    /// Nothing is changed any more.
    pub fn remove(&self) -> Result<(), JournalError> {
        whole_file::remove(&self.path).map_err(self.fail("remove"))
    }

    fn fail(&self, action: &'static str) -> impl Fn(io::Error) -> JournalError {
        let path = self.path.clone();
        move |source| JournalError::Io { action, path: path.clone(), source }
    }
}

/// Why it is not known, or not written down, what was there before.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The file system said no.
    #[error("cannot {action} `{}`, which says what CPUs are to be put back", path.display())]
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
        "`{}` says what CPUs are to be put back, and is damaged; bring them online by hand, or reboot, then remove it",
        path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: serde_json::Error,
    },
}
