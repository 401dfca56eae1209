//! Affinity masks of any size (the C library's `cpu_set_t` ends at 1024 CPUs).
#![expect(unsafe_code, reason = "sched_getaffinity and sched_setaffinity with a buffer of our own size")]

use std::io;

use crate::CpuSet;

/// The CPUs that a thread may use; 0 is the calling thread.
pub(crate) fn affinity_of(thread: u32) -> io::Result<CpuSet> {
    let thread = libc::pid_t::try_from(thread).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    let mut words = 16; // 1024 CPUs; the kernel answers EINVAL while the buffer is smaller than its own masks
    loop {
        let mut mask = vec![0_u64; words];
        // SAFETY: the kernel writes at most the length given, which is that of `mask`.
        let written = unsafe {
            libc::syscall(
                libc::SYS_sched_getaffinity,
                thread,
                mask.len() * size_of::<u64>(),
                mask.as_mut_ptr(),
            )
        };
        if written >= 0 {
            return Ok(CpuSet::from_words(mask));
        }
        let error = io::Error::last_os_error();
        if error.raw_os_error() != Some(libc::EINVAL) || words > 1024 {
            return Err(error);
        }
        words *= 4;
    }
}

/// Lets a thread use these CPUs, as far as they are online and its cpuset has them.
pub(crate) fn set_affinity_of(thread: u32, cpus: &CpuSet) -> io::Result<()> {
    let thread = libc::pid_t::try_from(thread).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    let words = cpus.words();
    // SAFETY: the kernel reads at most the length given, which is that of `words`.
    let done =
        unsafe { libc::syscall(libc::SYS_sched_setaffinity, thread, size_of_val(words), words.as_ptr()) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
