//! The pipe between a task's output and its capture.

use std::{io, os::fd::OwnedFd};

/// A pipe for one output stream: (our end, non-blocking; the task's end). Both are closed on `exec`. The pipe is enlarged
/// where the kernel allows, so that a task that prints a lot is woken less often.
///
/// # Errors
///
/// When there are no descriptors left.
pub fn output_pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    unimplemented!()
}
