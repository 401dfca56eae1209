//! Waiting for children with their resource usage.
#![expect(unsafe_code, reason = "wait4, waitid with a pid in the answer, and getrusage have no safe wrapper")]

use std::{io, mem::MaybeUninit, time::Duration};

use drover_model::Usage;

use crate::ExitStatus;

/// A child that was reaped.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) usage: Usage,
}

/// Reaps a child if it has ended; never blocks.
pub(crate) fn reap(pid: u32) -> io::Result<Option<Ended>> {
    let pid = libc::pid_t::try_from(pid).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    let mut status = 0;
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: both pointers are to live memory of the right type, which the kernel writes.
    let reaped =
        unsafe { libc::wait4(pid, &raw mut status, libc::WNOHANG | libc::__WALL, usage.as_mut_ptr()) };
    match reaped {
        0 => Ok(None),
        _ if reaped < 0 => Err(io::Error::last_os_error()),
        _ => {
            // SAFETY: zero is a valid `rusage`, and the kernel has filled it in.
            let usage = unsafe { usage.assume_init() };
            let status = if libc::WIFSIGNALED(status) {
                ExitStatus::Signaled(libc::WTERMSIG(status))
            } else {
                ExitStatus::Exited(libc::WEXITSTATUS(status))
            };
            Ok(Some(Ended { status, usage: convert(&usage) }))
        }
    }
}

/// The pid of some child that has ended and was not reaped; the status stays where it is.
pub(crate) fn peek_ended_child() -> io::Result<Option<u32>> {
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT | libc::__WALL;
    // SAFETY: the pointer is to live memory of the right type, which the kernel writes.
    let result = unsafe { libc::waitid(libc::P_ALL, 0, info.as_mut_ptr(), options) };
    if result < 0 {
        let error = io::Error::last_os_error();
        return if error.raw_os_error() == Some(libc::ECHILD) { Ok(None) } else { Err(error) };
    }
    // SAFETY: zero is a valid `siginfo_t`; after waitid the field is set, or still zero if no child has ended.
    let pid = unsafe { info.assume_init().si_pid() };
    Ok(u32::try_from(pid).ok().filter(|&pid| pid != 0))
}

/// Largest resident set this process ever had, in bytes.
pub(crate) fn own_peak_rss_bytes() -> u64 {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is to live memory of the right type. The call cannot fail with these arguments.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()) };
    // SAFETY: zero is a valid `rusage`.
    convert(&unsafe { usage.assume_init() }).max_rss_bytes
}

fn convert(usage: &libc::rusage) -> Usage {
    let count = |value: libc::c_long| u64::try_from(value).unwrap_or(0);
    let time = |value: libc::timeval| {
        let micros = u64::try_from(value.tv_usec).unwrap_or(0);
        Duration::from_secs(u64::try_from(value.tv_sec).unwrap_or(0)) + Duration::from_micros(micros)
    };
    Usage {
        user: time(usage.ru_utime),
        system: time(usage.ru_stime),
        max_rss_bytes: count(usage.ru_maxrss).saturating_mul(1024),
        voluntary_switches: count(usage.ru_nvcsw),
        involuntary_switches: count(usage.ru_nivcsw),
    }
}
