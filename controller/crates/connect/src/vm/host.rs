//! A virtual machine as a host: the one that runs, and the one that is wished for.

use std::{
    collections::BTreeMap,
    fs, io,
    path::PathBuf,
    sync::{Arc, Mutex as SyncMutex, MutexGuard, PoisonError},
    time::Duration,
};

use drover_agent::chain;
use drover_model::MissingCause;
use drover_vm::{Accelerator, Expected};
use tempfile::TempDir;
use tokio::{sync::Mutex, time::timeout};

use super::{
    Death, Machine, VmError, VmOptions,
    boot::{Running, boot},
    watch::{LAST_WORDS, Watch},
};
use crate::{ConnectError, Connection};

/// How often a machine is tried to boot whose failure may pass.
const TRIES: u32 = 2;

/// Longest time until the end of a QEMU that has ended is known.
const LAST_NEWS: Duration = Duration::from_secs(5);

/// A virtual machine. Clones are the same one; it is killed with the last of them.
#[derive(Clone, Debug)]
pub struct VmHost(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    options: VmOptions,
    /// Held while it is being made.
    state: Mutex<State>,
    board: SyncMutex<Board>,
}

#[derive(Debug, Default)]
struct State {
    work: Option<TempDir>,
    boots: u32,
    initramfs: BTreeMap<String, PathBuf>,
    running: Option<Running>,
}

/// What others may know of it at any time.
#[derive(Debug, Default)]
struct Board {
    wish: Option<Machine>,
    now: Option<(Now, Watch)>,
    refused: BTreeMap<Machine, (MissingCause, String)>,
    spoilt: bool,
    death: Option<Death>,
}

/// The machine that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Now {
    /// What it was made as.
    pub machine: Machine,
    /// What it must say of itself.
    pub expected: Expected,
    /// What runs its instructions.
    pub accelerator: Accelerator,
}

impl VmHost {
    /// A machine that is not started before it is connected to.
    #[must_use]
    pub fn new(options: VmOptions) -> Self {
        Self(Arc::new(Inner { options, state: Mutex::default(), board: SyncMutex::default() }))
    }

    /// What it is made of.
    #[must_use]
    pub fn options(&self) -> &VmOptions {
        &self.0.options
    }

    /// Says what machine the next connection is to be to, unless that is known to be impossible.
    pub fn wish(&self, machine: Machine) {
        self.board().wish = Some(machine);
    }

    /// The machine that runs, if one does whose kernel has reported no failure: such a one is about to be ended.
    #[must_use]
    pub fn now(&self) -> Option<Now> {
        let (now, watch) = self.board().now.clone()?;
        watch.read();
        watch.failure().is_none().then_some(now)
    }

    /// Why this machine cannot be had, if it was tried, or if that can be told without trying.
    #[must_use]
    pub fn refusal(&self, machine: &Machine) -> Option<(MissingCause, String)> {
        let tried = self.board().refused.get(machine).cloned();
        tried.or_else(|| {
            let error = self.0.options.check(machine).err()?;
            Some((error.missing_cause(), chain(&error)))
        })
    }

    /// Says that the machine that runs is not what it should be: the next connection is to a new one.
    pub fn spoil(&self) {
        let mut board = self.board();
        board.now = None;
        board.spoilt = true;
    }

    /// What became of a machine that ended without being asked to, once.
    #[must_use]
    pub fn take_death(&self) -> Option<Death> {
        self.board().death.take()
    }

    /// Whether the kernel has reported a failure that is not told yet.
    pub async fn has_failed(&self) -> bool {
        let state = self.0.state.lock().await;
        let Some(running) = &state.running else { return false };
        running.watch.read();
        running.is_over()
    }

    fn board(&self) -> MutexGuard<'_, Board> {
        self.0.board.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The machine to be: the one wished for, unless that cannot be had; else the one that runs; else the usual one.
    fn wanted(&self, running: Option<&Running>) -> Machine {
        // The board is let go of, before it is looked at again.
        let wish = self.board().wish.clone();
        let wish = wish.filter(|wish| self.refusal(wish).is_none());
        let present = running.filter(|running| !running.is_over()).map(|running| running.machine.clone());
        wish.or(present).unwrap_or_else(|| self.0.options.usual.clone())
    }

