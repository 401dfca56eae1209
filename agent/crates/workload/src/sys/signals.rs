//! Signals of the server's parent process, read from a file descriptor instead of interrupting it.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};

use super::stop::STOP_SIGNAL;

/// What a signal told the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    /// SIGTERM, SIGINT or SIGHUP: stop.
    Stop,
    /// SIGCHLD: at least one child has ended.
    Child,
}

/// Signals that ask the server to stop.
pub(super) const STOPPING: [libc::c_int; 3] = [libc::SIGTERM, libc::SIGINT, libc::SIGHUP];

/// The signals of a server, blocked and readable from a descriptor. They stay blocked for the rest of the process;
/// workers unblock them again.
pub(crate) struct SignalFd {
    fd: OwnedFd,
}

impl SignalFd {
    /// Blocks the stopping signals, SIGCHLD, and the workers' stop signal (so that a worker which is told to stop
    /// before it is set up keeps the message), and opens the descriptor.
    pub(crate) fn new() -> io::Result<Self> {
        let read = set_of(STOPPING.into_iter().chain([libc::SIGCHLD]));
        let block = set_of(STOPPING.into_iter().chain([libc::SIGCHLD, STOP_SIGNAL.as_raw()]));
        // SAFETY: both sets are initialised; the descriptor is new and owned by nobody else.
        unsafe {
            let code = libc::pthread_sigmask(libc::SIG_BLOCK, &raw const block, std::ptr::null_mut());
            if code != 0 {
                return Err(io::Error::from_raw_os_error(code));
            }
            let fd = libc::signalfd(-1, &raw const read, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            Ok(Self { fd: OwnedFd::from_raw_fd(fd) })
        }
    }

    /// The next pending notice, if there is one; does not wait.
    pub(crate) fn next(&self) -> io::Result<Option<Notice>> {
        // The record begins with the signal's number, a u32 in the machine's byte order.
        let mut record = [0_u8; size_of::<libc::signalfd_siginfo>()];
        match rustix::io::read(&self.fd, &mut record) {
            Ok(read) if read == record.len() => {
                let number = record.first_chunk::<4>().map_or(0, |bytes| u32::from_ne_bytes(*bytes));
                let child = u32::try_from(libc::SIGCHLD).is_ok_and(|child| child == number);
                Ok(Some(if child { Notice::Child } else { Notice::Stop }))
            }
            Ok(_) | Err(rustix::io::Errno::AGAIN) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

impl AsFd for SignalFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// A signal set.
fn set_of(signals: impl Iterator<Item = libc::c_int>) -> libc::sigset_t {
    let mut set = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: sigemptyset initialises the set before sigaddset changes it.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in signals {
            libc::sigaddset(set.as_mut_ptr(), signal);
        }
        set.assume_init()
    }
}

/// Unblocks every signal: a worker takes them again, by handler or default.
pub(super) fn unblock_all() -> io::Result<()> {
    let none = set_of(std::iter::empty());
    // SAFETY: the set is initialised.
    match unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut()) } {
        0 => Ok(()),
        code => Err(io::Error::from_raw_os_error(code)),
    }
}
