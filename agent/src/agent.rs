//! The agent as its tokio tasks see it: what never changes, the registry under its lock, and the signals by which they
//! wake each other.

use std::{
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use drover_machine::CounterReader;
use drover_model::{AttemptId, CpuCore, HostEventKind, Name, TaskEnd, TaskEventKind, TaskId};
use drover_proto::{Hello, PROTOCOL};
use drover_supervise::{Config, OrphanError, SetupError, Supervisor, clean_env};
use tokio::sync::watch;
use uuid::Uuid;

use crate::{
    blobs::BlobStore,
    boot::{self, BootKeeper},
    clock,
    cpus::{self, CpuKeeper},
    dir::StateDir,
    observe::Observatory,
    own::OwnCommand,
    registry::Registry,
    spool::{Spool, SpoolError},
    text::chain,
};

/// Bytes read from a task's output at once.
const SCRATCH: usize = 64 << 10;

/// The agent. Shared by all of its tokio tasks.
#[derive(Debug)]
pub struct Agent {
    /// Its state directory.
    pub dir: StateDir,
    /// Starts processes.
    pub supervisor: Supervisor,
    /// Reads machine-wide counters; `None` when the kernel does not show them.
    pub counters: Option<CounterReader>,
    /// Its own executable.
    pub own: OwnCommand,
    /// Contents of files that tasks get copies of.
    pub blobs: Arc<BlobStore>,
    /// The host's name in the agent's certificate, if it serves TLS.
    pub host_name: Option<Name>,
    /// The environment that every task starts from.
    pub base_env: Vec<(String, String)>,
    /// Takes CPUs offline and puts them back; locked for as long as that takes.
    pub cpus: Arc<tokio::sync::Mutex<CpuKeeper>>,
    /// Has the host boot a kernel once; locked for as long as it takes to say so.
    pub boot: Arc<tokio::sync::Mutex<BootKeeper>>,
    /// Observes the machine while tasks run.
    pub observatory: Observatory,
    /// Changes at every start.
    id: String,
    registry: Mutex<Registry>,
    cores: Mutex<Vec<CpuCore>>,
    scratch: Mutex<Vec<u8>>,
    /// Changes when there is something new for those who watch events: an event, another lease, the end.
    news: watch::Sender<u64>,
    /// Changes when there is something new for the server: a connection or a task came or went, the end was asked for.
    activity: watch::Sender<u64>,
}

impl Agent {
    /// Takes up the work of the agent before: ends what it left running, reads its spool, puts CPUs back, and sees to
    /// what the host boots next.
    ///
    /// # Errors
    /// When processes cannot be supervised, orphans cannot be ended, or the spool cannot be read.
    pub fn open(dir: StateDir, own: OwnCommand, host_name: Option<Name>) -> Result<Self, OpenError> {
        let name = name_of(dir.paths.root());
        let supervisor = Supervisor::new(Config::new(name, dir.paths.root().to_owned()))?;
        for drawback in supervisor.drawbacks() {
            tracing::info!(drawback, containment = supervisor.containment().as_str(), "containment");
        }
        for orphans in supervisor.reap_orphans()? {
            tracing::warn!(task = orphans.task, pids = ?orphans.pids, "killed what an earlier agent left behind");
        }
        if clock::lab_offset_ms() != 0 {
            tracing::warn!(ms = clock::lab_offset_ms(), "the UTC clock is wrong, as a test lab wants it");
        }
        let counters = CounterReader::open();
        if let Err(error) = &counters {
            tracing::warn!(error = %chain(error), "there are no machine-wide counters");
        }
        let mut registry = Registry::new(Spool::open(&dir.paths.spool())?);
        let mut cpus = CpuKeeper::new(cpus::root(), dir.paths.cpus());
        if let Err(error) = cpus.take_up() {
            registry.quarantine(chain(&error));
        }
        let mut boot = BootKeeper::new(boot::root(), dir.paths.boot());
        if let Err(error) = boot.take_up() {
            registry.quarantine(chain(&error));
        }
        let agent = Self {
            supervisor,
            counters: counters.ok(),
            own,
            blobs: Arc::new(BlobStore::open(dir.paths.blobs())),
            host_name,
            base_env: clean_env(),
            cpus: Arc::new(tokio::sync::Mutex::new(cpus)),
            boot: Arc::new(tokio::sync::Mutex::new(boot)),
            observatory: Observatory::default(),
            id: Uuid::now_v7().to_string(),
            registry: Mutex::new(registry),
            cores: Mutex::default(),
            scratch: Mutex::new(vec![0; SCRATCH]),
            news: watch::Sender::new(0),
            activity: watch::Sender::new(0),
            dir,
        };
        agent.remove_unknown();
        Ok(agent)
    }

    /// Removes attempt folders and outputs that no record of the spool knows of.
    fn remove_unknown(&self) {
        let known: Vec<String> = self.registry().attempts().map(ToString::to_string).collect();
        let belongs = |name: &str| known.iter().any(|id| name == id || name.starts_with(&format!("{id}.")));
        for dir in [self.dir.paths.work(), self.dir.paths.outputs(), self.dir.paths.observed()] {
            let entries = std::fs::read_dir(&dir).into_iter().flatten().flatten();
            for entry in entries.filter(|entry| !entry.file_name().to_str().is_some_and(belongs)) {
                crate::task::remove(&entry.path());
            }
        }
    }

    /// The registry, locked. Not to be held across an `.await`.
    pub fn registry(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A buffer for reading output, locked. Not to be held across an `.await`.
    pub fn scratch(&self) -> MutexGuard<'_, Vec<u8>> {
        self.scratch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Who the agent is. Reads the host's facts anew.
    #[must_use]
    pub fn hello(&self) -> Hello {
        let containment = self.supervisor.containment();
        let facts = drover_machine::agent_facts(
            containment.as_str(),
            containment.cgroup_version(),
            self.dir.paths.root(),
        );
        self.cores.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&facts.cpus);
        Hello {
            protocol: PROTOCOL,
            agent_version: env!("CARGO_PKG_VERSION").to_owned(),
            facts,
            lease: self.registry().holder().cloned(),
            work_dir: self.dir.paths.work().display().to_string(),
            agent_id: self.id.clone(),
            host_name: self.host_name.clone(),
        }
    }

    /// The online CPUs, as of the last hello or change of them.
    #[must_use]
    pub fn cores(&self) -> Vec<CpuCore> {
        let known = self.cores.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if known.is_empty() { self.hello().facts.cpus } else { known }
    }

    /// Records what happened to a running task, and tells the watchers.
    pub fn record(&self, id: &TaskId, kind: TaskEventKind) {
        self.registry().record(id, kind);
        self.tell_watchers();
    }

    /// Records what was observed of the host for an attempt, and tells the watchers.
    pub fn record_host(&self, attempt: AttemptId, kind: HostEventKind) {
        self.registry().record_host(attempt, kind);
        self.tell_watchers();
    }

    /// Records the end of a running task, and tells the watchers.
    pub fn finish(&self, id: &TaskId, end: TaskEnd) {
        self.observatory.task_ends(self, id.attempt);
        self.registry().finish(id, end);
        self.observatory.task_ended(self, id.attempt);
        self.tell_watchers();
        self.tell_server();
    }

    /// Wakes those who watch events.
    pub fn tell_watchers(&self) {
        self.news.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// Wakes the server.
    pub fn tell_server(&self) {
        self.activity.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// Changes when there is something new for watchers.
    #[must_use]
    pub fn news(&self) -> watch::Receiver<u64> {
        self.news.subscribe()
    }

    /// Changes when there is something new for the server.
    #[must_use]
    pub fn activity(&self) -> watch::Receiver<u64> {
        self.activity.subscribe()
    }

    /// Refuses anything new from now on and lets the server end; `kill` also ends all tasks.
    pub fn end(&self, kill: bool) {
        let mut registry = self.registry();
        registry.end();
        if kill {
            registry.all_live().for_each(|(_, live)| live.kill());
        }
        drop(registry);
        self.tell_watchers();
        self.tell_server();
    }
}

/// Tells the agents of different state directories apart; the same for every agent of the same directory.
fn name_of(root: &Path) -> String {
    let hash = blake3::hash(root.as_os_str().as_encoded_bytes());
    hash.to_hex().chars().take(16).collect()
}

/// Why an agent cannot take up its work.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Processes cannot be supervised here.
    #[error("cannot supervise processes")]
    Setup(#[from] SetupError),
    /// What an earlier agent left cannot be ended.
    #[error("cannot clean up after an earlier agent")]
    Orphans(#[from] OrphanError),
    /// The spool cannot be read.
    #[error(transparent)]
    Spool(#[from] SpoolError),
}
