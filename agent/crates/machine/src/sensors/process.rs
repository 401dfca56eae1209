//! One process of a task: what its files in `/proc` say.

use std::{
    collections::BTreeMap,
    fmt::Write,
    fs, io,
    path::{Path, PathBuf},
};

use super::{
    file::SensorFile,
    text::{field, unsigned, words},
};

/// What was used up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spent {
    /// In ticks.
    pub(crate) user: u64,
    /// In ticks.
    pub(crate) system: u64,
    pub(crate) major_faults: u64,
}

impl Spent {
    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            user: self.user.saturating_add(other.user),
            system: self.system.saturating_add(other.system),
            major_faults: self.major_faults.saturating_add(other.major_faults),
        }
    }
}

/// The figures of one process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Figures {
    /// One letter, as `ps` shows it.
    pub(crate) state: u8,
    /// Its own.
    pub(crate) own: Spent,
    /// Of children that it waited for.
    pub(crate) waited: Spent,
    pub(crate) threads: u64,
    pub(crate) rss_pages: u64,
    /// When it started; with the pid it names a process for good.
    pub(crate) start: u64,
}

/// Takes `/proc/PID/stat` apart. The name in brackets may itself have brackets and blanks, so what counts is the last one.
pub(crate) fn figures(text: &[u8]) -> Option<Figures> {
    let end = text.iter().rposition(|byte| *byte == b')')?;
    let mut words = words(text.get(end + 1..)?);
    // Numbers of proc_pid_stat(5), less the 3 of the first word here.
    let state = *words.next()?.first()?;
    let major_faults = unsigned(words.nth(12 - 4)?)?;
    let waited_major = unsigned(words.next()?)?;
    let mut ticks = || words.next().and_then(unsigned);
    let (user, system, waited_user, waited_system) = (ticks()?, ticks()?, ticks()?, ticks()?);
    let threads = unsigned(words.nth(20 - 18)?)?;
    let start = unsigned(words.nth(22 - 21)?)?;
    let rss_pages = unsigned(words.nth(24 - 23)?)?;
    Some(Figures {
        state,
        own: Spent { user, system, major_faults },
        waited: Spent { user: waited_user, system: waited_system, major_faults: waited_major },
        threads,
        rss_pages,
        start,
    })
}

/// What costs more to find out, and is read less often.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Dear {
    /// Open files; absent where they are another user's.
    pub(crate) fds: Option<u64>,
    pub(crate) fd_limit: Option<u64>,
    pub(crate) voluntary: Option<u64>,
    pub(crate) involuntary: Option<u64>,
}

/// Reads the files of processes; keeps its memory.
#[derive(Debug)]
pub(crate) struct ProcessReader {
    proc: PathBuf,
    path: String,
}

impl ProcessReader {
    pub(crate) fn new(root: &Path) -> Self {
        Self { proc: root.join("proc"), path: String::new() }
    }

    /// Opens `/proc/PID/stat`. An open file stays that of this process, even when its pid is given to another.
    pub(crate) fn open(&mut self, pid: u32) -> io::Result<SensorFile> {
        SensorFile::open(self.path(pid, "stat"))
    }

    /// Switches from `status`, the limit from `limits`, the number of open files. Linux says the latter as the size of the directory since
    /// 6.2; before, its entries are counted.
    /// A process may change its own limit at any time.
    pub(crate) fn dear(&mut self, pid: u32, buffer: &mut Vec<u8>) -> Dear {
        let mut dear = Dear::default();
        if let Some(text) = self.text(pid, "status", buffer) {
            dear.voluntary = field(text, b"voluntary_ctxt_switches:");
            dear.involuntary = field(text, b"nonvoluntary_ctxt_switches:");
        }
        if let Some(text) = self.text(pid, "limits", buffer) {
            dear.fd_limit = field(text, b"Max open files");
        }
        let dir = self.path(pid, "fd");
        let size = fs::metadata(dir).map(|dir| dir.len()).unwrap_or(0);
        let counted = || fs::read_dir(dir).ok().and_then(|entries| u64::try_from(entries.count()).ok());
        dear.fds = if size > 0 { Some(size) } else { counted() };
        dear
    }

