//! The event loop of one client thread: starts connections when they are due, drives them by epoll, and times them.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};

use crate::connection::{Advance, Connection, Interest, Readiness, Script};
use crate::failure::{Failure, Tally};
use crate::latency::{Latencies, LatencyError};
use crate::progress::Interval;
use crate::schedule::{Job, Schedule};

/// Events taken from epoll at a time.
const BATCH: usize = 256;
/// Bytes received at a time.
const BUFFER: usize = 64 * 1024;
/// Mark of the timer among the events.
const TIMER: u64 = u64::MAX;
/// Shortest interval between two looks for connections that are out of time.
const SWEEP_AT_LEAST: Duration = Duration::from_millis(5);

/// Why a client thread failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EngineError {
    /// The kernel refused.
    #[error("cannot {0}")]
    System(&'static str, #[source] io::Error),
    /// No histogram.
    #[error(transparent)]
    Latency(#[from] LatencyError),
}

/// What a thread has found.
#[derive(Debug)]
pub(crate) struct Findings {
    /// What became of its connections.
    pub tally: Tally,
    /// Latencies of those that succeeded.
    pub latencies: Latencies,
    /// When the last one ended; `None` if there was none.
    pub last_end: Option<Instant>,
}

impl Findings {
    /// Nothing so far.
    pub(crate) fn new() -> Result<Self, LatencyError> {
        Ok(Self { tally: Tally::default(), latencies: Latencies::new()?, last_end: None })
    }

    /// Adds those of another thread.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.tally.merge(&other.tally);
        self.latencies.merge(&other.latencies);
        self.last_end = self.last_end.max(other.last_end);
    }

    /// Counts a connection that has ended.
    fn finish(&mut self, now: Instant, counted_from: Instant, result: Result<(), Failure>) {
        self.last_end = Some(now);
        match result {
            Ok(()) => {
                self.tally.succeeded += 1;
                self.latencies.record(now.saturating_duration_since(counted_from));
            }
            Err(failure) => self.tally.fail(failure),
        }
    }
}

/// A connection under way.
struct Active {
    connection: Connection,
    /// What epoll watches it for.
    interest: Interest,
    /// From when its latency counts: when it was due, or else started.
    counted_from: Instant,
    started: Instant,
}

/// One thread's event loop.
pub(crate) struct Engine<'a> {
    script: &'a Script,
    schedule: &'a Schedule,
    timeout: Duration,
    /// Most connections open at once.
    capacity: usize,
    poller: OwnedFd,
    /// Wakes the loop when the next connection is due. epoll's own timeout is too coarse: whole milliseconds.
    timer: Option<OwnedFd>,
    slots: Vec<Option<Active>>,
    free: Vec<usize>,
    /// A connection claimed but not due yet.
    next: Option<Job>,
    /// No further connection is to be claimed.
    exhausted: bool,
    next_sweep: Instant,
    buffer: Vec<u8>,
    findings: Findings,
    /// Where findings of the present interval are counted too.
    interval: Option<&'a Interval>,
}

