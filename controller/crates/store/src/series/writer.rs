//! Appends points and marks.

use std::{
    fs::File,
    io::{self, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

use drover_model::{AttemptId, Name};

use super::{
    Damage, MAX_PENDING_BYTES, MAX_SERIES_BYTES, MarkKind, Point, SeriesError,
    line::{self, HEADER},
    reader::{Format, Items, MarkLines, PointLines, check_version},
};
use crate::{
    ResultsDir,
    results_dir::{make_dir, sync_dir},
};

/// Points wait for company up to this many bytes.
const BATCH: usize = 32 * 1024;

/// Writes what an attempt gives on its way. One at a time per attempt: whoever has the results folder's lock.
///
/// Points are written when some have come together, and marks at once; [`SeriesWriter::flush`] makes both durable. What
/// was not flushed can be lost in a crash, and never damages what was.
#[derive(Debug)]
pub struct SeriesWriter {
    points: Appender,
    marks: Appender,
    reopened: Reopened,
}

/// What was there when a series was opened for writing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reopened {
    /// Whether it was begun before.
    pub begun_before: bool,
    /// Damage of the points. What of it was at their end has been cut off.
    pub points: Damage,
    /// Damage of the marks. What of it was at their end has been cut off.
    pub marks: Damage,
    /// The last round of which there is a point.
    pub last_round: Option<u64>,
    /// When the last point was, in microseconds since the Unix epoch, UTC.
    pub last_point_unix_us: Option<u64>,
}

impl SeriesWriter {
    /// Opens the series of an attempt to go on behind its last good line, or begins it.
    ///
    /// # Errors
    /// A file or a folder on the way to it cannot be made, read or written; a file is there that is no series.
    pub fn append(dir: &ResultsDir, attempt: &AttemptId) -> Result<Self, SeriesError> {
        dir.create_run_dir(attempt.run)?;
        let folder = dir.attempt_path(attempt);
        if make_dir(&folder)? {
            sync_dir(&dir.run_path(attempt.run))?;
        }
        let mut reopened = Reopened::default();
        let mut points = Appender::open(dir.series_path(attempt))?;
        reopened.begun_before = points.length > 0;
        check_version(&points.path, points.length)?;
        reopened.points = points.recover::<PointLines>(|point| {
            reopened.last_round = Some(point.round);
            reopened.last_point_unix_us = Some(point.at_unix_us);
        })?;
        points.begin()?;
        let mut marks = Appender::open(dir.timeline_path(attempt))?;
        reopened.begun_before |= marks.length > 0;
        reopened.marks = marks.recover::<MarkLines>(|_| ())?;
        sync_dir(&folder)?;
        Ok(Self { points, marks, reopened })
    }

    /// What was there before.
    #[must_use]
    pub fn reopened(&self) -> Reopened {
        self.reopened
    }

    /// Adds a point; `at_unix_us` in microseconds since the Unix epoch, UTC.
    ///
    /// # Errors
    /// The value is not finite; the series is full; so much waits for the disk that this point is not kept.
    pub fn point(
        &mut self,
        at_unix_us: u64,
        round: u64,
        metric: &Name,
        value: f64,
    ) -> Result<(), SeriesError> {
        if !value.is_finite() {
            return Err(SeriesError::NotFinite { metric: metric.clone() });
        }
        self.points.make_room(BATCH)?;
        line::write_point(
            &mut self.points.pending,
            &Point { at_unix_us, round, metric: metric.clone(), value },
        );
        Ok(())
    }

    /// Adds a mark; of a text that is too long, the beginning is kept.
    ///
    /// # Errors
    /// The timeline is full; or the disk does not take it: it is tried again with the next one, until so much waits that this
    /// mark is not kept.
    pub fn mark(&mut self, at_unix_us: u64, kind: MarkKind, text: &str) -> Result<(), SeriesError> {
        self.marks.make_room(1)?;
        line::write_mark(&mut self.marks.pending, at_unix_us, kind, text);
        self.marks.write()
    }

    /// Makes everything durable.
    ///
    /// # Errors
    /// The disk does not take it. It is kept and tried again at the next call.
    pub fn flush(&mut self) -> Result<(), SeriesError> {
        // Both are tried, whatever becomes of the first.
        let marks = self.marks.sync();
        self.points.sync().and(marks)
    }
}

impl Drop for SeriesWriter {
    fn drop(&mut self) {
        if let Err(error) = self.points.write().and(self.marks.write()) {
            tracing::warn!(%error, "the last points of a series were not written");
        }
    }
}

/// A file that grows by whole lines.
#[derive(Debug)]
struct Appender {
    path: PathBuf,
    file: File,
    /// Bytes of whole lines in the file.
    length: u64,
    /// Lines that are not in it yet.
    pending: Vec<u8>,
    /// Whether something was written that is not durable.
    dirty: bool,
}

impl Appender {
    fn open(path: PathBuf) -> Result<Self, SeriesError> {
        let file = open_file(&path).map_err(|error| SeriesError::io(&path, error))?;
        let length = file.metadata().map_err(|error| SeriesError::io(&path, error))?.len();
        Ok(Self { path, file, length, pending: Vec::new(), dirty: false })
    }

    /// Reads all good lines, and cuts off what follows the last one.
    fn recover<F: Format>(&mut self, mut each: impl FnMut(F::Item)) -> Result<Damage, SeriesError> {
        let mut items = Items::<F>::open(&self.path, self.length)?;
        for item in items.by_ref() {
            each(item?);
        }
        let (damage, end) = (items.damage(), items.good_end());
        // Nothing of it is good: it may be something else, which is not for us to destroy.
        if end == 0 && damage.lines > 0 {
            return Err(SeriesError::Format { path: self.path.clone() });
        }
        if end < self.length {
            self.cut(end)?;
        }
        Ok(damage)
    }

    /// Writes the header of a new series.
    fn begin(&mut self) -> Result<(), SeriesError> {
        if self.length > 0 {
            return Ok(());
        }
        self.pending.extend_from_slice(HEADER);
        self.sync()
    }

    fn cut(&mut self, end: u64) -> Result<(), SeriesError> {
        let failed = |error| SeriesError::io(&self.path, error);
        self.file.set_len(end).map_err(failed)?;
        self.length = end;
        self.dirty = true;
        Ok(())
    }

    /// Sees to it that another line may wait; writes when `batch` bytes wait.
    fn make_room(&mut self, batch: usize) -> Result<(), SeriesError> {
        let waiting = u64::try_from(self.pending.len()).unwrap_or(u64::MAX);
        if self.length.saturating_add(waiting) >= MAX_SERIES_BYTES {
            return Err(SeriesError::Full { path: self.path.clone() });
        }
        if self.pending.len() < batch {
            return Ok(());
        }
        // A disk that takes nothing now may do so later.
        self.write().or_else(|error| if self.pending.len() < MAX_PENDING_BYTES { Ok(()) } else { Err(error) })
    }

    /// Writes what waits; after a failure all of it still waits, and none of it is in the file.
    fn write(&mut self) -> Result<(), SeriesError> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let result =
            self.file.seek(SeekFrom::Start(self.length)).and_then(|_| self.file.write_all(&self.pending));
        self.dirty = true;
        if let Err(error) = result {
            if let Err(error) = self.file.set_len(self.length) {
                tracing::warn!(path = %self.path.display(), %error, "half of a line cannot be cut off");
            }
            return Err(SeriesError::io(&self.path, error));
        }
        self.length += u64::try_from(self.pending.len()).unwrap_or(0);
        self.pending.clear();
        Ok(())
    }

    fn sync(&mut self) -> Result<(), SeriesError> {
        self.write()?;
        if self.dirty {
            self.file.sync_data().map_err(|error| SeriesError::io(&self.path, error))?;
            self.dirty = false;
        }
        Ok(())
    }
}

/// Opens a file to read and write, or makes it; refuses to follow a symbolic link that somebody put in its place.
fn open_file(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    let no_follow = i32::try_from(rustix::fs::OFlags::NOFOLLOW.bits()).unwrap_or(0);
    File::options().read(true).write(true).create(true).truncate(false).custom_flags(no_follow).open(path)
}
