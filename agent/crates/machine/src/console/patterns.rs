//! The first lines of kernel reports, as the kernel's source formats them, from 2.0 to 6.x, of x86 and arm64.
//!
//! Where two formats match at one place of a line, the one that stands first here is taken; where they match at several places, the first
//! of these places is. Formats begin in the middle of a phrase where a serial line that lost its first bytes should still be
//! understood.

use super::class::{Class, Severity};

/// Where in a message a format may match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// At its beginning only: short or common words.
    Start,
    /// At its beginning, if no other format matches anywhere in it.
    Alone,
    /// Where a word begins.
    Word,
    /// Anywhere.
    Any,
}

/// What it means that a format matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// Nothing, and nothing else is to be read in the text that the format describes.
    Ignore,
    /// The end of a report.
    End,
    /// A report.
    Report(Class, Severity),
    /// The kernel stops. `consequence`: the text says that it does so because of something reported before.
    Panic { class: Class, consequence: bool },
    /// A kernel starts.
    Boot,
}

/// A format with its meaning.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pattern {
    /// See the module `format`.
    pub(super) format: &'static str,
    pub(super) place: Place,
    pub(super) meaning: Meaning,
}

const fn start(class: Class, format: &'static str) -> Pattern {
    Pattern { format, place: Place::Start, meaning: Meaning::Report(class, severity(class)) }
}

const fn alone(class: Class, format: &'static str) -> Pattern {
    Pattern { format, place: Place::Alone, meaning: Meaning::Report(class, severity(class)) }
}

const fn word(class: Class, format: &'static str) -> Pattern {
    Pattern { format, place: Place::Word, meaning: Meaning::Report(class, severity(class)) }
}

const fn any(class: Class, format: &'static str) -> Pattern {
    Pattern { format, place: Place::Any, meaning: Meaning::Report(class, severity(class)) }
}

const fn milder(class: Class, format: &'static str) -> Pattern {
    Pattern { format, place: Place::Any, meaning: Meaning::Report(class, Severity::Bug) }
}

const fn ignore(format: &'static str) -> Pattern {
    Pattern { format, place: Place::Any, meaning: Meaning::Ignore }
}

const fn end(format: &'static str) -> Pattern {
    Pattern { format, place: Place::Any, meaning: Meaning::End }
}

/// A panic that says what came before.
const fn then_panic(class: Class, format: &'static str) -> Pattern {
    Pattern { format, place: Place::Word, meaning: Meaning::Panic { class, consequence: true } }
}

const fn panic(class: Class, format: &'static str) -> Pattern {
    Pattern { format, place: Place::Word, meaning: Meaning::Panic { class, consequence: false } }
}

const fn severity(class: Class) -> Severity {
    class.severity()
}

