//! A scheduler on a desk: events go in one by one, effects come out as short lines.

use std::time::Duration;

use drover_model::{AttemptId, EndKind, Name, TaskId, TrialId};
use drover_sched::{
    CollectOutcome, Effect, Effects, Ending, Event, KnownTask, PastAttempt, Plan, Reconnect, RoleKind,
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
        status: StatusPolicy::OneOf(vec![0]),
        backstop: Duration::from_secs(60),
        stop_backstop: Duration::from_secs(6),
    }
}

/// A plan of `trials` repetitions of one cell with a server and a client, on one host.
pub fn plan(trials: u32) -> Plan {
    let order: Vec<TrialId> = (1..=trials).map(|repetition| TrialId { cell: 0, repetition }).collect();
    Plan {
        run: RUN.parse().unwrap(),
        order: order.into(),
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
    }
}

pub struct Desk {
    pub scheduler: Scheduler,
    pub now: Duration,
}

impl Desk {
    pub fn new(plan: Plan) -> Self {
        Self::resumed(plan, vec![], &[])
    }

    pub fn resumed(plan: Plan, past: Vec<PastAttempt>, journalled: &[&str]) -> Self {
        let journalled: Vec<_> = journalled.iter().map(|id| (attempt(id), name("h"))).collect();
        Self { scheduler: Scheduler::new(plan, past, journalled).unwrap(), now: Duration::ZERO }
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
        let journalled: Vec<_> = lines.iter().filter_map(|line| line.strip_prefix("journal ")).collect();
        let attempts = journalled
            .iter()
            .flat_map(|line| line.split(' '))
            .map(|entry| entry.split_once('@').unwrap())
            .map(|(id, host)| (attempt(id), name(host)))
            .collect();
        lines.extend(self.sees(Event::AttemptsJournalled { attempts }));
        lines.extend(self.connect("b", known));
        lines
    }

    /// The host connects and is leased.
    pub fn connect(&mut self, boot_id: &str, known: &[&str]) -> Vec<String> {
        let known = known
            .iter()
            .map(|text| KnownTask { task: task(text.trim_end_matches('!')), ended: text.ends_with('!') });
        let known = known.collect();
        let mut lines = self.sees(Event::HostConnected { host: name("h"), boot_id: boot_id.to_owned() });
        lines.extend(self.sees(Event::LeaseGranted { host: name("h"), known }));
        lines
    }

    pub fn lose(&mut self) -> Vec<String> {
        self.sees(Event::HostLost { host: name("h"), why: "cut".to_owned() })
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

    pub fn ended(&mut self, id: &str, kind: EndKind) -> Vec<String> {
        self.ended_with(id, Ending { kind, leftovers: 0, output_cut: 0 })
    }

    pub fn ended_with(&mut self, id: &str, ending: Ending) -> Vec<String> {
        self.sees(Event::TaskChanged { task: task(id), change: TaskChange::Ended(ending) })
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

fn line(effect: &Effect) -> String {
    let list = |ids: Vec<String>| ids.join(" ");
    match effect {
        Effect::ConnectHost { host } => format!("connect {host}"),
        Effect::AcquireLease { host } => format!("lease {host}"),
        Effect::ReleaseLease { host } => format!("give back {host}"),
        Effect::JournalAttempts { attempts } => {
            format!(
                "journal {}",
                list(attempts.iter().map(|(id, host)| format!("{}@{host}", short(id))).collect())
            )
        }
        Effect::PrepareAttempt { attempt, .. } => format!("prepare {}", short(attempt)),
        Effect::StartTask { task, hold: false, .. } => format!("start {}", short(task)),
        Effect::StartTask { task, hold: true, .. } => format!("hold {}", short(task)),
        Effect::ReleaseBarrier { attempt, .. } => format!("release {}", short(attempt)),
        Effect::StopTask { task, kill: false, .. } => format!("stop {}", short(task)),
        Effect::StopTask { task, kill: true, .. } => format!("kill {}", short(task)),
        Effect::Collect { attempt, tasks, .. } => {
            format!(
                "collect {}: {}",
                short(attempt),
                list(tasks.iter().map(|task| task.role.to_string()).collect())
            )
        }
        Effect::StoreAttempt { attempt, verdict, is_final, with_outputs, .. } => {
            let (outcome, cause, detail) =
                (verdict.outcome().as_str(), verdict.cause(), short(&verdict.detail()));
            let last = if *is_final { "final" } else { "passing" };
            let bare = if *with_outputs { "" } else { " bare" };
            format!("store {} {last}{bare}: {outcome} {cause} {detail}", short(attempt)).trim_end().to_owned()
        }
        Effect::ForgetAttempts { attempts, .. } => {
            format!("forget {}", list(attempts.iter().map(short).collect()))
        }
        Effect::Finish { ended, progress } => format!("finish {ended:?}, {} done", progress.finished()),
    }
}
