//! What was done to the host and has to be put back, as one small file of JSON: on disk before it is done, whole or not at all. Used by
//! `boot` and `cpus`.

use std::{io, marker::PhantomData, path::PathBuf};

use serde::{Serialize, de::DeserializeOwned};

use crate::whole_file;

/// What such a file has.
pub trait Kept: Serialize + DeserializeOwned {
    /// What the file says, for messages.
    const SAYS: &'static str;
    /// What to do when it is damaged, before it is removed.
    const REMEDY: &'static str;
}

/// The file.
#[derive(Debug)]
pub struct Journal<T> {
    path: PathBuf,
    kept: PhantomData<T>,
}

impl<T: Kept> Journal<T> {
    /// The file at this place, which need not be there.
    pub fn new(path: PathBuf) -> Self {
        Self { path, kept: PhantomData }
    }

    /// What it says; `None` if there is none.
    ///
    /// # Errors
    /// When it cannot be read, or makes no sense.
    pub fn read(&self) -> Result<Option<T>, JournalError> {
        let Some(text) = whole_file::read(&self.path).map_err(self.fail("read"))? else { return Ok(None) };
        serde_json::from_slice(&text).map(Some).map_err(|source| self.damaged(source))
    }

    /// Writes it down for good.
    ///
    /// # Errors
    /// When it cannot be written; what was there is still there then.
    pub fn write(&self, kept: &T) -> Result<(), JournalError> {
        let text = serde_json::to_vec(kept).map_err(|source| self.damaged(source))?;
        whole_file::write(&self.path, &text).map_err(self.fail("write"))
    }

    /// Nothing is to be put back any more.
    ///
    /// # Errors
    /// When it cannot be removed.
    pub fn remove(&self) -> Result<(), JournalError> {
        whole_file::remove(&self.path).map_err(self.fail("remove"))
    }

    fn fail(&self, action: &'static str) -> impl Fn(io::Error) -> JournalError {
        let path = self.path.clone();
        move |source| JournalError::Io { action, path: path.clone(), says: T::SAYS, source }
    }

    fn damaged(&self, source: serde_json::Error) -> JournalError {
        JournalError::Damaged { path: self.path.clone(), says: T::SAYS, remedy: T::REMEDY, source }
    }
}

/// Why it is not known, or not written down, what has to be put back.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The file system said no.
    #[error("cannot {action} `{}`, which says {says}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// What it says.
        says: &'static str,
        /// Why.
        source: io::Error,
    },
    /// It makes no sense.
    #[error("`{}` says {says}, and is damaged; {remedy}, then remove it", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What it says.
        says: &'static str,
        /// What to do first.
        remedy: &'static str,
        /// What is wrong.
        source: serde_json::Error,
    },
}
