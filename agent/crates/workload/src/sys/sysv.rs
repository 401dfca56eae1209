//! A System V semaphore. Used by the `sysvsem` serialisation.

use std::io;

/// A private System V semaphore set of one.
///
/// Such a set outlives its processes, so it has to be removed by hand: [`SysvSemaphore::remove`] at an orderly end,
/// and by the workers themselves ([`super::Stop`]) when the server is killed. It leaks only if all of them are killed
/// with SIGKILL at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SysvSemaphore {
    id: libc::c_int,
}

impl SysvSemaphore {
    /// A new set with the value 1: free.
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: plain system call on integers.
        let id = unsafe { libc::semget(libc::IPC_PRIVATE, 1, 0o600) };
        if id < 0 {
            return Err(io::Error::last_os_error());
        }
        let semaphore = Self { id };
        let free: libc::c_int = 1;
        // SAFETY: SETVAL takes its value as a `union semun` whose first member is an int.
        if unsafe { libc::semctl(id, 0, libc::SETVAL, free) } < 0 {
            let error = io::Error::last_os_error();
            semaphore.remove();
            return Err(error);
        }
        Ok(semaphore)
    }

    /// Takes the semaphore; the kernel gives it back if this process dies (`SEM_UNDO`). Fails with `Interrupted` on a
    /// signal.
    pub(crate) fn take(self) -> io::Result<()> {
        self.operate(-1)
    }

    /// Gives the semaphore back.
    pub(crate) fn give(self) -> io::Result<()> {
        self.operate(1)
    }

    /// Removes the set from the system; whoever waits on it is woken with an error. Harmless when already removed.
    /// Async-signal-safe: a single system call.
    pub(crate) fn remove(self) {
        // SAFETY: plain system call on integers; IPC_RMID ignores its argument.
        unsafe { libc::semctl(self.id, 0, libc::IPC_RMID) };
    }

    /// The kernel's number of the set.
    pub(super) const fn id(self) -> libc::c_int {
        self.id
    }

    /// The set with the kernel's number `id`.
    pub(super) const fn from_id(id: libc::c_int) -> Self {
        Self { id }
    }

    fn operate(self, by: libc::c_short) -> io::Result<()> {
        // SEM_UNDO is 0x1000 and fits a short; libc declares it as an int.
        let flags = libc::c_short::try_from(libc::SEM_UNDO).map_err(|_| io::ErrorKind::InvalidInput)?;
        let mut operation = libc::sembuf { sem_num: 0, sem_op: by, sem_flg: flags };
        // SAFETY: points to one operation, as the count says.
        if unsafe { libc::semop(self.id, &raw mut operation, 1) } < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }
}
