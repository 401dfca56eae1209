//! A robust pthread mutex shared between processes. Used by the `pthread` serialisation.

use std::cell::UnsafeCell;
use std::io;
use std::mem::MaybeUninit;

use super::shared::{Shareable, Shared};

/// The storage that libc sees.
#[repr(transparent)]
struct Cell(UnsafeCell<libc::pthread_mutex_t>);

// SAFETY: `pthread_mutex_t` is made for concurrent use through libc, the only way it is touched here; zero bytes are
// valid storage for `pthread_mutex_init`.
unsafe impl Shareable for Cell {}

/// A process-shared mutex that survives the death of its holder (`PTHREAD_MUTEX_ROBUST`).
pub(crate) struct RobustMutex {
    memory: Shared<Cell>,
}

impl RobustMutex {
    /// An unlocked mutex.
    pub(crate) fn new() -> io::Result<Self> {
        let mutex = Self { memory: Shared::new(1)? };
        let mut attributes = MaybeUninit::<libc::pthread_mutexattr_t>::uninit();
        let attributes = attributes.as_mut_ptr();
        // SAFETY: `attributes` is initialised by the first call before the others use it and destroyed once; the
        // mutex is zeroed storage of the right type that nobody uses yet.
        unsafe {
            check(libc::pthread_mutexattr_init(attributes))?;
            let made = check(libc::pthread_mutexattr_setpshared(attributes, libc::PTHREAD_PROCESS_SHARED))
                .and_then(|()| {
                    check(libc::pthread_mutexattr_setrobust(attributes, libc::PTHREAD_MUTEX_ROBUST))
                })
                .and_then(|()| check(libc::pthread_mutex_init(mutex.raw()?, attributes)));
            libc::pthread_mutexattr_destroy(attributes);
            made?;
        }
        Ok(mutex)
    }

    /// Locks the mutex. `true` if the previous holder died with it and it was made consistent again.
    pub(crate) fn lock(&self) -> io::Result<bool> {
        let raw = self.raw()?;
        // SAFETY: initialised by `new`.
        match unsafe { libc::pthread_mutex_lock(raw) } {
            0 => Ok(false),
            libc::EOWNERDEAD => {
                // SAFETY: initialised by `new`, and held by this thread.
                check(unsafe { libc::pthread_mutex_consistent(raw) })?;
                Ok(true)
            }
            code => Err(io::Error::from_raw_os_error(code)),
        }
    }

    /// Unlocks the mutex. An error if this thread does not hold it: robust mutexes check the owner.
    pub(crate) fn unlock(&self) -> io::Result<()> {
        // SAFETY: initialised by `new`; a robust mutex refuses an unlock by anyone but the holder.
        check(unsafe { libc::pthread_mutex_unlock(self.raw()?) })
    }

    fn raw(&self) -> io::Result<*mut libc::pthread_mutex_t> {
        self.memory.first().map(|cell| cell.0.get()).ok_or_else(|| io::ErrorKind::InvalidInput.into())
    }
}

/// pthread functions return the error number instead of setting `errno`.
fn check(code: libc::c_int) -> io::Result<()> {
    if code == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(code)) }
}
