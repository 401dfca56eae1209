//! The pipe between a task's output and its capture.

use std::{io, os::fd::OwnedFd};

use rustix::{
    fs::OFlags,
    pipe::{PipeFlags, fcntl_setpipe_size, pipe_with},
};

/// Bytes a pipe holds. Large enough that a task that prints at full speed is seldom woken, small enough that a hundred tasks stay within
/// what an unprivileged user may have in pipes (64 MiB by default).
const SIZE: usize = 256 * 1024;

/// A pipe for one output stream: (our end, non-blocking; the task's end). Both are closed on `exec`. The pipe is enlarged
/// where the kernel allows.
///
/// # Errors
///
/// When there are no descriptors left.
pub fn output_pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (ours, theirs) = pipe_with(PipeFlags::CLOEXEC)?;
    rustix::fs::fcntl_setfl(&ours, OFlags::NONBLOCK)?;
    // A smaller pipe works as well, so being refused does not matter.
    let _ = fcntl_setpipe_size(&ours, SIZE);
    Ok((ours, theirs))
}
