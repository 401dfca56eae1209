//! How a worker ends: a signal handler that either leaves at once or lets the request in hand finish.
//!
//! A worker sleeps in `accept()`, in a lock, or in `epoll_wait()`, often in a call that restarts after a signal
//! (`pthread_mutex_lock`) or that would be entered just after a flag was checked. So an idle worker leaves from within
//! the handler: no lost wakeup, whatever it waits for. Locks it holds are given back by the kernel or do not matter
//! any more, because all workers stop together.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, Ordering};

use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};

use super::process::{exit_now, usage_of_self};
use super::signals::{STOPPING, unblock_all};
use super::sysv::SysvSemaphore;
use crate::board::WorkerSlot;

/// The signal that ends a worker, sent by the server or, when that dies, by the kernel. Not SIGTERM: a supervisor
/// that signals the whole process group must not end the workers before the server knows.
pub(crate) const STOP_SIGNAL: Signal = Signal::USR1;

/// Set while a request is in hand: the handler then only asks.
static BUSY: AtomicBool = AtomicBool::new(false);
/// Set by the handler when it came while busy.
static ASKED: AtomicBool = AtomicBool::new(false);
/// Where the worker's usage is recorded; points into the board, which a worker never unmaps.
static SLOT: AtomicPtr<WorkerSlot> = AtomicPtr::new(std::ptr::null_mut());
/// The System V semaphore to remove when the server is dead, or -1.
static SEMAPHORE: AtomicI32 = AtomicI32::new(-1);
/// Process id of the server.
static SERVER: AtomicI32 = AtomicI32::new(0);

/// A worker's side of stopping. One per process.
#[derive(Debug)]
pub(crate) struct Stop(());

impl Stop {
    /// Installs the handler, ignores the signals that are the server's business, ties the worker's life to the
    /// server's, and begins to take signals. Ends the process if the server is dead already.
    pub(crate) fn install(
        server: Pid,
        slot: &'static WorkerSlot,
        semaphore: Option<SysvSemaphore>,
    ) -> io::Result<Self> {
        SLOT.store(std::ptr::from_ref(slot).cast_mut(), Ordering::Relaxed);
        SEMAPHORE.store(semaphore.map_or(-1, SysvSemaphore::id), Ordering::Relaxed);
        SERVER.store(server.as_raw_pid(), Ordering::Relaxed);
        for signal in STOPPING {
            // SAFETY: ignoring a signal runs no code.
            if unsafe { libc::signal(signal, libc::SIG_IGN) } == libc::SIG_ERR {
                return Err(io::Error::last_os_error());
            }
        }
        let handler: extern "C" fn(libc::c_int) = on_stop;
        // SAFETY: zeroes are a valid sigaction; the handler is async-signal-safe: it uses lock-free atomics and the
        // system calls getrusage, getppid, semctl and _exit only.
        let installed = unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handler as libc::sighandler_t;
            libc::sigaction(STOP_SIGNAL.as_raw(), &raw const action, std::ptr::null_mut())
        };
        if installed < 0 {
            return Err(io::Error::last_os_error());
        }
        set_parent_process_death_signal(Some(STOP_SIGNAL))?;
        if server_is_dead() {
            leave(false);
        }
        unblock_all()?;
        Ok(Self(()))
    }

    /// Says that a request is in hand: from here a stop waits until [`Stop::idle`].
    pub(crate) fn busy(&self) {
        BUSY.store(true, Ordering::SeqCst);
    }

    /// Says that no request is in hand; ends the process if a stop came in between.
    pub(crate) fn idle(&self) {
        BUSY.store(false, Ordering::SeqCst);
        if ASKED.load(Ordering::SeqCst) {
            leave(false);
        }
    }
}

extern "C" fn on_stop(_signal: libc::c_int) {
    if BUSY.load(Ordering::SeqCst) {
        ASKED.store(true, Ordering::SeqCst);
    } else {
        leave(true);
    }
}

/// Records what the worker used and ends it. `asleep`: it was waiting, so its last voluntary switch was not followed
/// by a wakeup for a connection. Async-signal-safe.
fn leave(asleep: bool) -> ! {
    // SAFETY: null or a `&'static WorkerSlot` stored by `install`.
    if let Some(slot) = unsafe { SLOT.load(Ordering::Relaxed).as_ref() } {
        slot.record_end(&usage_of_self(), asleep);
    }
    let semaphore = SEMAPHORE.load(Ordering::Relaxed);
    if semaphore >= 0 && server_is_dead() {
        SysvSemaphore::from_id(semaphore).remove();
    }
    exit_now(0)
}

fn server_is_dead() -> bool {
    getppid().map_or(0, Pid::as_raw_pid) != SERVER.load(Ordering::Relaxed)
}
