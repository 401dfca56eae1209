//! The store: one file per blob, named by its hash, in a folder that is closed to others.

use std::{
    collections::BTreeMap,
    fs::{File, FileTimes, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::SystemTime,
};

use drover_model::{Blob, BlobHash};
use drover_proto::MAX_BLOB_BYTES;

use crate::{task, text::is_disk_full};

/// Most bytes of all blobs together.
const MAX_BYTES: u64 = 4 << 30;

/// What names of unfinished uploads begin with.
const PART: &str = "part-";

/// The blobs of an agent.
#[derive(Debug)]
pub struct BlobStore {
    dir: PathBuf,
    max_bytes: u64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    known: BTreeMap<BlobHash, Known>,
    /// Bytes that uploads under way may add.
    coming: u64,
    uploads: u64,
}

#[derive(Debug)]
struct Known {
    size: u64,
    used: SystemTime,
    pins: usize,
}

impl State {
    fn bytes(&self) -> u64 {
        self.known.values().map(|known| known.size).sum::<u64>().saturating_add(self.coming)
    }
}

impl BlobStore {
    /// The blobs in the folder `dir`, which is there. What an earlier agent did not finish is removed.
    #[must_use]
    pub fn open(dir: PathBuf) -> Self {
        Self::bounded(dir, MAX_BYTES)
    }

    fn bounded(dir: PathBuf, max_bytes: u64) -> Self {
        let mut known = BTreeMap::new();
        for entry in std::fs::read_dir(&dir).into_iter().flatten().flatten() {
            let hash = entry.file_name().to_str().and_then(|name| name.parse::<BlobHash>().ok());
            let metadata = entry.metadata().ok().filter(std::fs::Metadata::is_file);
            match (hash, metadata) {
                (Some(hash), Some(metadata)) => {
                    let used = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                    known.insert(hash, Known { size: metadata.len(), used, pins: 0 });
                }
                _ => task::remove(&entry.path()),
            }
        }
        Self { dir, max_bytes, state: Mutex::new(State { known, ..State::default() }) }
    }

    /// Not to be held across an `.await`.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn path(&self, hash: &BlobHash) -> PathBuf {
        self.dir.join(hash.to_string())
    }

    /// Those of `hashes` that are not there. The others count as used now.
    #[must_use]
    pub fn missing(&self, hashes: Vec<BlobHash>) -> Vec<BlobHash> {
        let mut state = self.state();
        hashes.into_iter().filter(|hash| !self.touch(&mut state, hash)).collect()
    }

    /// Counts a blob as used now, also for agents to come. Returns whether it is there.
    fn touch(&self, state: &mut State, hash: &BlobHash) -> bool {
        let Some(known) = state.known.get_mut(hash) else { return false };
        let now = SystemTime::now();
        let touched = File::open(self.path(hash)).and_then(|file| {
            known.size = file.metadata()?.len();
            file.set_times(FileTimes::new().set_modified(now))
        });
        match touched {
            Ok(()) => known.used = now,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                // Somebody cleaned up.
                state.known.remove(hash);
                return false;
            }
            Err(error) => tracing::warn!(%hash, %error, "cannot note that a blob was used"),
        }
        true
    }

    /// Keeps blobs from making room for others.
    ///
    /// # Errors
    /// When one is not there.
    pub fn pin<'a>(self: &Arc<Self>, blobs: impl Iterator<Item = &'a Blob>) -> Result<Pins, BlobError> {
        let mut pins = Pins { store: Arc::clone(self), hashes: Vec::new() };
        for blob in blobs {
            let mut state = self.state();
            self.touch(&mut state, &blob.hash);
            let known = state.known.get_mut(&blob.hash).filter(|known| known.size == blob.size);
            known.ok_or_else(|| BlobError::Unknown(blob.clone()))?.pins += 1;
            drop(state);
            pins.hashes.push(blob.hash);
        }
        Ok(pins)
    }

    /// Writes a copy of a blob to `to`.
    ///
    /// # Errors
    /// When it is not there, or cannot be copied.
    pub fn copy(&self, blob: &Blob, to: &mut File) -> io::Result<()> {
        let copied = io::copy(&mut File::open(self.path(&blob.hash))?, to)?;
        if copied == blob.size { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }

    /// Whether a blob is there, as long as it should be.
    #[must_use]
    pub fn has(&self, blob: &Blob) -> bool {
        let mut state = self.state();
        let there = self.touch(&mut state, &blob.hash);
        there && state.known.get(&blob.hash).is_some_and(|known| known.size == blob.size)
    }

    /// Makes room for a blob, and a file for its bytes.
    ///
    /// # Errors
    /// When it is too large, there is no room, or there can be no file.
    pub fn begin(self: &Arc<Self>, blob: Blob) -> Result<Upload, BlobError> {
        if blob.size > MAX_BLOB_BYTES {
            return Err(BlobError::TooLarge { blob });
        }
        let mut state = self.state();
        self.make_room(&mut state, blob.size)?;
        state.uploads += 1;
        let path = self.dir.join(format!("{PART}{}", state.uploads));
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        let file = file.map_err(|source| BlobError::Write { hash: blob.hash, source })?;
        state.coming = state.coming.saturating_add(blob.size);
        drop(state);
        let hasher = Box::new(blake3::Hasher::new());
        Ok(Upload { store: Arc::clone(self), file, path: Some(path), blob, hasher, written: 0 })
    }

    /// Removes what was not used for the longest time, until there is room for `size` bytes.
    fn make_room(&self, state: &mut State, size: u64) -> Result<(), BlobError> {
        while state.bytes().saturating_add(size) > self.max_bytes {
            let unused = state.known.iter().filter(|(_, known)| known.pins == 0);
            let Some(oldest) = unused.min_by_key(|(_, known)| known.used).map(|(hash, _)| *hash) else {
                return Err(BlobError::NoRoom { size, max: self.max_bytes });
            };
            state.known.remove(&oldest);
            task::remove(&self.path(&oldest));
            tracing::info!(hash = %oldest, "a blob made room for another");
        }
        Ok(())
    }
}

