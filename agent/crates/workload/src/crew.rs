//! The crew: the forked workers as the server sees them. Who lives, who was lost, what became of the lock they held,
//! and how all of them are stopped.

use std::collections::HashMap;
use std::io;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process};

use crate::board::{Switches, WorkerSlot};
use crate::report::LostWorker;
use crate::serialise::{AfterDeath, LockSource};
use crate::sys::{STOP_SIGNAL, SignalFd, Usage, reap};

/// How long workers get to end after they were told; then they are killed.
const STOP_GRACE: Duration = Duration::from_secs(3);
/// Interval of the looks at a lock that may be lost.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Looks in a row after which it is believed lost.
const LOOKS_TO_BELIEVE: u32 = 5;

/// A worker that ended unexpectedly.
#[derive(Debug)]
pub(crate) struct Ended {
    /// Its index.
    pub worker: usize,
    /// How it ended.
    pub status: String,
    /// What that meant for the lock, as the end of a sentence; may be empty.
    pub note: &'static str,
}

/// The workers of a server.
pub(crate) struct Crew {
    board: &'static [WorkerSlot],
    lock: LockSource,
    /// Process of each worker forked so far, by index; what it used, once it has ended.
    members: Vec<(Pid, Option<Usage>)>,
    by_pid: HashMap<Pid, usize>,
    living: usize,
    lost: Vec<LostWorker>,
    /// Locks the kernel or the server gave back for a dead worker.
    given_back: u64,
    /// Locks that workers had taken over from a dead holder when they were told to stop.
    taken_over: Option<u64>,
    /// Looks in a row at which the lock seemed lost, while that is in question.
    doubt: Option<u32>,
}

impl Crew {
    /// A crew without members yet; `board` has a slot for each.
    pub(crate) fn new(board: &'static [WorkerSlot], lock: LockSource) -> Self {
        Self {
            board,
            lock,
            members: Vec::with_capacity(board.len()),
            by_pid: HashMap::with_capacity(board.len()),
            living: 0,
            lost: Vec::new(),
            given_back: 0,
            taken_over: None,
            doubt: None,
        }
    }

