//! The world around a scheduler: agents, links, the store, time, and everything that can go wrong with them. Where a real
//! driver would do I/O, messages wait here in queues until the generator picks them.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use drover_model::{AttemptId, Name, RunId, Seats, TrialId, Verdict};
use drover_sched::{
    CollectOutcome, Effect, Effects, Ended, Event, Group, PastAttempt, Plan, Reconnect, RoleKind, RoleShape,
    Scheduler,
};

use crate::{
    agent::Agent,
    invariants,
    rng::Rng,
    shapes::{self, Share},
};

mod calls;
mod misfortune;

pub use calls::hosts_of;

/// One controller's life.
pub struct Controller {
    pub scheduler: Scheduler,
    pub links: Vec<Link>,
    to_store: VecDeque<Effect>,
    from_store: VecDeque<Event>,
    /// Events that may come a second time, whenever it suits the world.
    delivered: Vec<Event>,
    /// Reports of tasks that left before their link was lost and arrive after the news of that.
    late: VecDeque<Event>,
    /// Attempts begun by this controller, or ordered to be collected, and not known to be stored.
    pub begun: BTreeSet<AttemptId>,
    pub unstored: BTreeSet<AttemptId>,
    /// By host: the attempt that has it.
    pub holders: Vec<Option<AttemptId>>,
    /// Orders that concern several hosts, by number.
    calls: BTreeMap<u64, calls::Call>,
    /// Their answers.
    answers: VecDeque<calls::Answer>,
    pub interrupts: u32,
    pub ended: Option<Ended>,
}

/// The connection to one agent.
#[derive(Default)]
pub struct Link {
    /// Epoch of the lease; 0 without one.
    pub epoch: u64,
    /// The controller knows of the lease: reports of tasks flow.
    granted: bool,
    /// Nothing gets through any more.
    lost: bool,
    /// Last spooled event delivered.
    cursor: u64,
    /// Orders; those that concern several hosts have a number.
    to_agent: VecDeque<(Effect, Option<u64>)>,
    to_controller: VecDeque<Event>,
}

impl Link {
    /// The link is lost, and the controller has not heard of it.
    pub fn loss_is_news(&self) -> bool {
        self.to_controller.iter().any(|event| matches!(event, Event::HostLost { .. }))
    }
}

/// A stored attempt.
#[derive(Debug)]
pub struct Stored {
    pub seats: Option<Arc<Seats>>,
    pub verdict: Verdict,
    pub is_final: bool,
}

/// Everything.
pub struct World {
    pub rng: Rng,
    now: Duration,
    pub run: RunId,
    pub hosts: Vec<Name>,
    pub roles: Vec<RoleShape>,
    pub trials: Vec<TrialId>,
    pub groups: Vec<Share>,
    wait_for_hosts: bool,
    pub retries: u32,
    pub after_ng: u32,
    window: u32,
    pub unstored_limit: u32,
    tries: u32,
    /// How often things go wrong, in a thousand.
    faults: usize,
    /// Nothing goes wrong any more.
    calm: bool,
    pub agents: Vec<Agent>,
    pub store: BTreeMap<AttemptId, Stored>,
    pub journal: Vec<(AttemptId, Arc<Seats>)>,
    /// Services that truly were reached by those that need them.
    pub reached_roles: BTreeSet<(AttemptId, Name)>,
    /// Hosts that the present controller has given back.
    pub given_back: BTreeSet<usize>,
    /// Orders that concern several hosts, so far.
    calls: u64,
    /// Attempts harmed by something outside of an agent.
    pub harmed: BTreeSet<AttemptId>,
    pub ever_cut_short: bool,
    pub ever_lost: bool,
    pub lives: u32,
    /// Causes of verdicts, and ends of runs, that occurred.
    pub reached: BTreeSet<&'static str>,
    /// What happened, if anybody wants to know.
    pub log: Option<Vec<String>>,
}

type Outcome = Result<(), String>;