/// Keeps blobs from making room for others until it is dropped.
#[derive(Debug)]
pub struct Pins {
    store: Arc<BlobStore>,
    hashes: Vec<BlobHash>,
}

impl Drop for Pins {
    fn drop(&mut self) {
        let mut state = self.store.state();
        for hash in &self.hashes {
            if let Some(known) = state.known.get_mut(hash) {
                known.pins = known.pins.saturating_sub(1);
            }
        }
    }
}

/// A blob that is being written. Dropped before it is complete, it leaves nothing.
#[derive(Debug)]
pub struct Upload {
    store: Arc<BlobStore>,
    file: File,
    /// `None` once it is a blob.
    path: Option<PathBuf>,
    blob: Blob,
    hasher: Box<blake3::Hasher>,
    written: u64,
}

impl Upload {
    /// Adds bytes.
    ///
    /// # Errors
    /// When there are more than announced, or they cannot be written.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), BlobError> {
        self.written = self.written.saturating_add(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        if self.written > self.blob.size {
            return Err(self.wrong_size());
        }
        self.hasher.update(bytes);
        self.file.write_all(bytes).map_err(|source| BlobError::Write { hash: self.blob.hash, source })
    }

    /// Makes it a blob, safe on disk.
    ///
    /// # Errors
    /// When size or hash are not those announced, or it cannot be written.
    pub fn finish(mut self) -> Result<(), BlobError> {
        if self.written != self.blob.size {
            return Err(self.wrong_size());
        }
        let found = BlobHash(*self.hasher.finalize().as_bytes());
        if found != self.blob.hash {
            return Err(BlobError::WrongHash { announced: self.blob.hash, found });
        }
        let fail = |source| BlobError::Write { hash: found, source };
        self.file.sync_data().map_err(fail)?;
        let mut state = self.store.state();
        if let Some(path) = self.path.take() {
            std::fs::rename(&path, self.store.path(&found)).map_err(|source| {
                task::remove(&path);
                fail(source)
            })?;
        }
        // Another upload of the same blob may have been faster, and tasks may use that one already.
        let now = SystemTime::now();
        let known = state.known.entry(found).or_insert(Known { size: self.written, used: now, pins: 0 });
        (known.size, known.used) = (self.written, now);
        Ok(())
    }

    fn wrong_size(&self) -> BlobError {
        BlobError::WrongSize { blob: self.blob.clone(), sent: self.written }
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        self.path.as_deref().into_iter().for_each(|path: &Path| task::remove(path));
        let mut state = self.store.state();
        state.coming = state.coming.saturating_sub(self.blob.size);
    }
}

/// Why a blob is not taken or not found.
#[derive(Debug, thiserror::Error)]
pub enum BlobError {
    /// It is not there.
    #[error("the agent has no blob {} of {} bytes; upload it first", .0.hash, .0.size)]
    Unknown(Blob),
    /// It is larger than any blob may be.
    #[error("the blob {} has {} bytes, {MAX_BLOB_BYTES} are allowed", blob.hash, blob.size)]
    TooLarge {
        /// Which.
        blob: Blob,
    },
    /// Others are in use and leave no room.
    #[error(
        "there is no room for a blob of {size} bytes: of {max} bytes the rest is in use by running tasks or uploads"
    )]
    NoRoom {
        /// Bytes wanted.
        size: u64,
        /// Bytes that all blobs may have.
        max: u64,
    },
    /// More or fewer bytes came than were announced.
    #[error("the blob {} was announced with {} bytes, {sent} came", blob.hash, blob.size)]
    WrongSize {
        /// As announced.
        blob: Blob,
        /// Bytes that came; the rest was not read.
        sent: u64,
    },
    /// Other bytes came than were announced.
    #[error("the blob was announced as {announced}, what came is {found}")]
    WrongHash {
        /// As announced.
        announced: BlobHash,
        /// The hash of what came.
        found: BlobHash,
    },
    /// It cannot be written.
    #[error("cannot keep the blob {hash}")]
    Write {
        /// Which.
        hash: BlobHash,
        /// Why.
        source: io::Error,
    },
}

