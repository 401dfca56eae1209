//! The life of one task, from the request to its end event. One tokio task per task runs [`run::run`]; everything else
//! here is called by it.
//!
//! ```text
//! prepare ── fails ──────────────────────────────────────────────► NotStarted
//!    │ files staged, ports free, CPUs chosen
//! spawn ──── fails, or runs on the wrong CPUs ───────────────────► NotStarted
//!    │ Started, and Armed if held
//! run ────── probes, output, wishes, deadline ([`life::Life`] decides)
//!    │ Released, Ready
//! end ────── tree proven gone, output drained, ports free again ─► Ended
//! ```
//!
//! A task with rounds goes from spawn to end again and again ([`rounds`]), with a `Round` event each time.

mod cpus;
mod ears;
mod end;
mod files;
mod kill;
mod life;
mod logwatch;
mod output;
mod prepare;
mod progress;
mod ready;
mod rounds;
mod run;
mod stall;
mod start;

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use drover_model::{EndKind, NotStarted, OutputSummary, TaskEnd, Usage};
use drover_supervise::{Census, GateKey};
use tokio::sync::watch;

pub use files::remove;
pub use output::Outputs;
pub use ready::{Target, reach};
pub use run::run;

use crate::{blobs::Pins, clock::monotonic_ns};

/// What others want of a running task. Each part only ever grows, so that the latest value says everything.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wish {
    /// It should end.
    pub stop: Stop,
    /// Its barrier opened, for this instant of `CLOCK_MONOTONIC` in nanoseconds.
    pub release_at_ns: Option<u64>,
    /// When its gate was opened, on the same clock; `None` if it has to open it itself.
    pub opened_ns: Option<u64>,
}

/// How urgently a task should end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stop {
    /// It should not.
    #[default]
    No,
    /// By its stop policy.
    Policy,
    /// At once.
    Kill,
}

/// A running task as the others see it.
#[derive(Debug)]
pub struct LiveTask {
    wish: watch::Sender<Wish>,
    /// Whether it waits for a barrier before it executes its command.
    pub hold: bool,
    /// Bytes kept of each of its outputs.
    pub output_limit: u64,
    /// What it wrote so far.
    pub outputs: Arc<Outputs>,
    key: Arc<OnceLock<GateKey>>,
    census: Arc<Mutex<Option<Census>>>,
    /// Keeps the blobs that it names.
    _pins: Pins,
}

/// Where a running task learns what others want of it, and leaves what they need for that.
#[derive(Debug)]
pub struct Orders {
    /// What others want.
    pub wish: watch::Receiver<Wish>,
    /// The key to its gate, once it waits there.
    pub key: Arc<OnceLock<GateKey>>,
    /// Lists its processes, while it has any.
    pub census: Arc<Mutex<Option<Census>>>,
}

impl Orders {
    /// From now on, this lists the task's processes.
    fn list_by(&self, census: Option<Census>) {
        *self.census.lock().unwrap_or_else(PoisonError::into_inner) = census;
    }
}

impl LiveTask {
    /// A task that is about to run, and where it learns what others want of it.
    #[must_use]
    pub fn new(hold: bool, output_limit: u64, outputs: Arc<Outputs>, pins: Pins) -> (Self, Orders) {
        let (wish, receiver) = watch::channel(Wish::default());
        let key = Arc::new(OnceLock::new());
        let census = Arc::new(Mutex::new(None));
        let orders = Orders { wish: receiver, key: Arc::clone(&key), census: Arc::clone(&census) };
        (Self { wish, hold, output_limit, outputs, key, census, _pins: pins }, orders)
    }

    /// Its processes now; none if it has none, or they cannot be listed.
    #[must_use]
    pub fn processes(&self) -> Vec<u32> {
        let census = self.census.lock().unwrap_or_else(PoisonError::into_inner);
        census.as_ref().and_then(|census| census.processes().ok()).unwrap_or_default()
    }

    /// Asks it to end by its stop policy.
    pub fn stop(&self) {
        self.ask(Stop::Policy);
    }

    /// Asks it to end at once.
    pub fn kill(&self) {
        self.ask(Stop::Kill);
    }

    fn ask(&self, stop: Stop) {
        self.wish.send_if_modified(|wish| {
            let more = stop > wish.stop;
            wish.stop = wish.stop.max(stop);
            more
        });
    }

    /// Its gate, if it is held and not released.
    #[must_use]
    pub fn gate(&self) -> Option<Gate> {
        let closed = self.hold && self.wish.borrow().release_at_ns.is_none();
        closed.then(|| Gate { wish: self.wish.clone(), key: Arc::clone(&self.key) })
    }
}

/// Where a held task waits.
#[derive(Debug)]
pub struct Gate {
    wish: watch::Sender<Wish>,
    key: Arc<OnceLock<GateKey>>,
}

impl Gate {
    /// Opens it, unless the task is to be stopped. Returns when that was, on `CLOCK_MONOTONIC` in nanoseconds; `None` if the
    /// task has to open it itself, because it does not wait there yet.
    #[must_use]
    pub fn open(&self) -> Option<u64> {
        let key = self.key.get().filter(|_| self.wish.borrow().stop == Stop::No)?;
        key.open().ok().map(|()| monotonic_ns())
    }

    /// Tells the task that its barrier opened for the instant `at_ns`, and what [`Self::open`] returned.
    pub fn tell(&self, at_ns: u64, opened_ns: Option<u64>) {
        self.wish.send_modify(|wish| {
            if wish.release_at_ns.is_none() {
                (wish.release_at_ns, wish.opened_ns) = (Some(at_ns), opened_ns);
            }
        });
    }
}

/// The end of a task that an earlier agent was running when it ended.
#[must_use]
pub fn lost() -> TaskEnd {
    without_process(EndKind::AgentLost)
}

/// The end of a task that could not even be spooled.
#[must_use]
pub fn disk_full(detail: String) -> TaskEnd {
    Unstarted { cause: NotStarted::DiskFull, detail }.into()
}

/// The end of a task that has no process.
fn without_process(kind: EndKind) -> TaskEnd {
    TaskEnd {
        kind,
        wall: std::time::Duration::ZERO,
        usage: Usage::default(),
        stdout: OutputSummary::default(),
        stderr: OutputSummary::default(),
        cpus: String::new(),
        leftovers: 0,
        counters: None,
    }
}

/// Why a task has no process.
#[derive(Debug)]
struct Unstarted {
    cause: NotStarted,
    detail: String,
}

impl From<Unstarted> for TaskEnd {
    fn from(unstarted: Unstarted) -> Self {
        without_process(EndKind::NotStarted(unstarted.cause, unstarted.detail))
    }
}
