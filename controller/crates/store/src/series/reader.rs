//! Reads points and marks with bounded memory, and counts what is damaged.

use std::{
    fs::{self, File},
    io::{self, BufRead, BufReader, ErrorKind, Read},
    marker::PhantomData,
    path::{Path, PathBuf},
};

use drover_model::{AttemptId, Name};

use super::{
    Mark, Point, SeriesError,
    line::{self, HEADER, MAX_LINE},
};
use crate::ResultsDir;

const BUFFER: usize = 64 * 1024;
/// How the first line of every version begins.
const FIRST_COLUMN: &[u8] = b"at_unix_us,";

/// Reads what an attempt gave on its way, as much as there is when it is opened.
#[derive(Clone, Debug)]
pub struct SeriesReader {
    series: PathBuf,
    series_bytes: u64,
    timeline: PathBuf,
    timeline_bytes: u64,
}

/// What of a file was not read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Damage {
    /// Lines that are not what was written.
    pub lines: u64,
    /// Bytes behind the last line end: torn by a crash, or being written.
    pub torn_bytes: u64,
}

impl Damage {
    /// Whether there is none.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

impl SeriesReader {
    /// Opens the series of an attempt; `None` if it has neither points nor marks.
    ///
    /// # Errors
    /// A file is there and cannot be read, or does not begin as a series does.
    pub fn open(dir: &ResultsDir, attempt: &AttemptId) -> Result<Option<Self>, SeriesError> {
        let (series, timeline) = (dir.series_path(attempt), dir.timeline_path(attempt));
        let (series_bytes, timeline_bytes) = (length(&series)?, length(&timeline)?);
        if series_bytes.is_none() && timeline_bytes.is_none() {
            return Ok(None);
        }
        let reader = Self {
            series,
            series_bytes: series_bytes.unwrap_or(0),
            timeline,
            timeline_bytes: timeline_bytes.unwrap_or(0),
        };
        check_version(&reader.series, reader.series_bytes)?;
        Ok(Some(reader))
    }

    /// The points in the order in which they were written. Can be asked for again, for another pass.
    ///
    /// # Errors
    /// The file cannot be opened. An item is an error if it cannot be read further.
    pub fn points(&self) -> Result<Points, SeriesError> {
        Items::open(&self.series, self.series_bytes)
    }

