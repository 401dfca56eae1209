//! Ends a process tree for certain, whatever keeps it together. Used for tasks and for what earlier agents left.

use std::{
    collections::BTreeSet,
    io,
    os::fd::{AsFd, OwnedFd},
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec},
    process::{Pid, PidfdFlags, Signal},
};

use crate::{
    KillError, Survivor,
    proc::{self, Process},
};

/// Longest wait before the tree is looked at again: processes made meanwhile must not live longer than this.
const SLICE: Duration = Duration::from_millis(20);
/// Most processes waited for at once; each costs a descriptor.
const AT_ONCE: usize = 64;

/// A set of processes that can be listed and struck.
pub(crate) trait Tree {
    /// The processes that are alive.
    fn processes(&self) -> io::Result<Vec<u32>>;

    /// Whether the tree is empty for certain; asked when `processes` gave none.
    fn is_empty(&self) -> io::Result<bool>;

    /// Kills: `processes` are those just seen, more may have come.
    fn strike(&self, processes: &[u32]) -> io::Result<()>;
}

/// Kills until the tree is proven empty. Returns how many processes were seen alive.
///
/// # Errors
///
/// [`KillError::Unkillable`] when something is still alive `patience` after the first strike.
pub(crate) fn destroy(tree: &impl Tree, patience: Duration) -> Result<Vec<u32>, KillError> {
    let system = |step| move |source| KillError::System { step, source };
    // Only from the first strike on: on a host that is busy with the very tree to be killed, listing it takes long.
    let mut first_strike = None;
    let mut killed = BTreeSet::new();
    let mut pause = Duration::from_micros(100);
    loop {
        let alive = tree.processes().map_err(system("list its processes"))?;
        if alive.is_empty() && tree.is_empty().map_err(system("ask whether it is empty"))? {
            return Ok(killed.into_iter().collect());
        }
        killed.extend(&alive);
        let waited = first_strike.get_or_insert_with(Instant::now).elapsed();
        if waited >= patience {
            let survivors = alive.iter().filter_map(|&pid| survivor(pid)).collect();
            return Err(KillError::Unkillable { survivors, waited_ms: waited.as_millis() });
        }
        if alive.is_empty() && pause < SLICE {
            // The last process is between its end and its removal from the cgroup: too short to be worth a notification, which
            // the kernel sends once in 10 ms at most.
            wait_for(&mut [], pause).map_err(system("wait"))?;
            pause *= 2;
            continue;
        }
        tree.strike(&alive).map_err(system("send SIGKILL"))?;
        await_exit(&alive, SLICE).map_err(system("wait for its processes"))?;
    }
}

fn survivor(pid: u32) -> Option<Survivor> {
    let process = Process::read(pid).filter(Process::is_alive)?;
    Some(Survivor { pid, comm: process.comm, state: process.state })
}

/// Waits until the given processes have ended, `timeout` at most.
pub(crate) fn await_exit(pids: &[u32], timeout: Duration) -> io::Result<()> {
    let deadline = Instant::now() + timeout;
    let mut open: Vec<OwnedFd> = Vec::new();
    for pid in pids.iter().take(AT_ONCE).filter_map(|&pid| Pid::from_raw(pid.cast_signed())) {
        match rustix::process::pidfd_open(pid, PidfdFlags::empty()) {
            Ok(pidfd) => open.push(pidfd),
            Err(errno) if proc::is_gone(&errno.into()) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    if open.is_empty() {
        // None of them is there any more, or there were none: do not come back at once.
        return wait_for(&mut [], timeout.min(Duration::from_millis(1)));
    }
    while !open.is_empty() {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        let mut polled: Vec<_> =
            open.iter().map(|fd| PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::IN)).collect();
        wait_for(&mut polled, left)?;
        let ended: Vec<bool> = polled.iter().map(|fd| !fd.revents().is_empty()).collect();
        let mut ended = ended.into_iter();
        open.retain(|_| !ended.next().unwrap_or(false));
    }
    Ok(())
}

/// Polls, with the timeout rounded by the kernel only.
pub(crate) fn wait_for(fds: &mut [PollFd<'_>], timeout: Duration) -> io::Result<()> {
    let timeout = Timespec::try_from(timeout).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    match rustix::event::poll(fds, Some(&timeout)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// Sends SIGKILL to processes that cannot have been replaced by others of the same number: frozen ones, or such as were just seen.
pub(super) fn signal_each(pids: &[u32]) {
    for pid in pids.iter().filter_map(|&pid| Pid::from_raw(pid.cast_signed())) {
        // One that is gone already needs nothing; one that cannot be killed is found alive in the next round.
        let _ = rustix::process::kill_process(pid, Signal::KILL);
    }
}
