//! Reads `/dev/kmsg`.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read},
    os::{
        fd::{AsFd, BorrowedFd},
        unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt},
    },
    path::{Path, PathBuf},
};

use rustix::{
    fs::{OFlags, SeekFrom, major, minor, seek},
    io::Errno,
};

use super::record::LogRecord;

/// Longest record in bytes: the kernel formats each into a buffer of this size.
const RECORD_MAX: usize = 8192;
/// The device's number.
const DEVICE: (u32, u32) = (1, 11);
const PATH: &str = "/dev/kmsg";
const RESTRICT: &str = "/proc/sys/kernel/dmesg_restrict";

/// Records that a tail holds at most.
pub const TAIL_RECORDS: usize = 10_000;

/// Why the kernel's log cannot be read here.
#[derive(Debug, thiserror::Error)]
pub enum KernelLogError {
    /// No such file, as in most containers.
    #[error(
        "there is no {path} here, as in most containers; give the agent that device, or run it on the host"
    )]
    Absent {
        /// Its path.
        path: PathBuf,
    },
    /// Something else has its name.
    #[error("{path} is not the kernel's log but another file; give the agent the device 1:11")]
    Other {
        /// Its path.
        path: PathBuf,
    },
    /// The kernel shows its log to few.
    #[error(
        "the agent may not read {path} because kernel.dmesg_restrict is 1; run it as root or with CAP_SYSLOG"
    )]
    Restricted {
        /// Its path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Another reason.
    #[error("cannot open {path}")]
    Open {
        /// Its path.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// Why a record could not be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read the kernel's log")]
pub struct ReadError {
    /// Why.
    #[source]
    pub source: io::Error,
}

/// Where reading starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogStart {
    /// The oldest record that the kernel still has.
    Oldest,
    /// The next record to be written.
    End,
    /// The record with this number; those before it that are gone are not counted as lost, those from it on are.
    Sequence(u64),
}

/// Reads records of the kernel's log as they come. Reading never waits: poll the descriptor for readability.
#[derive(Debug)]
pub struct KernelLog {
    file: File,
    cursor: Cursor,
}

/// What is known of the records, whatever they are read from.
#[derive(Debug)]
struct Cursor {
    buffer: Vec<u8>,
    /// The record to be read next; unknown until one was read.
    next: Option<u64>,
    lost: u64,
    unreadable: u64,
}

impl KernelLog {
    /// Opens the log.
    ///
    /// # Errors
    ///
    /// When it is not there or not to be read, with the reason.
    pub fn open(start: LogStart) -> Result<Self, KernelLogError> {
        Self::open_at(Path::new(PATH), start)
    }

    /// Opens the log at another path.
    fn open_at(path: &Path, start: LogStart) -> Result<Self, KernelLogError> {
        let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
        let file = OpenOptions::new().read(true).custom_flags(flags).open(path);
        let file = file.map_err(|source| why(path, source))?;
        let failed = |source: io::Error| KernelLogError::Open { path: path.to_owned(), source };
        let metadata = file.metadata().map_err(failed)?;
        let device = (major(metadata.rdev()), minor(metadata.rdev()));
        if !metadata.file_type().is_char_device() || device != DEVICE {
            return Err(KernelLogError::Other { path: path.to_owned() });
        }
        let place = if start == LogStart::End { SeekFrom::End(0) } else { SeekFrom::Start(0) };
        seek(&file, place).map_err(|source| failed(source.into()))?;
        Ok(Self { file, cursor: Cursor::new(start) })
    }

    /// Skips all that was written so far. Costs much less than to open the log anew.
    ///
    /// # Errors
    ///
    /// When the system refuses.
    pub fn skip_to_end(&mut self) -> Result<(), ReadError> {
        seek(&self.file, SeekFrom::End(0)).map_err(|source| ReadError { source: source.into() })?;
        (self.cursor.next, self.cursor.lost) = (None, 0);
        Ok(())
    }

    /// The next record; `None` if there is none now.
    ///
    /// # Errors
    ///
    /// When the system refuses.
    pub fn next_record(&mut self) -> Result<Option<LogRecord>, ReadError> {
        self.cursor.next_record(&mut self.file)
    }

    /// Records that were overwritten before they were read.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.cursor.lost
    }

    /// Records that were read and not understood.
    #[must_use]
    pub fn unreadable(&self) -> u64 {
        self.cursor.unreadable
    }

    /// The number of the record that comes next, to be given as [`LogStart::Sequence`] later; unknown as long as none was read.
    #[must_use]
    pub fn next_sequence(&self) -> Option<u64> {
        self.cursor.next
    }
}

impl AsFd for KernelLog {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Cursor {
    fn new(start: LogStart) -> Self {
        let next = match start {
            LogStart::Sequence(sequence) => Some(sequence),
            LogStart::Oldest | LogStart::End => None,
        };
        Self { buffer: vec![0; RECORD_MAX], next, lost: 0, unreadable: 0 }
    }

