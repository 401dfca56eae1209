//! Makes processes: sharing memory until `exec` for a task that starts at once (no page table is copied, whatever the size of
//! the agent), as a copy for one that is held.
#![expect(
    unsafe_code,
    reason = "clone3 has no safe wrapper, and a child that shares memory needs its own stack"
)]

use std::{
    ffi::{c_int, c_long},
    io,
    mem::MaybeUninit,
    os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd},
};

use rustix::{
    event::{PollFd, PollFlags},
    net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType},
};

use super::{
    image::{self, Failure, Image, Join, Step},
    wait,
};
use crate::ExitStatus;

/// `CLONE_INTO_CGROUP`, which does not fit the `c_int` of the C library's constants.
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// Bytes of stack for a child that shares our memory; it calls a handful of functions without large locals.
const STACK_BYTES: usize = 64 * 1024;

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
    fn join(self) -> Join {
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

/// The stack of children that share our memory; one at a time uses it, its parent thread being suspended meanwhile.
pub(crate) struct VforkStack(Box<[MaybeUninit<u128>]>);

impl VforkStack {
    pub(crate) fn new() -> Self {
        Self(Box::new_uninit_slice(STACK_BYTES / size_of::<u128>()))
    }
}

/// The argument of clone3, as Linux 5.7 has it.
#[derive(Default)]
#[repr(C)]
struct CloneArgs {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    tls: u64,
    set_tid: u64,
    set_tid_size: u64,
    cgroup: u64,
}

impl CloneArgs {
    fn new(flags: c_int, entry: Entry<'_>, pidfd: &mut RawFd) -> Self {
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
    match vfork::start(image, entry, stack) {
        Some(result) => result,
        None => {
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
    }
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
fn address<T>(pointer: *const T) -> u64 {
    u64::try_from(pointer.addr()).unwrap_or(0)
}

#[cfg(target_arch = "x86_64")]
mod vfork {
    //! A child that shares the memory of the agent and runs on a stack of its own while its parent thread is suspended.

    use super::*;

    /// What the child works on, and where it leaves word of a failure for its parent, which reads it when the child has executed
    /// its program or ended.
    struct Job<'a> {
        image: &'a Image<'a>,
        join: Join,
        failure: Option<Failure>,
    }

    /// `None` if the kernel does not offer this way.
    pub(super) fn start(
        image: &Image<'_>,
        entry: Entry<'_>,
        stack: &mut VforkStack,
    ) -> Option<Result<Start, CloneError>> {
        let mut pidfd = -1;
        let args = CloneArgs {
            stack: address(stack.0.as_mut_ptr()),
            stack_size: u64::try_from(STACK_BYTES).unwrap_or(0),
            ..CloneArgs::new(libc::CLONE_VM | libc::CLONE_VFORK, entry, &mut pidfd)
        };
        let mut job = Job { image, join: entry.join(), failure: None };
        let mask = image::block_signals();
        // SAFETY: `args` gives the child a stack of its own, that nothing else uses, aligned to 16 bytes at its upper end;
        // all signals are blocked; `job` lives until the child is done, because CLONE_VFORK suspends this thread until then.
        let result = unsafe { clone3(&args, &raw mut job) };
        image::restore_signals(mask);
        let pid = match u32::try_from(result) {
            Ok(pid) => pid,
            Err(_) => {
                let errno = c_int::try_from(-result).unwrap_or(libc::EINVAL);
                let hidden = matches!(errno, libc::ENOSYS | libc::EPERM);
                return (!hidden).then(|| Err(CloneError::Clone(io::Error::from_raw_os_error(errno))));
            }
        };
        // SAFETY: the kernel has stored a new descriptor there.
        let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
        Some(match job.failure {
            None => Ok(Start { pid, pidfd, gate: None }),
            Some(failure) => match await_end(pid, pidfd.as_fd()) {
                Ok(_) => Err(CloneError::Child(failure)),
                Err(error) => Err(error),
            },
        })
    }

    /// # Safety
    ///
    /// `args` must ask for CLONE_VM, CLONE_VFORK and a stack that is the child's alone; `job` must be valid.
    unsafe fn clone3(args: &CloneArgs, job: *mut Job<'_>) -> c_long {
        let result: c_long;
        // SAFETY: the parent's side is an ordinary system call. The child starts with the same registers but at the top of its own
        // stack, calls `child`, and never comes back, so nothing of this frame is used twice.
        unsafe {
            std::arch::asm!(
                "syscall",
                "test rax, rax",
                "jnz 2f",
                "xor ebp, ebp",
                "mov rdi, r8",
                "call {child}",
                "ud2",
                "2:",
                inlateout("rax") libc::SYS_clone3 => result,
                in("rdi") args,
                in("rsi") size_of::<CloneArgs>(),
                in("r8") job,
                child = sym child,
                lateout("rcx") _,
                lateout("r11") _,
            );
        }
        result
    }

    /// Runs in the child, on its own stack.
    ///
    /// # Safety
    ///
    /// Only as the first function of a child made by [`clone3`].
    unsafe extern "C" fn child(job: *mut Job<'_>) -> ! {
        // SAFETY: the parent thread is suspended, so this is the only user of `job` until this process executes its program or
        // ends.
        unsafe {
            let job = &mut *job;
            let failure = match image::prepare(job.image, job.join, None) {
                Ok(()) => image::exec(job.image),
                Err(failure) => failure,
            };
            job.failure = Some(failure);
            libc::_exit(127)
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod vfork {
    //! Other processors start every task as a copy: correct, and slower by what copying the agent's page tables costs.

    use super::*;

    pub(super) fn start(
        _image: &Image<'_>,
        _entry: Entry<'_>,
        _stack: &mut VforkStack,
    ) -> Option<Result<Start, CloneError>> {
        None
    }
}
