//! Classes of kernel messages, how bad each is, and what each means for a verdict.

use drover_model::{DoubtKind, MissingCause, NgCause};

/// How bad a message is, by the letter that the reference table gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// `F`: the kernel is dead, or one of its CPUs.
    Fatal,
    /// `E`: the kernel found a bug in itself and may go on.
    Bug,
    /// `E*`: looks like a bug, but also comes from short limits and from a host that is busy.
    MaybeBug,
    /// `W`: a warning.
    Warning,
    /// `R`: no bug, but a number measured now is not valid.
    Invalid,
    /// `H`: hardware, or what a virtual machine has in its place.
    Hardware,
    /// `note`: less is reported from now on.
    Note,
    /// `harness`: somebody asked the kernel for it.
    Harness,
}

impl Severity {
    /// The letter, or the word, of the reference table.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Fatal => "F",
            Self::Bug => "E",
            Self::MaybeBug => "E*",
            Self::Warning => "W",
            Self::Invalid => "R",
            Self::Hardware => "H",
            Self::Note => "note",
            Self::Harness => "harness",
        }
    }

    /// Whether a report of this severity is one of the kernel's own failures.
    pub(super) fn is_failure(self) -> bool {
        matches!(self, Self::Fatal | Self::Bug)
    }
}

/// What a report means for the verdict of the trial that it falls into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hint {
    /// The system under test failed in this way.
    Ng(NgCause),
    /// The kernel that the cell asks for does not run here.
    Missing(MissingCause),
    /// The number is in doubt.
    Doubt(DoubtKind),
    /// Nothing by itself.
    Nothing,
}

/// How much of what follows belongs to a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// Registers, stacks and more.
    Trace,
    /// One line.
    Line,
}

const LOCKUP: Hint = Hint::Ng(NgCause::Lockup);
const OOPS: Hint = Hint::Ng(NgCause::Oops);
const PANIC: Hint = Hint::Ng(NgCause::Panic);

