//! The world around a scheduler: agents, links, the store, time, and everything that can go wrong with them. Where a real
//! driver would do I/O, messages wait here in queues until the generator picks them.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use drover_model::{AttemptId, Name, NgCause, RunId, Seats, TrialId, Verdict};
use drover_sched::{CollectOutcome, Effect, Effects, Ended, Event, PowerPolicy, RoleShape, Scheduler};

use crate::{agent::Agent, invariants, rng::Rng, shapes::Share};

mod birth;
mod calls;
mod misfortune;
mod work;

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
    /// Attempts whose verdicts were ordered to be stored.
    pub decided: BTreeSet<AttemptId>,
    /// Attempts that a kernel was said to have failed in, before that.
    pub kernel_failed: BTreeSet<AttemptId>,
    /// Attempts that the driver found to have failed, and the scheduler took for failed.
    pub failed: BTreeSet<AttemptId>,
    /// Attempts of which tasks were ordered to be killed.
    pub killed: BTreeSet<AttemptId>,
    /// By host: the attempt that has it.
    pub holders: Vec<Option<AttemptId>>,
    /// Orders that concern several hosts, by number.
    calls: BTreeMap<u64, calls::Call>,
    /// Their answers.
    answers: VecDeque<calls::Answer>,
    /// Hosts whose power is to be cycled, and the answers.
    cycling: VecDeque<usize>,
    cycled: VecDeque<Event>,
    /// How often that was ordered, by host.
    pub cycles: Vec<u32>,
    /// Those whose power was ordered to be cycled and that are not this controller's again.
    pub away: BTreeSet<usize>,
    /// Hosts that were this controller's at some time.
    pub had: BTreeSet<usize>,
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

    /// The host is told to reboot: the driver listens to nothing else that its connection does.
    pub fn is_taken(&self) -> bool {
        let is_order =
            |effect: &Effect| matches!(effect, Effect::MakeMachine { .. } | Effect::RestoreMachine { .. });
        self.to_agent.iter().any(|(effect, _)| is_order(effect))
            || self.to_controller.iter().any(|event| matches!(event, Event::HostRebooting { .. }))
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
    /// Cells ask for machines, two different ones.
    pub machines: bool,
    pub retries: u32,
    pub after_ng: u32,
    window: u32,
    pub unstored_limit: u32,
    tries: u32,
    pub power: BTreeMap<usize, PowerPolicy>,
    /// Hosts that are booted as other machines.
    pub boots: BTreeSet<usize>,
    /// Those that a controller has written down as booted, and not as what they were again.
    /// Each with the boot that it was told to leave, until it is seen on another one.
    pub astray: BTreeMap<usize, Option<String>>,
    /// Machines that hosts were booted as in vain, as the present controller knows.
    tried: BTreeSet<(usize, u32)>,
    /// Hosts that the present controller could not make what they were: quarantined, or another's.
    pub excused: BTreeSet<usize>,
    /// Hosts that rebooted by themselves.
    pub rebooted: BTreeSet<usize>,
    /// How often things go wrong, in a thousand.
    faults: usize,
    /// Nothing goes wrong any more.
    calm: bool,
    pub agents: Vec<Agent>,
    pub store: BTreeMap<AttemptId, Stored>,
    pub journal: Vec<(AttemptId, Arc<Seats>)>,
    /// Services that truly were reached by those that need them.
    pub reached_roles: BTreeSet<(AttemptId, Name)>,
    /// Hosts that the present controller has given back, and those that heard of it.
    pub given_back: BTreeSet<usize>,
    pub released: BTreeSet<usize>,
    /// Orders that concern several hosts, so far.
    calls: u64,
    /// How attempts ended whose kernel or machine died, as controllers found.
    pub deaths: BTreeMap<AttemptId, NgCause>,
    /// Attempts harmed by something outside of an agent.
    pub harmed: BTreeSet<AttemptId>,
    pub ever_cut_short: bool,
    /// Hosts that were lost, or refused, at some time.
    pub ever_lost: BTreeSet<usize>,
    /// Agents were so slow that silence was taken for a loss.
    pub ever_slow: bool,
    pub lives: u32,
    /// Causes of verdicts, and ends of runs, that occurred.
    pub reached: BTreeSet<&'static str>,
    /// What happened, if anybody wants to know.
    pub log: Option<Vec<String>>,
}

type Outcome = Result<(), String>;

impl World {
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
            if controller.ended.is_some() {
                invariants::at_any_end(self, &controller)?;
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
            _ => Ok(self.power_works(controller) || self.store_works(controller)?),
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
        if let Some(event) = controller.cycled.pop_front() {
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
            && let Some((seq, report)) = agent.spool.range(link.cursor + 1..).next()
        {
            link.cursor = *seq;
            return Some(report.event(&self.hosts[host]));
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
            Event::KernelFailed { attempt, .. } => {
                controller.delivered.push(event.clone());
                if !controller.decided.contains(attempt) {
                    controller.kernel_failed.insert(*attempt);
                }
            }
            _ => {}
        }
        self.ever_cut_short |=
            matches!(event, Event::Interrupted | Event::JournalFailed { .. } | Event::StoreFailed { .. });
        if let Event::LeaseGranted { host, .. } = &event {
            let host = self.index(host);
            controller.links[host].granted = true;
            controller.had.insert(host);
            controller.away.remove(&host);
        }
        if let Event::LeaseRefused { host, .. } = &event {
            self.excused.insert(self.index(host));
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
            Effect::ConnectHost { host } | Effect::MakeMachine { host, .. } => {
                let host = self.index(host);
                let cursor = controller.links[host].cursor;
                self.cut(controller, host)?;
                controller.links[host] = Link { cursor, ..Link::default() };
            }
            Effect::CyclePower { host, .. } => {
                let host = self.index(host);
                let cursor = controller.links[host].cursor;
                self.cut(controller, host)?;
                controller.links[host] = Link { cursor, ..Link::default() };
                controller.cycling.push_back(host);
                controller.cycles[host] += 1;
                controller.away.insert(host);
                return Ok(());
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
                if let Effect::StoreAttempt { attempt, verdict, .. } = &effect {
                    controller.decided.insert(*attempt);
                    controller.let_go(*attempt);
                    if let Verdict::Ng {
                        cause:
                            cause @ (NgCause::Lockup
                            | NgCause::Panic
                            | NgCause::Hang
                            | NgCause::Oops
                            | NgCause::UnexpectedReboot),
                        ..
                    } = verdict
                    {
                        self.deaths.insert(*attempt, *cause);
                    }
                }
                controller.to_store.push_back(effect);
                return Ok(());
            }
            Effect::StopTask { task, kill: true, .. } => {
                controller.killed.insert(task.attempt);
            }
            Effect::QuarantineHost { host, .. } => {
                self.excused.insert(self.index(host));
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
}