    /// Every read gives one record.
    fn next_record(&mut self, file: &mut impl Read) -> Result<Option<LogRecord>, ReadError> {
        loop {
            let length = match file.read(&mut self.buffer) {
                Ok(0) => return Ok(None),
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                // The record to be read was overwritten; the next read gives the oldest that is left. Its number says how many are gone.
                Err(error) if error.raw_os_error() == Some(Errno::PIPE.raw_os_error()) => continue,
                Err(source) => return Err(ReadError { source }),
            };
            let raw = self.buffer.get(..length).unwrap_or_default();
            let Some(record) = LogRecord::parse(raw) else {
                self.unreadable = self.unreadable.saturating_add(1);
                continue;
            };
            let expected = self.next.unwrap_or(record.sequence);
            if record.sequence < expected {
                continue;
            }
            self.lost = self.lost.saturating_add(record.sequence - expected);
            self.next = Some(record.sequence.saturating_add(1));
            return Ok(Some(record));
        }
    }
}

fn why(path: &Path, source: io::Error) -> KernelLogError {
    let path = path.to_owned();
    let is_restricted = || std::fs::read_to_string(RESTRICT).is_ok_and(|text| text.trim() != "0");
    match source.kind() {
        io::ErrorKind::NotFound => KernelLogError::Absent { path },
        io::ErrorKind::PermissionDenied if is_restricted() => KernelLogError::Restricted { path, source },
        _ => KernelLogError::Open { path, source },
    }
}

/// The end of the kernel's log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tail {
    /// The newest records, oldest first, at most [`TAIL_RECORDS`].
    pub records: Vec<LogRecord>,
    /// Records that were asked for and are not among them: overwritten, or too many.
    pub lost: u64,
}

/// The records from number `sequence` on.
///
/// # Errors
///
/// When the log cannot be opened. A log that cannot be read further ends there.
pub fn tail_since(sequence: u64) -> Result<Tail, KernelLogError> {
    let mut log = KernelLog::open(LogStart::Sequence(sequence))?;
    Ok(tail(|| log.next_record().ok().flatten()).plus_lost(log.lost()))
}

fn tail(mut next: impl FnMut() -> Option<LogRecord>) -> Tail {
    let mut records = std::collections::VecDeque::new();
    let mut lost = 0_u64;
    // A log that is written as fast as it is read has no end.
    for record in std::iter::from_fn(&mut next).take(TAIL_RECORDS * 10) {
        if records.len() == TAIL_RECORDS {
            records.pop_front();
            lost += 1;
        }
        records.push_back(record);
    }
    Tail { records: records.into(), lost }
}

impl Tail {
    fn plus_lost(mut self, lost: u64) -> Self {
        self.lost = self.lost.saturating_add(lost);
        self
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    /// A log of which the kernel overwrites records: that cannot be brought about on a machine that others use.
    struct Overwritten(VecDeque<Result<&'static str, Errno>>);

    impl Read for Overwritten {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let record = self.0.pop_front().unwrap_or(Err(Errno::AGAIN))?;
            buffer[..record.len()].copy_from_slice(record.as_bytes());
            Ok(record.len())
        }
    }

    fn texts(start: LogStart, reads: &[Result<&'static str, Errno>]) -> (Vec<String>, Cursor) {
        let mut file = Overwritten(reads.iter().copied().collect());
        let mut cursor = Cursor::new(start);
        let mut texts = Vec::new();
        while let Some(record) = cursor.next_record(&mut file).unwrap() {
            texts.push(record.text);
        }
        (texts, cursor)
    }

    #[test]
    fn expect_lost_records_counted_when_the_kernel_overwrote_them() {
        let reads = [
            Ok("6,7,1,-;a\n"),
            Err(Errno::PIPE),
            Err(Errno::INTR),
            Ok("6,12,2,-;b\n"),
            Ok("?"),
            Ok("6,13,3,-;c\n"),
        ];
        let (found, cursor) = texts(LogStart::End, &reads);
        assert_eq!(found, ["a", "b", "c"]);
        assert_eq!((cursor.lost, cursor.unreadable, cursor.next), (4, 1, Some(14)));
    }

    #[test]
    fn expect_older_records_skipped_when_a_sequence_is_remembered() {
        let reads = [Ok("6,7,1,-;a\n"), Ok("6,8,2,-;b\n"), Ok("6,9,3,-;c\n")];
        let (found, cursor) = texts(LogStart::Sequence(8), &reads);
        assert_eq!((found, cursor.lost), (vec!["b".to_owned(), "c".to_owned()], 0));
        let (found, cursor) = texts(LogStart::Sequence(5), &reads);
        assert_eq!((found.len(), cursor.lost), (3, 2));
    }

    #[test]
    fn expect_an_error_when_the_system_refuses() {
        let mut file = Overwritten([Err(Errno::IO)].into());
        assert!(Cursor::new(LogStart::Oldest).next_record(&mut file).is_err());
    }

    #[test]
    fn expect_the_newest_records_when_a_tail_is_too_long() {
        let record = |sequence| LogRecord::parse(format!("6,{sequence},1,-;x\n").as_bytes());
        let mut sequence = 0;
        let found = tail(|| {
            sequence += 1;
            (sequence <= 10_003).then(|| record(sequence)).flatten()
        });
        assert_eq!((found.records.len(), found.lost), (TAIL_RECORDS, 3));
        assert_eq!(found.records[0].sequence, 4);
    }

    #[test]
    fn expect_the_reason_when_there_is_no_log() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("kmsg");
        let open = |path: &Path| KernelLog::open_at(path, LogStart::End).unwrap_err();
        assert!(matches!(open(&path), KernelLogError::Absent { .. }));
        std::fs::write(&path, "6,1,1,-;x\n").unwrap();
        assert!(matches!(open(&path), KernelLogError::Other { .. }));
        assert!(matches!(open(Path::new("/dev/null")), KernelLogError::Other { .. }));
    }
}
