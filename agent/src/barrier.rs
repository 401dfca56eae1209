//! Releases held tasks at one instant. Used by the service for `ReleaseBarrier`.
//!
//! A thread of its own waits for the instant, so that nothing else the agent does can delay it: it sleeps until shortly
//! before, and looks at the clock without pause for the rest, because the kernel wakes a sleeper some 50 us late and an idle
//! CPU needs as long to be fast again. It then opens all gates itself, and the tasks learn afterwards when that was.

use std::{io, thread, time::Duration};

use drover_supervise::run_first;
use rustix::{
    process::setpriority_process,
    thread::{ClockId, clock_nanosleep_absolute},
    time::Timespec,
};

use crate::{clock::monotonic_ns, task::Gate};

/// Furthest instant that a barrier may be released for.
pub const MAX_AHEAD: Duration = Duration::from_secs(600);

/// How long before the instant the clock is looked at without pause.
const SPIN_NS: u64 = 200_000;

/// The highest priority of ordinary threads; only root may ask for it, as a rule.
const HIGHEST: i32 = -20;

/// Opens the gates when `CLOCK_MONOTONIC` reaches `at_ns`, at once when it has.
///
/// # Errors
/// When there is no thread that could wait.
pub fn open_at(at_ns: u64, gates: Vec<Gate>) -> io::Result<()> {
    if gates.is_empty() {
        return Ok(());
    }
    if at_ns <= monotonic_ns() {
        open(at_ns, &gates);
        return Ok(());
    }
    let waiter = move || {
        // Where all CPUs are taken, the kernel would run others first.
        if run_first().is_err() {
            let _ = setpriority_process(None, HIGHEST);
        }
        wait_until(at_ns);
        open(at_ns, &gates);
    };
    thread::Builder::new().name("barrier".to_owned()).spawn(waiter).map(drop)
}

fn wait_until(at_ns: u64) {
    let nearly = at_ns.saturating_sub(SPIN_NS);
    let nearly = Timespec {
        tv_sec: i64::try_from(nearly / 1_000_000_000).unwrap_or(i64::MAX),
        tv_nsec: i64::try_from(nearly % 1_000_000_000).unwrap_or_default(),
    };
    // A signal may wake it early.
    while clock_nanosleep_absolute(ClockId::Monotonic, &nearly) == Err(rustix::io::Errno::INTR) {}
    while monotonic_ns() < at_ns {
        std::hint::spin_loop();
    }
}

/// Opens all gates first, and tells the tasks then.
fn open(at_ns: u64, gates: &[Gate]) {
    let opened: Vec<_> = gates.iter().map(Gate::open).collect();
    gates.iter().zip(opened).for_each(|(gate, opened_ns)| gate.tell(at_ns, opened_ns));
}
