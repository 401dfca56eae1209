//! A running task: its first process and everything that descends from it. Made by [`crate::Supervisor::spawn`], driven by the agent.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use rustix::event::{PollFd, PollFlags};

use crate::{
    Affinity, Exit, InspectError, KillError, KillReport, SpawnError,
    contain::{Group, Slot, Tree, destroy, wait_for},
    launch, proc,
    registry::REGISTRY,
    supervisor::Shared,
    sys::{self, Ended},
};

/// A running task. Dropping it kills the whole tree (without proof; call [`Self::kill_tree`] for that).
#[derive(Debug)]
pub struct Child {
    pub(crate) shared: Arc<Shared>,
    pub(crate) pid: u32,
    pub(crate) pidfd: OwnedFd,
    pub(crate) gate: Option<Gate>,
    /// `None` once the tree is proven gone.
    pub(crate) scope: Option<Scope>,
    pub(crate) exit: Option<Exit>,
    /// Peak memory of this process when the child was made, in bytes.
    pub(crate) rss_floor: u64,
}

/// What keeps the tree of a task together.
#[derive(Debug)]
pub(crate) enum Scope {
    Cgroup(Slot),
    Group(Group),
}

/// Where a held task waits, and what is needed to explain that its program could not be executed.
#[derive(Debug)]
pub(crate) struct Gate {
    pub(crate) key: GateKey,
    pub(crate) command: String,
    pub(crate) program: PathBuf,
    pub(crate) cwd: PathBuf,
}

/// Opens the gate of a held task from any thread. It does not matter what has become of the task meanwhile.
#[derive(Clone, Debug)]
pub struct GateKey(Arc<Lock>);

#[derive(Debug)]
struct Lock {
    socket: OwnedFd,
    open: AtomicBool,
}

impl GateKey {
    pub(crate) fn new(socket: OwnedFd) -> Self {
        Self(Arc::new(Lock { socket, open: AtomicBool::new(false) }))
    }

    /// As [`Child::release`].
    ///
    /// # Errors
    ///
    /// When the held process is gone.
    pub fn open(&self) -> Result<(), SpawnError> {
        if self.0.open.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        sys::open_gate(self.0.socket.as_fd()).map_err(|_| {
            self.0.open.store(false, Ordering::Release);
            SpawnError::NeverReleased
        })
    }

    /// Whether the gate was opened, by this key or another one.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.0.open.load(Ordering::Acquire)
    }
}

