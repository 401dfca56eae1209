//! Makes processes. A task that starts at once shares the agent's memory until `exec` (see `vfork`); one that is held is a copy.
#![expect(unsafe_code, reason = "clone3 has no safe wrapper")]

use std::{
    ffi::c_int,
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd},
};

use rustix::{
    event::{PollFd, PollFlags},
    net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType},
};

use super::{
    VforkStack,
    image::{self, Failure, Image, Join, Step},
    vfork, wait,
};
use crate::ExitStatus;

/// `CLONE_INTO_CGROUP`, which does not fit the `c_int` of the C library's constants.
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// How a new process gets into its containment.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Entry<'a> {
    /// There is none.
    Nothing,
    /// It is born in the cgroup of this directory (Linux 5.7).
    BornInto(BorrowedFd<'a>),
    /// It writes itself to this `cgroup.procs`.
    Write(BorrowedFd<'a>),
}

impl Entry<'_> {
    pub(super) fn join(self) -> Join {
        match self {
            Self::Nothing | Self::BornInto(_) => Join::Nothing,
            Self::Write(procs) => Join::Write(procs.as_raw_fd()),
        }
    }
}

/// A process that runs its program, or (with a gate) waits right before that.
#[derive(Debug)]
pub(crate) struct Start {
    pub(crate) pid: u32,
    pub(crate) pidfd: OwnedFd,
    pub(crate) gate: Option<OwnedFd>,
}

/// Why there is no process.
#[derive(Debug)]
pub(crate) enum CloneError {
    /// It was not made.
    Clone(io::Error),
    /// It was made, failed at a step, and is reaped.
    Child(Failure),
    /// It was made, was killed by someone else before it could say anything, and is reaped.
    Died,
}

/// The argument of clone3, as Linux 5.7 has it.
#[derive(Default)]
#[repr(C)]
pub(super) struct CloneArgs {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    pub(super) stack: u64,
    pub(super) stack_size: u64,
    tls: u64,
    set_tid: u64,
    set_tid_size: u64,
    cgroup: u64,
}

impl CloneArgs {
    pub(super) fn new(flags: c_int, entry: Entry<'_>, pidfd: &mut RawFd) -> Self {
        let cgroup = match entry {
            Entry::BornInto(dir) => Some(dir.as_raw_fd()),
            Entry::Nothing | Entry::Write(_) => None,
        };
        let bits = |value: c_int| u64::from(value.cast_unsigned());
        Self {
            flags: bits(flags | libc::CLONE_PIDFD) | if cgroup.is_some() { CLONE_INTO_CGROUP } else { 0 },
            pidfd: address(&raw mut *pidfd),
            exit_signal: bits(libc::SIGCHLD),
            cgroup: cgroup.map_or(0, bits),
            ..Self::default()
        }
    }
}

/// Starts a program; returns when `exec` has succeeded or failed.
pub(crate) fn start_now(
    image: &Image<'_>,
    entry: Entry<'_>,
    stack: &mut VforkStack,
) -> Result<Start, CloneError> {
    vfork::start(image, entry, stack).unwrap_or_else(|| start_copied(image, entry))
}

/// Starts a program in a copy of this process, where a child that shares our memory cannot be had.
fn start_copied(image: &Image<'_>, entry: Entry<'_>) -> Result<Start, CloneError> {
    let start = start_held(image, entry)?;
    if let Some(gate) = &start.gate {
        open_gate(gate.as_fd()).map_err(CloneError::Clone)?;
        if let Some(failure) = exec_failure(gate.as_fd()) {
            await_end(start.pid, start.pidfd.as_fd())?;
            return Err(CloneError::Child(failure));
        }
    }
    Ok(Start { gate: None, ..start })
}

