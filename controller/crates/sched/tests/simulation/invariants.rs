//! What must hold whatever happens: checked at every effect, at every write to the store, and at the end.

use std::{collections::BTreeSet, sync::Arc};

use drover_model::{
    AttemptId, EndKind, ErrorCause, MissingCause, Name, NgCause, Outcome, Seats, TaskId, TrialId, Verdict,
};
use drover_sched::{Effect, RoleKind, Scheduler};

use crate::world::{Controller, World, hosts_of};

type Holds = Result<(), String>;

fn holds(condition: bool, text: impl FnOnce() -> String) -> Holds {
    if condition { Ok(()) } else { Err(text()) }
}

/// Checks an effect at the moment it is given.
pub fn of_effect(world: &World, controller: &Controller, effect: &Effect) -> Holds {
    holds(controller.ended.is_none(), || format!("{effect:?} after the end"))?;
    invariant_orders_go_to_held_hosts(world, controller, effect)?;
    match effect {
        Effect::JournalAttempts { attempts } => attempts.iter().try_for_each(|(id, seats)| {
            invariant_numbers_have_no_gaps(world, *id)?;
            invariant_seats_are_as_planned(world, *id, seats)
        }),
        Effect::PrepareAttempt { attempt, seats } => {
            let journalled = world.journal.iter().any(|(id, at)| id == attempt && at == seats);
            holds(journalled, || format!("{attempt} is sent to {seats}, and the journal does not say so"))?;
            invariant_hosts_have_one_attempt_each(world, controller, *attempt, seats)?;
            invariant_finished_trials_stay_finished(world, attempt.trial)?;
            invariant_few_are_unstored(world, controller, *attempt, seats)
        }
        Effect::MakeMachine { host, attempt } => {
            let place = world.hosts.iter().position(|name| name == host).unwrap();
            let journalled = world.journal.iter().any(|(id, at)| id == attempt && at.hosts().contains(&host));
            holds(journalled, || {
                format!("{host} is made anew for {attempt}, and the journal does not say so")
            })?;
            holds(controller.holders[place] == Some(*attempt), || format!("{attempt} has not {host}"))?;
            // Its agent forgets with the boot what is not stored.
            let mut there = world.journal.iter().filter(|(_, at)| at.hosts().contains(&host));
            holds(!there.any(|(id, _)| controller.unstored.contains(id)), || {
                format!("what {host} has and the store has not is thrown away")
            })
        }
        Effect::StartTask { host, task, .. } => {
            invariant_runs_on_its_machine(world, task, host)?;
            invariant_journalled_before_sent(world, task, host)?;
            holds(controller.begun.contains(&task.attempt), || format!("{task} starts unprepared"))?;
            invariant_started_after_what_it_needs(world, task)
        }
        Effect::RestoreMachine { host } => invariant_restored_when_all_is_over(world, host),
        Effect::CyclePower { host, .. } => invariant_the_power_is_ours_to_cut(world, controller, host),
        Effect::Collect { attempt, .. } => {
            holds(!world.store.contains_key(attempt), || format!("{attempt} is collected again"))
        }
        Effect::StoreAttempt { attempt, verdict, .. } => {
            let failed = controller.failed.contains(attempt) || controller.kernel_failed.contains(attempt);
            holds(!failed || !verdict.outcome().has_number(), || {
                format!("{attempt} has a number, and it, or a kernel in it, failed")
            })
        }
        Effect::ForgetAttempts { attempts, .. } => {
            attempts.iter().try_for_each(|id| invariant_stored_before_forgotten(world, *id))
        }
        _ => Ok(()),
    }
}

/// Checks a verdict at the moment it becomes durable.
pub fn of_store(
    world: &World,
    id: AttemptId,
    seats: Option<&Seats>,
    verdict: &Verdict,
    is_final: bool,
) -> Holds {
    invariant_compared_trials_share_their_hosts(world, id, seats, verdict)?;
    invariant_finished_trials_stay_finished(world, id.trial)?;
    invariant_numbers_have_no_gaps(world, id)?;
    invariant_a_number_is_true(world, id, verdict)?;
    invariant_a_reboot_is_the_hosts_own(world, id, seats, verdict)?;
    invariant_a_failure_has_a_cause(world, id, seats, verdict)?;
    invariant_retries_are_bounded(world, id, verdict, is_final)
}

