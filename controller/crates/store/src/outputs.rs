//! Raw outputs of tasks: written and synced before the attempt they belong to is committed, so that a stored attempt
//! always has them and can be parsed again.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, ErrorKind, Write},
    path::Path,
};

use drover_model::{AttemptId, Name, RunId};

use crate::{
    DirError, ResultsDir,
    results_dir::{create_file, make_dir, sync_dir},
};

/// Which output of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

impl Stream {
    /// The word used in file names.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }
}

/// One output of one task of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawOutput {
    /// Role of the task.
    pub role: Name,
    /// Instance of the task.
    pub instance: u32,
    /// Which of its outputs.
    pub stream: Stream,
    /// What it wrote. No file is made for nothing.
    pub bytes: Vec<u8>,
}

/// Writes outputs of attempts; the folder of a run, in which they make new names, is synced once for all of them.
#[derive(Debug)]
pub(crate) struct OutputBatch<'a> {
    dir: &'a ResultsDir,
    folders: BTreeMap<RunId, RunFolder>,
}

#[derive(Clone, Copy, Debug)]
enum RunFolder {
    /// It has names that may not be on the disk.
    Dirty,
    Synced,
    /// Asking again would not help: the kernel reports a failed sync once.
    Failed(ErrorKind),
}

impl<'a> OutputBatch<'a> {
    pub(crate) fn new(dir: &'a ResultsDir) -> Self {
        Self { dir, folders: BTreeMap::new() }
    }

    /// Writes and syncs the outputs of one attempt. Doing it again, after a failure, is harmless.
    pub(crate) fn write(&mut self, attempt: &AttemptId, outputs: &[RawOutput]) -> Result<(), DirError> {
        if outputs.iter().all(|output| output.bytes.is_empty()) {
            return Ok(());
        }
        self.dir.create_run_dir(attempt.run)?;
        let folder = self.dir.attempt_path(attempt);
        make_dir(&folder)?;
        // Also when it was there: who made it may not have synced.
        self.folders.insert(attempt.run, RunFolder::Dirty);
        for output in outputs {
            let path = self.dir.output_path(attempt, &output.role, output.instance, output.stream);
            if let Err(error) = place(&path, &output.bytes) {
                // Half of an output helps nobody, and on a full disk it takes the room of the verdict that says so.
                self.withdraw(attempt, outputs);
                return Err(DirError::from_io(&path, error));
            }
        }
        sync_dir(&folder)
    }

    /// Removes what was written of an attempt.
    fn withdraw(&self, attempt: &AttemptId, outputs: &[RawOutput]) {
        for output in outputs {
            let path = self.dir.output_path(attempt, &output.role, output.instance, output.stream);
            if let Err(error) = fs::remove_file(&path)
                && error.kind() != ErrorKind::NotFound
            {
                tracing::warn!(path = %path.display(), %error, "half of an output cannot be removed");
            }
        }
    }

    /// Makes the names of attempts in a run's folder durable, after all of the batch were written.
    pub(crate) fn sync(&mut self, run: RunId) -> Result<(), DirError> {
        let Some(folder) = self.folders.get_mut(&run) else { return Ok(()) };
        let path = self.dir.run_path(run);
        match *folder {
            RunFolder::Synced => Ok(()),
            RunFolder::Failed(kind) => Err(DirError::from_io(&path, kind.into())),
            RunFolder::Dirty => match File::open(&path).and_then(|dir| dir.sync_all()) {
                Ok(()) => {
                    *folder = RunFolder::Synced;
                    Ok(())
                }
                Err(error) => {
                    *folder = RunFolder::Failed(error.kind());
                    Err(DirError::from_io(&path, error))
                }
            },
        }
    }
}

fn place(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if bytes.is_empty() {
        return Ok(());
    }
    let mut file = create_file(path)?;
    file.write_all(bytes)?;
    file.sync_data()
}
