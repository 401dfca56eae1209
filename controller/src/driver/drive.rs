//! The loop of a run: everything that happens becomes an event, the scheduler decides, effects are carried out.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    io,
    sync::Arc,
    time::Instant,
};

use drover_matrix::{Matrix, RenderError, Renderer};
use drover_model::{AttemptId, HostFacts, Name, RunId};
use drover_sched::{Effect, Effects, Ended, Event, PlanError, Scheduler};
use drover_store::{CloseError, ResultsDir, RunState, SqliteStore, Token, Writer};
use tokio::{
    sync::mpsc::{self, UnboundedReceiver, UnboundedSender},
    task::JoinSet,
};

use super::{
    Progress,
    attempt::LiveAttempt,
    internal_event::InternalEvent,
    link::{self, Link},
    machine::{Ledger, Machines},
    reported::KindOnly,
    setup::HostSetup,
    signals,
    soak::{Recorder, Shape, Times},
    stored::Submitted,
};
use crate::{
    live::{self, Hello, Standing},
    time::{unix_ms, unix_us},
};

/// What is to be driven.
pub struct Job {
    /// The run.
    pub run: RunId,
    /// Its matrix.
    pub matrix: Arc<Matrix>,
    /// Its scheduler, made from the plan and what is stored.
    pub scheduler: Scheduler,
    /// Its hosts.
    pub hosts: BTreeMap<Name, HostSetup>,
    /// Hosts that are not to be used, and why.
    pub barred: BTreeMap<Name, String>,
    /// Who holds the lease, for people.
    pub holder: String,
    /// The store, opened for writing.
    pub store: SqliteStore,
    /// Where raw outputs go.
    pub results: ResultsDir,
    /// What was done to the machines of the run.
    pub ledger: Ledger,
    /// How many cells run.
    pub cells: u64,
    /// Tells the user.
    pub progress: Progress,
    /// What to do once the run is under way and nothing keeps it from going on without a terminal; `None` if it keeps that.
    pub under_way: Option<UnderWay>,
}

/// Called when a run is under way. If it fails, nobody was told of the run: it is interrupted.
pub type UnderWay = Box<dyn FnOnce() -> io::Result<()>>;

/// How a run ended.
pub struct Driven {
    /// Why it is over.
    pub ended: Ended,
    /// Where it stands.
    pub progress: drover_sched::Progress,
    /// The store, closed for the run.
    pub store: SqliteStore,
}

