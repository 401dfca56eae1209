//! The agent's state: lease, spool, running tasks, ports. Synchronous; the service, the tasks and the server call it
//! under one lock, which nobody holds across an `.await`.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use drover_model::{
    AttemptId, HostEvent, HostEventKind, LeaseInfo, RunId, TaskEnd, TaskEvent, TaskEventKind, TaskId,
};
use drover_proto::{LeaseRef, v1};
use drover_supervise::ports::PortPool;

use crate::{
    clock::{unix_now, unix_us},
    lease::{Ask, LeaseBook},
    refused::Refused,
    spool::{AttemptEntry, Spool, SpoolError, TaskEntry},
    task::{self, LiveTask},
    text::chain,
};

/// Ended attempts that no controller asked for in this time are forgotten when the agent starts, unless their run still holds
/// the host.
const RETENTION: Duration = Duration::from_secs(7 * 24 * 3600);

/// Most ports that one request may reserve.
const MAX_PORTS: usize = 1000;

/// Most tasks that may run at once.
const MAX_LIVE: usize = 4096;

/// Lease, spool, running tasks and ports.
#[derive(Debug)]
pub struct Registry {
    leases: LeaseBook,
    spool: Spool,
    live: HashMap<TaskId, LiveTask>,
    ports: PortPool,
    quarantine: Option<String>,
    /// How many change the host itself: its CPUs, or the kernel that it boots.
    changing: usize,
    ending: bool,
    connections: usize,
}

/// What became of a request to start a task.
#[derive(Debug)]
pub enum Admission {
    /// The task was known already.
    Known,
    /// It is accepted and has to be started.
    Accepted,
    /// It is accepted and has ended: the disk is full.
    Ended,
}

impl Registry {
    /// Takes up what `spool` says: tasks that never ended get an end, and what nobody came back for is forgotten.
    #[must_use]
    pub fn new(spool: Spool) -> Self {
        let index = spool.index();
        let seed = u64::from(std::process::id());
        let mut registry = Self {
            leases: LeaseBook::restore(index.epoch, index.grant.clone(), Instant::now()),
            live: HashMap::new(),
            ports: PortPool::new(seed),
            quarantine: None,
            changing: 0,
            ending: false,
            connections: 0,
            spool,
        };
        let lost: Vec<TaskId> = registry.spool.index().open_tasks().map(|entry| entry.id.clone()).collect();
        for id in lost {
            tracing::warn!(task = %id, "was running when the agent before this one ended");
            registry.record(&id, TaskEventKind::Ended(task::lost()));
        }
        registry.forget_old();
        registry
    }

    fn forget_old(&mut self) {
        let horizon = unix_now().saturating_sub(RETENTION).as_micros();
        let holder = self.leases.holder().map(|info| info.run);
        let attempts = self.spool.index().attempts.iter().filter(|(attempt, _)| Some(attempt.run) != holder);
        let old = attempts.filter(|(_, entry)| u128::from(entry.touched_unix_us) < horizon);
        let old: Vec<AttemptId> = old.map(|(attempt, _)| *attempt).collect();
        for attempt in old {
            tracing::info!(%attempt, "is forgotten: no controller came back for it in time");
            self.spool.forget(attempt);
        }
    }

    /// Attempts that are not forgotten.
    pub fn attempts(&self) -> impl Iterator<Item = &AttemptId> {
        self.spool.index().attempts.keys()
    }

    /// Who holds the host.
    #[must_use]
    pub fn holder(&self) -> Option<&LeaseInfo> {
        self.leases.holder()
    }

    /// Gives the host to a run.
    ///
    /// # Errors
    /// When another run holds it, or the lease cannot be spooled.
    pub fn acquire(&mut self, ask: Ask) -> Result<LeaseInfo, Refused> {
        if self.ending {
            return Err(Refused::Ending);
        }
        let now = Instant::now();
        let grant = self.leases.propose(ask, now, !self.live.is_empty())?;
        self.spool.lease(&grant)?;
        let info = grant.info.clone();
        tracing::info!(run = %info.run, epoch = info.epoch.0, holder = info.holder, "took the host");
        self.leases.install(grant, now);
        Ok(info)
    }