/// Makes a process that waits at its gate, ready to execute the program.
pub(crate) fn start_held(image: &Image<'_>, entry: Entry<'_>) -> Result<Start, CloneError> {
    let (ours, theirs) =
        rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
            .map_err(|errno| CloneError::Clone(errno.into()))?;
    let mask = image::block_signals();
    let made = clone_copy(entry);
    if let Ok(Copied::Child) = made {
        // SAFETY: this is the process just made, with all signals blocked.
        unsafe { held_child(image, entry.join(), theirs.as_fd()) }
    }
    image::restore_signals(mask);
    drop(theirs);
    let (pid, pidfd) = match made.map_err(CloneError::Clone)? {
        Copied::Parent(pid, pidfd) => (pid, pidfd),
        Copied::Child => return Err(CloneError::Died),
    };
    match receive(ours.as_fd()) {
        Some(Failure { step: Step::Ready, .. }) => Ok(Start { pid, pidfd, gate: Some(ours) }),
        Some(failure) => {
            await_end(pid, pidfd.as_fd())?;
            Err(CloneError::Child(failure))
        }
        None => {
            await_end(pid, pidfd.as_fd())?;
            Err(CloneError::Died)
        }
    }
}

/// Lets a held process go on to its program.
pub(crate) fn open_gate(gate: BorrowedFd<'_>) -> io::Result<()> {
    rustix::io::retry_on_intr(|| rustix::net::send(gate, b"G", SendFlags::NOSIGNAL))?;
    Ok(())
}

/// Waits until a process whose gate was opened has executed its program or failed. The kernel closes the socket in both cases;
/// a process that was killed at that point is seen at its pidfd, like any other.
pub(crate) fn exec_failure(gate: BorrowedFd<'_>) -> Option<Failure> {
    receive(gate)
}

/// Whether a process can be put into a containment, tried with one that ends at once.
pub(crate) fn probe_entry(entry: Entry<'_>) -> io::Result<()> {
    let mask = image::block_signals();
    let made = clone_copy(entry);
    if let Ok(Copied::Child) = made {
        let wrote = match entry.join() {
            Join::Nothing => true,
            // SAFETY: a plain system call on a descriptor that is open, with a live buffer of one byte.
            Join::Write(procs) => unsafe { libc::write(procs, c"0".as_ptr().cast(), 1) == 1 },
        };
        let status = if wrote { 0 } else { image::errno() };
        // SAFETY: ends this process without running anything of its parent's.
        unsafe { libc::_exit(status) };
    }
    image::restore_signals(mask);
    if let Copied::Parent(pid, pidfd) = made? {
        match await_end(pid, pidfd.as_fd()) {
            Ok(ExitStatus::Exited(0)) => {}
            Ok(ExitStatus::Exited(errno)) => return Err(io::Error::from_raw_os_error(errno)),
            Ok(ExitStatus::Signaled(_)) => return Err(io::ErrorKind::Interrupted.into()),
            Err(CloneError::Clone(error)) => return Err(error),
            Err(_) => return Err(io::ErrorKind::Other.into()),
        }
    }
    Ok(())
}

/// Runs in a held child.
///
/// # Safety
///
/// Only in a process just made by [`clone_copy`], with all signals blocked.
unsafe fn held_child(image: &Image<'_>, join: Join, gate: BorrowedFd<'_>) -> ! {
    let tell = |failure: Failure| rustix::net::send(gate, &failure.to_bytes(), SendFlags::NOSIGNAL).is_ok();
    let mut byte = [0_u8];
    // SAFETY: this is the new process; see the functions.
    unsafe {
        match image::prepare(image, join, Some(gate.as_raw_fd())) {
            Err(failure) => {
                tell(failure);
            }
            Ok(()) => {
                let released = tell(Failure { step: Step::Ready, errno: 0 })
                    && rustix::io::retry_on_intr(|| rustix::net::recv(gate, &mut byte, RecvFlags::empty()))
                        .is_ok_and(|(length, _)| length == 1);
                // End of file means that the agent is gone: then the task must not start.
                if released {
                    tell(image::exec(image));
                }
            }
        }
        libc::_exit(127)
    }
}

