//! Classification of what a kernel says on its console or in its log. Called by whoever reads one: of a virtual machine, a serial line,
//! or `/dev/kmsg`. Pure: no I/O, no clock.
//!
//! Understood are lines with printk's prefixes, of syslog, of `dmesg` and of `journalctl`, records of `/dev/kmsg`, and lines as a serial
//! console gives them: with escape sequences, NULs, lost bytes, other line ends, or several CPUs at once. What processes write is not
//! taken for the kernel's, where the line shows it.
//!
//! What a class means for a verdict:
//!
//! | classes | severity | means |
//! |---|---|---|
//! | `HARD_LOCKUP`, `SOFT_LOCKUP`, `CSD_STALL`, `RCU_STALL`, `IRQ_DEADLOCK` | F | `ng lockup` |
//! | `RCU_STALL` (a kthread starved), `WORKQUEUE_LOCKUP` | E | `ng lockup` |
//! | `PANIC`, `PANIC(secondary)`, `DOUBLE_FAULT`, `ARM64_SERROR` | F | `ng panic` |
//! | `BOOT_FAIL` | F | `missing wrong-kernel`: the kernel that the cell asks for does not run |
//! | `UNEXPECTED_REBOOT` | F | `ng unexpected-reboot` |
//! | `HUNG_TASK` | E | `ng hang` |
//! | `KASAN`, `KFENCE`, `KMSAN`, `UBSAN`, `NULL_DEREF`, `BAD_ACCESS`, `OOPS`, `GPF`, `KERNEL_BUG`, `ATOMIC_SLEEP`, `LOCK_BUG`, `MEM_CORRUPT`, `LOCKDEP`, `IRQ`, `NETDEV_LEAK` | E | `ng oops` |
//! | `RCU_STALL_EXP` | E* | doubt `kernel-warning` |
//! | `WARN`, `WARN(marker)`, `KCSAN`, `LEAK` | W | doubt `kernel-warning` |
//! | `OOM`, `ALLOC_FAIL` | R | doubt `memory` |
//! | `ACCEPT_OVERFLOW`, `TABLE_FULL` | R | doubt `network` |
//! | `CLOCK_UNSTABLE` | R | doubt `clock` |
//! | `THROTTLE` | R | doubt `throttled` |
//! | `MCE`, `HW_ERROR`, `NIC`, `FS_ERROR`, `IO_ERROR` | H | doubt `hardware` |
//! | `harness` (sysrq: crash, reset) | harness | nothing if the caller sent it, else `ng hang` |
//! | `note` | note | nothing |
//!
//! A death has the class of the first report that led to it. Where that is one of the doubts (a warning with `panic_on_warn`, a machine
//! check), the kernel still panicked: `ng panic`.

mod class;
mod classifier;
mod death;
mod excerpt;
mod finding;
mod format;
mod lines;
mod matcher;
mod patterns;
mod prefix;

pub use class::{Class, Hint, Severity};
pub use classifier::Classifier;
pub use excerpt::{AFTER_LINES, BEFORE_LINES, EXCERPT_MAX, Excerpt, KEPT_LINE_MAX, TRACE_LINES};
pub use finding::{BUG_MAX, FATAL_MAX, Finding, OTHER_MAX, THEN_MAX};
pub use lines::LINE_MAX;
pub(crate) use lines::unescaped;