/// All formats.
pub(super) const PATTERNS: &[Pattern] = &[
    // A command line may hold any of the words below. A script of `init` that prints one is not told apart.
    ignore("Kernel command line: %s"),
    ignore("Command line: %s"),
    ignore("INFO: NMI handler (%s) took too long to run"),
    ignore("INFO: Stall ended before state dump start"),
    ignore("NMI watchdog: Enabled."),
    ignore("ODEBUG: selftest passed"),
    ignore("traps: %s general protection fault ip:"),
    ignore("Spectre V2 : WARNING: Unprivileged eBPF is enabled"),
    ignore("Warning: unable to open an initial console."),
    // The replay-protected partition of an eMMC card refuses plain reads, always.
    ignore("I/O error, dev mmcblk%drpmb"),
    ignore("I/O error, dev mmcblk%dboot%d"),
    start(Class::Note, "INFO: lockdep is turned off."),
    start(Class::Note, "Future hung task reports are suppressed"),
    word(Class::Sysrq, "sysrq: Trigger a crash"),
    word(Class::Sysrq, "SysRq : Trigger a crash"),
    word(Class::Sysrq, "SysRq : Crash"),
    word(Class::Sysrq, "sysrq: Resetting"),
    word(Class::Sysrq, "SysRq : Resetting"),
    //
    // Ends.
    end("---[ end trace"),
    end("---[ end Kernel panic"),
    end("[ end Kernel panic - not syncing"),
    //
    // Panics. Those that name what led to them stand for it where the report itself was lost.
    panic(Class::HardLockup, "panic - not syncing: Watchdog detected hard LOCKUP on cpu"),
    then_panic(Class::HardLockup, "panic - not syncing: Hard LOCKUP"),
    then_panic(Class::HardLockup, "panic - not syncing: NMI Watchdog"),
    then_panic(Class::HardLockup, "panic - not syncing: nmi watchdog"),
    then_panic(Class::SoftLockup, "panic - not syncing: softlockup: hung tasks"),
    then_panic(Class::RcuStall, "panic - not syncing: RCU Stall"),
    then_panic(Class::HungTask, "panic - not syncing: hung_task: blocked tasks"),
    then_panic(Class::Arm64Serror, "panic - not syncing: Asynchronous SError Interrupt"),
    then_panic(Class::BootFail, "panic - not syncing: VFS: Unable to mount root fs"),
    then_panic(Class::BootFail, "Kernel panic: VFS: Unable to mount root fs"),
    panic(Class::BootFail, "panic - not syncing: No working init found"),
    panic(Class::BootFail, "panic - not syncing: No init found"),
    panic(Class::BootFail, "Kernel panic: No init found"),
    panic(Class::BootFail, "panic - not syncing: Requested init"),
    then_panic(Class::DoubleFault, "panic - not syncing: Machine halted."),
    then_panic(Class::DoubleFault, "panic - not syncing: kernel stack overflow"),
    then_panic(Class::PanicSecondary, "panic - not syncing: Fatal exception"),
    then_panic(Class::PanicSecondary, "panic - not syncing: Fatal hardware error"),
    then_panic(Class::PanicSecondary, "panic - not syncing: Fatal Machine check"),
    then_panic(Class::PanicSecondary, "panic - not syncing: Fatal machine check"),
    then_panic(Class::PanicSecondary, "panic - not syncing: Aiee, killing interrupt handler"),
    then_panic(Class::PanicSecondary, "panic - not syncing: Oops"),
    then_panic(Class::PanicSecondary, "panic - not syncing: panic_on_warn set"),
    then_panic(Class::PanicSecondary, "panic - not syncing: %s: panic_on_warn set"),
    then_panic(Class::PanicSecondary, "panic - not syncing: kernel: panic_on_warn set"),
    then_panic(Class::PanicSecondary, "panic - not syncing: BUG!"),
    then_panic(Class::PanicSecondary, "panic - not syncing: Out of memory"),
    then_panic(Class::PanicSecondary, "panic - not syncing: System is deadlocked on memory"),
    then_panic(Class::PanicSecondary, "panic - not syncing: scheduling while atomic"),
    then_panic(Class::PanicSecondary, "panic - not syncing: spinlock lockup"),
    then_panic(Class::PanicSecondary, "Kernel panic: Aiee, killing interrupt handler!"),
    then_panic(Class::PanicSecondary, "Kernel panic: Fatal exception"),
    then_panic(Class::PanicSecondary, "In interrupt handler - not syncing"),
    then_panic(Class::PanicSecondary, "In idle task - not syncing"),
    panic(Class::Panic, "panic - not syncing"),
    panic(Class::Panic, "Kernel panic: "),
    start(Class::Panic, "PANIC: early exception"),
    word(Class::DoubleFault, "PANIC: double fault"),
    word(Class::DoubleFault, "double fault: %x [#%d]"),
    word(Class::DoubleFault, "Insufficient stack space to handle exception!"),
    start(Class::DoubleFault, "double fault, gdt at"),
    //
    // Lockups and stalls.
    word(Class::HardLockup, "NMI Watchdog detected LOCKUP on CPU"),
    word(Class::HardLockup, "NMI watchdog detected lockup on CPU"),
    word(Class::HardLockup, "Watchdog detected hard LOCKUP on cpu"),
    word(Class::HardLockup, "self-detected hard LOCKUP @"),
    word(Class::HardLockup, "detected hard LOCKUP on other CPUs"),
    word(Class::HardLockup, "Watchdog CPU:%d detected Hard LOCKUP"),
    any(Class::SoftLockup, "soft lockup - CPU#%d stuck for %d"),
    any(Class::SoftLockup, "BUG: soft lockup detected on CPU#%d"),
    any(Class::CsdStall, "Detected non-responsive CSD lock (#"),
    any(Class::RcuStallExp, "detected expedited stalls on CPUs/tasks:"),
    any(Class::RcuStall, " self-detected stall on CPU"),
    any(Class::RcuStall, " detected stalls on CPUs/tasks:"),
    any(Class::RcuStall, " detected stalls on tasks:"),
    any(Class::RcuStall, " detected stall on CPU"),
    any(Class::RcuStall, " detected stalls on CPUs:"),
    word(Class::RcuStall, "RCU detected CPU"),
    milder(Class::RcuStall, "kthread starved for %d jiffies!"),
    milder(Class::RcuStall, "kthread timer wakeup didn't happen for %d jiffies!"),
    any(Class::HungTask, "INFO: task %s blocked for more than %d seconds"),
    any(Class::HungTask, "INFO: task %s blocked in I/O wait for more than %d seconds"),
    any(Class::WorkqueueLockup, "BUG: workqueue lockup - pool"),
    word(Class::IrqDeadlock, "wait_on_irq, CPU%d"),
    word(Class::IrqDeadlock, "wait_on_bh, CPU%d"),
    //
    // Boot.
    any(Class::BootFail, "VFS: Cannot open root device"),
    any(Class::BootFail, "VFS: Unable to mount root fs"),
    any(Class::BootFail, "Gave up waiting for root"),
    any(Class::BootFail, "does not exist.  Dropping to a shell!"),
    start(Class::BootFail, "You are in emergency mode"),
    Pattern { format: "Linux version %d.%d", place: Place::Start, meaning: Meaning::Boot },
    //
    // arm64.
    any(Class::Arm64Serror, "SError Interrupt on CPU%d"),
    any(Class::Arm64Serror, "handler detected on CPU%d, code %x -- SError"),
    any(Class::NullDeref, "Unable to handle kernel NULL pointer dereference"),
    any(Class::BadAccess, "Unable to handle kernel %s at virtual address"),
    any(Class::BadAccess, "Unable to handle kernel paging request"),
    any(Class::BadAccess, "Unable to handle kernel data access"),
    word(Class::Oops, "Internal error: %s [#%d]"),
    word(Class::Oops, "Internal error: Oops"),
    word(Class::Oops, "Unhandled fault: %s (%x) at %x"),
    word(Class::Oops, "Unhandled prefetch abort: "),
    word(Class::Oops, "Bad mode in %s handler detected"),
    //
    // Sanitisers and detectors.
    any(Class::Kasan, "BUG: KASAN: "),
    any(Class::Kasan, "KASAN: null-ptr-deref in range"),
    any(Class::Kcsan, "BUG: KCSAN: "),
    any(Class::Kfence, "BUG: KFENCE: "),
    any(Class::Kmsan, "BUG: KMSAN: "),
    word(Class::Ubsan, "UBSAN: %s in %s:%d"),
    any(Class::Leak, "kmemleak: %d new suspected memory leaks"),
    start(Class::Leak, "BUG: memory leak"),
    //
    // Bugs by name.
    any(Class::NullDeref, "BUG: kernel NULL pointer dereference"),
    any(Class::NullDeref, "BUG: Kernel NULL pointer dereference"),
    any(Class::NullDeref, "BUG: unable to handle kernel NULL pointer dereference"),
    any(Class::BadAccess, "BUG: unable to handle page fault"),
    any(Class::BadAccess, "BUG: unable to handle kernel paging request"),
    any(Class::BadAccess, "BUG: Unable to handle kernel "),
    any(Class::BadAccess, "BUG: unable to handle kernel"),
    any(Class::BadAccess, "stack guard page was hit at"),
    any(Class::AtomicSleep, "scheduling while atomic: "),
    any(Class::AtomicSleep, "bad: scheduling while atomic!"),
    any(Class::AtomicSleep, "sleeping function called from invalid context"),
    any(Class::LockBug, "BUG: spinlock "),
    any(Class::LockBug, "BUG: rwlock"),
    any(Class::LockBug, "BUG: write-lock lockup"),
    any(Class::LockBug, "BUG: read-lock lockup"),
    any(Class::LockBug, "BUG: workqueue leaked lock or atomic"),
    any(Class::LockBug, "BUG: rt_mutex"),
    any(Class::MemCorrupt, "BUG: Bad page state"),
    any(Class::MemCorrupt, "BUG: Bad page map"),
    any(Class::MemCorrupt, "BUG: Bad rss-counter state"),
    any(Class::MemCorrupt, "BUG: non-zero "),
    any(Class::MemCorrupt, "BUG: Bad page cache"),
    start(Class::MemCorrupt, "Bad page state in process"),
    start(Class::MemCorrupt, "Bad page state at "),
    start(Class::MemCorrupt, "BUG %s (Not tainted): "),
    start(Class::MemCorrupt, "BUG %s (Tainted: "),
    word(Class::MemCorrupt, "list_add corruption"),
    word(Class::MemCorrupt, "list_del corruption"),
    word(Class::MemCorrupt, "Slab corruption"),
    word(Class::MemCorrupt, "slab error in "),
    any(Class::MemCorrupt, "usercopy: Kernel memory "),
    word(Class::MemCorrupt, "swap_free: Bad swap"),
    any(Class::Lockdep, "possible circular locking dependency detected"),
    any(Class::Lockdep, "possible recursive locking detected"),
    any(Class::Lockdep, "possible irq lock inversion dependency detected"),
    any(Class::Lockdep, "unsafe lock order detected"),
    any(Class::Lockdep, "WARNING: inconsistent lock state"),
    any(Class::Lockdep, "INFO: inconsistent lock state"),
    any(Class::Lockdep, "bad unlock balance detected!"),
    any(Class::Lockdep, "bad contention detected!"),
    any(Class::Lockdep, "held lock freed!"),
    any(Class::Lockdep, "lock held when returning to user space!"),
    any(Class::Lockdep, "still has locks held!"),
    any(Class::Lockdep, "lock held at task exit time!"),
    any(Class::Lockdep, "Nested lock was not taken"),
    any(Class::Lockdep, "BUG: Invalid wait context"),
    any(Class::Lockdep, "INFO: trying to register non-static key"),
    any(Class::Lockdep, "suspicious RCU usage"),
    word(Class::KernelBug, "kernel BUG at "),
    word(Class::KernelBug, "Kernel BUG at "),
    word(Class::KernelBug, "Kernel BUG [#%d]"),
    word(Class::KernelBug, "do_IRQ: stack overflow: "),
    alone(Class::KernelBug, "BUG: "),
    word(Class::KernelBug, "BUG: Dentry "),
    //
    // Traps: x86 prints `name: error-code [#count]`, kernels before 2.6 without the count.
    word(Class::Gpf, "Oops: general protection fault"),
    word(Class::Gpf, "general protection fault, "),
    word(Class::Gpf, "general protection fault: %x"),
    word(Class::Oops, "divide error: %x"),
    word(Class::Oops, "invalid opcode: %x"),
    word(Class::Oops, "invalid operand: %x"),
    word(Class::Oops, "stack segment: %x"),
    word(Class::Oops, "segment not present: %x"),
    word(Class::Oops, "invalid TSS: %x"),
    word(Class::Oops, "alignment check: %x [#%d]"),
    word(Class::Oops, "bounds: %x [#%d]"),
    word(Class::Oops, "overflow: %x [#%d]"),
    word(Class::Oops, "int3: %x [#%d]"),
    word(Class::Oops, "control protection fault: %x"),
    word(Class::Oops, "coprocessor segment overrun: %x"),
    word(Class::Oops, "Oops: %x"),
    word(Class::Oops, "Oops [#%d]"),
    alone(Class::Oops, "Oops: "),
    //
    // Warnings.
    word(Class::Warn, "WARNING: CPU: %d PID: %d at "),
    word(Class::Warn, "WARNING: at %s"),
    word(Class::Warn, "WARNING: %s.c:%d at %s"),
    word(Class::Warn, "WARNING: %s.h:%d at %s"),
    word(Class::Warn, "WARNING: kernel stack "),
    word(Class::Warn, "WARNING: stack recursion"),
    word(Class::Warn, "WARNING: can't dereference registers at"),
    word(Class::Warn, "Badness in %s at %s:%d"),
    word(Class::Warn, "Badness at %s:%d"),
    any(Class::WarnMarker, "---[ cut here ]---"),
    any(Class::WarnMarker, "---- [cut here ] ---"),
    any(Class::WarnMarker, "8<--- cut here ---"),
    //
    // Interrupts and network.
    any(Class::Irq, ": nobody cared (try booting with"),
    any(Class::Irq, ": nobody cared!"),
    any(Class::NetdevLeak, "unregister_netdevice: waiting for %s to become free"),
    word(Class::Nic, "NETDEV WATCHDOG: "),
    any(Class::Nic, "Detected Hardware Unit Hang"),
    any(Class::Nic, "Detected Tx Unit Hang"),
    //
    // Resources.
    any(Class::Oom, " invoked oom-killer: "),
    any(Class::Oom, "Out of Memory: Killed process"),
    any(Class::Oom, "Out of memory: Kill"),
    any(Class::Oom, "emory cgroup out of memory: Kill"),
    any(Class::Oom, "Out of memory and no killable processes"),
    any(Class::AllocFail, ": page allocation failure: order:%d"),
    any(Class::AllocFail, ": page allocation failure. order:%d"),
    any(Class::AllocFail, "-order allocation failed"),
    any(Class::AllocFail, "SLUB: Unable to allocate memory on"),
    any(Class::AllocFail, "TCP: out of memory -- consider tuning tcp_mem"),
    any(Class::AcceptOverflow, "ossible SYN flooding on port"),
    any(Class::TableFull, "table full, dropping packet"),
    any(Class::TableFull, "eighbour table overflow"),
    any(Class::TableFull, "neighbor table overflow!"),
    any(Class::TableFull, "dst cache overflow"),
    any(Class::TableFull, "too many orphaned sockets"),
    any(Class::TableFull, "too many of orphaned sockets"),
    any(Class::TableFull, "time wait bucket table overflow"),
    any(Class::TableFull, "VFS: file-max limit %d reached"),
    any(Class::ClockUnstable, "Marking clocksource %s as unstable"),
    any(Class::ClockUnstable, "Marking TSC unstable due to"),
    any(Class::ClockUnstable, "arking %s unstable, %s clocksource"),
    any(Class::ClockUnstable, "Clocksource %s unstable (delta"),
    any(Class::ClockUnstable, "marking tsc unstable"),
    any(Class::Throttle, "cpu clock throttled"),
    //
    // Hardware. Machine checks before the generic head of hardware errors, which stands earlier in the same line.
    any(Class::Mce, "[Hardware Error]: CPU%d: Machine Check"),
    any(Class::Mce, "[Hardware Error]: Machine check events logged"),
    any(Class::Mce, "[Hardware Error]: Machine check: "),
    any(Class::Mce, "Machine Check Exception: %x"),
    any(Class::Mce, "Machine check events logged"),
    any(Class::HwError, "[Hardware Error]: "),
    word(Class::HwError, "Uhhuh. NMI received"),
    word(Class::HwError, "NMI: IOCK error"),
    word(Class::HwError, "NMI: PCI system error"),
    any(Class::HwError, "PCIe Bus Error: severity="),
    any(Class::HwError, "Memory failure: %x: "),
    word(Class::HwError, "EDAC MC%d: %d UE"),
    word(Class::HwError, "EDAC MC%d: %d CE"),
    any(Class::FsError, "EXT4-fs error (device"),
    any(Class::FsError, "EXT3-fs error (device"),
    any(Class::FsError, "EXT2-fs error (device"),
    any(Class::FsError, "EXT4-fs (%s): Remounting filesystem read-only"),
    any(Class::FsError, "BTRFS error (device"),
    any(Class::FsError, "BTRFS critical (device"),
    any(Class::FsError, "BTRFS: error (device"),
    word(Class::FsError, "XFS (%s): Corruption "),
    word(Class::FsError, "XFS (%s): Metadata corruption"),
    word(Class::FsError, "XFS (%s): Metadata CRC error"),
    word(Class::FsError, "XFS (%s): Internal error"),
    word(Class::FsError, "FAT-fs (%s): error"),
    word(Class::FsError, "SQUASHFS error: "),
    any(Class::FsError, "Aborting journal on device"),
    any(Class::FsError, "Detected aborted journal"),
    any(Class::IoError, "I/O error, dev %s, sector"),
    any(Class::IoError, "Buffer I/O error on dev"),
    any(Class::IoError, "critical medium error, dev"),
    any(Class::IoError, "critical target error, dev"),
    any(Class::IoError, "rejecting I/O to offline device"),
    any(Class::IoError, "rejecting I/O to dead device"),
    any(Class::IoError, ": exception Emask 0x"),
    word(Class::IoError, "nvme%d: I/O %s timeout"),
];

#[cfg(test)]
mod tests {
    use super::{super::format::anchor, *};

    #[test]
    fn expect_rare_anchors_when_formats_are_searched_for() {
        for pattern in PATTERNS {
            let anchor = anchor(pattern.format);
            assert!(anchor.len() >= 4, "{}: every line would be compared", pattern.format);
            assert!(pattern.format.matches("%s").count() <= 2, "{}: slow to compare", pattern.format);
        }
    }

    #[test]
    fn expect_a_pattern_when_a_class_exists() {
        for class in Class::ALL.iter().filter(|class| **class != Class::UnexpectedReboot) {
            let names = |pattern: &&Pattern| match pattern.meaning {
                Meaning::Report(named, _) | Meaning::Panic { class: named, .. } => named == *class,
                Meaning::Ignore | Meaning::End | Meaning::Boot => false,
            };
            assert!(PATTERNS.iter().any(|pattern| names(&pattern)), "{}", class.as_str());
        }
    }
}