impl World {
    pub fn new(seed: u64, log: bool) -> Self {
        let mut rng = Rng::new(seed);
        let hosts = 1 + [0, 0, 1, 2, 2, 3, 4][rng.below(7)];
        let trials = 1 + rng.below(10);
        let faults = [0, 10, 40, 120][rng.below(4)];
        let pick = |rng: &mut Rng, from: u32, to: u32| {
            from + u32::try_from(rng.below(usize::try_from(to).unwrap())).unwrap()
        };
        let roles = shapes::roles(&mut rng, hosts);
        let trials: Vec<TrialId> = (0..u32::try_from(trials).unwrap())
            .map(|n| TrialId { cell: n / 2, repetition: n % 2 + 1 })
            .collect();
        Self {
            now: Duration::ZERO,
            run: shapes::run(),
            hosts: (0..hosts).map(|host| format!("h{host}").parse().unwrap()).collect(),
            roles,
            groups: shapes::groups(&mut rng, &trials, hosts),
            trials,
            wait_for_hosts: rng.chance(300),
            retries: pick(&mut rng, 0, 4),
            after_ng: pick(&mut rng, 0, 3),
            window: pick(&mut rng, 1, 5),
            unstored_limit: pick(&mut rng, 1, 4),
            tries: pick(&mut rng, 1, 5),
            faults,
            calm: false,
            agents: (0..hosts).map(|_| Agent::default()).collect(),
            store: BTreeMap::new(),
            journal: Vec::new(),
            reached_roles: BTreeSet::new(),
            given_back: BTreeSet::new(),
            calls: 0,
            harmed: BTreeSet::new(),
            ever_cut_short: false,
            ever_lost: false,
            lives: 0,
            reached: BTreeSet::new(),
            log: log.then(Vec::new),
            rng,
        }
    }

    /// Lives through the whole history: controllers come and go until the run is complete.
    pub fn live(&mut self) -> Outcome {
        loop {
            let mut controller = self.bear();
            self.deliver(&mut controller, Event::RunOpened)?;
            while controller.ended.is_none() {
                if !self.calm && self.rng.chance(self.faults / 8) {
                    self.note(|| "the controller is killed".to_owned());
                    self.drop_links(&mut controller)?;
                    self.some_store_orders(&mut controller)?;
                    break;
                }
                self.tick(&mut controller)?;
            }
            if controller.ended == Some(Ended::Complete) {
                return invariants::at_the_end(self, &controller.scheduler);
            }
            self.drop_links(&mut controller)?;
            if self.lives > 30 {
                return Err("the run does not end, although nothing goes wrong any more".to_owned());
            }
        }
    }

    fn bear(&mut self) -> Controller {
        self.lives += 1;
        self.given_back.clear();
        if self.lives > 8 {
            self.calm_down();
        }
        let lives = self.lives;
        self.note(|| format!("controller {lives} starts"));
        let past =
            self.store.iter().map(|(id, stored)| PastAttempt::new(*id, &stored.verdict, stored.is_final));
        let plan = Plan {
            run: self.run,
            hosts: self.hosts.clone(),
            groups: self
                .groups
                .iter()
                .map(|share| Group { order: share.trials.clone().into(), stay: share.stay, host: share.host })
                .collect(),
            roles: self.roles.clone(),
            retries: self.retries,
            after_ng: self.after_ng,
            journal_window: self.window,
            unstored_limit: self.unstored_limit,
            skew_limit: Duration::from_millis(1),
            reconnect: Reconnect {
                tries: if self.calm { 5 } else { self.tries },
                first_delay: Duration::from_millis(100),
                max_delay: Duration::from_secs(1),
            },
            wait_for_hosts: self.wait_for_hosts,
        };
        let journalled = self.journal.iter().map(|(id, seats)| (*id, Seats::clone(seats)));
        let scheduler = Scheduler::new(plan, past, journalled).unwrap();
        Controller {
            scheduler,
            links: self.hosts.iter().map(|_| Link::default()).collect(),
            to_store: VecDeque::new(),
            from_store: VecDeque::new(),
            delivered: Vec::new(),
            late: VecDeque::new(),
            begun: BTreeSet::new(),
            unstored: BTreeSet::new(),
            holders: vec![None; self.hosts.len()],
            calls: BTreeMap::new(),
            answers: VecDeque::new(),
            interrupts: 0,
            ended: None,
        }
    }

    fn calm_down(&mut self) {
        self.calm = true;
        for agent in &mut self.agents {
            (agent.gone, agent.taken) = (false, false);
            agent.obey();
        }
    }

    fn note(&mut self, text: impl FnOnce() -> String) {
        if let Some(log) = &mut self.log {
            log.push(format!("{:>9.3} {}", self.now.as_secs_f64(), text()));
        }
    }

    /// One thing happens.
    fn tick(&mut self, controller: &mut Controller) -> Outcome {
        self.now += Duration::from_micros(u64::try_from(self.rng.below(500)).unwrap());
        if self.now > Duration::from_secs(1_000_000) {
            return Err("the run takes too long".to_owned());
        }
        if !self.calm && self.rng.chance(self.faults) {
            return self.misfortune(controller);
        }
        let first = self.rng.below(4);
        for kind in (0..4).map(|offset| (first + offset) % 4) {
            let (first, hosts) = (self.rng.below(self.hosts.len()), self.hosts.len());
            for host in (0..hosts).map(|offset| (first + offset) % hosts) {
                if self.happens(controller, kind, host)? {
                    return Ok(());
                }
            }
        }
        match controller.scheduler.next_deadline() {
            Some(deadline) => {
                self.now = self.now.max(deadline);
                self.deliver(controller, Event::TimerElapsed)
            }
            None => Err("nothing can happen any more, and the run is not over".to_owned()),
        }
    }

