//! The board: one slot per worker in shared memory. Workers write their own slot, the server reads all of them.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use crate::sys::Usage;

/// Where a worker stands with the accept lock. Lets the server judge what a dead worker held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockPhase {
    /// Neither holds nor wants the lock.
    Free,
    /// Is about to take the lock, waits for it, or has it since an instant.
    Taking,
    /// Has the lock.
    Held,
    /// Is about to give the lock back, or has done so since an instant.
    Giving,
}

impl LockPhase {
    const fn code(self) -> u8 {
        match self {
            Self::Free => 0,
            Self::Taking => 1,
            Self::Held => 2,
            Self::Giving => 3,
        }
    }

    const fn from_code(code: u8) -> Self {
        match code {
            1 => Self::Taking,
            2 => Self::Held,
            3 => Self::Giving,
            _ => Self::Free,
        }
    }
}

/// Context switches of a worker while it served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Switches {
    /// Times the worker went to sleep and was woken again.
    pub voluntary: u64,
    /// Times it lost the CPU although it could have run.
    pub involuntary: u64,
}

/// What one worker tells the server. Aligned to two cache lines (x86 prefetches pairs), so that counting a connection
/// never slows another worker down. All-zero is the state before the worker runs.
#[derive(Debug)]
#[repr(C, align(128))]
pub(crate) struct WorkerSlot {
    accepted: AtomicU64,
    recovered: AtomicU64,
    lock_phase: AtomicU8,
    /// 1 once the worker serves, 2 once it has ended in order.
    life: AtomicU8,
    /// 1 if the worker slept when it was told to stop.
    slept_at_end: AtomicU8,
    start_voluntary: AtomicU64,
    start_involuntary: AtomicU64,
    end_voluntary: AtomicU64,
    end_involuntary: AtomicU64,
}

const SERVING: u8 = 1;
const ENDED: u8 = 2;

impl WorkerSlot {
    /// Counts one accepted connection. Only the owner writes, so no locked instruction is needed.
    pub(crate) fn count_accept(&self) {
        self.accepted.store(self.accepted.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Connections this worker accepted.
    pub(crate) fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::Relaxed)
    }

    /// Counts one lock taken over from a dead holder.
    pub(crate) fn count_recovered(&self) {
        self.recovered.store(self.recovered.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Locks this worker took over from a dead holder.
    pub(crate) fn recovered(&self) -> u64 {
        self.recovered.load(Ordering::Relaxed)
    }

    /// Says where the worker stands with the lock.
    pub(crate) fn set_lock_phase(&self, phase: LockPhase) {
        self.lock_phase.store(phase.code(), Ordering::Release);
    }

    /// Where the worker stands with the lock.
    pub(crate) fn lock_phase(&self) -> LockPhase {
        LockPhase::from_code(self.lock_phase.load(Ordering::Acquire))
    }

    /// Begins the serving phase: switches up to here are not counted.
    pub(crate) fn record_start(&self, usage: &Usage) {
        self.start_voluntary.store(usage.voluntary, Ordering::Relaxed);
        self.start_involuntary.store(usage.involuntary, Ordering::Relaxed);
        self.life.store(SERVING, Ordering::Release);
    }

    /// Ends the serving phase. Async-signal-safe.
    pub(crate) fn record_end(&self, usage: &Usage, asleep: bool) {
        self.end_voluntary.store(usage.voluntary, Ordering::Relaxed);
        self.end_involuntary.store(usage.involuntary, Ordering::Relaxed);
        self.slept_at_end.store(u8::from(asleep), Ordering::Relaxed);
        // Only a worker that began can end: one stopped during start-up has served nothing.
        if self.life.load(Ordering::Acquire) == SERVING {
            self.life.store(ENDED, Ordering::Release);
        }
    }

    /// Switches of the serving phase. `at_death` is what the kernel says the worker used in total, for a worker that
    /// could not record its own end.
    pub(crate) fn switches(&self, at_death: &Usage) -> Switches {
        let life = self.life.load(Ordering::Acquire);
        if life != SERVING && life != ENDED {
            return Switches::default();
        }
        let ended = life == ENDED;
        let pick = |own: &AtomicU64, kernel: u64| if ended { own.load(Ordering::Relaxed) } else { kernel };
        let voluntary = pick(&self.end_voluntary, at_death.voluntary);
        let involuntary = pick(&self.end_involuntary, at_death.involuntary);
        // The sleep that only the stop ended was no wakeup for a connection.
        let last_sleep = if ended { u64::from(self.slept_at_end.load(Ordering::Relaxed)) } else { 0 };
        Switches {
            voluntary: voluntary
                .saturating_sub(self.start_voluntary.load(Ordering::Relaxed))
                .saturating_sub(last_sleep),
            involuntary: involuntary.saturating_sub(self.start_involuntary.load(Ordering::Relaxed)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn usage(voluntary: u64, involuntary: u64) -> Usage {
        Usage { cpu: Duration::ZERO, voluntary, involuntary }
    }

    fn slot() -> WorkerSlot {
        WorkerSlot {
            accepted: AtomicU64::new(0),
            recovered: AtomicU64::new(0),
            lock_phase: AtomicU8::new(0),
            life: AtomicU8::new(0),
            slept_at_end: AtomicU8::new(0),
            start_voluntary: AtomicU64::new(0),
            start_involuntary: AtomicU64::new(0),
            end_voluntary: AtomicU64::new(0),
            end_involuntary: AtomicU64::new(0),
        }
    }

    #[test]
    fn expect_no_switches_when_the_worker_never_served() {
        let slot = slot();
        assert_eq!(slot.switches(&usage(7, 3)), Switches::default());
        slot.record_end(&usage(7, 3), true);
        assert_eq!(slot.switches(&usage(7, 3)), Switches::default());
    }

    #[test]
    fn expect_the_last_sleep_not_counted_when_the_worker_slept_at_the_end() {
        let slot = slot();
        slot.record_start(&usage(10, 2));
        slot.record_end(&usage(15, 3), true);
        assert_eq!(slot.switches(&usage(99, 99)), Switches { voluntary: 4, involuntary: 1 });
    }

    #[test]
    fn expect_the_kernels_figures_when_the_worker_was_killed() {
        let slot = slot();
        slot.record_start(&usage(10, 2));
        assert_eq!(slot.switches(&usage(14, 2)), Switches { voluntary: 4, involuntary: 0 });
    }

    #[test]
    fn expect_every_lock_phase_to_survive_its_code() {
        for phase in [LockPhase::Free, LockPhase::Taking, LockPhase::Held, LockPhase::Giving] {
            assert_eq!(LockPhase::from_code(phase.code()), phase);
        }
    }
}