impl BlobError {
    /// Whether the disk is full.
    #[must_use]
    pub fn is_disk_full(&self) -> bool {
        matches!(self, Self::Write { source, .. } if is_disk_full(source))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blob(contents: &[u8]) -> Blob {
        Blob { hash: BlobHash::of(contents), size: contents.len().try_into().unwrap() }
    }

    fn put(store: &Arc<BlobStore>, contents: &[u8]) -> Result<Blob, BlobError> {
        let blob = blob(contents);
        let mut upload = store.begin(blob.clone())?;
        contents.chunks(3).try_for_each(|chunk| upload.write(chunk))?;
        upload.finish()?;
        Ok(blob)
    }

    fn names(dir: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(dir).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn expect_the_oldest_unused_gone_when_room_is_needed_and_what_is_pinned_kept() {
        let dir = tempfile::tempdir().unwrap();
        let store = Arc::new(BlobStore::bounded(dir.path().to_owned(), 30));
        let [a, b, c] = [b"aaaaaaaaaa", b"bbbbbbbbbb", b"cccccccccc"].map(|text| put(&store, text).unwrap());
        // The oldest is in use, the next was asked for.
        let pins = store.pin([&a].into_iter()).unwrap();
        assert_eq!(store.missing(vec![b.hash]), []);
        let d = put(&store, b"dddddddddd").unwrap();
        assert_eq!(store.missing(vec![a.hash, b.hash, c.hash, d.hash]), [c.hash]);
        drop(pins);
        // What is taken up again knows what was used when.
        let store = Arc::new(BlobStore::bounded(dir.path().to_owned(), 30));
        put(&store, b"eeeeeeeeee").unwrap();
        let all = [&a, &b, &d].map(|blob| blob.hash);
        assert_eq!(store.missing(all.to_vec()).len(), 1);
        assert_eq!(names(dir.path()).len(), 3);
    }

    #[test]
    fn expect_a_refusal_when_all_that_is_there_is_in_use() {
        let dir = tempfile::tempdir().unwrap();
        let store = Arc::new(BlobStore::bounded(dir.path().to_owned(), 20));
        let a = put(&store, b"aaaaaaaaaa").unwrap();
        let _pins = store.pin([&a].into_iter()).unwrap();
        let under_way = store.begin(blob(b"bbbbbbbbbb")).unwrap();
        assert!(matches!(put(&store, b"c"), Err(BlobError::NoRoom { .. })));
        drop(under_way);
        put(&store, b"c").unwrap();
    }

    #[test]
    fn expect_nothing_kept_when_an_upload_is_wrong_or_given_up() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("part-7"), "left over").unwrap();
        let store = Arc::new(BlobStore::open(dir.path().to_owned()));
        let mut other = store.begin(blob(b"announced")).unwrap();
        other.write(b"different").unwrap();
        assert!(matches!(other.finish(), Err(BlobError::WrongHash { .. })));
        let mut short = store.begin(blob(b"announced")).unwrap();
        short.write(b"announ").unwrap();
        assert!(matches!(short.finish(), Err(BlobError::WrongSize { sent: 6, .. })));
        let mut long = store.begin(blob(b"announced")).unwrap();
        assert!(matches!(long.write(b"announced and more"), Err(BlobError::WrongSize { .. })));
        drop(long);
        drop(store.begin(blob(b"announced")).unwrap());
        let huge = Blob { size: MAX_BLOB_BYTES + 1, ..blob(b"") };
        assert!(matches!(store.begin(huge), Err(BlobError::TooLarge { .. })));
        assert_eq!(names(dir.path()), <[String; 0]>::default());
        assert_eq!(store.state().coming, 0);
    }

    #[test]
    fn expect_it_missing_when_somebody_removed_its_file_or_it_has_another_size() {
        let dir = tempfile::tempdir().unwrap();
        let store = Arc::new(BlobStore::open(dir.path().to_owned()));
        let a = put(&store, b"aaaaaaaaaa").unwrap();
        let longer = Blob { size: 11, ..a.clone() };
        assert!(matches!(store.pin([&longer].into_iter()), Err(BlobError::Unknown(_))));
        std::fs::remove_file(store.path(&a.hash)).unwrap();
        assert!(matches!(store.pin([&a].into_iter()), Err(BlobError::Unknown(_))));
        assert_eq!(store.missing(vec![a.hash]), [a.hash]);
    }
}
