//! What a run has done to the machines that it can boot: a line of JSON in `boots.jsonl` of the run's folder for each step, on disk
//! before the step is taken. A later controller of the run reads how often each host was booted, what it was before the run, and
//! whether it is that again. A line that was torn by a crash was never acted upon, and is passed over.

use std::{
    collections::BTreeMap,
    fs::{File, OpenOptions},
    io::{self, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use drover_matrix::HostFile;
use drover_model::{AttemptId, HostFacts, Name};
use drover_sched::BootPolicy;
use serde::{Deserialize, Serialize};

/// Name of the file.
const FILE: &str = "boots.jsonl";

/// Which boot is wanted of a host. Nothing at all stands for what the host was before the run.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Wanted {
    /// Label of the kernel in the host file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// CPUs that words on its command line limit it to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<u32>,
}

/// One boot that was asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// What for; `None` to have the host be what it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt: Option<AttemptId>,
    /// As what.
    #[serde(flatten)]
    pub wanted: Wanted,
    /// The nonce on its command line, where the boot loader takes one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nonce: Option<String>,
    /// The boot that it ends.
    pub leaves: String,
    /// Milliseconds since the Unix epoch, UTC.
    pub at_unix_ms: u64,
}

/// What a kernel says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Golden {
    /// `uname -r`.
    pub release: String,
    /// `uname -v`.
    pub version: String,
    /// The GNU build id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub build_id: Option<String>,
    /// CPUs that were online.
    pub cpus: u32,
}

impl Golden {
    /// What runs.
    pub fn of(facts: &HostFacts) -> Self {
        Self {
            release: facts.kernel_release.clone(),
            version: facts.kernel_version.clone(),
            build_id: facts.kernel_build_id.clone(),
            cpus: u32::try_from(facts.cpus.len()).unwrap_or(u32::MAX),
        }
    }

    /// Whether the same kernel runs.
    pub fn runs(&self, facts: &HostFacts) -> bool {
        let same_build = match (&self.build_id, &facts.kernel_build_id) {
            (Some(before), Some(now)) => before == now,
            _ => true,
        };
        self.release == facts.kernel_release && self.version == facts.kernel_version && same_build
    }
}

/// A step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "step")]
enum Step {
    /// This ran when the run had the host for the first time.
    Found(Golden),
    /// It is going to be told to boot.
    Boots(Asked),
    /// It was not, or said no.
    Stays,
    /// It is on another boot.
    Up { boot_id: String },
    /// It is what it was.
    Restored,
}

#[derive(Debug, Serialize, Deserialize)]
struct Line {
    host: Name,
    #[serde(flatten)]
    step: Step,
}

/// Where one host stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// What ran before the run; `None` as long as the run never had the host.
    pub golden: Option<Golden>,
    /// Boots for the sake of cells.
    pub times: u32,
    /// The last boot that was asked for.
    pub last: Option<Asked>,
    /// The boot that came of it, once it was seen.
    pub up: Option<String>,
    /// It may be another machine than before the run.
    pub astray: bool,
}

impl Standing {
    fn take(&mut self, step: Step) {
        match step {
            Step::Found(golden) => self.golden = Some(golden),
            Step::Boots(asked) => {
                self.times += u32::from(asked.attempt.is_some());
                self.astray = true;
                (self.last, self.up) = (Some(asked), None);
            }
            Step::Stays => self.last = None,
            Step::Up { boot_id } => self.up = Some(boot_id),
            Step::Restored => self.astray = false,
        }
    }

    /// The boot that it was told to leave, and was not seen to have left.
    pub fn leaves(&self) -> Option<&str> {
        self.last.as_ref().filter(|_| self.up.is_none()).map(|asked| asked.leaves.as_str())
    }
}

/// The steps of a run.
pub struct Ledger {
    path: PathBuf,
    file: Pen,
    hosts: BTreeMap<Name, Standing>,
}

/// Writes steps down. Clones write to the same file, which is made with the first step.
#[derive(Clone)]
pub struct Pen(Arc<Mutex<(PathBuf, Option<File>)>>);