    /// Lets one thing of a kind happen, if it can.
    fn happens(&mut self, controller: &mut Controller, kind: usize, host: usize) -> Result<bool, String> {
        match kind {
            0 => {
                if let Some(event) = self.next_event(controller, host) {
                    self.deliver(controller, event)?;
                    return Ok(true);
                }
                Ok(false)
            }
            1 => self.agent_works(controller, host),
            2 => Ok(self.agents[host].proceed(&mut self.rng)),
            _ => self.store_works(controller),
        }
    }

    /// The next thing that a host, or the store, has to say.
    fn next_event(&mut self, controller: &mut Controller, host: usize) -> Option<Event> {
        if self.rng.chance(300)
            && let Some(event) = controller.from_store.pop_front()
        {
            return Some(event);
        }
        if self.rng.chance(300)
            && let Some(event) = controller.late.pop_front()
        {
            return Some(event);
        }
        if self.rng.chance(300)
            && let Some(event) = controller.next_answer()
        {
            return Some(event);
        }
        let link = &mut controller.links[host];
        if let Some(event) = link.to_controller.pop_front() {
            return Some(event);
        }
        let agent = &self.agents[host];
        if link.epoch != 0
            && link.epoch == agent.epoch
            && agent.runs
            && let Some((seq, (task, change))) = agent.spool.range(link.cursor + 1..).next()
        {
            link.cursor = *seq;
            return Some(Event::TaskChanged { task: task.clone(), change: change.clone() });
        }
        let other = controller.from_store.pop_front().or_else(|| controller.late.pop_front());
        other.or_else(|| controller.next_answer())
    }

    fn deliver(&mut self, controller: &mut Controller, event: Event) -> Outcome {
        self.note(|| format!("<- {event:?}"));
        match &event {
            Event::TaskChanged { .. } | Event::AttemptStored { .. } | Event::AttemptsJournalled { .. } => {
                controller.delivered.push(event.clone());
            }
            _ => {}
        }
        self.ever_cut_short |=
            matches!(event, Event::Interrupted | Event::JournalFailed { .. } | Event::StoreFailed { .. });
        if let Event::LeaseGranted { host, .. } = &event {
            let host = self.index(host);
            controller.links[host].granted = true;
        }
        if let Event::AttemptStored { attempt } = &event {
            controller.unstored.remove(attempt);
            controller.begun.remove(attempt);
        }
        let mut effects = Effects::new();
        controller.scheduler.step(self.now, event, &mut effects);
        for effect in effects.drain() {
            self.note(|| format!("-> {effect:?}"));
            invariants::of_effect(self, controller, &effect)?;
            self.carry_out(controller, effect)?;
        }
        Ok(())
    }

    fn index(&self, host: &Name) -> usize {
        self.hosts.iter().position(|name| name == host).unwrap()
    }

    fn carry_out(&mut self, controller: &mut Controller, effect: Effect) -> Outcome {
        match &effect {
            Effect::ConnectHost { host } => {
                let host = self.index(host);
                let cursor = controller.links[host].cursor;
                self.cut(controller, host)?;
                controller.links[host] = Link { cursor, ..Link::default() };
            }
            Effect::PrepareAttempt { attempt, seats } => {
                controller.begun.insert(*attempt);
                for host in seats.hosts() {
                    let host = self.index(host);
                    controller.holders[host] = Some(*attempt);
                }
            }
            Effect::Collect { attempt, .. } => {
                controller.unstored.insert(*attempt);
                controller.let_go(*attempt);
            }
            Effect::JournalAttempts { .. } | Effect::StoreAttempt { .. } => {
                if let Effect::StoreAttempt { attempt, .. } = &effect {
                    controller.let_go(*attempt);
                }
                controller.to_store.push_back(effect);
                return Ok(());
            }
            Effect::QuarantineHost { .. } => {
                self.reached.insert("quarantined");
                return Ok(());
            }
            Effect::ReleaseLease { host } => {
                let host = self.index(host);
                self.given_back.insert(host);
            }
            Effect::Finish { ended, .. } => {
                self.reached.insert(match ended {
                    Ended::Complete => "complete",
                    Ended::Interrupted => "interrupted",
                    Ended::HostsUnavailable { .. } => "hosts unavailable",
                    Ended::StoreFailed { .. } => "store failed",
                });
                controller.ended = Some(ended.clone());
                return Ok(());
            }
            _ => {}
        }
        self.send(controller, effect);
        Ok(())
    }