    /// Extends a lease.
    ///
    /// # Errors
    /// When it is not the present one.
    pub fn renew(&mut self, lease: LeaseRef) -> Result<LeaseInfo, Refused> {
        Ok(self.leases.renew(lease, Instant::now())?.clone())
    }

    /// Whether a request under this lease may act.
    ///
    /// # Errors
    /// When it is not the present one.
    pub fn check(&self, lease: LeaseRef) -> Result<(), Refused> {
        Ok(self.leases.check(lease)?)
    }

    /// Gives the host back.
    ///
    /// # Errors
    /// When the lease is not the present one, or tasks run.
    pub fn release(&mut self, lease: LeaseRef) -> Result<(), Refused> {
        self.leases.check(lease)?;
        if !self.live.is_empty() {
            return Err(Refused::TasksRunning(self.live.len()));
        }
        self.spool.free();
        tracing::info!(run = %lease.run, "gave the host back");
        self.leases.clear();
        Ok(())
    }

    /// Every task of the lease's run that is not forgotten.
    ///
    /// # Errors
    /// When the lease is not the present one.
    pub fn tasks(&self, lease: LeaseRef) -> Result<Vec<TaskEntry>, Refused> {
        self.leases.check(lease)?;
        let attempts = self.spool.index().attempts.iter().filter(|(attempt, _)| attempt.run == lease.run);
        Ok(attempts.flat_map(|(_, entry)| entry.tasks.iter().cloned()).collect())
    }

    /// The tasks of an attempt, and whether they may have files with output.
    #[must_use]
    pub fn tasks_of(&self, attempt: AttemptId) -> Vec<(TaskId, bool)> {
        let tasks = self.spool.index().attempts.get(&attempt).into_iter().flat_map(|entry| &entry.tasks);
        tasks.map(|task| (task.id.clone(), task.output_files)).collect()
    }

    /// Keeps free ports for an attempt: those it has, and more if it has fewer than `count`.
    ///
    /// # Errors
    /// When the lease is not the present one, there are none, or it cannot be spooled.
    pub fn reserve(&mut self, lease: LeaseRef, attempt: AttemptId, count: u32) -> Result<Vec<u16>, Refused> {
        self.leases.check(lease)?;
        if attempt.run != lease.run {
            return Err(Refused::Argument("the attempt does not belong to the run that holds the lease"));
        }
        let count = usize::try_from(count).ok().filter(|count| *count <= MAX_PORTS);
        let count = count.ok_or(Refused::Argument("at most 1000 ports can be reserved at once"))?;
        let entry = self.spool.index().attempts.get(&attempt);
        let mut ports = entry.map(|entry| entry.ports.clone()).unwrap_or_default();
        let more = self.new_ports(count.saturating_sub(ports.len()))?;
        if !more.is_empty() {
            if let Err(error) = self.spool.ports(attempt, more.clone()) {
                self.ports.release(&more);
                return Err(error.into());
            }
            ports.extend(more);
        }
        ports.truncate(count);
        Ok(ports)
    }

    /// After a restart the pool does not know what was given out before; the spool does.
    fn new_ports(&mut self, count: usize) -> Result<Vec<u16>, Refused> {
        let (mut taken, mut ports) = (Vec::new(), Vec::with_capacity(count));
        while ports.len() < count {
            for port in self.ports.reserve(count - ports.len())? {
                let kept = self.spool.index().attempts.values().any(|entry| entry.ports.contains(&port));
                if kept { taken.push(port) } else { ports.push(port) }
            }
        }
        self.ports.release(&taken);
        Ok(ports)
    }

    /// Accepts a task, unless it is known; one that has to be started must be given an end with [`Self::finish`] by the
    /// caller in any case.
    ///
    /// # Errors
    /// When the lease is not the present one, a bound is reached, or it cannot be spooled.
    pub fn admit(&mut self, lease: LeaseRef, id: &TaskId, live: LiveTask) -> Result<Admission, Refused> {
        self.leases.check(lease)?;
        if id.attempt.run != lease.run {
            return Err(Refused::ForeignTask { task: id.clone(), run: lease.run });
        }
        if self.spool.index().knows(id) {
            return Ok(Admission::Known);
        }
        if self.ending {
            return Err(Refused::Ending);
        }
        self.check_sound()?;
        if self.changing > 0 {
            return Err(Refused::Changing);
        }
        if self.live.len() >= MAX_LIVE {
            return Err(Refused::TasksRunning(self.live.len()));
        }
        self.spool.room()?;
        match self.spool.accept(id, live.output_limit) {
            Err(error) if error.is_disk_full() => {
                self.record(id, TaskEventKind::Ended(task::disk_full(chain(&error))));
                return Ok(Admission::Ended);
            }
            accepted => accepted?,
        }
        self.live.insert(id.clone(), live);
        Ok(Admission::Accepted)
    }

