//! The scheduling class of a thread that must not be late.
#![expect(unsafe_code, reason = "sched_setscheduler")]

use std::io;

/// Lets the calling thread run before all ordinary ones (`SCHED_FIFO`, lowest priority), for an instant that it waits for.
/// Processes that it makes do not inherit that. Needs root, as a rule.
///
/// # Errors
///
/// When the kernel does not allow it.
pub fn run_first() -> io::Result<()> {
    let param = libc::sched_param { sched_priority: 1 };
    // SAFETY: the kernel only reads `param`, which lives across the call; 0 means the calling thread.
    let result = unsafe {
        libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &raw const param)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
