//! A scheduler on a desk: events go in one by one, effects come out as short lines.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use drover_model::{AttemptId, EndKind, Name, NgCause, Seats, TaskId, TrialId};
use drover_sched::{
    CollectOutcome, Effect, Effects, Ending, Event, Group, KnownTask, PastAttempt, Plan, Reconnect, RoleKind,
    RoleShape, Scheduler, StatusPolicy, TaskChange,
};

pub const RUN: &str = "00000000-0000-7000-8000-000000000001";

pub fn name(text: &str) -> Name {
    text.parse().unwrap()
}

/// `c0r1a1`, without the run.
pub fn attempt(text: &str) -> AttemptId {
    format!("{RUN}.{text}").parse().unwrap()
}

/// `c0r1a1.client.0`, without the run.
pub fn task(text: &str) -> TaskId {
    format!("{RUN}.{text}").parse().unwrap()
}

pub fn role(name: &str, kind: RoleKind, after: &[usize], instances: u32) -> RoleShape {
    RoleShape {
        name: name.parse().unwrap(),
        kind,
        after: after.to_vec(),
        instances,
        hosts: 1,
        pool: vec![],
        pinned: false,
        same_host_as: None,
        other_host_than: vec![],
        reach: false,
        outlasts: false,
        status: StatusPolicy::OneOf(vec![0]),
        backstop: Duration::from_secs(60),
        stop_backstop: Duration::from_secs(6),
    }
}

/// Repetitions of a cell that may run anywhere.
pub fn group(cell: u32, trials: u32) -> Group {
    let order: Vec<TrialId> = (1..=trials).map(|repetition| TrialId { cell, repetition }).collect();
    Group { order: order.into(), stay: false, host: None }
}

/// `h` for both roles on it, `h/i,j` for others.
pub fn seats(text: &str) -> Arc<Seats> {
    seats_of(text, 2)
}

fn seats_of(text: &str, roles: usize) -> Arc<Seats> {
    let alone = !text.contains(['/', ',']);
    Arc::new(if alone { Seats::all_on(&name(text), roles) } else { text.parse().unwrap() })
}

/// A plan of `trials` repetitions of one cell with a server and a client, on one host.
pub fn plan(trials: u32) -> Plan {
    Plan {
        run: RUN.parse().unwrap(),
        groups: vec![group(0, trials)],
        hosts: vec![name("h")],
        roles: vec![role("server", RoleKind::Service, &[], 1), role("client", RoleKind::Awaited, &[0], 1)],
        retries: 1,
        after_ng: 0,
        journal_window: 4,
        unstored_limit: 64,
        skew_limit: Duration::from_millis(1),
        reconnect: Reconnect {
            tries: 3,
            first_delay: Duration::from_secs(1),
            max_delay: Duration::from_secs(8),
        },
        power: BTreeMap::new(),
        boots: BTreeMap::new(),
        wait_for_hosts: false,
    }
}

/// Gives roles without a pool all hosts.
pub fn complete(mut plan: Plan) -> Plan {
    for role in plan.roles.iter_mut().filter(|role| role.pool.is_empty()) {
        role.pool = (0..plan.hosts.len()).collect();
    }
    plan
}

pub struct Desk {
    pub scheduler: Scheduler,
    pub now: Duration,
    roles: usize,
}

impl Desk {
    pub fn new(plan: Plan) -> Self {
        Self::resumed(plan, vec![], &[])
    }

    pub fn resumed(plan: Plan, past: Vec<PastAttempt>, journalled: &[&str]) -> Self {
        let roles = plan.roles.len();
        let entry = |text: &&str| {
            let (id, at) = text.split_once('@').unwrap_or((text, "h"));
            (attempt(id), Seats::clone(&seats_of(at, roles)))
        };
        let journalled: Vec<_> = journalled.iter().map(entry).collect();
        let scheduler = Scheduler::new(complete(plan), past, journalled).unwrap();
        Self { scheduler, now: Duration::ZERO, roles }
    }