    /// Connects to the machine that is wished for; boots it unless it runs. If it cannot be had, to the one that runs, or
    /// to the usual one.
    ///
    /// # Errors
    /// The usual one cannot be had, either.
    pub(crate) async fn connect(&self) -> Result<Connection, ConnectError> {
        let mut state = self.0.state.lock().await;
        loop {
            let wanted = self.wanted(state.running.as_ref());
            if let Some(connection) = self.reuse(&mut state, &wanted).await {
                return Ok(connection);
            }
            match self.boot(&mut state, &wanted).await {
                Ok(connection) => return Ok(connection),
                Err(error) if wanted == self.0.options.usual => return Err(error.into()),
                Err(error) => {
                    let why = chain(&error);
                    tracing::warn!("{why}");
                    self.board().refused.insert(wanted, (error.missing_cause(), why));
                }
            }
        }
    }

    /// A connection to the machine that runs, if it is the right one and answers. Otherwise it is ended, and its death, if
    /// it was one, noted.
    async fn reuse(&self, state: &mut State, wanted: &Machine) -> Option<Connection> {
        let running = state.running.take()?;
        let spoilt = std::mem::take(&mut self.board().spoilt);
        if spoilt && !running.is_over() {
            return self.end(&running, None).await;
        }
        if !running.is_over() && running.machine == *wanted {
            match running.greet(&self.0.options).await {
                Ok(connection)
                    if Some(&connection.hello.facts.boot_id) == running.expected.boot_id.as_ref() =>
                {
                    state.running = Some(running);
                    return Some(connection);
                }
                Ok(_) => {}
                Err(error) => {
                    tracing::warn!("{}", chain(&error));
                    // Its end may have been the reason, and be noted a little later.
                    let _ = timeout(LAST_NEWS, running.vm.ended()).await;
                }
            }
        } else if !running.is_over() {
            return self.end(&running, None).await;
        }
        if running.is_over() {
            // The watch ends it when all is said.
            let _ = timeout(LAST_WORDS + LAST_NEWS, running.vm.ended()).await;
        }
        let death = Death::of(&running, &self.0.options).await;
        self.end(&running, Some(death)).await
    }

    async fn end(&self, running: &Running, death: Option<Death>) -> Option<Connection> {
        running.vm.kill().await;
        let mut board = self.board();
        board.now = None;
        // The first explains the second.
        if board.death.is_none() {
            board.death = death;
        }
        let _ = fs::remove_dir_all(&running.dir);
        None
    }

    async fn boot(&self, state: &mut State, machine: &Machine) -> Result<Connection, VmError> {
        let mut tries = TRIES;
        loop {
            tries -= 1;
            let dir = self.folder(state)?;
            match boot(&self.0.options, machine, &dir, &mut state.initramfs).await {
                Ok((running, connection)) => {
                    let now = Now {
                        machine: machine.clone(),
                        expected: running.expected.clone(),
                        accelerator: running.vm.accelerator(),
                    };
                    self.board().now = Some((now, running.watch.clone()));
                    state.running = Some(running);
                    return Ok(connection);
                }
                Err(error) if tries > 0 && error.may_pass() => tracing::warn!("{}", chain(&error)),
                Err(error) => return Err(error),
            }
        }
    }

    /// A folder for one boot.
    fn folder(&self, state: &mut State) -> Result<PathBuf, VmError> {
        let fail = |source: io::Error| VmError::Folder { path: std::env::temp_dir(), source };
        let work = match state.work.take() {
            Some(work) => work,
            None => TempDir::with_prefix(format!("drover-vm-{}-", self.0.options.name)).map_err(fail)?,
        };
        state.boots += 1;
        let dir = work.path().join(format!("boot{}", state.boots));
        state.work = Some(work);
        Ok(dir)
    }
}
