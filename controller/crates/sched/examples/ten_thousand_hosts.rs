//! Prints how many decisions a second the scheduler makes when ten thousand hosts work off a million trials and one host in a
//! hundred is lost on the way; with a quarter, a half and all of that, to show how it grows. What counts is time of the CPU
//! inside the scheduler; what the simulated world around it takes is told apart.
//!
//! `cargo run --release -p drover-sched --example ten_thousand_hosts [TRIALS [HOSTS]]`

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use drover_model::{EndKind, Name, NameError, TaskId, TrialId};
use drover_sched::{
    CollectOutcome, Effect, Effects, Ending, Event, Group, Order, Plan, PlanError, Reconnect, RoleKind,
    RoleShape, Scheduler, StatusPolicy, TaskChange,
};

#[derive(Debug, thiserror::Error)]
enum ExampleError {
    #[error(transparent)]
    Name(#[from] NameError),
    #[error(transparent)]
    Plan(#[from] PlanError),
}

fn role(name: &str, kind: RoleKind, after: Vec<usize>, hosts: usize) -> Result<RoleShape, NameError> {
    Ok(RoleShape {
        name: name.parse()?,
        kind,
        after,
        instances: 1,
        hosts: 1,
        pool: (0..hosts).collect(),
        pinned: false,
        same_host_as: None,
        other_host_than: Vec::new(),
        reach: false,
        outlasts: false,
        status: StatusPolicy::OneOf(vec![0]),
        backstop: Duration::from_secs(600),
        stop_backstop: Duration::from_secs(60),
    })
}

/// A world in which everything takes its time, and some hosts vanish in the middle of a trial.
struct World {
    now: Duration,
    /// What will happen when, in the order in which it was arranged.
    due: BTreeMap<Duration, Vec<Event>>,
    /// By number of the host: lost for good.
    lost: Vec<bool>,
}

impl World {
    fn arrange(&mut self, after_ms: u64, event: Event) {
        self.due.entry(self.now + Duration::from_millis(after_ms)).or_default().push(event);
    }

    fn changed(&mut self, after_ms: u64, task: TaskId, change: TaskChange) {
        self.arrange(after_ms, Event::TaskChanged { task, change });
    }

    fn number(host: &Name) -> usize {
        host.as_str().trim_start_matches('h').parse().unwrap_or_default()
    }

    /// One host in a hundred vanishes, each at its own trial.
    fn vanishes(&mut self, host: &Name, task: &TaskId) -> bool {
        let number = Self::number(host);
        if number % 100 == 50 && task.attempt.trial.cell > 1000 && !self.lost[number] {
            self.lost[number] = true;
            let why = "no heartbeat".to_owned();
            self.arrange(5, Event::HostLost { host: host.clone(), why });
        }
        self.lost[number]
    }

    fn answer(&mut self, effect: Effect) {
        match effect {
            Effect::ConnectHost { host } if self.lost[Self::number(&host)] => {
                let why = "no route to host".to_owned();
                self.arrange(100, Event::HostLost { host, why });
            }
            Effect::ConnectHost { host } => {
                self.arrange(20, Event::HostConnected { host, boot_id: "b".to_owned() });
            }
            Effect::AcquireLease { host } => {
                self.arrange(1, Event::LeaseGranted { host, known: Vec::new() });
            }
            Effect::ReleaseLease { host } => self.arrange(1, Event::LeaseReleased { host }),
            Effect::JournalAttempts { attempts } => self.arrange(3, Event::AttemptsJournalled { attempts }),
            Effect::PrepareAttempt { attempt, .. } => self.arrange(1, Event::AttemptPrepared { attempt }),
            Effect::StartTask { host, task, .. } if self.vanishes(&host, &task) => {}
            Effect::StartTask { task, .. } => {
                self.changed(2, task.clone(), TaskChange::Started);
                if task.role.as_str() == "server" {
                    self.changed(4, task, TaskChange::Ready);
                } else {
                    let spread = u64::from(task.attempt.trial.cell % 97);
                    self.changed(100 + spread, task, ended(EndKind::Exited(0)));
                }
            }
            Effect::StopTask { task, .. } => self.changed(2, task, ended(EndKind::Stopped(Some(0)))),
            Effect::Collect { attempt, .. } => {
                self.arrange(3, Event::Collected { attempt, outcome: CollectOutcome::default() });
            }
            Effect::StoreAttempt { attempt, .. } => self.arrange(3, Event::AttemptStored { attempt }),
            Effect::ForgetAttempts { host, attempts } => {
                self.arrange(1, Event::AttemptsForgotten { host, attempts });
            }
            Effect::ReleaseBarrier { .. }
            | Effect::CheckReach { .. }
            | Effect::CyclePower { .. }
            | Effect::QuarantineHost { .. }
            | Effect::MakeMachine { .. }
            | Effect::RestoreMachine { .. }
            | Effect::Finish { .. } => {}
        }
    }
}

fn ended(kind: EndKind) -> TaskChange {
    TaskChange::Ended(Ending { kind, leftovers: 0, output_cut: 0, spent: false })
}

/// What this thread has used of the CPU, work of the kernel for it included.
fn cpu_time() -> Duration {
    let spent = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(spent).unwrap_or_default()
}

/// Memory of this process at its largest, in MiB, where the kernel tells.
fn peak_mib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kib| kib / 1024)
}