impl Child {
    /// Process id of the first process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Readable when the first process has ended; for the agent's event loop.
    #[must_use]
    pub fn pidfd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }

    /// Opens the gate of a held task. Only writes one byte, so that many tasks can be released at one instant; does
    /// nothing for a task that was not held or is already released.
    ///
    /// # Errors
    ///
    /// When the held process is gone.
    pub fn release(&mut self) -> Result<(), SpawnError> {
        self.gate.as_ref().map_or(Ok(()), |gate| gate.key.open())
    }

    /// The key to the gate of a held task, for a thread that opens it at the right instant.
    #[must_use]
    pub fn key(&self) -> Option<GateKey> {
        self.gate.as_ref().map(|gate| gate.key.clone())
    }

    /// Waits until a released task has executed its command (some 0.3 ms), or says why it could not; the process has
    /// ended then. For a task that was not held [`crate::Supervisor::spawn`] has said so already.
    ///
    /// # Errors
    ///
    /// Those of `spawn` that concern the command.
    pub fn await_exec(&mut self) -> Result<(), SpawnError> {
        match self.gate.take() {
            Some(gate) if gate.key.is_open() => match sys::exec_failure(gate.key.0.socket.as_fd()) {
                None => Ok(()),
                Some(failure) => Err(launch::failure(failure, &gate.command, &gate.program, &gate.cwd, None)),
            },
            Some(gate) => {
                self.gate = Some(gate);
                Err(SpawnError::NeverReleased)
            }
            None => Ok(()),
        }
    }

    /// Status and usage of the first process, if it has ended. Never blocks; the answer is kept.
    ///
    /// # Errors
    ///
    /// When the status was taken by someone else.
    pub fn try_wait(&mut self) -> Result<Option<Exit>, InspectError> {
        if self.exit.is_none() {
            // The lock keeps the number from being taken for that of a stray between its release by the kernel and by us.
            let mut known = REGISTRY.lock();
            let ended = sys::reap(self.pid)
                .map_err(|source| InspectError { step: "wait for its first process", source })?;
            if let Some(Ended { status, mut usage }) = ended {
                known.remove(self.pid);
                if usage.max_rss_bytes <= self.rss_floor {
                    usage.max_rss_bytes = 0;
                }
                self.exit = Some(Exit { status, usage });
            }
        }
        Ok(self.exit)
    }

    /// Sends a signal to the first process. One that has ended gets nothing, and that is no error.
    ///
    /// # Errors
    ///
    /// An unknown signal number, or a process of another user.
    pub fn signal(&self, signal: i32) -> Result<(), InspectError> {
        match sys::send_signal(self.pidfd.as_fd(), signal) {
            Err(source) if !proc::is_gone(&source) => Err(InspectError { step: "send it a signal", source }),
            _ => Ok(()),
        }
    }

    /// Whether the first process and all that descend from it are gone. Cheap: one or two system calls in a cgroup.
    ///
    /// # Errors
    ///
    /// When the containment cannot be read.
    pub fn is_gone(&self) -> Result<bool, InspectError> {
        let inspect = |source| InspectError { step: "ask whether it is empty", source };
        Ok(match &self.scope {
            None => true,
            Some(_) if !self.has_ended().map_err(inspect)? => false,
            Some(Scope::Cgroup(slot)) => slot.is_empty().map_err(inspect)?,
            Some(Scope::Group(group)) => {
                group.has_no_heirs() || group.processes().map_err(inspect)?.is_empty()
            }
        })
    }

    fn has_ended(&self) -> io::Result<bool> {
        if self.exit.is_some() {
            return Ok(true);
        }
        let mut ready = [PollFd::new(&self.pidfd, PollFlags::IN)];
        wait_for(&mut ready, Duration::ZERO)?;
        Ok(ready.iter().any(|fd| !fd.revents().is_empty()))
    }

    /// Kills the whole tree, descendants that left the session included, and returns when it is proven gone. Takes
    /// microseconds if nothing is left, below 10 ms as a rule, [`crate::Config::kill_wait`] at most; afterwards
    /// [`Self::try_wait`] has the status.
    ///
    /// # Errors
    ///
    /// Names the processes that the kernel does not let go.
    pub fn kill_tree(&mut self) -> Result<KillReport, KillError> {
        let patience = self.shared.kill_wait;
        let killed = match &self.scope {
            None => return Ok(KillReport::default()),
            Some(_) if self.is_gone().unwrap_or(false) => Vec::new(),
            Some(Scope::Cgroup(slot)) => destroy(slot, patience)?,
            Some(Scope::Group(group)) => destroy(group, patience)?,
        };
        self.reap_first(patience)?;
        if let Some(Scope::Cgroup(slot)) = self.scope.take() {
            self.shared.give_back(slot);
        }
        if !killed.is_empty() {
            self.shared.reap_strays();
        }
        Ok(KillReport { killed: u32::try_from(killed.len()).unwrap_or(u32::MAX) })
    }

    /// The first process may leave its cgroup an instant before its status is there.
    fn reap_first(&mut self, patience: Duration) -> Result<(), KillError> {
        let system = |source| KillError::System { step: "wait for its first process", source };
        if self.exit.is_none() {
            wait_for(&mut [PollFd::new(&self.pidfd, PollFlags::IN)], patience).map_err(system)?;
            self.try_wait().map_err(|error| system(error.source))?;
        }
        Ok(())
    }

    /// The processes of the tree that are alive, in no particular order.
    ///
    /// # Errors
    ///
    /// When the containment cannot be read.
    pub fn processes(&self) -> Result<Vec<u32>, InspectError> {
        processes(self.scope.as_ref())
    }

    /// Lists the processes of the tree from other threads, for as long as the child is not dropped.
    ///
    /// # Errors
    ///
    /// When there are no descriptors left.
    pub fn census(&self) -> Result<Census, InspectError> {
        let inspect = |source| InspectError { step: "open its containment", source };
        let scope = match &self.scope {
            None => None,
            Some(Scope::Cgroup(slot)) => Some(Scope::Cgroup(slot.view().map_err(inspect)?)),
            Some(Scope::Group(group)) => Some(Scope::Group(group.clone())),
        };
        Ok(Census(scope))
    }

    /// CPUs that all threads of the tree may use, read back from the kernel.
    ///
    /// # Errors
    ///
    /// When the containment or a mask cannot be read.
    pub fn affinity(&self) -> Result<Affinity, InspectError> {
        let inspect = |source| InspectError { step: "read the CPUs of its threads", source };
        let mut affinity = Affinity::default();
        for thread in self.threads().map_err(inspect)? {
            match sys::affinity_of(thread) {
                Ok(mask) => {
                    if !affinity.masks.iter().any(|(_, seen)| *seen == mask) {
                        affinity.union = affinity.union.union(&mask);
                        affinity.masks.push((thread, mask));
                    }
                }
                Err(error) if proc::is_gone(&error) => {}
                Err(error) => return Err(inspect(error)),
            }
        }
        Ok(affinity)
    }

    fn threads(&self) -> io::Result<Vec<u32>> {
        match &self.scope {
            None => Ok(Vec::new()),
            Some(Scope::Cgroup(slot)) => slot.threads(),
            Some(Scope::Group(group)) => {
                let mut threads = Vec::new();
                for pid in group.processes()? {
                    match proc::threads_of(pid) {
                        Ok(found) => threads.extend(found),
                        Err(error) if proc::is_gone(&error) => {}
                        Err(error) => return Err(error),
                    }
                }
                Ok(threads)
            }
        }
    }
}

