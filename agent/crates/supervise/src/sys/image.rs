//! Everything a new process needs, prepared before it exists, and the code that it runs until `exec`.
//!
//! That code runs in a process that may share its parent's memory (like after `vfork`) or be the copy of one thread of
//! many (after `fork`). So it takes no lock, allocates nothing, cannot panic, and makes plain system calls only.
#![expect(unsafe_code, reason = "raw system calls between clone and exec")]

use std::{
    ffi::{CStr, CString, NulError, c_char, c_int},
    os::{
        fd::{AsRawFd, BorrowedFd, RawFd},
        unix::ffi::OsStrExt,
    },
    path::Path,
};

use crate::CpuSet;

/// Words of the largest CPU mask that a kernel can be built for (`NR_CPUS` is at most 8192).
const MOST_CPU_WORDS: usize = 128;

/// The error number of [`Step::Affinity`] when the kernel gave fewer CPUs than were asked for; no error has it.
pub(crate) const NOT_ALL: c_int = 0;

/// The prepared start of a program.
pub(crate) struct Image<'a> {
    program: CString,
    cwd: CString,
    /// Pointers into `strings`, each list ended by null.
    argv: Vec<*const c_char>,
    envp: Vec<*const c_char>,
    /// Owns what the pointers refer to; never changed after they were taken.
    _strings: Vec<CString>,
    stdio: [BorrowedFd<'a>; 3],
    cpus: Option<&'a CpuSet>,
}

/// A text that cannot be passed to a program because it contains a NUL byte.
#[derive(Debug)]
pub(crate) struct ImageError(pub(crate) String);

impl<'a> Image<'a> {
    /// `stdio` must be descriptors above 2.
    pub(crate) fn new(
        program: &Path,
        argv: &[String],
        env: &[(String, String)],
        cwd: &Path,
        stdio: [BorrowedFd<'a>; 3],
        cpus: Option<&'a CpuSet>,
    ) -> Result<Self, ImageError> {
        let text = |text: Vec<u8>| {
            CString::new(text)
                .map_err(|e: NulError| ImageError(String::from_utf8_lossy(&e.into_vec()).into_owned()))
        };
        let mut strings = Vec::with_capacity(argv.len() + env.len());
        for word in argv {
            strings.push(text(word.clone().into_bytes())?);
        }
        for (name, value) in env {
            strings.push(text([name.as_bytes(), b"=", value.as_bytes()].concat())?);
        }
        let list =
            |part: &[CString]| part.iter().map(|s| s.as_ptr()).chain([std::ptr::null()]).collect::<Vec<_>>();
        let (words, variables) = strings.split_at(argv.len());
        let (argv, envp) = (list(words), list(variables));
        Ok(Self {
            program: text(program.as_os_str().as_bytes().to_vec())?,
            cwd: text(cwd.as_os_str().as_bytes().to_vec())?,
            argv,
            envp,
            _strings: strings,
            stdio,
            cpus,
        })
    }
}

/// Which step of a start failed; the numbers travel through a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Nothing failed; sent by a held process to say that it waits.
    Ready,
    Contain,
    Session,
    Stdio,
    Directory,
    Affinity,
    Exec,
}

impl Step {
    const ALL: [Self; 7] =
        [Self::Ready, Self::Contain, Self::Session, Self::Stdio, Self::Directory, Self::Affinity, Self::Exec];

    fn code(self) -> u32 {
        match self {
            Self::Ready => 0,
            Self::Contain => 1,
            Self::Session => 2,
            Self::Stdio => 3,
            Self::Directory => 4,
            Self::Affinity => 5,
            Self::Exec => 6,
        }
    }
}

/// A step and the error number it gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) step: Step,
    pub(crate) errno: c_int,
}

impl Failure {
    pub(crate) const SIZE: usize = 8;

    pub(crate) fn to_bytes(self) -> [u8; Self::SIZE] {
        let [a, b, c, d] = self.step.code().to_ne_bytes();
        let [e, f, g, h] = self.errno.to_ne_bytes();
        [a, b, c, d, e, f, g, h]
    }

    pub(crate) fn from_bytes(bytes: [u8; Self::SIZE]) -> Option<Self> {
        let [a, b, c, d, e, f, g, h] = bytes;
        let number = u32::from_ne_bytes([a, b, c, d]);
        let step = Step::ALL.into_iter().find(|&step| step.code() == number)?;
        Some(Self { step, errno: c_int::from_ne_bytes([e, f, g, h]) })
    }
}

/// How the child joins its containment by itself.
#[derive(Clone, Copy)]
pub(crate) enum Join {
    /// It is in already.
    Nothing,
    /// Write to this `cgroup.procs`.
    Write(RawFd),
}

