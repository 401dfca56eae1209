//! Signals by number, real-time ones included.
#![expect(unsafe_code, reason = "pidfd_send_signal for signal numbers that have no name")]

use std::{
    io,
    os::fd::{AsRawFd, BorrowedFd},
};

/// Sends a signal to the process of a pidfd.
pub(crate) fn send_signal(pidfd: BorrowedFd<'_>, signal: i32) -> io::Result<()> {
    let info = std::ptr::null::<libc::siginfo_t>();
    // SAFETY: the descriptor is open for the whole call; no memory is passed.
    let result =
        unsafe { libc::syscall(libc::SYS_pidfd_send_signal, pidfd.as_raw_fd(), signal, info, 0_u32) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
