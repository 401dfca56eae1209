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

mod cpus;
mod end;
mod files;
mod kill;
mod life;
mod logwatch;
mod output;
mod prepare;
mod ready;
mod run;
mod start;

use std::sync::Arc;

use drover_model::{EndKind, NotStarted, OutputSummary, TaskEnd, Usage};
use tokio::sync::watch;

pub use files::remove;
pub use output::Outputs;
pub use run::run;

/// What others want of a running task. Each part only ever grows, so that the latest value says everything.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wish {
    /// It should end.
    pub stop: Stop,
    /// Its barrier opened, for this instant of `CLOCK_MONOTONIC` in nanoseconds.
    pub release_at_ns: Option<u64>,
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
}

impl LiveTask {
    /// A task that is about to run, and where it learns what others want of it.
    #[must_use]
    pub fn new(hold: bool, output_limit: u64, outputs: Arc<Outputs>) -> (Self, watch::Receiver<Wish>) {
        let (wish, receiver) = watch::channel(Wish::default());
        (Self { wish, hold, output_limit, outputs }, receiver)
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
    pub fn gate(&self) -> Option<watch::Sender<Wish>> {
        let closed = self.hold && self.wish.borrow().release_at_ns.is_none();
        closed.then(|| self.wish.clone())
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
