//! What must hold whatever happens: checked at every effect, at every write to the store, and at the end.

use std::collections::BTreeSet;

use drover_model::{AttemptId, EndKind, ErrorCause, MissingCause, Outcome, TaskId, TrialId, Verdict};
use drover_sched::{Effect, RoleKind, Scheduler};

use crate::world::{Controller, World};

type Holds = Result<(), String>;

fn holds(condition: bool, text: impl FnOnce() -> String) -> Holds {
    if condition { Ok(()) } else { Err(text()) }
}

/// Checks an effect at the moment it is given.
pub fn of_effect(world: &World, controller: &Controller, effect: &Effect) -> Holds {
    holds(controller.ended.is_none(), || format!("{effect:?} after the end"))?;
    invariant_orders_go_to_held_hosts(world, controller, effect)?;
    match effect {
        Effect::JournalAttempts { attempts } => {
            attempts.iter().try_for_each(|(id, _)| invariant_numbers_have_no_gaps(world, *id))
        }
        Effect::PrepareAttempt { attempt, host } => {
            invariant_journalled_before_sent(world, *attempt, host.as_str())?;
            invariant_finished_trials_stay_finished(world, attempt.trial)?;
            invariant_few_are_unstored(world, controller, *attempt)
        }
        Effect::StartTask { host, task, .. } => {
            invariant_journalled_before_sent(world, task.attempt, host.as_str())?;
            holds(controller.begun.contains(&task.attempt), || format!("{task} starts unprepared"))?;
            invariant_started_after_what_it_needs(world, task)
        }
        Effect::Collect { attempt, .. } => {
            holds(!world.store.contains_key(attempt), || format!("{attempt} is collected again"))
        }
        Effect::ForgetAttempts { attempts, .. } => {
            attempts.iter().try_for_each(|id| invariant_stored_before_forgotten(world, *id))
        }
        _ => Ok(()),
    }
}

/// Checks a verdict at the moment it becomes durable.
pub fn of_store(world: &World, id: AttemptId, verdict: &Verdict, is_final: bool) -> Holds {
    invariant_finished_trials_stay_finished(world, id.trial)?;
    invariant_numbers_have_no_gaps(world, id)?;
    invariant_a_number_is_true(world, id, verdict)?;
    invariant_a_failure_has_a_cause(world, id, verdict)?;
    invariant_retries_are_bounded(world, id, verdict, is_final)
}

/// Checks a run that says it is complete.
pub fn at_the_end(world: &World, scheduler: &Scheduler) -> Holds {
    for trial in &world.trials {
        let finals = world.store.iter().filter(|(id, stored)| id.trial == *trial && stored.is_final).count();
        holds(finals == 1, || format!("{trial} has {finals} final verdicts at the end"))?;
    }
    let trials: BTreeSet<TrialId> = world.store.keys().map(|id| id.trial).collect();
    holds(trials.len() == world.trials.len(), || "a trial was run that nobody planned".to_owned())?;
    let progress = scheduler.progress();
    let (finished, passing) = (progress.finished(), progress.passing);
    let counted = usize::try_from(finished + passing).unwrap();
    holds(counted == world.store.len(), || {
        format!(
            "{finished} finished and {passing} passing attempts are counted, {} are stored",
            world.store.len()
        )
    })
}

/// Nothing is ordered on a host without a lease, but to connect and to take one.
fn invariant_orders_go_to_held_hosts(world: &World, controller: &Controller, effect: &Effect) -> Holds {
    let host = match effect {
        Effect::PrepareAttempt { host, .. }
        | Effect::StartTask { host, .. }
        | Effect::ReleaseBarrier { host, .. }
        | Effect::StopTask { host, .. }
        | Effect::Collect { host, .. }
        | Effect::ForgetAttempts { host, .. }
        | Effect::ReleaseLease { host } => host,
        _ => return Ok(()),
    };
    let link = world.hosts.iter().position(|name| name == host).map(|host| &controller.links[host]);
    holds(link.is_some_and(|link| link.epoch != 0 || link.loss_is_news()), || {
        format!("{effect:?} without a lease")
    })
}

fn invariant_journalled_before_sent(world: &World, id: AttemptId, host: &str) -> Holds {
    let journalled = world.journal.iter().any(|(journalled, at)| *journalled == id && at.as_str() == host);
    holds(journalled, || format!("{id} is sent to {host}, and the journal does not say so"))?;
    holds(!world.store.contains_key(&id), || format!("{id} is sent although it is stored"))
}

fn invariant_finished_trials_stay_finished(world: &World, trial: TrialId) -> Holds {
    let mut finals = world.store.iter().filter(|(id, stored)| id.trial == trial && stored.is_final);
    holds(finals.next().is_none(), || format!("{trial} has its final verdict, and goes on"))
}

fn invariant_numbers_have_no_gaps(world: &World, id: AttemptId) -> Holds {
    let stored = world.store.keys().filter(|other| other.trial == id.trial).count();
    let expected = u32::try_from(stored).unwrap() + 1;
    holds(id.number == expected, || format!("{id} follows on {stored} stored attempts"))
}