    /// The slots of all workers, forked or not.
    pub(crate) const fn board(&self) -> &'static [WorkerSlot] {
        self.board
    }

    /// The accept lock.
    pub(crate) const fn lock(&self) -> &LockSource {
        &self.lock
    }

    /// Adds the next worker.
    pub(crate) fn add(&mut self, pid: Pid) {
        self.by_pid.insert(pid, self.members.len());
        self.members.push((pid, None));
        self.living += 1;
    }

    /// Workers that live.
    pub(crate) const fn living(&self) -> usize {
        self.living
    }

    /// Workers that ended too early.
    pub(crate) fn lost(&self) -> &[LostWorker] {
        &self.lost
    }

    /// Times the lock was recovered from a dead worker, by whomever, before the workers were stopped: a worker that is
    /// told to stop leaves the lock to the next one in the same way, which means nothing.
    pub(crate) fn recovered(&self) -> u64 {
        self.given_back + self.taken_over.unwrap_or_else(|| self.count_taken_over())
    }

    fn count_taken_over(&self) -> u64 {
        self.board.iter().map(WorkerSlot::recovered).sum()
    }

    /// Connections accepted, by worker.
    pub(crate) fn accepts(&self) -> Vec<u64> {
        self.board.iter().map(WorkerSlot::accepted).collect()
    }

    /// Context switches of all workers while they served. Complete once all have ended.
    pub(crate) fn switches(&self) -> Switches {
        let mut sum = Switches::default();
        for (slot, (_, usage)) in self.board.iter().zip(&self.members) {
            let one = slot.switches(&usage.unwrap_or_default());
            sum.voluntary += one.voluntary;
            sum.involuntary += one.involuntary;
        }
        sum
    }

    /// Whether the lock has to be looked at again.
    pub(crate) const fn in_doubt(&self) -> bool {
        self.doubt.is_some()
    }

    /// Collects the workers that ended although nobody told them to, and gives back what they held.
    pub(crate) fn reap(&mut self) -> io::Result<Vec<Ended>> {
        let mut found = Vec::new();
        while let Some((worker, status)) = self.reap_one()? {
            let Some(slot) = self.board.get(worker) else { continue };
            let note = match self.lock.after_death(slot.lock_phase()) {
                AfterDeath::Nothing => "",
                AfterDeath::KernelGaveBack => {
                    self.given_back += 1;
                    "; it held the accept lock, which the kernel gave back"
                }
                AfterDeath::GiveBack => {
                    self.lock.give_back()?;
                    self.given_back += 1;
                    "; it held the accept lock, which was given back for it"
                }
                AfterDeath::Unsure => {
                    self.doubt = Some(0);
                    "; it may have held the accept lock, which is being watched"
                }
            };
            self.lost.push(LostWorker { worker, status: status.clone() });
            found.push(Ended { worker, status, note });
        }
        Ok(found)
    }

    /// Looks at a lock in doubt; gives it back once it has looked lost often enough.
    pub(crate) fn settle_doubt(&mut self) -> io::Result<()> {
        let Some(looks) = self.doubt else { return Ok(()) };
        let living = self.board.iter().zip(&self.members).filter(|(_, (_, ended))| ended.is_none());
        if !self.lock.looks_lost(living.map(|(slot, _)| slot))? {
            self.doubt = None;
        } else if looks + 1 < LOOKS_TO_BELIEVE {
            self.doubt = Some(looks + 1);
        } else {
            self.doubt = None;
            self.lock.give_back()?;
            self.given_back += 1;
        }
        Ok(())
    }

    /// Tells all workers to end and waits until they have; kills those that do not within the grace.
    pub(crate) fn stop(&mut self, signals: &SignalFd) -> io::Result<()> {
        self.taken_over = Some(self.count_taken_over());
        self.signal_living(STOP_SIGNAL);
        let mut deadline = Some(Instant::now() + STOP_GRACE);
        while self.living > 0 {
            let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                self.signal_living(Signal::KILL);
                deadline = None;
            }
            let timeout = left.and_then(|left| Timespec::try_from(left).ok());
            match poll(&mut [PollFd::new(signals, PollFlags::IN)], timeout.as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            while signals.next()?.is_some() {}
            while self.reap_one()?.is_some() {}
        }
        Ok(())
    }

    /// Collects one worker that has ended.
    fn reap_one(&mut self) -> io::Result<Option<(usize, String)>> {
        while let Some(ended) = reap()? {
            // Children of whoever called us are none of the crew.
            let Some(worker) = self.by_pid.remove(&ended.pid) else { continue };
            if let Some((_, usage)) = self.members.get_mut(worker) {
                *usage = Some(ended.usage);
            }
            self.living -= 1;
            return Ok(Some((worker, ended.status)));
        }
        Ok(None)
    }

    fn signal_living(&self, signal: Signal) {
        for (pid, ended) in &self.members {
            if ended.is_none() {
                // Fails only for a process that is gone, and it cannot be gone before it is reaped.
                let _ = kill_process(*pid, signal);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::board::LockPhase;
    use crate::serialise::Serialisation;
    use crate::sys::Shared;

    /// Two workers that never ran, and a POSIX semaphore which somebody has taken.
    fn crew_with_taken_semaphore() -> Crew {
        let board: &'static Shared<WorkerSlot> = Box::leak(Box::new(Shared::new(2).unwrap()));
        let lock = LockSource::create(Serialisation::Posixsem).unwrap();
        lock.open().unwrap().unwrap().acquire().unwrap();
        let mut crew = Crew::new(board, lock);
        for pid in [1_000_001, 1_000_002] {
            crew.add(Pid::from_raw(pid).unwrap());
        }
        crew.doubt = Some(0);
        crew
    }

    #[test]
    fn expect_the_semaphore_back_when_it_looked_lost_often_enough() {
        let mut crew = crew_with_taken_semaphore();
        for _ in 0..LOOKS_TO_BELIEVE {
            assert!(crew.in_doubt());
            assert_eq!(crew.recovered(), 0);
            crew.settle_doubt().unwrap();
        }
        assert!(!crew.in_doubt());
        assert_eq!(crew.recovered(), 1);
        assert_eq!(crew.lock().open().unwrap().unwrap().acquire().unwrap(), crate::serialise::Taken::Clean);
    }

    #[test]
    fn expect_no_more_doubt_when_a_living_worker_has_the_semaphore() {
        let mut crew = crew_with_taken_semaphore();
        crew.settle_doubt().unwrap();
        crew.board()[1].set_lock_phase(LockPhase::Held);
        crew.settle_doubt().unwrap();
        assert!(!crew.in_doubt());
        assert_eq!(crew.recovered(), 0);
    }
}