/// Checks what a controller leaves when it ends by itself: nothing runs on the hosts that it gave back.
pub fn at_any_end(world: &World, controller: &Controller) -> Holds {
    invariant_hosts_are_what_they_were(world, controller)?;
    world.given_back.iter().try_for_each(|host| {
        let alive = world.agents[*host].alive();
        holds(alive.is_empty(), || format!("{alive:?} run on {}", world.hosts[*host]))
    })
}

/// Checks a run that says it is complete.
pub fn at_the_end(world: &World, scheduler: &Scheduler) -> Holds {
    for host in &world.released {
        let known = world.agents[*host].known();
        let kept = known.iter().find(|known| world.store.contains_key(&known.task.attempt));
        holds(kept.is_none(), || format!("{} keeps {kept:?}, which is stored", world.hosts[*host]))?;
    }
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

/// No host is left as the machine that the run has made of it, unless nothing can be done about that, or the user is in a hurry.
fn invariant_hosts_are_what_they_were(world: &World, controller: &Controller) -> Holds {
    if controller.interrupts > 1 {
        return Ok(());
    }
    world.boots.iter().try_for_each(|host| {
        let agent = &world.agents[*host];
        let is_right = agent.machine.is_none() && agent.next.is_none();
        holds(is_right || world.excused.contains(host), || {
            format!(
                "{} is left as another machine: {:?}, {:?}",
                world.hosts[*host], agent.machine, agent.next
            )
        })
    })
}

/// A host is made what it was when nothing runs on it any more.
fn invariant_restored_when_all_is_over(world: &World, host: &Name) -> Holds {
    let place = world.hosts.iter().position(|name| name == host).unwrap();
    let alive = world.agents[place].alive();
    holds(alive.is_empty(), || format!("{host} is to be what it was while {alive:?} run there"))
}

/// Nothing is ordered on a host without a lease, but to connect and to take one.
fn invariant_orders_go_to_held_hosts(world: &World, controller: &Controller, effect: &Effect) -> Holds {
    if matches!(effect, Effect::AcquireLease { .. } | Effect::ConnectHost { .. }) {
        return Ok(());
    }
    hosts_of(effect).iter().try_for_each(|name| {
        let link = world.hosts.iter().position(|host| host == name).map(|host| &controller.links[host]);
        holds(link.is_some_and(|link| link.epoch != 0 || link.loss_is_news()), || {
            format!("{effect:?} without a lease of {name}")
        })
    })
}

/// The power is cycled only where the plan says that it can be, not too often, of hosts that were ours.
fn invariant_the_power_is_ours_to_cut(world: &World, controller: &Controller, name: &Name) -> Holds {
    let host = world.hosts.iter().position(|host| host == name);
    let policy = host.and_then(|host| world.power.get(&host));
    let before = host.map_or(0, |host| controller.cycles[host]);
    holds(policy.is_some_and(|policy| before < policy.times), || format!("{name} is cycled again"))?;
    holds(host.is_some_and(|host| controller.had.contains(&host)), || format!("{name} was never ours"))
}

/// A host that was switched off and on by us has not rebooted unexpectedly.
fn invariant_a_reboot_is_the_hosts_own(
    world: &World,
    id: AttemptId,
    seats: Option<&Seats>,
    verdict: &Verdict,
) -> Holds {
    let is_reboot = matches!(verdict, Verdict::Ng { cause: NgCause::UnexpectedReboot, .. });
    let is_own = |name: &&Name| world.rebooted.iter().any(|host| world.hosts[*host] == **name);
    let has_own = seats.is_some_and(|seats| seats.hosts().iter().any(is_own));
    holds(!is_reboot || has_own, || format!("{id} is {verdict:?}, and its hosts were cycled by us"))
}

/// The hosts are those that the plan allows: as many as asked for, all different, of the group where it has one.
fn invariant_seats_are_as_planned(world: &World, id: AttemptId, seats: &Seats) -> Holds {
    let group = world.groups.iter().find(|group| group.trials.contains(&id.trial)).unwrap();
    for (index, role) in world.roles.iter().enumerate() {
        let mut hosts = seats.of_role(index).to_vec();
        let wanted = match role.same_host_as {
            Some(other) => {
                holds(hosts == seats.of_role(other), || format!("{seats} does not share hosts"))?;
                world.roles[other].hosts
            }
            None => role.hosts,
        };
        let apart = role.other_host_than.iter().flat_map(|other| seats.of_role(*other));
        holds(!apart.into_iter().any(|other| hosts.contains(other)), || format!("{seats} shares hosts"))?;
        if let Some(host) = group.host.filter(|_| role.pinned) {
            holds(hosts == [world.hosts[host].clone()], || format!("{seats} is not on the host of {id}"))?;
        }
        hosts.sort();
        hosts.dedup();
        holds(hosts.len() == usize::try_from(wanted).unwrap(), || format!("{seats} has other numbers"))?;
    }
    Ok(())
}

fn invariant_hosts_have_one_attempt_each(
    world: &World,
    controller: &Controller,
    id: AttemptId,
    seats: &Seats,
) -> Holds {
    seats.hosts().into_iter().try_for_each(|name| {
        let host = world.hosts.iter().position(|host| host == name).unwrap();
        let holder = controller.holders[host];
        // All its tasks may be over while the order to collect waits for a connection. What runs elsewhere, and is not waited
        // for, is being killed; or its host is.
        let runs_elsewhere = |holder: AttemptId| {
            let mut agents = world.agents.iter().enumerate();
            agents.any(|(host, agent)| !controller.away.contains(&host) && agent.alive().contains(&holder))
        };
        let is_over = |holder: AttemptId| {
            world.agents.iter().any(|agent| agent.ends.keys().any(|task| task.attempt == holder))
                && !world.agents[host].alive().contains(&holder)
                && (controller.killed.contains(&holder) || !runs_elsewhere(holder))
        };
        holds(holder.is_none_or(|holder| holder == id || is_over(holder)), || {
            format!("{id} begins on {name}, which {holder:?} has")
        })
    })
}

/// Trials of a group that stays have their numbers from the same hosts.
fn invariant_compared_trials_share_their_hosts(
    world: &World,
    id: AttemptId,
    seats: Option<&Seats>,
    verdict: &Verdict,
) -> Holds {
    let group = world.groups.iter().find(|group| group.trials.contains(&id.trial)).unwrap();
    if !group.stay || !verdict.outcome().has_number() {
        return Ok(());
    }
    let mut others = world.store.iter().filter(|(other, stored)| {
        group.trials.contains(&other.trial) && stored.verdict.outcome().has_number()
    });
    let elsewhere = others.find(|(_, stored)| stored.seats.as_deref() != seats);
    holds(elsewhere.is_none(), || format!("{id} has a number from {seats:?}, {elsewhere:?} from elsewhere"))
}

/// What is started first on a machine finds the one that it asks for.
fn invariant_runs_on_its_machine(world: &World, task: &TaskId, host: &Name) -> Holds {
    let agent = &world.agents[world.hosts.iter().position(|name| name == host).unwrap()];
    let is_right = agent.machine == Some(World::machine_of(task.attempt));
    // The host may have been lost since it was looked at, and the attempt is lost with it.
    let is_excused =
        world.agents.iter().any(|agent| agent.knows(task.attempt)) || !world.ever_lost.is_empty();
    holds(!world.machines || is_right || is_excused, || format!("{task} starts on another machine"))
}

/// How often the machine of a cell died in the same way, as far as controllers ever found.
fn deaths_of(world: &World, cell: u32) -> usize {
    let of_cell = || world.deaths.iter().filter(|(id, _)| id.trial.cell == cell);
    let alike = |cause| of_cell().filter(|(_, other)| **other == cause).count();
    of_cell().map(|(_, cause)| alike(*cause)).max().unwrap_or(0)
}

fn invariant_journalled_before_sent(world: &World, task: &TaskId, host: &Name) -> Holds {
    let role = world.roles.iter().position(|role| role.name == task.role).unwrap();
    let journalled = world.journal.iter().any(|(id, seats)| {
        *id == task.attempt && seats.host(role, task.instance, world.roles[role].instances) == Some(host)
    });
    holds(journalled, || format!("{task} is sent to {host}, and the journal does not say so"))?;
    holds(!world.store.contains_key(&task.attempt), || format!("{task} is sent although it is stored"))
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

/// A new attempt is begun only while fewer than the limit are over and not stored, on the same hosts.
fn invariant_few_are_unstored(world: &World, controller: &Controller, id: AttemptId, seats: &Seats) -> Holds {
    let limit = usize::try_from(world.unstored_limit).unwrap();
    let at_these = |other: &AttemptId| world.journal.iter().any(|(id, at)| id == other && **at == *seats);
    let unstored = controller.unstored.iter().filter(|other| **other != id && at_these(other)).count();
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
    let (_, seats) = world.journal.iter().find(|(id, _)| *id == task.attempt).unwrap();
    for after in role.after.iter().filter(|after| world.roles[**after].reach) {
        let role = world.roles.iter().position(|role| role.name == task.role).unwrap();
        let apart = seats.of_role(role).iter().any(|host| !seats.of_role(*after).contains(host));
        let reached = world.reached_roles.contains(&(task.attempt, world.roles[*after].name.clone()));
        holds(!apart || reached, || {
            format!("{task} starts, and nobody knows whether it reaches its service")
        })?;
    }
    Ok(())
}

fn tasks_of(world: &World, attempt: AttemptId, role: usize) -> Vec<TaskId> {
    let role = &world.roles[role];
    let id = |instance| TaskId { attempt, role: role.name.clone(), instance };
    let hosts = role.same_host_as.map_or(role.hosts, |other| world.roles[other].hosts);
    (0..role.instances * hosts).map(id).collect()
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
                (RoleKind::Awaited, Some(_)) => world.agents.iter().any(|agent| agent.spent.contains(&task)),
                (RoleKind::Service, Some(EndKind::Stopped(_) | EndKind::Killed)) => ready,
                _ => false,
            };
            holds(good, || format!("{id} is {verdict:?}, but {task} ended {end:?}, ready: {ready}"))?;
        }
    }
    invariant_clients_started_together(world, id)?;
    let ngs = world
        .store
        .iter()
        .filter(|(other, stored)| other.trial == id.trial && stored.verdict.outcome() == Outcome::Ng);
    holds(ngs.count() == 0 || verdict.outcome() == Outcome::Suspect, || format!("{id} hides an ng"))
}