    /// Feeds one event; gives the effects as lines.
    pub fn sees(&mut self, event: Event) -> Vec<String> {
        let mut effects = Effects::new();
        self.scheduler.step(self.now, event, &mut effects);
        effects.drain().map(|effect| line(&effect)).collect()
    }

    /// Opens the run and takes the host, which knows these tasks (those marked with `!` have ended).
    pub fn open(&mut self, known: &[&str]) -> Vec<String> {
        let mut lines = self.sees(Event::RunOpened);
        lines.extend(self.journalled(&lines.clone()));
        lines.extend(self.connect("b", known));
        lines
    }

    /// The journal answers the orders among these.
    pub fn journalled(&mut self, lines: &[String]) -> Vec<String> {
        let mut answers = Vec::new();
        for line in lines.iter().filter_map(|line| line.strip_prefix("journal ")) {
            let entries = line.split(' ').map(|entry| entry.split_once('@').unwrap());
            let attempts = entries.map(|(id, at)| (attempt(id), seats_of(at, self.roles))).collect();
            answers.extend(self.sees(Event::AttemptsJournalled { attempts }));
        }
        answers
    }

    /// The host connects and is leased.
    pub fn connect(&mut self, boot_id: &str, known: &[&str]) -> Vec<String> {
        self.connect_to("h", boot_id, known)
    }

    pub fn connect_to(&mut self, host: &str, boot_id: &str, known: &[&str]) -> Vec<String> {
        let known = known
            .iter()
            .map(|text| KnownTask { task: task(text.trim_end_matches('!')), ended: text.ends_with('!') });
        let known = known.collect();
        let mut lines = self.sees(Event::HostConnected { host: name(host), boot_id: boot_id.to_owned() });
        lines.extend(self.sees(Event::LeaseGranted { host: name(host), known }));
        lines
    }

    pub fn lose(&mut self) -> Vec<String> {
        self.lose_from("h")
    }

    pub fn lose_from(&mut self, host: &str) -> Vec<String> {
        self.sees(Event::HostLost { host: name(host), why: "cut".to_owned() })
    }

    pub fn prepared(&mut self, id: &str) -> Vec<String> {
        self.sees(Event::AttemptPrepared { attempt: attempt(id) })
    }

    pub fn started(&mut self, id: &str) -> Vec<String> {
        self.sees(Event::TaskChanged { task: task(id), change: TaskChange::Started })
    }

    pub fn ready(&mut self, id: &str) -> Vec<String> {
        self.sees(Event::TaskChanged { task: task(id), change: TaskChange::Ready })
    }

    pub fn armed(&mut self, id: &str) -> Vec<String> {
        self.sees(Event::TaskChanged { task: task(id), change: TaskChange::Armed })
    }

    pub fn released(&mut self, id: &str, late_us: u64) -> Vec<String> {
        self.sees(Event::TaskChanged { task: task(id), change: TaskChange::Released { late_us } })
    }

    pub fn barrier_released(&mut self, id: &str, error_us: u64) -> Vec<String> {
        self.sees(Event::BarrierReleased { attempt: attempt(id), error_us })
    }

    pub fn ended(&mut self, id: &str, kind: EndKind) -> Vec<String> {
        self.ended_with(id, Ending { kind, leftovers: 0, output_cut: 0, spent: false })
    }

    pub fn ended_with(&mut self, id: &str, ending: Ending) -> Vec<String> {
        self.sees(Event::TaskChanged { task: task(id), change: TaskChange::Ended(ending) })
    }

    pub fn kernel_failed(&mut self, host: &str, id: &str, cause: NgCause) -> Vec<String> {
        let detail = "soft lockup - CPU#1 stuck".to_owned();
        self.sees(Event::KernelFailed { host: name(host), attempt: attempt(id), cause, detail })
    }

    pub fn collected(&mut self, id: &str, outcome: CollectOutcome) -> Vec<String> {
        self.sees(Event::Collected { attempt: attempt(id), outcome })
    }

    pub fn stored(&mut self, id: &str) -> Vec<String> {
        self.sees(Event::AttemptStored { attempt: attempt(id) })
    }