/// A new attempt is begun only while fewer than the limit are over and not stored.
fn invariant_few_are_unstored(world: &World, controller: &Controller, id: AttemptId) -> Holds {
    let limit = usize::try_from(world.unstored_limit).unwrap();
    let unstored = controller.unstored.iter().filter(|other| **other != id).count();
    // An interruption lets go of attempts whose host is away: they do not count any more.
    let counts = controller.interrupts == 0 && !controller.begun.contains(&id);
    holds(unstored < limit || !counts, || format!("{id} is begun while {unstored} attempts are not stored"))
}

fn invariant_stored_before_forgotten(world: &World, id: AttemptId) -> Holds {
    holds(world.store.contains_key(&id), || format!("{id} is forgotten before it is stored"))
}

/// A task starts only when the services it needs were ready and the awaited it needs are over, in truth.
fn invariant_started_after_what_it_needs(world: &World, task: &TaskId) -> Holds {
    let role = world.roles.iter().find(|role| role.name == task.role).unwrap();
    for needed in role.after.iter().flat_map(|after| tasks_of(world, task.attempt, *after)) {
        let kind = world.roles.iter().find(|role| role.name == needed.role).unwrap().kind;
        let satisfied = world.agents.iter().any(|agent| match kind {
            RoleKind::Service => agent.readied.contains(&needed),
            RoleKind::Awaited => agent.ends.contains_key(&needed),
        });
        holds(satisfied, || format!("{task} starts before {needed} allows it"))?;
    }
    Ok(())
}

fn tasks_of(world: &World, attempt: AttemptId, role: usize) -> Vec<TaskId> {
    let role = &world.roles[role];
    let id = |instance| TaskId { attempt, role: role.name.clone(), instance };
    (0..role.instances).map(id).collect()
}

/// Where a number may be shown, all clients truly did their work, all services truly were ready and did not crash, and
/// nothing of the attempt runs any more.
fn invariant_a_number_is_true(world: &World, id: AttemptId, verdict: &Verdict) -> Holds {
    if !verdict.outcome().has_number() {
        return Ok(());
    }
    holds(!world.agents.iter().any(|agent| agent.alive().contains(&id)), || format!("{id} runs on"))?;
    for (index, role) in world.roles.iter().enumerate() {
        for task in tasks_of(world, id, index) {
            let end = world.agents.iter().find_map(|agent| agent.ends.get(&task));
            let ready = world.agents.iter().any(|agent| agent.readied.contains(&task));
            let good = match (role.kind, end) {
                (RoleKind::Awaited, Some(EndKind::Exited(0))) => true,
                (RoleKind::Service, Some(EndKind::Stopped(_) | EndKind::Killed)) => ready,
                _ => false,
            };
            holds(good, || format!("{id} is {verdict:?}, but {task} ended {end:?}, ready: {ready}"))?;
        }
    }
    let ngs = world
        .store
        .iter()
        .filter(|(other, stored)| other.trial == id.trial && stored.verdict.outcome() == Outcome::Ng);
    holds(ngs.count() == 0 || verdict.outcome() == Outcome::Suspect, || format!("{id} hides an ng"))
}

/// What nothing happened to does not fail, and nothing is cancelled unless a controller cut something short.
fn invariant_a_failure_has_a_cause(world: &World, id: AttemptId, verdict: &Verdict) -> Holds {
    let harmed = world.harmed.contains(&id) || world.agents.iter().any(|agent| agent.harmed.contains(&id));
    // A host is also given up when a task on it cannot be ended.
    let host_lost = world.ever_lost || world.agents.iter().any(|agent| !agent.harmed.is_empty());
    let has_cause = match verdict {
        Verdict::Ok | Verdict::Suspect { .. } => true,
        Verdict::Ng { .. } => harmed,
        Verdict::Error { cause: ErrorCause::LostHost, .. } => host_lost,
        Verdict::Error { .. } => harmed,
        Verdict::Missing { cause: MissingCause::Cancelled, .. } => world.ever_cut_short || harmed,
        Verdict::Missing { cause: MissingCause::HostUnavailable, .. } => host_lost,
        Verdict::Missing { .. } => harmed,
    };
    holds(has_cause, || format!("{id} is {verdict:?}, and nothing happened to it"))
}

fn invariant_retries_are_bounded(world: &World, id: AttemptId, verdict: &Verdict, is_final: bool) -> Holds {
    let before = world.store.iter().filter(|(other, _)| other.trial == id.trial);
    let with_this: Vec<&Verdict> = before.map(|(_, stored)| &stored.verdict).chain([verdict]).collect();
    let faults = with_this.iter().filter(|verdict| verdict.is_retriable()).count();
    let ngs = with_this.iter().filter(|verdict| verdict.outcome() == Outcome::Ng).count();
    let allowed = |count: usize, limit: u32| count <= usize::try_from(limit).unwrap();
    let expected_final = match verdict {
        Verdict::Missing { cause: MissingCause::Cancelled | MissingCause::HostUnavailable, .. } => false,
        Verdict::Ng { .. } => !allowed(ngs, world.after_ng),
        _ if verdict.is_retriable() => !allowed(faults, world.retries),
        _ => true,
    };
    holds(is_final == expected_final, || format!("{id}: {verdict:?} is stored with final = {is_final}"))
}