impl Ledger {
    /// What former controllers of the run have written into its folder.
    ///
    /// # Errors
    /// The file is there and cannot be read.
    pub fn open(run_folder: &Path) -> io::Result<Self> {
        let path = run_folder.join(FILE);
        let text = match std::fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error),
        };
        let mut hosts: BTreeMap<Name, Standing> = BTreeMap::new();
        for line in text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            match serde_json::from_slice::<Line>(line) {
                Ok(Line { host, step }) => hosts.entry(host).or_default().take(step),
                Err(error) => tracing::warn!("a line of {} is passed over: {error}", path.display()),
            }
        }
        Ok(Self { file: Pen(Arc::new(Mutex::new((path.clone(), None)))), path, hosts })
    }

    /// Where a host stands.
    pub fn of(&self, host: &Name) -> Standing {
        self.hosts.get(host).cloned().unwrap_or_default()
    }

    /// Hosts that may be other machines than before the run.
    pub fn astray(&self) -> impl Iterator<Item = &Name> {
        self.hosts.iter().filter(|(_, standing)| standing.astray).map(|(host, _)| host)
    }

    /// What writes a boot down, from wherever it is ordered; [`Ledger::asked`] is told afterwards.
    pub fn pen(&self) -> Pen {
        self.file.clone()
    }

    /// A boot was written down, and asked for.
    pub fn asked(&mut self, host: &Name, asked: Asked) {
        self.hosts.entry(host.clone()).or_default().take(Step::Boots(asked));
    }

    /// It was asked for in vain.
    pub fn stays(&mut self, host: &Name) {
        self.hosts.entry(host.clone()).or_default().take(Step::Stays);
    }

    /// The run has a host for the first time.
    pub fn found(&mut self, host: &Name, facts: &HostFacts) {
        if self.of(host).golden.is_none() {
            self.note(host, Step::Found(Golden::of(facts)));
        }
    }

    /// A host answers. Takes note if it was told to boot, and has.
    pub fn answers(&mut self, host: &Name, boot_id: &str) {
        if self.of(host).leaves().is_some_and(|leaves| leaves != boot_id) {
            self.note(host, Step::Up { boot_id: boot_id.to_owned() });
        }
    }

    /// The power of a host was cycled. Without a nonce, the boot that came of that could not be told from the one that was asked for.
    pub fn cycled(&mut self, host: &Name) {
        let standing = self.of(host);
        if standing.leaves().is_some() && standing.last.is_some_and(|asked| asked.nonce.is_none()) {
            self.note(host, Step::Stays);
        }
    }

    /// A host is what it was.
    pub fn restored(&mut self, host: &Name) {
        if self.of(host).astray {
            self.note(host, Step::Restored);
        }
    }

    /// Without these lines a later controller knows less, and is careful: it boots a host that may be right.
    fn note(&mut self, host: &Name, step: Step) {
        if let Err(error) = self.file.write(host, step.clone()) {
            tracing::warn!("what was found of {host} is not kept in {}: {error}", self.path.display());
        }
        self.hosts.entry(host.clone()).or_default().take(step);
    }
}

impl Pen {
    /// Writes down that a host is going to be told to boot. It is on disk when this returns.
    ///
    /// # Errors
    /// It is not.
    pub fn boots(&self, host: &Name, asked: Asked) -> io::Result<()> {
        self.write(host, Step::Boots(asked))
    }

    /// Writes down that it said no.
    ///
    /// # Errors
    /// It is not on disk.
    pub fn stays(&self, host: &Name) -> io::Result<()> {
        self.write(host, Step::Stays)
    }

    fn write(&self, host: &Name, step: Step) -> io::Result<()> {
        let mut text = serde_json::to_vec(&Line { host: host.clone(), step })?;
        text.push(b'\n');
        let mut place = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (path, file) = &mut *place;
        let file = match file {
            Some(file) => file,
            None => file.insert(open_to_append(path)?),
        };
        file.write_all(&text)?;
        file.sync_data()
    }
}