fn run(trials: u32, hosts: usize) -> Result<(), ExampleError> {
    let plan = Plan {
        run: drover_model::RunId(Default::default()),
        hosts: (0..hosts).map(|host| format!("h{host}").parse()).collect::<Result<_, _>>()?,
        roles: vec![
            role("server", RoleKind::Service, vec![], hosts)?,
            role("client", RoleKind::Awaited, vec![0], hosts)?,
        ],
        groups: vec![Group {
            order: Order::lazy((0..trials).map(|cell| TrialId { cell, repetition: 1 })),
            stay: false,
            host: None,
        }],
        retries: 3,
        after_ng: 0,
        journal_window: 16,
        unstored_limit: 16,
        skew_limit: Duration::from_millis(1),
        reconnect: Reconnect { tries: 3, ..Reconnect::default() },
        power: BTreeMap::new(),
        boots: BTreeMap::new(),
        wait_for_hosts: false,
    };
    let began = cpu_time();
    let mut scheduler = Scheduler::new(plan, [], [])?;
    let mut deciding = cpu_time().saturating_sub(began);
    let mut world = World { now: Duration::ZERO, due: BTreeMap::new(), lost: vec![false; hosts] };
    let mut effects = Effects::new();
    let mut next = VecDeque::from([Event::RunOpened]);
    let (mut steps, mut quarantined) = (0_u32, 0_u32);
    loop {
        // Where the world's time stands still, many steps are measured in one go.
        let begun = cpu_time();
        for event in next.drain(..) {
            scheduler.step(world.now, event, &mut effects);
            steps = steps.saturating_add(1);
        }
        let deadline = scheduler.next_deadline();
        deciding += cpu_time().saturating_sub(begun);
        while let Some(effect) = effects.pop() {
            quarantined += u32::from(matches!(effect, Effect::QuarantineHost { .. }));
            world.answer(effect);
        }
        let due = world.due.keys().next().copied();
        world.now = match (due, deadline) {
            (None, None) => break,
            (Some(at), None) => at,
            (None, Some(at)) => at.max(world.now),
            (Some(due), Some(deadline)) => due.min(deadline.max(world.now)),
        };
        if deadline.is_some_and(|deadline| deadline <= world.now) {
            next.push_back(Event::TimerElapsed);
        }
        while let Some(due) = world.due.first_entry().filter(|due| *due.key() <= world.now) {
            next.extend(due.remove());
        }
    }
    let around = cpu_time().saturating_sub(began).saturating_sub(deciding);
    let (seconds, steps) = (deciding.as_secs_f64(), f64::from(steps));
    println!(
        "{trials:>9} {hosts:>7} {quarantined:>5} {:>9} {steps:>10} {seconds:>9.2} {:>10.2} {:>11.0} {:>11.0} {:>9}",
        scheduler.progress().finished(),
        around.as_secs_f64(),
        steps / seconds,
        seconds / steps * 1e9,
        peak_mib().map_or_else(|| "---".to_owned(), |mib| mib.to_string()),
    );
    Ok(())
}

fn main() -> Result<(), ExampleError> {
    let mut numbers = std::env::args().skip(1);
    let trials: u32 = numbers.next().and_then(|text| text.parse().ok()).unwrap_or(1_000_000);
    let hosts: usize = numbers.next().and_then(|text| text.parse().ok()).unwrap_or(10_000);
    println!(
        "{:>9} {:>7} {:>5} {:>9} {:>10} {:>9} {:>10} {:>11} {:>11} {:>9}",
        "trials",
        "hosts",
        "lost",
        "finished",
        "decisions",
        "CPU s",
        "world s",
        "decisions/s",
        "ns/decision",
        "peak MiB"
    );
    for part in [4_u32, 2, 1] {
        run(trials / part, hosts / usize::try_from(part).unwrap_or(1))?;
    }
    Ok(())
}