    /// The agent carries out the oldest order that has reached it.
    fn agent_works(&mut self, controller: &mut Controller, host: usize) -> Result<bool, String> {
        let Some((order, call)) = controller.links[host].to_agent.pop_front() else { return Ok(false) };
        let faults = if self.calm { 0 } else { self.faults };
        let name = self.hosts[host].clone();
        let agent = &mut self.agents[host];
        let link = &mut controller.links[host];
        if link.lost {
            return Ok(true);
        }
        let fenced = link.epoch != agent.epoch || !agent.runs;
        let answer = match order {
            Effect::ConnectHost { .. } if agent.gone || self.rng.chance(faults) => {
                self.ever_lost = true;
                Some(Event::HostLost { host: name, why: "no answer".to_owned() })
            }
            Effect::ConnectHost { .. } => {
                agent.restart();
                Some(Event::HostConnected { host: name, boot_id: agent.boot.to_string() })
            }
            Effect::AcquireLease { .. } if agent.taken => {
                self.ever_lost = true;
                Some(Event::LeaseRefused { host: name, why: "another run holds it".to_owned() })
            }
            Effect::AcquireLease { .. } if agent.runs => {
                agent.epoch += 1;
                link.epoch = agent.epoch;
                // Some events come again after a reconnection.
                link.cursor = link.cursor.saturating_sub(u64::try_from(self.rng.below(4)).unwrap());
                Some(Event::LeaseGranted { host: name, known: agent.known() })
            }
            _ if fenced => None,
            order if call.is_some() => {
                self.part_of_call(controller, host, &order, call.unwrap());
                None
            }
            Effect::StartTask { task, .. } if self.rng.chance(faults / 4) && !agent.knows_task(&task) => {
                self.harmed.insert(task.attempt);
                Some(Event::TaskRefused { task, why: "of the world".to_owned() })
            }
            Effect::StartTask { task, hold, .. } => {
                let role = self.roles.iter().find(|role| role.name == task.role).unwrap();
                let service = role.kind == RoleKind::Service;
                agent.start(&mut self.rng, &task, service, hold, faults)?;
                None
            }
            Effect::StopTask { task, kill, .. } => {
                agent.stop(&task, kill);
                None
            }
            Effect::ForgetAttempts { attempts, .. } => {
                for attempt in &attempts {
                    agent.forget(*attempt)?;
                }
                Some(Event::AttemptsForgotten { host: name, attempts })
            }
            Effect::ReleaseLease { .. } => {
                link.epoch = 0;
                Some(Event::LeaseReleased { host: name })
            }
            other => return Err(format!("{other:?} is no order for an agent")),
        };
        if let Some(answer) = answer {
            controller.links[host].to_controller.push_back(answer);
        }
        Ok(true)
    }

    /// The store carries out its oldest order: from then on it is durable.
    fn store_works(&mut self, controller: &mut Controller) -> Result<bool, String> {
        let Some(order) = controller.to_store.pop_front() else { return Ok(false) };
        let fails = !self.calm && self.rng.chance(self.faults / 6);
        let (why, disk_full) = ("of the world".to_owned(), self.rng.chance(800));
        let answer = match order {
            Effect::JournalAttempts { attempts } if fails && self.rng.chance(200) => {
                drop(attempts);
                Event::JournalFailed { why, disk_full }
            }
            Effect::JournalAttempts { attempts } => {
                for (attempt, seats) in &attempts {
                    self.journal.retain(|(journalled, _)| journalled != attempt);
                    self.journal.push((*attempt, seats.clone()));
                }
                Event::AttemptsJournalled { attempts }
            }
            Effect::StoreAttempt { attempt, .. } if fails => {
                self.harmed.insert(attempt);
                Event::StoreFailed { attempt, why, disk_full }
            }
            Effect::StoreAttempt { attempt, seats, verdict, is_final, .. } => {
                invariants::of_store(self, attempt, seats.as_deref(), &verdict, is_final)?;
                self.reached.insert(verdict.outcome().as_str());
                self.reached.insert(verdict.cause());
                self.store.insert(attempt, Stored { seats, verdict, is_final });
                Event::AttemptStored { attempt }
            }
            other => return Err(format!("{other:?} is no order for the store")),
        };
        controller.from_store.push_back(answer);
        Ok(true)
    }
}
