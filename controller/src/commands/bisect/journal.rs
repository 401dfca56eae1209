//! The journal of a search: `bisects/ID.jsonl` in the results folder. Its first line says what is searched, each further one that a
//! try begins or what it showed; a line is on the disk before what it says is acted upon.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
};

use drover_bisect::Outcome;
use drover_model::RunId;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{
    judge::Condition,
    target::{Candidate, Target},
};

/// What is searched, and how each try is made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Search {
    pub version: u32,
    pub matrix: PathBuf,
    /// Hash of the matrix file: another file would be another search.
    pub hash: String,
    pub set: Vec<String>,
    pub target: Target,
    pub bad: Condition,
    pub ends: u32,
    pub most: u32,
    pub hosts: Option<PathBuf>,
}

/// The version of the journal that this program writes and reads.
pub const VERSION: u32 = 1;

/// One try.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Try {
    pub run: RunId,
    pub candidate: Candidate,
    /// What it showed; `None` if it has not ended.
    pub outcome: Option<Outcome>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Line {
    Search(Search),
    Begun { run: RunId, candidate: Candidate },
    Ended { run: RunId, outcome: Shown, why: String },
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Shown {
    Good,
    Bad,
    Skipped,
}

/// Why a journal cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The system refused.
    #[error("the journal {} cannot be used", path.display())]
    Io { path: PathBuf, source: io::Error },
    /// It is not one, or of another version.
    #[error("{} line {line} is no journal of a search that this version can read", path.display())]
    Foreign { path: PathBuf, line: usize },
    /// There is none.
    #[error("there is no search `{wanted}` in {}; `drover bisect MATRIX --axis AXIS` begins one", folder.display())]
    NotFound { wanted: String, folder: PathBuf },
}

/// An open journal.
#[derive(Debug)]
pub struct Journal {
    pub id: String,
    pub search: Search,
    pub tries: Vec<Try>,
    path: PathBuf,
    file: File,
}

fn folder(results: &Path) -> PathBuf {
    results.join("bisects")
}

impl Journal {
    /// Begins a search.
    pub fn create(results: &Path, search: Search) -> Result<Self, JournalError> {
        let folder = folder(results);
        let id = Uuid::now_v7().to_string();
        let path = folder.join(format!("{id}.jsonl"));
        let failed = |source| JournalError::Io { path: path.clone(), source };
        fs::create_dir_all(&folder).map_err(failed)?;
        let file = File::options().append(true).create_new(true).open(&path).map_err(failed)?;
        File::open(&folder).and_then(|folder| folder.sync_all()).map_err(failed)?;
        let mut journal = Self { id, search: search.clone(), tries: Vec::new(), path: path.clone(), file };
        journal.append(&Line::Search(search))?;
        Ok(journal)
    }

    /// Opens the journal whose id begins with `wanted`, or the newest one for `last`.
    pub fn open(results: &Path, wanted: &str) -> Result<Self, JournalError> {
        let folder = folder(results);
        let names = fs::read_dir(&folder).into_iter().flatten().flatten();
        let names = names.filter_map(|entry| entry.file_name().into_string().ok());
        let mut ids: Vec<String> =
            names.filter_map(|name| name.strip_suffix(".jsonl").map(str::to_owned)).collect();
        ids.sort();
        let found = ids.into_iter().rfind(|id| wanted == "last" || id.starts_with(wanted));
        let id = found
            .ok_or_else(|| JournalError::NotFound { wanted: wanted.to_owned(), folder: folder.clone() })?;
        let path = folder.join(format!("{id}.jsonl"));
        let failed = |source| JournalError::Io { path: path.clone(), source };
        let text = fs::read_to_string(&path).map_err(failed)?;
        // A crash may have left half of a line, which nothing was done upon.
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        let (search, tries) =
            read(&text[..whole]).map_err(|line| JournalError::Foreign { path: path.clone(), line })?;
        let file = File::options().append(true).open(&path).map_err(failed)?;
        file.set_len(u64::try_from(whole).unwrap_or(u64::MAX)).map_err(failed)?;
        Ok(Self { id, search, tries, path, file })
    }

    /// Notes that a try begins.
    pub fn begin(&mut self, run: RunId, candidate: Candidate) -> Result<(), JournalError> {
        self.append(&Line::Begun { run, candidate: candidate.clone() })?;
        self.tries.push(Try { run, candidate, outcome: None });
        Ok(())
    }

    /// Notes what the last try showed.
    pub fn end(&mut self, outcome: Outcome, why: &str) -> Result<(), JournalError> {
        let Some(last) = self.tries.last_mut() else { return Ok(()) };
        last.outcome = Some(outcome);
        let shown = match outcome {
            Outcome::Good => Shown::Good,
            Outcome::Bad => Shown::Bad,
            Outcome::Skipped => Shown::Skipped,
        };
        let run = last.run;
        self.append(&Line::Ended { run, outcome: shown, why: why.to_owned() })
    }

    fn append(&mut self, line: &Line) -> Result<(), JournalError> {
        let written = serde_json::to_vec(line).map_err(io::Error::from).and_then(|mut bytes| {
            bytes.push(b'\n');
            self.file.write_all(&bytes)?;
            self.file.sync_data()
        });
        written.map_err(|source| JournalError::Io { path: self.path.clone(), source })
    }
}

/// What is searched and what was tried, or the number of the first line that makes no sense.
fn read(text: &str) -> Result<(Search, Vec<Try>), usize> {
    let mut lines =
        text.lines().enumerate().map(|(place, line)| (place + 1, serde_json::from_str::<Line>(line)));
    let search = match lines.next() {
        Some((_, Ok(Line::Search(search)))) if search.version == VERSION => search,
        _ => return Err(1),
    };
    let mut tries: Vec<Try> = Vec::new();
    for (number, line) in lines {
        match line {
            Ok(Line::Begun { run, candidate }) => tries.push(Try { run, candidate, outcome: None }),
            Ok(Line::Ended { run, outcome, .. }) => {
                let of = tries.iter_mut().find(|known| known.run == run).ok_or(number)?;
                of.outcome = Some(match outcome {
                    Shown::Good => Outcome::Good,
                    Shown::Bad => Outcome::Bad,
                    Shown::Skipped => Outcome::Skipped,
                });
            }
            Ok(Line::Search(_)) | Err(_) => return Err(number),
        }
    }
    Ok((search, tries))
}
