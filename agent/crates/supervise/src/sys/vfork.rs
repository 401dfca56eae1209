//! Starts a program in a child that shares the memory of the agent, on a stack of its own, while its parent thread is suspended: no page
//! table is copied, whatever the size of the agent. Called for every task that is not held.
#![expect(
    unsafe_code,
    reason = "clone3 with a stack of its own needs assembly, because its child must not return into this frame"
)]

use std::{
    ffi::{c_int, c_long},
    io,
    mem::MaybeUninit,
    os::fd::{AsFd, FromRawFd, OwnedFd},
};

use super::{
    clone::{CloneArgs, CloneError, Entry, Start, address, await_end},
    image::{self, Failure, Image, Join},
};

/// Bytes of stack for the child; it calls a handful of functions without large locals.
const STACK_BYTES: usize = 64 * 1024;

/// The stack of such children; one at a time uses it.
pub(crate) struct VforkStack(Box<[MaybeUninit<u128>]>);

impl VforkStack {
    pub(crate) fn new() -> Self {
        Self(Box::new_uninit_slice(STACK_BYTES / size_of::<u128>()))
    }
}

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
    let mut args = CloneArgs::new(libc::CLONE_VM | libc::CLONE_VFORK, entry, &mut pidfd);
    args.stack = address(stack.0.as_mut_ptr());
    args.stack_size = u64::try_from(STACK_BYTES).unwrap_or(0);
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