impl<'a> Engine<'a> {
    /// A loop with up to `capacity` connections; `paced` if the schedule has due times.
    pub(crate) fn new(
        script: &'a Script,
        schedule: &'a Schedule,
        capacity: usize,
        timeout: Duration,
        paced: bool,
        interval: Option<&'a Interval>,
    ) -> Result<Self, EngineError> {
        let system = |what| move |error: Errno| EngineError::System(what, error.into());
        let poller = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(system("make an epoll instance"))?;
        let timer = if paced {
            let timer =
                timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)
                    .map_err(system("make a timer"))?;
            let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
            epoll::add(&poller, &timer, epoll::EventData::new_u64(TIMER), flags)
                .map_err(system("watch a timer"))?;
            Some(timer)
        } else {
            None
        };
        Ok(Self {
            script,
            schedule,
            timeout,
            capacity: capacity.max(1),
            poller,
            timer,
            slots: Vec::new(),
            free: Vec::new(),
            next: None,
            exhausted: false,
            next_sweep: Instant::now(),
            buffer: vec![0; BUFFER],
            findings: Findings::new()?,
            interval,
        })
    }

    /// Runs until the schedule is exhausted and every connection has ended.
    pub(crate) fn run(mut self) -> Result<Findings, EngineError> {
        let mut events = Vec::with_capacity(BATCH);
        loop {
            self.start_due()?;
            if self.open() == 0 && self.next.is_none() && self.exhausted {
                return Ok(self.findings);
            }
            // With nothing open and nothing to wait for, there is no event to look for either.
            if self.open() > 0 || self.next.is_some() {
                self.wait(&mut events)?;
                for event in events.drain(..) {
                    self.handle(event)?;
                }
                self.sweep();
            }
        }
    }

    fn open(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Starts connections until there is no room, none is due, or as many were started as there is room for (then
    /// the open ones get a look).
    fn start_due(&mut self) -> Result<(), EngineError> {
        for _ in 0..self.capacity {
            if self.open() >= self.capacity || (self.exhausted && self.next.is_none()) {
                return Ok(());
            }
            let now = Instant::now();
            let Some(job) = self.next.take().or_else(|| self.schedule.claim(now)) else {
                self.exhausted = true;
                return Ok(());
            };
            match job.due {
                Some(due) if due > now => {
                    self.next = Some(job);
                    return self.arm_timer(due - now);
                }
                due => self.start(job.index, due.unwrap_or(now), now)?,
            }
        }
        Ok(())
    }

    fn start(&mut self, index: u64, counted_from: Instant, now: Instant) -> Result<(), EngineError> {
        self.findings.tally.started += 1;
        if let Some(interval) = self.interval {
            interval.lock().tally.started += 1;
        }
        let (connection, interest) = match Connection::open(self.script, index) {
            Ok((connection, Advance::Wait(interest))) => (connection, interest),
            Ok((connection, Advance::Done)) => {
                drop(connection);
                self.finish(counted_from, Ok(()));
                return Ok(());
            }
            Err(failure) => {
                self.finish(counted_from, Err(failure));
                return Ok(());
            }
        };
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        epoll::add(&self.poller, &connection, data_of(slot), flags_of(interest))
            .map_err(|error| EngineError::System("watch a connection", error.into()))?;
        if let Some(place) = self.slots.get_mut(slot) {
            *place = Some(Active { connection, interest, counted_from, started: now });
        }
        Ok(())
    }

    /// Waits for events: not at all if more connections can be started at once, else until one of the open ones is
    /// due for a look at its timeout.
    fn wait(&self, events: &mut Vec<epoll::Event>) -> Result<(), EngineError> {
        let could_start = self.next.is_none() && !self.exhausted && self.open() < self.capacity;
        let timeout = if could_start {
            Some(Duration::ZERO)
        } else if self.open() > 0 {
            Some(self.next_sweep.saturating_duration_since(Instant::now()))
        } else {
            None
        };
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        match epoll::wait(&self.poller, rustix::buffer::spare_capacity(events), timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(EngineError::System("wait for events", error.into())),
        }
    }

    fn handle(&mut self, event: epoll::Event) -> Result<(), EngineError> {
        let Ok(slot) = usize::try_from(event.data.u64()) else { return Ok(()) };
        let Some(Some(active)) = self.slots.get_mut(slot) else { return Ok(()) };
        let flags = event.flags;
        let readiness = Readiness { ended: flags.contains(epoll::EventFlags::RDHUP) };
        let calls = &mut self.findings.tally.calls;
        let before = *calls;
        let advanced = active.connection.advance(self.script, readiness, &mut self.buffer, calls);
        if let Some(interval) = self.interval.filter(|_| *calls > before) {
            interval.lock().tally.calls += *calls - before;
        }
        let result = match advanced {
            Ok(Advance::Wait(interest)) => {
                if interest != active.interest {
                    active.interest = interest;
                    epoll::modify(&self.poller, &active.connection, data_of(slot), flags_of(interest))
                        .map_err(|error| EngineError::System("watch a connection", error.into()))?;
                }
                return Ok(());
            }
            Ok(Advance::Done) => Ok(()),
            Err(failure) => Err(failure),
        };
        self.end(slot, result);
        Ok(())
    }

    /// Fails the connections that are out of time. They are looked for a few times per timeout, so that no order of
    /// deadlines has to be kept.
    fn sweep(&mut self) {
        let now = Instant::now();
        if now < self.next_sweep {
            return;
        }
        self.next_sweep = now + (self.timeout / 50).max(SWEEP_AT_LEAST);
        for slot in 0..self.slots.len() {
            let late = |active: &Active| now.saturating_duration_since(active.started) >= self.timeout;
            if self.slots.get(slot).and_then(Option::as_ref).is_some_and(late) {
                self.end(slot, Err(Failure::Timeout));
            }
        }
    }

    /// Closes a connection and frees its slot.
    fn end(&mut self, slot: usize, result: Result<(), Failure>) {
        if let Some(active) = self.slots.get_mut(slot).and_then(Option::take) {
            self.free.push(slot);
            let counted_from = active.counted_from;
            drop(active);
            self.finish(counted_from, result);
        }
    }

    /// Counts a connection that has ended.
    fn finish(&mut self, counted_from: Instant, result: Result<(), Failure>) {
        let now = Instant::now();
        self.findings.finish(now, counted_from, result);
        if let Some(interval) = self.interval {
            interval.lock().finish(now, counted_from, result);
        }
    }

    fn arm_timer(&self, after: Duration) -> Result<(), EngineError> {
        let Some(timer) = &self.timer else { return Ok(()) };
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        let value = Timespec::try_from(after).unwrap_or(zero);
        timerfd_settime(timer, TimerfdTimerFlags::empty(), &Itimerspec { it_interval: zero, it_value: value })
            .map(drop)
            .map_err(|error| EngineError::System("set a timer", error.into()))
    }
}

fn data_of(slot: usize) -> epoll::EventData {
    epoll::EventData::new_u64(u64::try_from(slot).unwrap_or(TIMER))
}

/// Edge-triggered: every connection is read until it is empty, and a socket stays writable while it is read.
fn flags_of(interest: Interest) -> epoll::EventFlags {
    let flags = epoll::EventFlags::IN | epoll::EventFlags::RDHUP | epoll::EventFlags::ET;
    match interest {
        Interest::Read => flags,
        Interest::Write => flags | epoll::EventFlags::OUT,
    }
}