    /// From prepared to a client that runs.
    pub fn run_up(&mut self, id: &str) {
        self.prepared(id);
        self.started(&format!("{id}.server.0"));
        self.ready(&format!("{id}.server.0"));
        self.started(&format!("{id}.client.0"));
    }

    /// From a client that runs to collected.
    pub fn run_down(&mut self, id: &str) -> Vec<String> {
        self.ended(&format!("{id}.client.0"), EndKind::Exited(0));
        self.ended(&format!("{id}.server.0"), EndKind::Stopped(Some(0)));
        self.collected(id, CollectOutcome::default())
    }
}

fn short(id: &impl ToString) -> String {
    id.to_string().replace(&format!("{RUN}."), "")
}

/// Where something is, unless that is the host `h`.
fn at(host: &Name) -> String {
    if host.as_str() == "h" { String::new() } else { format!("@{host}") }
}

fn of_seats(seats: &Seats) -> String {
    match seats.hosts()[..] {
        [host] => host.to_string(),
        _ => seats.to_string(),
    }
}

fn line(effect: &Effect) -> String {
    let list = |ids: Vec<String>| ids.join(" ");
    let names = |hosts: &[Name]| hosts.iter().map(Name::as_str).collect::<Vec<_>>().join(" ");
    match effect {
        Effect::ConnectHost { host } => format!("connect {host}"),
        Effect::CyclePower { host, why } => format!("cycle {host}: {}", short(why)),
        Effect::MakeMachine { host, attempt } => format!("make {host} for {}", short(attempt)),
        Effect::RestoreMachine { host } => format!("restore {host}"),
        Effect::AcquireLease { host } => format!("lease {host}"),
        Effect::ReleaseLease { host } => format!("give back {host}"),
        Effect::QuarantineHost { host, why } => format!("quarantine {host}: {}", short(why)),
        Effect::JournalAttempts { attempts } => {
            let entry = |(id, seats): &(AttemptId, Arc<Seats>)| format!("{}@{}", short(id), of_seats(seats));
            format!("journal {}", list(attempts.iter().map(entry).collect()))
        }
        Effect::PrepareAttempt { attempt, .. } => format!("prepare {}", short(attempt)),
        Effect::CheckReach { attempt, role, from } => {
            format!("reach {}.{role} from {}", short(attempt), names(from))
        }
        Effect::StartTask { host, task, hold: false } => format!("start {}{}", short(task), at(host)),
        Effect::StartTask { host, task, hold: true } => format!("hold {}{}", short(task), at(host)),
        Effect::ReleaseBarrier { attempt, hosts } if names(hosts) == "h" => {
            format!("release {}", short(attempt))
        }
        Effect::ReleaseBarrier { attempt, hosts } => {
            format!("release {} on {}", short(attempt), names(hosts))
        }
        Effect::StopTask { host, task, kill: false } => format!("stop {}{}", short(task), at(host)),
        Effect::StopTask { host, task, kill: true } => format!("kill {}{}", short(task), at(host)),
        Effect::Collect { attempt, tasks } => {
            let entry = |(host, task): &(Name, TaskId)| format!("{}{}", task.role, at(host));
            format!("collect {}: {}", short(attempt), list(tasks.iter().map(entry).collect()))
        }
        Effect::StoreAttempt { attempt, verdict, is_final, with_outputs, .. } => {
            let (outcome, cause, detail) =
                (verdict.outcome().as_str(), verdict.cause(), short(&verdict.detail()));
            let last = if *is_final { "final" } else { "passing" };
            let bare = if *with_outputs { "" } else { " bare" };
            format!("store {} {last}{bare}: {outcome} {cause} {detail}", short(attempt)).trim_end().to_owned()
        }
        Effect::ForgetAttempts { host, attempts } => {
            format!("forget {}{}", list(attempts.iter().map(short).collect()), at(host))
        }
        Effect::Finish { ended, progress } => format!("finish {ended:?}, {} done", progress.finished()),
    }
}