/// One message of a held process; `None` at the end of file.
fn receive(gate: BorrowedFd<'_>) -> Option<Failure> {
    let mut bytes = [0_u8; Failure::SIZE];
    let received = rustix::io::retry_on_intr(|| rustix::net::recv(gate, &mut bytes, RecvFlags::empty()));
    matches!(received, Ok((Failure::SIZE, _))).then_some(bytes).and_then(Failure::from_bytes)
}

/// Waits for a child that is about to end, and reaps it.
pub(crate) fn await_end(pid: u32, pidfd: BorrowedFd<'_>) -> Result<ExitStatus, CloneError> {
    loop {
        let mut ready = [PollFd::new(&pidfd, PollFlags::IN)];
        rustix::io::retry_on_intr(|| rustix::event::poll(&mut ready, None))
            .map_err(|errno| CloneError::Clone(errno.into()))?;
        if let Some(ended) = wait::reap(pid).map_err(CloneError::Clone)? {
            return Ok(ended.status);
        }
    }
}

enum Copied {
    Parent(u32, OwnedFd),
    Child,
}

/// Makes a copy of this process. The child may only make plain system calls: it is the copy of one thread of many.
fn clone_copy(entry: Entry<'_>) -> io::Result<Copied> {
    let mut pidfd = -1;
    let args = CloneArgs::new(0, entry, &mut pidfd);
    // SAFETY: the arguments have the size given. Without CLONE_VM the child has its own copy of the stack, and callers let it
    // do nothing but plain system calls and `_exit`.
    let result = unsafe { libc::syscall(libc::SYS_clone3, &raw const args, size_of::<CloneArgs>()) };
    let error = match u32::try_from(result) {
        Ok(0) => return Ok(Copied::Child),
        // SAFETY: the kernel has stored a new descriptor there.
        Ok(pid) => return Ok(Copied::Parent(pid, unsafe { OwnedFd::from_raw_fd(pidfd) })),
        Err(_) => io::Error::last_os_error(),
    };
    // Container runtimes hide clone3, because their filters cannot look into its arguments.
    let hidden = matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM));
    if !hidden || matches!(entry, Entry::BornInto(_)) {
        return Err(error);
    }
    // SAFETY: as above.
    let result = unsafe { libc::fork() };
    match u32::try_from(result) {
        Ok(0) => Ok(Copied::Child),
        Ok(pid) => {
            let process = rustix::process::Pid::from_raw(result).ok_or(error)?;
            match rustix::process::pidfd_open(process, rustix::process::PidfdFlags::empty()) {
                Ok(pidfd) => Ok(Copied::Parent(pid, pidfd)),
                Err(errno) => {
                    let _ = rustix::process::kill_process(process, rustix::process::Signal::KILL);
                    let _ = rustix::process::waitpid(Some(process), rustix::process::WaitOptions::empty());
                    Err(errno.into())
                }
            }
        }
        Err(_) => Err(io::Error::last_os_error()),
    }
}

/// An address as the kernel's structures hold it.
pub(super) fn address<T>(pointer: *const T) -> u64 {
    u64::try_from(pointer.addr()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn expect_status_and_reason_when_a_program_is_started_in_a_copy() {
        let null = std::fs::File::open("/dev/null").unwrap();
        let argv = ["name".to_owned(), "-c".to_owned(), "exit 5".to_owned()];
        let start = |program: &str| {
            let stdio = [null.as_fd(); 3];
            let image = Image::new(Path::new(program), &argv, &[], Path::new("/"), stdio, None).unwrap();
            start_copied(&image, Entry::Nothing)
        };
        let started = start("/bin/sh").unwrap();
        assert_eq!(await_end(started.pid, started.pidfd.as_fd()).unwrap(), ExitStatus::Exited(5));
        let failed = start("/no/such/program");
        let expected = Failure { step: Step::Exec, errno: libc::ENOENT };
        assert!(matches!(failed, Err(CloneError::Child(failure)) if failure == expected), "{failed:?}");
    }
}