    /// The marks in the order in which they were written. Can be asked for again.
    ///
    /// # Errors
    /// The file cannot be opened. An item is an error if it cannot be read further.
    pub fn marks(&self) -> Result<Marks, SeriesError> {
        Items::open(&self.timeline, self.timeline_bytes)
    }
}

/// Bytes of a file; `None` if there is none.
fn length(path: &Path) -> Result<Option<u64>, SeriesError> {
    match fs::metadata(path) {
        Ok(meta) => Ok(Some(meta.len())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(SeriesError::io(path, error)),
    }
}

/// A first line that is damaged is like any other; one that names other columns is of another version.
pub(super) fn check_version(series: &Path, bytes: u64) -> Result<(), SeriesError> {
    if bytes == 0 {
        return Ok(());
    }
    let mut lines = Lines::open(series, bytes)?;
    let first = lines.next_line().map_err(|error| SeriesError::io(series, error))?;
    if first.is_some_and(|line| line.starts_with(FIRST_COLUMN) && !is_header(line)) {
        return Err(SeriesError::Format { path: series.to_owned() });
    }
    Ok(())
}

fn is_header(line: &[u8]) -> bool {
    HEADER.strip_suffix(b"\n") == Some(line)
}

/// How lines of one kind of file are read.
pub trait Format {
    /// What a good line is.
    type Item;
    /// What is remembered from line to line.
    type State: Default + std::fmt::Debug;
    /// Reads a line; `None` if it is damaged.
    fn read(line: &[u8], state: &mut Self::State) -> Option<Self::Item>;
    /// Whether a line belongs to the file and is no item.
    fn is_header(line: &[u8]) -> bool;
}

/// The points of a series.
pub type Points = Items<PointLines>;
/// The marks of a series.
pub type Marks = Items<MarkLines>;

/// Lines of `series.csv`.
#[derive(Debug)]
pub enum PointLines {}

impl Format for PointLines {
    type Item = Point;
    type State = Vec<Name>;

    fn read(line: &[u8], metrics: &mut Vec<Name>) -> Option<Point> {
        line::read_point(line, metrics)
    }

    fn is_header(line: &[u8]) -> bool {
        is_header(line)
    }
}

/// Lines of `timeline.jsonl`.
#[derive(Debug)]
pub enum MarkLines {}

impl Format for MarkLines {
    type Item = Mark;
    type State = ();

    fn read(line: &[u8], (): &mut ()) -> Option<Mark> {
        line::read_mark(line)
    }

    fn is_header(_line: &[u8]) -> bool {
        false
    }
}

/// The good lines of a file.
#[derive(Debug)]
pub struct Items<F: Format> {
    path: PathBuf,
    /// `None` if there is no file, or after an error.
    lines: Option<Lines>,
    state: F::State,
    damage: Damage,
    /// Where the last good line ended.
    good_end: u64,
    kind: PhantomData<F>,
}

impl<F: Format> Items<F> {
    pub(super) fn open(path: &Path, bytes: u64) -> Result<Self, SeriesError> {
        let lines = if bytes == 0 { None } else { Some(Lines::open(path, bytes)?) };
        let (path, state) = (path.to_owned(), F::State::default());
        Ok(Self { path, lines, state, damage: Damage::default(), good_end: 0, kind: PhantomData })
    }

    /// What was not read so far; after the last item, of the whole file.
    #[must_use]
    pub fn damage(&self) -> Damage {
        self.damage
    }

    /// Bytes up to the end of the last good line so far.
    pub(super) fn good_end(&self) -> u64 {
        self.good_end
    }
}

impl<F: Format> Iterator for Items<F> {
    type Item = Result<F::Item, SeriesError>;

    fn next(&mut self) -> Option<Self::Item> {
        let lines = self.lines.as_mut()?;
        loop {
            let read = lines.next_line();
            match read {
                Ok(Some(line)) => {
                    let item = F::read(line, &mut self.state);
                    if item.is_some() || F::is_header(line) {
                        self.good_end = lines.offset;
                    } else {
                        self.damage.lines += 1;
                    }
                    if let Some(item) = item {
                        return Some(Ok(item));
                    }
                }
                Ok(None) => {
                    self.damage.torn_bytes = lines.torn;
                    self.lines = None;
                    return None;
                }
                Err(error) => {
                    self.lines = None;
                    return Some(Err(SeriesError::io(&self.path, error)));
                }
            }
        }
    }
}

/// Whole lines of a file, one at a time.
#[derive(Debug)]
struct Lines {
    file: BufReader<io::Take<File>>,
    line: Vec<u8>,
    /// Bytes up to the end of the last line.
    offset: u64,
    /// Bytes behind it, once the end is reached.
    torn: u64,
}

impl Lines {
    fn open(path: &Path, bytes: u64) -> Result<Self, SeriesError> {
        let file = File::open(path).map_err(|error| SeriesError::io(path, error))?;
        let file = BufReader::with_capacity(BUFFER, file.take(bytes));
        Ok(Self { file, line: Vec::new(), offset: 0, torn: 0 })
    }

    /// The next line without its line end, of one that is too long the beginning; `None` at the end.
    fn next_line(&mut self) -> io::Result<Option<&[u8]>> {
        self.line.clear();
        let mut length: u64 = 0;
        loop {
            let buffer = match self.file.fill_buf() {
                Ok(buffer) => buffer,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            if buffer.is_empty() {
                self.torn = length;
                return Ok(None);
            }
            let end = buffer.iter().position(|byte| *byte == b'\n');
            let used = end.map_or(buffer.len(), |end| end + 1);
            let text = buffer.get(..end.unwrap_or(buffer.len())).unwrap_or_default();
            let room = MAX_LINE.saturating_sub(self.line.len());
            self.line.extend_from_slice(text.get(..room).unwrap_or(text));
            self.file.consume(used);
            length += u64::try_from(used).unwrap_or(0);
            if end.is_some() {
                self.offset += length;
                return Ok(Some(&self.line));
            }
        }
    }
}