    fn text<'a>(&mut self, pid: u32, file: &str, buffer: &'a mut Vec<u8>) -> Option<&'a [u8]> {
        let file = SensorFile::open(self.path(pid, file)).ok()?;
        file.read(buffer).ok()
    }

    fn path(&mut self, pid: u32, file: &str) -> &Path {
        self.path.clear();
        // Writing to a string does not fail.
        let _ = write!(self.path, "{}/{pid}/{file}", self.proc.display());
        Path::new(&self.path)
    }
}

/// What processes wait for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// State of the process: `S` sleeping, `D` not to be disturbed, and so on.
    pub state: char,
    /// The function of the kernel that it sleeps in; `None` if it runs or the kernel does not tell.
    pub wchan: Option<String>,
    /// How many processes do.
    pub processes: usize,
}

/// What processes are waiting for, the commonest first. For evidence of a hang; samples leave it out, because it is costly and not a number. Processes
/// that are gone are left out.
#[must_use]
pub fn waiting(pids: &[u32]) -> Vec<Waiting> {
    waiting_below(Path::new("/"), pids)
}

fn waiting_below(root: &Path, pids: &[u32]) -> Vec<Waiting> {
    let mut reader = ProcessReader::new(root);
    let mut buffer = Vec::new();
    let mut found: BTreeMap<(char, Option<String>), usize> = BTreeMap::new();
    for pid in pids {
        let file = reader.open(*pid);
        let stat = file.as_ref().ok().and_then(|file| file.read(&mut buffer).ok());
        let Some(figures) = stat.and_then(figures) else { continue };
        let wchan = fs::read_to_string(reader.path(*pid, "wchan")).ok();
        let wchan = wchan.filter(|wchan| !matches!(wchan.trim(), "" | "0"));
        *found.entry((char::from(figures.state), wchan)).or_default() += 1;
    }
    let mut waiting: Vec<Waiting> =
        found.into_iter().map(|((state, wchan), processes)| Waiting { state, wchan, processes }).collect();
    waiting.sort_by_key(|waiting| std::cmp::Reverse(waiting.processes));
    waiting
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &[u8] = b"77 (a) b (c) S 1 77 77 0 -1 4194304 116 5 7 2 30 20 3 1 19 0 4 0 184214 3133440 361 18446744073709551615 1 2\n";

    #[test]
    fn expect_the_right_columns_when_a_name_has_brackets() {
        let figures = figures(STAT).unwrap();
        assert_eq!((figures.state, figures.threads), (b'S', 4));
        assert_eq!(figures.own, Spent { user: 30, system: 20, major_faults: 7 });
        assert_eq!(figures.waited, Spent { user: 3, system: 1, major_faults: 2 });
        assert_eq!((figures.start, figures.rss_pages), (184_214, 361));
    }

    #[test]
    fn expect_nothing_when_the_text_is_cut() {
        let whole = STAT.windows(4).position(|window| window == b" 361").unwrap();
        for length in 0..whole {
            assert_eq!(figures(&STAT[..length]), None, "{length}");
        }
    }

    #[test]
    fn expect_states_and_places_when_processes_wait() {
        let dir = tempfile::tempdir().unwrap();
        for (pid, wchan) in [(77, "fcntl_setlk"), (78, "fcntl_setlk"), (79, "0")] {
            let process = dir.path().join(format!("proc/{pid}"));
            fs::create_dir_all(&process).unwrap();
            fs::write(process.join("stat"), STAT).unwrap();
            fs::write(process.join("wchan"), wchan).unwrap();
        }
        let waiting = waiting_below(dir.path(), &[79, 77, 78, 80]);
        let found: Vec<_> = waiting.iter().map(|w| (w.state, w.wchan.as_deref(), w.processes)).collect();
        assert_eq!(found, [('S', Some("fcntl_setlk"), 2), ('S', None, 1)]);
    }

    #[test]
    fn expect_own_figures_when_this_process_is_read() {
        let mut reader = ProcessReader::new(Path::new("/"));
        let mut buffer = Vec::new();
        let files: Vec<_> = (0..50).map(|_| tempfile::tempfile().unwrap()).collect();
        let dear = reader.dear(std::process::id(), &mut buffer);
        assert!(dear.fds.unwrap() >= 50 && dear.fds <= dear.fd_limit, "{dear:?}");
        assert!(dear.voluntary.is_some() && dear.involuntary.is_some());
        drop(files);
    }
}