/// Runs in the child: everything up to the point before `exec`.
///
/// # Safety
///
/// Only in a process just made by clone, with all signals blocked.
pub(crate) unsafe fn prepare(image: &Image<'_>, join: Join, keep: Option<RawFd>) -> Result<(), Failure> {
    let check = |step, result: c_int| if result < 0 { Err(Failure { step, errno: errno() }) } else { Ok(()) };
    // SAFETY: plain system calls; every pointer is to memory of `image`, which outlives the call.
    unsafe {
        if let Join::Write(procs) = join {
            // "0" stands for the process that writes.
            check(Step::Contain, if libc::write(procs, c"0".as_ptr().cast(), 1) == 1 { 0 } else { -1 })?;
        }
        check(Step::Session, libc::setsid())?;
        reset_signal_handlers();
        for (target, source) in (0..).zip(&image.stdio) {
            check(Step::Stdio, libc::dup2(source.as_raw_fd(), target))?;
        }
        close_others(keep);
        check(Step::Directory, libc::chdir(image.cwd.as_ptr()))?;
        if let Some(cpus) = image.cpus {
            let words = cpus.words();
            let length = size_of_val(words);
            let result = libc::syscall(libc::SYS_sched_setaffinity, 0, length, words.as_ptr());
            check(Step::Affinity, if result < 0 { -1 } else { 0 })?;
            // Read back here, because the program may choose others as soon as it runs. A cpuset may have left only some.
            let mut mask = [0_u64; MOST_CPU_WORDS];
            let length = size_of_val(&mask);
            let result = libc::syscall(libc::SYS_sched_getaffinity, 0, length, mask.as_mut_ptr());
            check(Step::Affinity, if result < 0 { -1 } else { 0 })?;
            let wanted = words.iter().chain(std::iter::repeat(&0));
            if !mask.iter().zip(wanted).all(|(has, wants)| has == wants) {
                return Err(Failure { step: Step::Affinity, errno: NOT_ALL });
            }
        }
        set_signal_mask(0);
    }
    Ok(())
}

/// Runs in the child: replaces it by the program. Returns only if that failed.
///
/// # Safety
///
/// Only after [`prepare`], in the same process.
pub(crate) unsafe fn exec(image: &Image<'_>) -> Failure {
    // SAFETY: the lists are ended by null and point into strings that `image` owns.
    unsafe { libc::execve(image.program.as_ptr(), image.argv.as_ptr(), image.envp.as_ptr()) };
    Failure { step: Step::Exec, errno: errno() }
}

/// Blocks all signals of the calling thread (those the C library keeps for itself included) and returns the old mask.
pub(crate) fn block_signals() -> u64 {
    // SAFETY: see `set_signal_mask`.
    unsafe { set_signal_mask(u64::MAX) }
}

/// Puts a mask back that [`block_signals`] returned.
pub(crate) fn restore_signals(mask: u64) {
    // SAFETY: see `set_signal_mask`.
    unsafe { set_signal_mask(mask) };
}

/// # Safety
///
/// Sound at any time; marked unsafe because code that relies on a signal being blocked may not.
unsafe fn set_signal_mask(mask: u64) -> u64 {
    let mut old = 0_u64;
    // SAFETY: both pointers are to live memory of the size given, 8 bytes, which is the kernel's `sigset_t`.
    unsafe {
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            libc::SIG_SETMASK,
            &raw const mask,
            &raw mut old,
            size_of::<u64>(),
        )
    };
    old
}

/// Every signal to its default: handlers of the agent must not run in a child that shares its memory, and ignored signals
/// (SIGPIPE, in every Rust program) would stay ignored after `exec`.
///
/// # Safety
///
/// Only in a process just made by clone.
unsafe fn reset_signal_handlers() {
    // The kernel's `sigaction`, all zero: default handler, no flags, no restorer, empty mask; large enough on every
    // architecture.
    let default = [0_u64; 4];
    for signal in 1..=64 {
        // SAFETY: the kernel only reads `default`. SIGKILL and SIGSTOP give an error, which is fine.
        unsafe {
            libc::syscall(
                libc::SYS_rt_sigaction,
                signal,
                default.as_ptr(),
                std::ptr::null::<u8>(),
                size_of::<u64>(),
            )
        };
    }
}

/// A task inherits nothing but its three streams, not even what the agent itself inherited by mistake. A held process does not
/// wait for `exec` to let go: it would keep the pipes and gates of other tasks open.
///
/// # Safety
///
/// Only in a process just made by clone that has its own table of descriptors.
unsafe fn close_others(keep: Option<RawFd>) {
    let close = |first: c_int, last: c_int, flags: libc::c_uint| {
        if first <= last {
            // SAFETY: affects descriptors of this process only. Kernels before 5.9 do not have it: there close-on-exec, which
            // all of our own descriptors have, must do.
            unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) };
        }
    };
    match keep {
        None => close(3, c_int::MAX, libc::CLOSE_RANGE_CLOEXEC),
        Some(kept) => {
            close(3, kept.saturating_sub(1), 0);
            close(kept.saturating_add(1), c_int::MAX, 0);
        }
    }
}

pub(crate) fn errno() -> c_int {
    // SAFETY: the location is valid in every thread; a child that shares memory runs while its parent thread is suspended.
    unsafe { *libc::__errno_location() }
}

impl std::fmt::Debug for Image<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let program: &CStr = &self.program;
        f.debug_struct("Image").field("program", &program).finish_non_exhaustive()
    }
}