    /// Records what happened to a running task.
    pub fn record(&mut self, id: &TaskId, kind: TaskEventKind) {
        // The spool numbers it.
        let event = TaskEvent { seq: 0, task: id.clone(), at_unix_us: unix_us(), kind };
        self.spool.event(event.into());
    }

    /// Records what was observed of the host for an attempt, unless that is forgotten.
    pub fn record_host(&mut self, attempt: AttemptId, kind: HostEventKind) {
        if self.spool.index().attempts.contains_key(&attempt) {
            let event = HostEvent { seq: 0, attempt, at_unix_us: unix_us(), kind };
            self.spool.event(event.into());
        }
    }

    /// The number of the newest event; 0 before the first.
    #[must_use]
    pub fn last_seq(&self) -> u64 {
        self.spool.index().next_seq.saturating_sub(1)
    }

    /// How often the holder of the host wants it to be observed, if at all.
    #[must_use]
    pub fn observe(&self) -> Option<Duration> {
        self.leases.observe()
    }

    /// The running tasks of an attempt.
    pub fn live_of(&self, attempt: AttemptId) -> impl Iterator<Item = (&TaskId, &LiveTask)> {
        self.live.iter().filter(move |(id, _)| id.attempt == attempt)
    }

    /// What is known of an attempt of the lease's run: its tasks, and when it was first heard of.
    ///
    /// # Errors
    /// When the lease is not the present one, or the attempt is not known or of another run.
    pub fn attempt(&self, lease: LeaseRef, attempt: AttemptId) -> Result<&AttemptEntry, Refused> {
        self.leases.check(lease)?;
        if attempt.run != lease.run {
            return Err(Refused::Argument("the attempt does not belong to the run that holds the lease"));
        }
        self.spool.index().attempts.get(&attempt).ok_or(Refused::UnknownAttempt(attempt))
    }

    /// When an attempt was first heard of, in microseconds since the Unix epoch; 0 if that is not known.
    #[must_use]
    pub fn begun_unix_us(&self, attempt: AttemptId) -> u64 {
        self.spool.index().attempts.get(&attempt).map_or(0, |entry| entry.begun_unix_us)
    }

    /// Records the end of a running task; a second one is ignored.
    pub fn finish(&mut self, id: &TaskId, end: TaskEnd) {
        if self.live.remove(id).is_some() {
            self.record(id, TaskEventKind::Ended(end));
        }
    }

    /// Whether a task is known, running or ended.
    #[must_use]
    pub fn knows(&self, id: &TaskId) -> bool {
        self.spool.index().knows(id)
    }

    /// A running task.
    #[must_use]
    pub fn live(&self, id: &TaskId) -> Option<&LiveTask> {
        self.live.get(id)
    }

    /// All running tasks.
    pub fn all_live(&self) -> impl Iterator<Item = (&TaskId, &LiveTask)> {
        self.live.iter()
    }

    /// What is known of a task, and its end if it has one.
    ///
    /// # Errors
    /// When the task is not known, or the spool cannot be read.
    pub fn known(&self, id: &TaskId) -> Result<(TaskEntry, Option<v1::TaskEvent>), Refused> {
        let entry = self.spool.index().task(id).ok_or_else(|| Refused::UnknownTask(id.clone()))?;
        let end = entry.end.map(|seq| self.spool.find(seq)).transpose()?.flatten();
        Ok((entry.clone(), end))
    }

