//! Forking workers, reaping them, and reading what they used. Used by the server and, for its CPU time, the client.

use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use rustix::process::Pid;

/// Why a worker could not be forked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ForkError {
    /// A fork copies only the calling thread; locks of the others would stay locked in the child for ever.
    #[error("this process has {0} threads: fork is safe in a single-threaded process only")]
    Threads(usize),
    /// The kernel refused.
    #[error("the kernel refused a new process")]
    Refused(#[source] io::Error),
}

/// Exit status of a child whose body panicked, as Rust's own runtime uses it.
const PANICKED: libc::c_int = 101;

/// Forks. The child runs `body` and exits with its result, without destructors or exit handlers of the parent.
pub(crate) fn fork_worker(body: impl FnOnce() -> libc::c_int) -> Result<Pid, ForkError> {
    let threads = fs::read_dir("/proc/self/task").map_err(ForkError::Refused)?.count();
    if threads != 1 {
        return Err(ForkError::Threads(threads));
    }
    // SAFETY: the process is single-threaded (checked above), so the child's copy of memory is consistent and it may
    // do whatever the parent could.
    match unsafe { libc::fork() } {
        0 => {
            let code = catch_unwind(AssertUnwindSafe(body)).unwrap_or(PANICKED);
            exit_now(code)
        }
        pid if pid < 0 => Err(ForkError::Refused(io::Error::last_os_error())),
        pid => Pid::from_raw(pid).ok_or_else(|| ForkError::Refused(io::ErrorKind::InvalidData.into())),
    }
}

/// Ends the process at once. Async-signal-safe.
pub(super) fn exit_now(code: libc::c_int) -> ! {
    // SAFETY: never returns and runs no code of the process.
    unsafe { libc::_exit(code) }
}

/// What a process has used so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    /// User and system time.
    pub cpu: Duration,
    /// Times it gave up the CPU to wait for something.
    pub voluntary: u64,
    /// Times the CPU was taken from it.
    pub involuntary: u64,
}

impl Usage {
    fn from_raw(raw: &libc::rusage) -> Self {
        Self {
            cpu: time(raw.ru_utime) + time(raw.ru_stime),
            voluntary: u64::try_from(raw.ru_nvcsw).unwrap_or(0),
            involuntary: u64::try_from(raw.ru_nivcsw).unwrap_or(0),
        }
    }
}

fn time(raw: libc::timeval) -> Duration {
    let seconds = u64::try_from(raw.tv_sec).unwrap_or(0);
    Duration::from_secs(seconds) + Duration::from_micros(u64::try_from(raw.tv_usec).unwrap_or(0))
}

/// What this process, with all its threads, has used so far. Async-signal-safe.
pub(crate) fn usage_of_self() -> Usage {
    let mut raw = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: RUSAGE_SELF with a valid pointer cannot fail, and zeroes are a valid rusage even if it did.
    unsafe {
        libc::getrusage(libc::RUSAGE_SELF, raw.as_mut_ptr());
        Usage::from_raw(&raw.assume_init())
    }
}

/// A child that has ended.
#[derive(Clone, Debug)]
pub(crate) struct Reaped {
    /// Its process id.
    pub pid: Pid,
    /// How it ended: `exit 1`, `signal 9`.
    pub status: String,
    /// What it used from its fork to its end.
    pub usage: Usage,
}

/// Collects one child that has ended, if there is one; does not wait.
pub(crate) fn reap() -> io::Result<Option<Reaped>> {
    let mut status = 0;
    let mut raw = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: both pointers are valid for the call.
    let pid = unsafe { libc::wait4(-1, &raw mut status, libc::WNOHANG, raw.as_mut_ptr()) };
    if pid < 0 {
        let error = io::Error::last_os_error();
        return if error.raw_os_error() == Some(libc::ECHILD) { Ok(None) } else { Err(error) };
    }
    let Some(pid) = Pid::from_raw(pid) else { return Ok(None) };
    let text = if libc::WIFSIGNALED(status) {
        format!("signal {}", libc::WTERMSIG(status))
    } else {
        format!("exit {}", libc::WEXITSTATUS(status))
    };
    // SAFETY: zeroed, then filled by wait4.
    let usage = Usage::from_raw(unsafe { raw.assume_init_ref() });
    Ok(Some(Reaped { pid, status: text, usage }))
}