/// Opens the file behind its last whole line.
fn open_to_append(path: &Path) -> io::Result<File> {
    let is_new = !path.exists();
    let mut file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
    if file.seek(SeekFrom::End(0))? > 0 {
        file.seek(SeekFrom::End(-1))?;
        let mut last = [0];
        file.read_exact(&mut last)?;
        if last != *b"\n" {
            file.write_all(b"\n")?;
        }
    }
    if is_new && let Some(folder) = path.parent() {
        File::open(folder)?.sync_all()?;
    }
    Ok(file)
}

/// What holds for hosts that can be booted, by their place in the file.
pub fn boot_policies(hosts: &HostFile, ledger: &Ledger) -> BTreeMap<usize, BootPolicy> {
    let hosts = hosts.hosts.iter().enumerate();
    let policy = |(place, host): (usize, &drover_matrix::HostEntry)| {
        let standing = ledger.of(&host.name);
        let leaves = standing.leaves().map(str::to_owned);
        Some((place, BootPolicy { within: host.boot.as_ref()?.within, astray: standing.astray, leaves }))
    };
    hosts.filter_map(policy).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        text.parse().unwrap()
    }

    fn asked(kernel: Option<&str>, leaves: &str) -> Asked {
        let attempt = kernel.map(|_| "00000000-0000-0000-0000-000000000001.c0r1a1".parse().unwrap());
        let wanted = Wanted { kernel: kernel.map(str::to_owned), cpus: None };
        Asked { attempt, wanted, nonce: Some("n".into()), leaves: leaves.into(), at_unix_ms: 1 }
    }

    #[test]
    fn expect_the_same_standing_when_another_controller_reads_what_was_written() {
        let dir = tempfile::tempdir().unwrap();
        let (a, b) = (name("a"), name("b"));
        let facts = HostFacts { kernel_release: "6.1".into(), boot_id: "1".into(), ..HostFacts::default() };
        let mut ledger = Ledger::open(dir.path()).unwrap();
        ledger.found(&a, &facts);
        ledger.found(&a, &HostFacts { kernel_release: "7".into(), ..facts.clone() });
        ledger.pen().boots(&a, asked(Some("6.12"), "1")).unwrap();
        ledger.asked(&a, asked(Some("6.12"), "1"));
        let read = Ledger::open(dir.path()).unwrap();
        assert_eq!(read.of(&a), ledger.of(&a));
        assert_eq!(read.of(&a).leaves(), Some("1"), "it may be going down");
        assert_eq!((read.of(&a).times, read.of(&a).astray), (1, true));
        assert_eq!(read.of(&a).golden.unwrap().release, "6.1");
        assert_eq!(read.of(&b), Standing::default());

        ledger.answers(&a, "1");
        assert_eq!(ledger.of(&a).up, None);
        ledger.answers(&a, "2");
        ledger.answers(&a, "3");
        assert_eq!(ledger.of(&a).up.as_deref(), Some("2"), "the third boot was not asked for");
        ledger.pen().boots(&a, asked(None, "2")).unwrap();
        ledger.asked(&a, asked(None, "2"));
        ledger.answers(&a, "4");
        ledger.restored(&a);
        let read = Ledger::open(dir.path()).unwrap();
        assert_eq!(read.of(&a), ledger.of(&a));
        assert_eq!((read.of(&a).times, read.of(&a).astray), (1, false), "that one was not for a cell");
        assert_eq!(read.astray().count(), 0);
    }

    #[test]
    fn expect_a_torn_line_passed_over_and_the_next_one_read() {
        let dir = tempfile::tempdir().unwrap();
        let a = name("a");
        let ledger = Ledger::open(dir.path()).unwrap();
        ledger.pen().boots(&a, asked(Some("6.1"), "1")).unwrap();
        let mut file = OpenOptions::new().append(true).open(dir.path().join(FILE)).unwrap();
        file.write_all(b"{\"host\":\"a\",\"st").unwrap();
        let mut ledger = Ledger::open(dir.path()).unwrap();
        assert_eq!(ledger.of(&a).times, 1);
        ledger.pen().stays(&a).unwrap();
        ledger.stays(&a);
        let read = Ledger::open(dir.path()).unwrap();
        assert_eq!(read.of(&a), ledger.of(&a));
        assert_eq!((read.of(&a).last, read.of(&a).astray), (None, true));
    }
}