macro_rules! classes {
    ($($(#[$meta:meta])* $variant:ident => $text:literal, $severity:ident, $shape:ident, $hint:expr;)*) => {
        /// The class of a kernel message.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Class { $($(#[$meta])* $variant,)* }

        impl Class {
            /// Every class.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The name in the reference table.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }

            /// How bad it is, where the message itself does not say otherwise.
            #[must_use]
            pub const fn severity(self) -> Severity {
                match self { $(Self::$variant => Severity::$severity,)* }
            }

            /// What it means for a verdict.
            #[must_use]
            pub fn hint(self) -> Hint {
                match self { $(Self::$variant => $hint,)* }
            }

            pub(super) fn shape(self) -> Shape {
                match self { $(Self::$variant => Shape::$shape,)* }
            }
        }
    };
}

classes! {
    /// A CPU took no interrupts.
    HardLockup => "HARD_LOCKUP", Fatal, Trace, LOCKUP;
    /// A CPU did not schedule.
    SoftLockup => "SOFT_LOCKUP", Fatal, Trace, LOCKUP;
    /// A CPU did not answer another's call.
    CsdStall => "CSD_STALL", Fatal, Trace, LOCKUP;
    /// An expedited grace period of RCU took long; its limit is short on some kernels.
    RcuStallExp => "RCU_STALL_EXP", MaybeBug, Trace, Hint::Doubt(DoubtKind::KernelWarning);
    /// A grace period of RCU did not end.
    RcuStall => "RCU_STALL", Fatal, Trace, LOCKUP;
    /// A task slept uninterruptibly for minutes.
    HungTask => "HUNG_TASK", Bug, Trace, Hint::Ng(NgCause::Hang);
    /// A pool of kernel workers made no progress.
    WorkqueueLockup => "WORKQUEUE_LOCKUP", Bug, Trace, LOCKUP;
    /// A CPU waited in vain for the global interrupt lock (kernels up to 2.4).
    IrqDeadlock => "IRQ_DEADLOCK", Fatal, Trace, LOCKUP;
    /// A panic that is the consequence of an earlier report.
    PanicSecondary => "PANIC(secondary)", Fatal, Trace, PANIC;
    /// A panic that is the first report.
    Panic => "PANIC", Fatal, Trace, PANIC;
    /// A fault while a fault was handled.
    DoubleFault => "DOUBLE_FAULT", Fatal, Trace, PANIC;
    /// The kernel started and found no root file system or init.
    BootFail => "BOOT_FAIL", Fatal, Trace, Hint::Missing(MissingCause::WrongKernel);
    /// An asynchronous abort of an arm64 CPU.
    Arm64Serror => "ARM64_SERROR", Fatal, Trace, PANIC;
    /// A machine check.
    Mce => "MCE", Hardware, Line, Hint::Doubt(DoubtKind::Hardware);
    /// An error that hardware or firmware reported.
    HwError => "HW_ERROR", Hardware, Line, Hint::Doubt(DoubtKind::Hardware);
    /// Memory was used out of bounds or after it was freed.
    Kasan => "KASAN", Bug, Trace, OOPS;
    /// Two CPUs raced for data.
    Kcsan => "KCSAN", Warning, Trace, Hint::Doubt(DoubtKind::KernelWarning);
    /// Memory was used out of bounds or after it was freed, found by sampling.
    Kfence => "KFENCE", Bug, Trace, OOPS;
    /// Memory of the kernel that nothing points to.
    Leak => "LEAK", Warning, Line, Hint::Doubt(DoubtKind::KernelWarning);
    /// Memory was used that nothing had written.
    Kmsan => "KMSAN", Bug, Trace, OOPS;
    /// Behaviour that C leaves undefined.
    Ubsan => "UBSAN", Bug, Trace, OOPS;
    /// A null pointer was followed.
    NullDeref => "NULL_DEREF", Bug, Trace, OOPS;
    /// A wild pointer was followed.
    BadAccess => "BAD_ACCESS", Bug, Trace, OOPS;
    /// Any other trap in the kernel.
    Oops => "OOPS", Bug, Trace, OOPS;
    /// A general protection fault.
    Gpf => "GPF", Bug, Trace, OOPS;
    /// An assertion of the kernel failed.
    KernelBug => "KERNEL_BUG", Bug, Trace, OOPS;
    /// It slept where it must not.
    AtomicSleep => "ATOMIC_SLEEP", Bug, Trace, OOPS;
    /// A lock was misused.
    LockBug => "LOCK_BUG", Bug, Trace, OOPS;
    /// Memory of the kernel is damaged.
    MemCorrupt => "MEM_CORRUPT", Bug, Trace, OOPS;
    /// Locks are taken in an order that can deadlock.
    Lockdep => "LOCKDEP", Bug, Trace, OOPS;
    /// A condition that ought not to occur.
    Warn => "WARN", Warning, Trace, Hint::Doubt(DoubtKind::KernelWarning);
    /// The line that opens such reports, with nothing after it that says which.
    WarnMarker => "WARN(marker)", Warning, Trace, Hint::Doubt(DoubtKind::KernelWarning);
    /// An interrupt that no driver claims.
    Irq => "IRQ", Bug, Trace, OOPS;
    /// A network device that is still referenced when it goes.
    NetdevLeak => "NETDEV_LEAK", Bug, Line, OOPS;
    /// A network card stopped sending.
    Nic => "NIC", Hardware, Trace, Hint::Doubt(DoubtKind::Hardware);
    /// Processes were killed because memory ran out.
    Oom => "OOM", Invalid, Trace, Hint::Doubt(DoubtKind::Memory);
    /// Memory could not be allocated.
    AllocFail => "ALLOC_FAIL", Invalid, Trace, Hint::Doubt(DoubtKind::Memory);
    /// A listen queue overflowed.
    AcceptOverflow => "ACCEPT_OVERFLOW", Invalid, Line, Hint::Doubt(DoubtKind::ListenQueue);
    /// A table of connections, routes or files is full.
    TableFull => "TABLE_FULL", Invalid, Line, Hint::Doubt(DoubtKind::TableFull);
    /// A clock was found to be wrong.
    ClockUnstable => "CLOCK_UNSTABLE", Invalid, Line, Hint::Doubt(DoubtKind::Clock);
    /// CPUs were slowed down because of heat.
    Throttle => "THROTTLE", Invalid, Line, Hint::Doubt(DoubtKind::Throttling);
    /// A file system is damaged.
    FsError => "FS_ERROR", Hardware, Line, Hint::Doubt(DoubtKind::Hardware);
    /// A disk failed.
    IoError => "IO_ERROR", Hardware, Line, Hint::Doubt(DoubtKind::Hardware);
    /// A kernel started that nobody asked for.
    UnexpectedReboot => "UNEXPECTED_REBOOT", Fatal, Line, Hint::Ng(NgCause::UnexpectedReboot);
    /// Less is reported from now on.
    Note => "note", Note, Line, Hint::Nothing;
    /// The kernel was crashed or reset by request; if the request was not ours, somebody thought that it hangs.
    Sysrq => "harness", Harness, Line, Hint::Ng(NgCause::Hang);
}
