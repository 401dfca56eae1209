//! The copy of what the sensors of a host said during an attempt: `sensors.HOST.bin` in its folder. Appended to as it is
//! fetched; what the agent has is only ever appended to as well, so that a copy that was cut off goes on where it ends.

use std::{fs::File, io::Write, path::PathBuf};

use drover_model::{AttemptId, Name};

use crate::{
    DirError, ResultsDir,
    results_dir::{make_dir, sync_dir},
};

/// Most bytes of samples that are kept of one host; an agent keeps fewer.
const MAX_BYTES: u64 = 128 << 20;

/// Samples that are being fetched.
#[derive(Debug)]
pub struct SamplesFile {
    file: File,
    path: PathBuf,
    folder: PathBuf,
    length: u64,
}

impl SamplesFile {
    /// Opens the file, or makes it.
    ///
    /// # Errors
    /// It, or a folder on the way to it, cannot be made.
    pub fn open(results: &ResultsDir, attempt: &AttemptId, host: &Name) -> Result<Self, DirError> {
        use std::os::unix::fs::OpenOptionsExt;
        results.create_run_dir(attempt.run)?;
        let folder = results.attempt_path(attempt);
        make_dir(&folder)?;
        let path = results.sensors_path(attempt, host);
        let fail = |error| DirError::from_io(&path, error);
        let no_follow = i32::try_from(rustix::fs::OFlags::NOFOLLOW.bits()).unwrap_or(0);
        let file = File::options().append(true).create(true).custom_flags(no_follow).open(&path);
        let file = file.map_err(fail)?;
        let length = file.metadata().map_err(fail)?.len();
        Ok(Self { file, path, folder, length })
    }

    /// Bytes that are there.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Appends bytes; those beyond the bound are dropped.
    ///
    /// # Errors
    /// They cannot be written.
    pub fn append(&mut self, bytes: &[u8]) -> Result<(), DirError> {
        let length = self.length.saturating_add(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        if length <= MAX_BYTES {
            self.file.write_all(bytes).map_err(|error| DirError::from_io(&self.path, error))?;
            self.length = length;
        }
        Ok(())
    }

    /// Makes what was written durable.
    ///
    /// # Errors
    /// It cannot be synced.
    pub fn keep(self) -> Result<(), DirError> {
        self.file.sync_data().map_err(|error| DirError::from_io(&self.path, error))?;
        sync_dir(&self.folder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expect_a_copy_to_go_on_where_it_ends_when_it_was_cut_off() {
        let dir = tempfile::tempdir().unwrap();
        let results = ResultsDir::create(dir.path()).unwrap();
        let attempt = "00000000-0000-7000-8000-000000000001.c0r1a1".parse().unwrap();
        let host = "web1".parse().unwrap();
        let mut first = SamplesFile::open(&results, &attempt, &host).unwrap();
        first.append(b"abc").unwrap();
        drop(first);
        let mut second = SamplesFile::open(&results, &attempt, &host).unwrap();
        assert_eq!(second.length(), 3);
        second.append(b"def").unwrap();
        second.keep().unwrap();
        assert_eq!(std::fs::read(results.sensors_path(&attempt, &host)).unwrap(), b"abcdef");
    }
}