    /// Events of a run from `from_seq` on, about `max_bytes` of them, and the number to go on with.
    ///
    /// # Errors
    /// When the spool cannot be read.
    pub fn read(
        &self,
        run: RunId,
        from_seq: u64,
        max_bytes: usize,
    ) -> Result<(Vec<v1::TaskEvent>, u64), SpoolError> {
        let events = self.spool.read(run, from_seq, max_bytes)?;
        let next = events.last().map_or(self.spool.index().next_seq, |last| last.seq.saturating_add(1));
        Ok((events, next.max(from_seq)))
    }

    /// Forgets an attempt of the lease's run. Returns whether it was known.
    ///
    /// # Errors
    /// When the lease is not the present one, or tasks of the attempt run.
    pub fn forget(&mut self, lease: LeaseRef, attempt: AttemptId) -> Result<bool, Refused> {
        self.leases.check(lease)?;
        if attempt.run != lease.run {
            return Err(Refused::Argument("the attempt does not belong to the run that holds the lease"));
        }
        let running = self.live.keys().filter(|id| id.attempt == attempt).count();
        if running > 0 {
            return Err(Refused::TasksRunning(running));
        }
        let Some(entry) = self.spool.index().attempts.get(&attempt) else { return Ok(false) };
        self.ports.release(&entry.ports);
        self.spool.forget(attempt);
        Ok(true)
    }

    /// Accepts no task until [`Self::end_change`], because the host itself is changed: for the holder of `lease`, or to put
    /// something back whoever holds the host.
    ///
    /// # Errors
    /// When the lease is not the present one, or tasks run.
    pub fn begin_change(&mut self, lease: Option<LeaseRef>) -> Result<(), Refused> {
        if let Some(lease) = lease {
            self.leases.check(lease)?;
            if !self.live.is_empty() {
                return Err(Refused::TasksRunning(self.live.len()));
            }
        }
        self.changing = self.changing.saturating_add(1);
        Ok(())
    }

    /// What [`Self::begin_change`] began is over.
    pub fn end_change(&mut self) {
        self.changing = self.changing.saturating_sub(1);
    }

    /// Why no new task is accepted, if something could not be put back.
    ///
    /// # Errors
    /// The reason.
    pub fn check_sound(&self) -> Result<(), Refused> {
        self.quarantine.as_ref().map_or(Ok(()), |reason| Err(Refused::Quarantined(reason.clone())))
    }

    /// From now on no new task is accepted, because of `reason`.
    pub fn quarantine(&mut self, reason: String) {
        tracing::error!(reason, "the host is quarantined");
        self.quarantine.get_or_insert(reason);
    }

    /// Whether no new task is accepted because something could not be put back.
    #[must_use]
    pub fn is_quarantined(&self) -> bool {
        self.quarantine.is_some()
    }

    /// Whether the agent may end now.
    ///
    /// # Errors
    /// When another run than that of `lease` holds the host, or tasks run.
    pub fn may_end(&self, lease: Option<LeaseRef>) -> Result<(), Refused> {
        match (lease, self.leases.holder()) {
            (Some(lease), _) => self.leases.check(lease)?,
            (None, Some(_)) => return Err(Refused::Argument("the host is held; name the lease")),
            (None, None) => {}
        }
        if !self.live.is_empty() {
            return Err(Refused::TasksRunning(self.live.len()));
        }
        Ok(())
    }

    /// From now on nothing new is accepted.
    pub fn end(&mut self) {
        self.spool.settle();
        self.ending = true;
    }

    /// Whether nothing new is accepted.
    #[must_use]
    pub fn is_ending(&self) -> bool {
        self.ending
    }

    /// Whether the agent is of use to nobody: no task, no connection, and no lease that is still fresh. `Err` is the time
    /// until that of the lease is over, if the lease is all that keeps the agent.
    ///
    /// # Errors
    /// When the agent is of use.
    pub fn idle(&self) -> Result<(), Option<Duration>> {
        if !self.live.is_empty() || self.connections > 0 {
            return Err(None);
        }
        match self.leases.time_left(Instant::now()) {
            Some(left) => Err(Some(left)),
            None => Ok(()),
        }
    }

    /// Counts a connection that came (`true`) or went.
    pub fn connection(&mut self, came: bool) {
        self.connections =
            if came { self.connections.saturating_add(1) } else { self.connections.saturating_sub(1) };
    }
}
