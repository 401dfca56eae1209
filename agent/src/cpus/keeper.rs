//! Changes the CPUs and puts them back. Synchronous: [`super::turn`] calls it where it may take its time.

use std::{collections::BTreeSet, io, path::PathBuf};

use drover_machine::hotplug::{
    ChangeError, ChoiceError, CpusetError, Cpusets, PutBackError, Switches, Sysfs, change, choose, put_back,
};
use drover_model::RunId;
use drover_supervise::{AffinityLost, CpuSet, OwnAffinity};

use super::before::Before;
use crate::{
    journal::{Journal, JournalError},
    text::chain,
};

/// What is changed, and how to change it.
#[derive(Debug)]
pub struct CpuKeeper {
    sysfs: Sysfs,
    journal: Journal<Before>,
    changed: Option<Changed>,
}

/// Some CPUs are offline, or may be.
#[derive(Debug)]
struct Changed {
    before: Before,
    /// The run that wanted it last; not known if another agent made the change.
    run: Option<RunId>,
    /// What this process had before; not known if another agent made the change.
    affinity: Option<OwnAffinity>,
}

/// Why the CPUs are not as they should be.
#[derive(Debug, thiserror::Error)]
pub enum CpusError {
    /// So many cannot be had.
    #[error(transparent)]
    Choice(#[from] ChoiceError),
    /// Nothing could be learnt of the CPUs; nothing was changed.
    #[error("cannot read what CPUs there are from /sys and /proc; no CPU was switched")]
    Read(#[source] io::Error),
    /// Someone would lose all of its CPUs; nothing was changed.
    #[error(transparent)]
    Cpuset(#[from] CpusetError),
    /// What is to be changed cannot be written down; nothing was changed.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The change failed; all is as it was before.
    #[error("{why}; all CPUs are back")]
    Refused {
        /// What failed, in full.
        why: String,
    },
    /// CPUs, or what was lost with them, are not back.
    #[error("{why}")]
    NotBack {
        /// What is not as it was, in full.
        why: String,
    },
}

/// What may fail when things are put back.
#[derive(Debug, thiserror::Error)]
enum NotBack {
    #[error(transparent)]
    Cpus(#[from] PutBackError),
    #[error(transparent)]
    Cpuset(#[from] CpusetError),
    #[error(transparent)]
    Affinity(#[from] AffinityLost),
    #[error(transparent)]
    Journal(#[from] JournalError),
}

impl From<NotBack> for CpusError {
    fn from(error: NotBack) -> Self {
        Self::NotBack { why: chain(&error) }
    }
}

impl CpuKeeper {
    /// Keeps the CPUs whose files are below `root`, and its journal at `path`. Reads and changes nothing yet.
    #[must_use]
    pub fn new(root: PathBuf, path: PathBuf) -> Self {
        Self { sysfs: Sysfs::below(root), journal: Journal::new(path), changed: None }
    }

    /// Whether there is nothing to put back.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.changed.is_none()
    }

    /// Whether there is nothing to put back but what this run has wanted.
    #[must_use]
    pub fn is_as_wanted_by(&self, run: RunId) -> bool {
        self.changed.as_ref().is_none_or(|changed| changed.run == Some(run))
    }

    /// Puts back what an earlier agent has left, unless the machine was rebooted since.
    ///
    /// # Errors
    /// When something is not back.
    pub fn take_up(&mut self) -> Result<(), CpusError> {
        let not_back = |error| CpusError::from(NotBack::from(error));
        let Some(before) = self.journal.read().map_err(not_back)? else { return Ok(()) };
        let boot_id = self.sysfs.boot_id().map_err(|error| CpusError::NotBack {
            why: format!("CPUs may be offline, and the boot id cannot be read: {error}"),
        })?;
        if before.boot_id != boot_id {
            tracing::info!("the CPUs that an earlier agent took offline are back since the reboot");
            return self.journal.remove().map_err(not_back);
        }
        tracing::warn!(online = ?before.online(), "puts back the CPUs that an earlier agent took offline");
        self.changed = Some(Changed { before, run: None, affinity: None });
        self.put_back()
    }

    /// Leaves so many CPUs online because a run wants it, 0 for all that were online when nothing was changed.
    ///
    /// # Errors
    /// When that cannot be: then all is as it was before anything was changed, but for [`CpusError::NotBack`].
    pub fn set(&mut self, run: RunId, count: u32) -> Result<(), CpusError> {
        let before = match &self.changed {
            Some(changed) => changed.before.clone(),
            None => self.look()?,
        };
        let all = before.online();
        let wanted = if count == 0 { all.clone() } else { choose(&before.cpus, count)? };
        if wanted == all {
            self.put_back()?;
            // Another program may have switched one.
            return change(&self.sysfs, &all, &all)
                .map_err(|error| CpusError::Refused { why: chain(&error) });
        }
        // Nothing to lose CPUs from if they are to be given back only.
        before.cpusets.can_do_with(&wanted)?;
        if let Some(changed) = &mut self.changed {
            changed.run = Some(run);
        } else {
            let affinity = OwnAffinity::read().map_err(CpusError::Read)?;
            self.journal.write(&before)?;
            self.changed = Some(Changed { before, run: Some(run), affinity: Some(affinity) });
        }
        let Err(why) = self.try_change(&all, &wanted) else {
            tracing::info!(?wanted, "these CPUs stay online");
            return Ok(());
        };
        tracing::warn!(why, "CPUs could not be taken offline, and are put back");
        self.put_back()?;
        Err(CpusError::Refused { why })
    }

    /// What there is while nothing is changed.
    fn look(&self) -> Result<Before, CpusError> {
        Ok(Before {
            boot_id: self.sysfs.boot_id().map_err(CpusError::Read)?,
            cpus: self.sysfs.cpus().map_err(CpusError::Read)?,
            cpusets: Cpusets::read(self.sysfs.root()),
        })
    }

    fn try_change(&self, all: &BTreeSet<u32>, wanted: &BTreeSet<u32>) -> Result<(), String> {
        change(&self.sysfs, all, wanted).map_err(|error: ChangeError| chain(&error))?;
        self.settle(wanted).map_err(|error| chain(&error))
    }

    /// Makes sure that this process has the CPUs that it was given, as far as they are online.
    fn settle(&self, online: &BTreeSet<u32>) -> Result<(), AffinityLost> {
        let own = self.changed.as_ref().and_then(|changed| changed.affinity.as_ref());
        let online: CpuSet = online.iter().copied().collect();
        own.map_or(Ok(()), |own| own.settle(&online))
    }

    /// Brings all CPUs back, with what was lost when they went; nothing if nothing is changed.
    ///
    /// # Errors
    /// What is not back; it is tried again at the next call, and by the next agent.
    pub fn put_back(&mut self) -> Result<(), CpusError> {
        let Some(changed) = &self.changed else { return Ok(()) };
        self.restore(&changed.before)?;
        self.changed = None;
        Ok(())
    }

    fn restore(&self, before: &Before) -> Result<(), NotBack> {
        put_back(&self.sysfs, &before.online())?;
        before.cpusets.put_back()?;
        // Those that came from elsewhere meanwhile count as well.
        let online = self.sysfs.online().unwrap_or_else(|_| before.online());
        self.settle(&online)?;
        tracing::info!(?online, "the CPUs are back");
        Ok(self.journal.remove()?)
    }
}