/// Tasks that were held together were released by one order.
fn invariant_clients_started_together(world: &World, id: AttemptId) -> Holds {
    for role in world.roles.iter().filter(|role| role.kind == RoleKind::Awaited) {
        let mut group = world.roles.iter().enumerate();
        let together =
            group.by_ref().filter(|(_, other)| other.kind == RoleKind::Awaited && other.after == role.after);
        let tasks = together.flat_map(|(index, _)| tasks_of(world, id, index));
        let orders: BTreeSet<u64> = tasks
            .filter_map(|task| world.agents.iter().find_map(|agent| agent.released_by.get(&task)).copied())
            .collect();
        holds(orders.len() < 2, || {
            format!("{id} has a number, and its clients were released by {orders:?}")
        })?;
    }
    Ok(())
}

/// What nothing happened to does not fail, and nothing is cancelled unless a controller cut something short.
fn invariant_a_failure_has_a_cause(
    world: &World,
    id: AttemptId,
    seats: Option<&Seats>,
    verdict: &Verdict,
) -> Holds {
    let harmed = world.harmed.contains(&id) || world.agents.iter().any(|agent| agent.harmed.contains(&id));
    // A host is also given up when a task on it cannot be ended.
    let was_lost = |host: usize| world.ever_lost.contains(&host) || !world.agents[host].harmed.is_empty();
    let is_seat = |host: usize| seats.is_none_or(|seats| seats.hosts().contains(&&world.hosts[host]));
    let host_lost = world.ever_slow || (0..world.hosts.len()).any(|host| was_lost(host) && is_seat(host));
    let has_cause = match verdict {
        Verdict::Ok | Verdict::Suspect { .. } => true,
        Verdict::Ng { .. } => harmed,
        Verdict::Error { cause: ErrorCause::LostHost, .. } => host_lost,
        Verdict::Error { cause: ErrorCause::StartSkew, .. } => harmed || host_lost || world.lives > 1,
        Verdict::Error { .. } => harmed,
        // A former controller may have ended it because of a host that was lost then, and is back; or because it could not
        // know what its own predecessor did with a barrier over several hosts.
        Verdict::Missing { cause: MissingCause::Cancelled, .. } => {
            let is_apart = |(other, seats): &(_, Arc<Seats>)| *other == id && seats.hosts().len() > 1;
            let is_unsure = world.lives > 2 && world.journal.iter().any(is_apart);
            world.ever_cut_short || harmed || (host_lost && world.lives > 1) || is_unsure
        }
        Verdict::Missing { cause: MissingCause::HostUnavailable, .. } => host_lost,
        Verdict::Missing { cause: MissingCause::BudgetSpent, .. } => deaths_of(world, id.trial.cell) >= 2,
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
        // Deaths that were found and not stored are not known to the next controller.
        Verdict::Ng { .. } if deaths_of(world, id.trial.cell) >= 2 => return Ok(()),
        Verdict::Ng { .. } => !allowed(ngs, world.after_ng),
        _ if verdict.is_retriable() => !allowed(faults, world.retries),
        _ => true,
    };
    holds(is_final == expected_final, || format!("{id}: {verdict:?} is stored with final = {is_final}"))
}
