//! A freezer cgroup of version 1: freeze, kill all, thaw. Frozen processes cannot fork, and die when they are thawed.

use std::{
    io,
    time::{Duration, Instant},
};

use super::{
    Slot,
    destroy::{signal_each, wait_for},
};

/// How long a tree may take to freeze before its processes are killed as they are; the next round finds what they made.
const FREEZE: Duration = Duration::from_millis(100);

pub(crate) struct Cgroup1<'a>(pub(super) &'a Slot);

impl Cgroup1<'_> {
    pub(super) fn is_empty(&self) -> io::Result<bool> {
        Ok(self.0.collect("cgroup.procs")?.is_empty())
    }

    pub(super) fn strike(&self) -> io::Result<()> {
        self.0.write("freezer.state", "FROZEN")?;
        let killed = self.await_frozen().and_then(|()| self.0.collect("cgroup.procs"));
        if let Ok(processes) = &killed {
            signal_each(processes);
        }
        self.0.write("freezer.state", "THAWED")?;
        killed.map(drop)
    }

    /// The kernel has no notification for this.
    fn await_frozen(&self) -> io::Result<()> {
        let start = Instant::now();
        let mut pause = Duration::from_micros(50);
        while self.0.read("freezer.state")?.trim_end() != "FROZEN" && start.elapsed() < FREEZE {
            wait_for(&mut [], pause)?;
            pause *= 2;
        }
        Ok(())
    }
}