/// Why a run could not be driven at all.
#[derive(Debug, thiserror::Error)]
pub enum DriveError {
    /// A template does not compile.
    #[error(transparent)]
    Render(#[from] RenderError),
    /// The plan contradicts itself.
    #[error("the plan cannot be run")]
    Plan(#[from] PlanError),
    /// The system refused a thread or a signal handler.
    #[error("the system refused what the controller needs")]
    System(#[from] io::Error),
    /// Results were not stored.
    #[error("results are missing from the store; `drover resume` fetches them from the agent")]
    Store(#[from] CloseError),
}

/// State of the driver. Its methods are synchronous.
pub(super) struct Driver {
    pub(super) run: RunId,
    pub(super) matrix: Arc<Matrix>,
    pub(super) renderer: Renderer,
    pub(super) scheduler: Scheduler,
    pub(super) hosts: BTreeMap<Name, HostSetup>,
    pub(super) barred: BTreeMap<Name, String>,
    pub(super) results: ResultsDir,
    pub(super) holder: String,
    pub(super) clock: Instant,
    pub(super) clock_unix_us: u64,
    pub(super) events: UnboundedSender<InternalEvent>,
    pub(super) writer: Writer<SqliteStore>,
    pub(super) tokens: BTreeMap<Token, Submitted>,
    pub(super) next_token: u64,
    pub(super) links: BTreeMap<Name, Link>,
    /// Hosts that were connected before.
    pub(super) met: BTreeSet<Name>,
    pub(super) machines: Machines,
    /// Number of the last connection that was made or tried.
    pub(super) generation: u64,
    /// Number of the last connection to each host.
    pub(super) generations: BTreeMap<Name, u64>,
    /// Hosts that are being switched off and on.
    pub(super) cycling: JoinSet<()>,
    pub(super) attempts: BTreeMap<AttemptId, LiveAttempt>,
    /// How long attempts last, and who writes what they give on the way, if the matrix is a soak.
    pub(super) soak_times: Option<Times>,
    pub(super) recorder: Option<Recorder>,
    pub(super) progress: Progress,
    /// Effects that no host waits for, in their order.
    pub(super) deferred: VecDeque<Effect>,
    pub(super) finished: Option<(Ended, drover_sched::Progress)>,
}

/// Times that the runtime polls its other tasks until a request is on the wire: lane, channel, connection.
const POLLS_TO_SEND: u32 = 4;

/// Runs the plan to its end.
///
/// # Errors
///
/// The run could not begin, or what it found could not be stored. A run that ended early is no error: see
/// [`Driven::ended`].
pub async fn drive(job: Job) -> Result<Driven, DriveError> {
    let (events, inbox) = mpsc::unbounded_channel();
    let to_store = events.clone();
    // The loop outlives the writer: a send fails only when nobody wants to know any more.
    let writer = Writer::spawn(job.store, job.results.clone(), move |event| {
        let _ = to_store.send(InternalEvent::Store(event));
    })?;
    let recorder = record_soaks(&job.matrix, &job.results, &events)?;
    let listener = signals::listen(events.clone(), job.under_way.is_some())?;
    let live = live::Server::start(job.results.live_path(job.run), events.clone());
    let live =
        live.inspect_err(|error| tracing::warn!("`drover attach` cannot watch this run: {error}")).ok();
    let mut driver = Driver {
        run: job.run,
        renderer: Renderer::new(&job.matrix)?,
        soak_times: Times::of(&job.matrix, job.cells),
        recorder,
        matrix: job.matrix,
        scheduler: job.scheduler,
        hosts: job.hosts,
        barred: job.barred,
        results: job.results,
        holder: job.holder,
        clock: Instant::now(),
        clock_unix_us: unix_us(),
        events,
        writer,
        tokens: BTreeMap::new(),
        next_token: 0,
        links: BTreeMap::new(),
        met: BTreeSet::new(),
        machines: Machines::new(job.ledger),
        generation: 0,
        generations: BTreeMap::new(),
        cycling: JoinSet::new(),
        attempts: BTreeMap::new(),
        progress: job.progress,
        deferred: VecDeque::new(),
        finished: None,
    };
    driver.feed(Event::RunOpened);
    if let Some(Err(error)) = job.under_way.map(|tell| tell()) {
        tracing::warn!("the run is stopped, as nobody could be told of it: {error}");
        driver.handle(InternalEvent::Scheduler(Event::Interrupted));
    }
    let (ended, progress) = driver.run_loop(inbox).await;
    listener.abort();
    let driven = driver.end(ended, progress).await;
    if let Some(live) = live {
        live.close().await;
    }
    driven
}

/// Starts the thread that writes series, if the matrix is a soak.
fn record_soaks(
    matrix: &Matrix,
    results: &ResultsDir,
    events: &UnboundedSender<InternalEvent>,
) -> io::Result<Option<Recorder>> {
    let Some(soak) = matrix.soak() else { return Ok(None) };
    let events = events.clone();
    // As with the writer.
    let tell = move |recorded| drop(events.send(InternalEvent::Recorded(recorded)));
    Recorder::spawn(results.clone(), Shape::of(matrix, soak), tell).map(Some)
}

impl Driver {
    async fn run_loop(
        &mut self,
        mut inbox: UnboundedReceiver<InternalEvent>,
    ) -> (Ended, drover_sched::Progress) {
        loop {
            self.carry_out_deferred().await;
            if let Some(over) = self.finished.take() {
                return over;
            }
            let deadline = self.scheduler.next_deadline().into_iter().chain(self.soak_due()).min();
            let event = match deadline {
                None => inbox.recv().await,
                Some(at) => {
                    let at = tokio::time::Instant::from_std(self.clock + at);
                    tokio::select! {
                        biased;
                        event = inbox.recv() => event,
                        () = tokio::time::sleep_until(at) => Some(InternalEvent::Scheduler(Event::TimerElapsed)),
                    }
                }
            };
            // The driver itself holds a sender: the channel does not close before it.
            let Some(event) = event else { continue };
            self.handle(event);
        }
    }

    async fn end(mut self, ended: Ended, progress: drover_sched::Progress) -> Result<Driven, DriveError> {
        self.tell_of_astray();
        self.progress.finish();
        self.recorder = None;
        let (state, at) = match ended {
            Ended::Complete => (RunState::Finished, Some(unix_ms())),
            _ => (RunState::Interrupted, Some(unix_ms())),
        };
        let token = self.token(Submitted::Note);
        let command = drover_store::Command::State { run: self.run, state, ended_unix_ms: at };
        if let Err(error) = self.writer.submit(token, command) {
            tracing::error!("the end of the run could not be stored: {error}");
        }
        let mut ending = JoinSet::new();
        std::mem::take(&mut self.links).into_values().for_each(|link| drop(ending.spawn(link.shut_down())));
        while ending.join_next().await.is_some() {}
        while self.cycling.join_next().await.is_some() {}
        let closed = self.writer.close();
        // Now, so that whoever watches finds all of it in the store.
        self.progress.dismiss(ended.why());
        Ok(Driven { ended, progress, store: closed? })
    }

    /// Notes what happened, and lets the scheduler decide.
    fn handle(&mut self, event: InternalEvent) {
        match event {
            InternalEvent::Scheduler(event) => {
                match &event {
                    Event::Interrupted => self.progress.stopping(),
                    Event::PowerCycled { host, problem } => self.note_power(host, problem.as_deref()),
                    Event::LeaseReleased { host } => {
                        self.links.get_mut(host).into_iter().for_each(Link::released);
                    }
                    Event::TimerElapsed => self.soak_look(),
                    _ => {}
                }
                self.feed(event);
            }
            InternalEvent::Answer { host, generation, event } => {
                if self.links.get(&host).is_some_and(|link| link.generation() == generation) {
                    self.handle(*event);
                }
            }
            InternalEvent::Connected { host, connected } => self.connected(host, *connected),
            InternalEvent::Lost { host, generation, why } => self.gone(host, generation, why, false),
            InternalEvent::Unusable { host, generation, why } => self.gone(host, generation, why, true),
            InternalEvent::JointAnswer { of, event } => {
                let stands = |(host, generation): &(Name, u64)| {
                    self.links.get(host).is_some_and(|link| link.generation() == *generation)
                };
                if of.iter().all(stands) {
                    self.handle(*event);
                }
            }
            InternalEvent::Leased { host, generation, lease, known } => {
                let Some(link) = self.links.get_mut(&host).filter(|link| link.generation() == generation)
                else {
                    return;
                };
                link.begin(lease);
                self.note_golden(&host);
                self.soak_host_back(&host);
                self.feed(Event::LeaseGranted { host, known });
            }
            InternalEvent::TaskReported { host, event } => {
                if !self.may_report(&host, &event.task) {
                    tracing::error!(%host, task = %event.task, "a host reports on a task that is not its own");
                    return;
                }
                tracing::debug!(task = %event.task, seq = event.seq, kind = ?KindOnly(&event.kind), "task event");
                let for_scheduler = if self.soak_times.is_some() {
                    self.soak_reported(&host, &event)
                } else {
                    Event::of_task(&event)
                };
                self.note_task(*event);
                self.feed(for_scheduler);
            }
            InternalEvent::HostReported { host, event } => self.host_reported(host, *event),
            InternalEvent::PortsReserved { attempt, host, ports } => {
                let answer = self.ports_reserved(attempt, host, ports);
                answer.into_iter().for_each(|answer| self.feed(answer));
            }
            InternalEvent::Reached { attempt, role, host, problem } => {
                let answer = self.reached(attempt, role, &host, problem);
                answer.into_iter().for_each(|answer| self.feed(answer));
            }
            InternalEvent::Verified { attempt, host, facts, problem } => {
                let answer = self.verified(attempt, &host, *facts, problem);
                answer.into_iter().for_each(|answer| self.feed(answer));
            }
            InternalEvent::ToldToBoot { host, generation, attempt, outcome } => {
                self.told_to_boot(host, generation, attempt, outcome);
            }
            InternalEvent::CpusSet { host, attempt, count, facts } => {
                self.cpus_set(host, attempt, count, facts.map(|facts| *facts));
            }
            InternalEvent::Fetched { attempt, host, fetched } => {
                let answer = self.fetched(attempt, &host, fetched);
                answer.into_iter().for_each(|answer| self.feed(answer));
            }
            InternalEvent::Watched(watcher) => {
                let hello = Hello {
                    version: live::VERSION,
                    run: self.run,
                    name: self.matrix.name().to_owned(),
                    pid: std::process::id(),
                    stopping: 0,
                    standing: Standing::default(),
                };
                self.progress.watch(watcher, hello);
            }
            InternalEvent::Answers { task } => self.soak_host_answers(&task),
            InternalEvent::Recorded(recorded) => self.recorded(recorded),
            InternalEvent::Evidence { attempt, host, said } => self.evidence_came(attempt, &host, said),
            InternalEvent::Store(event) => self.store_answered(event),
        }
    }

    /// Steps the scheduler, carries out the effects, and steps it again for those that are answered at once. What a host
    /// does not wait for is deferred.
    pub(super) fn feed(&mut self, event: Event) {
        let mut effects = Effects::new();
        let mut answers = VecDeque::from([event]);
        while let Some(event) = answers.pop_front() {
            tracing::trace!(?event, "step");
            self.scheduler.step(self.clock.elapsed(), event, &mut effects);
            self.soak_failures();
            while let Some(effect) = effects.pop() {
                tracing::trace!(?effect, "effect");
                if matches!(effect, Effect::Collect { .. } | Effect::StoreAttempt { .. }) {
                    self.deferred.push_back(effect);
                } else {
                    answers.extend(self.perform(effect));
                }
            }
        }
    }

    /// Parses and stores, after the requests made so far have gone out: the host works on the next trial meanwhile.
    async fn carry_out_deferred(&mut self) {
        if self.deferred.is_empty() {
            return;
        }
        for _ in 0..POLLS_TO_SEND {
            tokio::task::yield_now().await;
        }
        while let Some(effect) = self.deferred.pop_front() {
            if let Some(answer) = self.perform(effect) {
                self.feed(answer);
            }
        }
    }

    fn connected(&mut self, host: Name, connected: link::Connected) {
        if self.generations.get(&host) != Some(&connected.generation) {
            return;
        }
        self.tell_death(&host);
        self.machines.ledger.answers(&host, &connected.connection.hello.facts.boot_id);
        if let Some(refused) = self.made(&host) {
            return self.feed(refused);
        }
        let facts = connected.connection.hello.facts.clone();
        let boot_id = facts.boot_id.clone();
        self.note_facts(&host, &facts);
        // Later in the run, what fills the disk may be the run's own: that costs attempts, not the host.
        let full = if self.met.insert(host.clone()) { self.lacks_room(&host, &facts) } else { None };
        // An agent that is of no use is ended with the run, like the others.
        self.links.insert(host.clone(), Link::new(host.clone(), connected, self.events.clone()));
        self.feed(match full {
            Some(why) => {
                tracing::warn!("host {host} cannot be used: {why}");
                Event::HostUnusable { host, why }
            }
            None => Event::HostConnected { host, boot_id },
        });
    }

    /// Why a host has too little free space, if so.
    fn lacks_room(&self, host: &Name, facts: &HostFacts) -> Option<String> {
        let wanted = self.hosts.get(host)?.limits.free_disk;
        let free = facts.state_free_bytes.filter(|free| *free < wanted)?;
        let (free, wanted) = (free >> 20, wanted >> 20);
        Some(format!(
            "its agent's folder has {free} MiB free and {wanted} MiB are asked for; free some space, name another `dir` in the \
             host file, or lower its `limits: {{ free_disk }}`"
        ))
    }

    /// The books of an attempt; opened at its first mention. `None` for attempts of cells that are not in the matrix.
    pub(super) fn attempt_mut(&mut self, id: AttemptId) -> Option<&mut LiveAttempt> {
        use std::collections::btree_map::Entry;
        match self.attempts.entry(id) {
            Entry::Occupied(entry) => Some(entry.into_mut()),
            Entry::Vacant(entry) => {
                let planned = self.matrix.cell(id.trial.cell)?;
                Some(entry.insert(LiveAttempt::new(planned.cell)))
            }
        }
    }
}
