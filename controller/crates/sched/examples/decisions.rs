//! Prints how many decisions a second the scheduler makes: a run of a million
//! trials (or of as many as the first argument says) of a server and a client, worked off without a fault.
//!
//! `cargo run --release -p drover-sched --example decisions [TRIALS]`

use std::{
    collections::{BTreeMap, VecDeque},
    time::{Duration, Instant},
};

use drover_model::{EndKind, Name, NameError, TrialId};
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

fn role(name: &str, kind: RoleKind, after: Vec<usize>) -> Result<RoleShape, NameError> {
    Ok(RoleShape {
        name: name.parse()?,
        kind,
        after,
        instances: 1,
        hosts: 1,
        pool: vec![0],
        pinned: false,
        same_host_as: None,
        other_host_than: Vec::new(),
        reach: false,
        outlasts: false,
        status: StatusPolicy::OneOf(vec![0]),
        backstop: Duration::from_secs(60),
        stop_backstop: Duration::from_secs(6),
    })
}

/// What a world without faults answers.
fn answer(host: &Name, effect: Effect, events: &mut VecDeque<Event>) {
    let mut says = |task, change| events.push_back(Event::TaskChanged { task, change });
    match effect {
        Effect::ConnectHost { host } => {
            events.push_back(Event::HostConnected { host, boot_id: "b".to_owned() })
        }
        Effect::AcquireLease { host } => events.push_back(Event::LeaseGranted { host, known: Vec::new() }),
        Effect::ReleaseLease { host } => events.push_back(Event::LeaseReleased { host }),
        Effect::JournalAttempts { attempts } => events.push_back(Event::AttemptsJournalled { attempts }),
        Effect::PrepareAttempt { attempt, .. } => events.push_back(Event::AttemptPrepared { attempt }),
        Effect::StartTask { task, .. } => {
            says(task.clone(), TaskChange::Started);
            if task.role.as_str() == "server" {
                says(task, TaskChange::Ready);
            } else {
                says(task, ended(EndKind::Exited(0)));
            }
        }
        Effect::StopTask { task, .. } => says(task, ended(EndKind::Stopped(Some(0)))),
        Effect::Collect { attempt, .. } => {
            events.push_back(Event::Collected { attempt, outcome: CollectOutcome::default() });
        }
        Effect::StoreAttempt { attempt, .. } => events.push_back(Event::AttemptStored { attempt }),
        Effect::ForgetAttempts { attempts, .. } => {
            events.push_back(Event::AttemptsForgotten { host: host.clone(), attempts });
        }
        Effect::ReleaseBarrier { .. }
        | Effect::CheckReach { .. }
        | Effect::QuarantineHost { .. }
        | Effect::CyclePower { .. }
        | Effect::MakeMachine { .. }
        | Effect::RestoreMachine { .. }
        | Effect::Finish { .. } => {}
    }
}

fn ended(kind: EndKind) -> TaskChange {
    TaskChange::Ended(Ending { kind, leftovers: 0, output_cut: 0, spent: false })
}

fn main() -> Result<(), ExampleError> {
    let trials: u32 = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(1_000_000);
    let host: Name = "local".parse()?;
    let plan = Plan {
        run: drover_model::RunId(Default::default()),
        groups: vec![Group {
            order: Order::lazy((0..trials).map(|cell| TrialId { cell, repetition: 1 })),
            stay: false,
            host: None,
        }],
        hosts: vec![host.clone()],
        roles: vec![role("server", RoleKind::Service, vec![])?, role("client", RoleKind::Awaited, vec![0])?],
        retries: 3,
        after_ng: 0,
        journal_window: 32,
        unstored_limit: 64,
        skew_limit: Duration::from_millis(1),
        reconnect: Reconnect::default(),
        power: BTreeMap::new(),
        boots: BTreeMap::new(),
        wait_for_hosts: false,
    };
    let mut scheduler = Scheduler::new(plan, [], [])?;
    let mut effects = Effects::new();
    let mut events = VecDeque::from([Event::RunOpened]);
    let mut steps = 0_u32;
    let begun = Instant::now();
    while let Some(event) = events.pop_front() {
        scheduler.step(begun.elapsed(), event, &mut effects);
        steps = steps.saturating_add(1);
        while let Some(effect) = effects.pop() {
            answer(&host, effect, &mut events);
        }
    }
    let took = begun.elapsed().as_secs_f64();
    println!(
        "{} trials, {steps} decisions in {took:.2} s: {:.0} per second, {:.2} us each",
        scheduler.progress().finished(),
        f64::from(steps) / took,
        took / f64::from(steps) * 1e6
    );
    Ok(())
}