/// Lists the processes of a task. Once the task is over its containment serves another one, so whoever keeps this has to know
/// that the task still runs.
#[derive(Debug)]
pub struct Census(Option<Scope>);

impl Census {
    /// As [`Child::processes`].
    ///
    /// # Errors
    ///
    /// When the containment cannot be read.
    pub fn processes(&self) -> Result<Vec<u32>, InspectError> {
        processes(self.0.as_ref())
    }
}

fn processes(scope: Option<&Scope>) -> Result<Vec<u32>, InspectError> {
    let processes = match scope {
        None => Ok(Vec::new()),
        Some(Scope::Cgroup(slot)) => slot.processes(),
        Some(Scope::Group(group)) => group.processes(),
    };
    processes.map_err(|source| InspectError { step: "list its processes", source })
}

impl Drop for Child {
    fn drop(&mut self) {
        // Killing a cgroup spends it: one that is empty anyway serves the next task.
        let empty =
            |scope: &mut Scope| matches!(scope, Scope::Cgroup(slot) if slot.is_empty().unwrap_or(false));
        if self.exit.is_some()
            && let Some(Scope::Cgroup(slot)) = self.scope.take_if(empty)
        {
            self.shared.give_back(slot);
            return;
        }
        let processes = self.processes().unwrap_or_default();
        match self.scope.take() {
            None => {}
            Some(Scope::Cgroup(slot)) => {
                let _ = slot.strike(&processes);
                self.shared.give_back_dirty(slot);
            }
            Some(Scope::Group(group)) => {
                let _ = group.strike(&processes);
            }
        }
        if self.exit.is_none() {
            // From here on it is a stray like any other.
            REGISTRY.lock().remove(self.pid);
        }
    }
}
