//! A POSIX semaphore shared between processes. Used by the `posixsem` serialisation.

use std::cell::UnsafeCell;
use std::io;

use super::shared::{Shareable, Shared};

/// The storage that libc sees.
#[repr(transparent)]
struct Cell(UnsafeCell<libc::sem_t>);

// SAFETY: `sem_t` is made for concurrent use through libc, the only way it is touched here; zero bytes are valid
// storage for `sem_init`.
unsafe impl Shareable for Cell {}

/// An unnamed process-shared semaphore: no name in the file system, so nothing is left behind when its processes die.
pub(crate) struct SharedSemaphore {
    memory: Shared<Cell>,
}

impl SharedSemaphore {
    /// A semaphore with the value 1: free.
    pub(crate) fn new() -> io::Result<Self> {
        let semaphore = Self { memory: Shared::new(1)? };
        // SAFETY: points to zeroed storage of the right type in shared memory.
        check(unsafe { libc::sem_init(semaphore.raw()?, 1, 1) })?;
        Ok(semaphore)
    }

    /// Waits until the semaphore is above zero and takes one. Fails with `Interrupted` on a signal.
    pub(crate) fn wait(&self) -> io::Result<()> {
        // SAFETY: initialised by `new`.
        check(unsafe { libc::sem_wait(self.raw()?) })
    }

    /// Gives one back.
    pub(crate) fn post(&self) -> io::Result<()> {
        // SAFETY: initialised by `new`.
        check(unsafe { libc::sem_post(self.raw()?) })
    }

    /// The current value; 0 means taken.
    pub(crate) fn value(&self) -> io::Result<i32> {
        let mut value = 0;
        // SAFETY: initialised by `new`; `value` outlives the call.
        check(unsafe { libc::sem_getvalue(self.raw()?, &raw mut value) })?;
        Ok(value)
    }

    fn raw(&self) -> io::Result<*mut libc::sem_t> {
        self.memory.first().map(|cell| cell.0.get()).ok_or_else(|| io::ErrorKind::InvalidInput.into())
    }
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
