//! An attempt's life on a host that works.

use std::time::Duration;

use drover_model::{Doubt, DoubtKind, EndKind, NotStarted};
use drover_sched::{CollectOutcome, Ending, Event, RoleKind};

use crate::desk::{Desk, attempt, name, plan, role, seats, task};

#[test]
fn expect_each_step_in_order_when_nothing_goes_wrong() {
    let mut desk = Desk::new(plan(1));
    assert_eq!(desk.sees(Event::RunOpened), ["connect h", "journal c0r1a1@h"]);
    assert_eq!(desk.connect("b", &[]), ["lease h"], "not begun before it is journalled");
    let attempts = vec![(attempt("c0r1a1"), seats("h"))];
    assert_eq!(desk.sees(Event::AttemptsJournalled { attempts }), ["prepare c0r1a1"]);
    assert_eq!(desk.prepared("c0r1a1"), ["start c0r1a1.server.0"]);
    assert!(desk.started("c0r1a1.server.0").is_empty());
    assert_eq!(desk.ready("c0r1a1.server.0"), ["start c0r1a1.client.0"], "alone: no barrier");
    assert!(desk.started("c0r1a1.client.0").is_empty());
    assert_eq!(desk.ended("c0r1a1.client.0", EndKind::Exited(0)), ["stop c0r1a1.server.0"]);
    assert_eq!(desk.ended("c0r1a1.server.0", EndKind::Stopped(Some(0))), ["collect c0r1a1: server client"]);
    assert_eq!(desk.collected("c0r1a1", CollectOutcome::default()), ["store c0r1a1 final: ok"]);
    assert_eq!(desk.stored("c0r1a1"), ["forget c0r1a1", "give back h"]);
    assert_eq!(desk.sees(Event::LeaseReleased { host: name("h") }), ["finish Complete, 1 done"]);
}

#[test]
fn expect_the_next_trial_to_begin_when_the_tasks_are_over_and_nothing_is_stored_yet() {
    let mut desk = Desk::new(plan(2));
    desk.open(&[]);
    desk.run_up("c0r1a1");
    desk.ended("c0r1a1.client.0", EndKind::Exited(0));
    let orders = desk.ended("c0r1a1.server.0", EndKind::Stopped(Some(0)));
    assert_eq!(orders, ["collect c0r1a1: server client", "prepare c0r2a1"]);
}

#[test]
fn expect_no_further_trial_to_begin_when_too_many_are_not_stored() {
    let mut desk = Desk::new(drover_sched::Plan { unstored_limit: 1, ..plan(2) });
    desk.open(&[]);
    desk.run_up("c0r1a1");
    assert_eq!(desk.run_down("c0r1a1"), ["store c0r1a1 final: ok"]);
    assert_eq!(desk.stored("c0r1a1"), ["prepare c0r2a1"]);
}

#[test]
fn expect_the_journal_to_be_topped_up_when_half_of_it_is_used() {
    let mut desk = Desk::new(plan(9));
    let orders = desk.open(&[]);
    assert_eq!(orders[1], "journal c0r1a1@h c0r2a1@h c0r3a1@h c0r4a1@h");
    desk.run_up("c0r1a1");
    desk.ended("c0r1a1.client.0", EndKind::Exited(0));
    let orders = desk.ended("c0r1a1.server.0", EndKind::Stopped(Some(0)));
    assert_eq!(orders, ["collect c0r1a1: server client", "prepare c0r2a1", "journal c0r5a1@h c0r6a1@h"]);
}

#[test]
fn expect_a_barrier_when_several_clients_start_together() {
    let mut plan = plan(1);
    plan.roles = vec![
        role("server", RoleKind::Service, &[], 1),
        role("a", RoleKind::Awaited, &[0], 1),
        role("b", RoleKind::Awaited, &[0], 1),
    ];
    let mut desk = Desk::new(plan);
    desk.open(&[]);
    desk.prepared("c0r1a1");
    assert_eq!(desk.ready("c0r1a1.server.0"), ["hold c0r1a1.a.0", "hold c0r1a1.b.0"]);
    assert!(desk.armed("c0r1a1.a.0").is_empty(), "the other is not there yet");
    assert_eq!(desk.armed("c0r1a1.b.0"), ["release c0r1a1"]);
    desk.released("c0r1a1.a.0", 10);
    desk.released("c0r1a1.b.0", 1010);
    desk.barrier_released("c0r1a1", 0);
    desk.ended("c0r1a1.a.0", EndKind::Exited(0));
    desk.ended("c0r1a1.b.0", EndKind::Exited(0));
    desk.ended("c0r1a1.server.0", EndKind::Stopped(None));
    assert_eq!(desk.collected("c0r1a1", CollectOutcome::default()), ["store c0r1a1 final: ok"]);
}

#[test]
fn expect_a_second_barrier_to_wait_when_the_first_is_closed() {
    let mut plan = plan(1);
    plan.roles = vec![
        role("server", RoleKind::Service, &[], 1),
        role("early", RoleKind::Awaited, &[], 2),
        role("late", RoleKind::Awaited, &[0], 2),
    ];
    let mut desk = Desk::new(plan);
    desk.open(&[]);
    assert_eq!(
        desk.prepared("c0r1a1"),
        ["start c0r1a1.server.0", "hold c0r1a1.early.0", "hold c0r1a1.early.1"]
    );
    assert!(desk.ready("c0r1a1.server.0").is_empty());
    desk.armed("c0r1a1.early.0");
    assert_eq!(desk.armed("c0r1a1.early.1"), ["release c0r1a1"]);
    assert!(desk.released("c0r1a1.early.0", 0).is_empty());
    assert_eq!(desk.released("c0r1a1.early.1", 0), ["hold c0r1a1.late.0", "hold c0r1a1.late.1"]);
}

#[test]
fn expect_services_to_stop_in_reverse_order_when_the_clients_are_done() {
    let mut plan = plan(1);
    plan.roles = vec![
        role("db", RoleKind::Service, &[], 1),
        role("server", RoleKind::Service, &[0], 1),
        role("client", RoleKind::Awaited, &[1], 1),
    ];
    let mut desk = Desk::new(plan);
    desk.open(&[]);
    desk.prepared("c0r1a1");
    desk.ready("c0r1a1.db.0");
    desk.ready("c0r1a1.server.0");
    assert_eq!(desk.ended("c0r1a1.client.0", EndKind::Exited(0)), ["stop c0r1a1.server.0"]);
    assert_eq!(desk.ended("c0r1a1.server.0", EndKind::Stopped(Some(0))), ["stop c0r1a1.db.0"]);
}

#[test]
fn expect_the_crash_to_name_the_verdict_when_the_client_is_heard_of_first() {
    let mut desk = Desk::new(plan(1));
    desk.open(&[]);
    desk.run_up("c0r1a1");
    assert_eq!(desk.ended("c0r1a1.client.0", EndKind::Exited(1)), ["stop c0r1a1.server.0"]);
    assert_eq!(desk.ended("c0r1a1.server.0", EndKind::Signaled(11)), ["collect c0r1a1: server client"]);
    assert_eq!(
        desk.collected("c0r1a1", CollectOutcome::default()),
        [
            "store c0r1a1 final: ng crash server was killed by signal 11 (SIGSEGV) before the clients were done"
        ]
    );
}

#[test]
fn expect_everything_to_be_stopped_when_a_server_ends_early() {
    let mut desk = Desk::new(plan(1));
    desk.open(&[]);
    desk.run_up("c0r1a1");
    assert_eq!(desk.ended("c0r1a1.server.0", EndKind::Exited(1)), ["stop c0r1a1.client.0"]);
    assert_eq!(desk.ended("c0r1a1.client.0", EndKind::Stopped(Some(1))), ["collect c0r1a1: server client"]);
    assert_eq!(
        desk.collected("c0r1a1", CollectOutcome::default()),
        ["store c0r1a1 final: ng crash server ended with status 1 before the clients were done"]
    );
}

#[test]
fn expect_no_client_when_the_server_is_not_ready() {
    let mut desk = Desk::new(plan(1));
    desk.open(&[]);
    desk.prepared("c0r1a1");
    desk.started("c0r1a1.server.0");
    let orders = desk.ended("c0r1a1.server.0", EndKind::NotReady("nothing listens on port 80".to_owned()));
    assert_eq!(orders, ["collect c0r1a1: server"]);
    assert_eq!(
        desk.collected("c0r1a1", CollectOutcome::default()),
        ["store c0r1a1 final: ng not-ready server was not ready in time: nothing listens on port 80"]
    );
}

#[test]
fn expect_the_output_to_be_collected_when_a_client_exits_with_a_bad_status() {
    let mut desk = Desk::new(plan(1));
    desk.open(&[]);
    desk.run_up("c0r1a1");
    desk.ended("c0r1a1.client.0", EndKind::Exited(1));
    let orders = desk.ended("c0r1a1.server.0", EndKind::Stopped(Some(0)));
    assert_eq!(orders, ["collect c0r1a1: server client"]);
    let outcome = CollectOutcome { parse_error: Some("no metric".to_owned()), ..CollectOutcome::default() };
    assert_eq!(
        desk.collected("c0r1a1", outcome),
        ["store c0r1a1 final: error script client ended with status 1"]
    );
}

#[test]
fn expect_an_error_without_outputs_when_no_task_ever_ran() {
    let mut desk = Desk::new(plan(1));
    desk.open(&[]);
    desk.prepared("c0r1a1");
    let end = EndKind::NotStarted(NotStarted::NotFound, "httpd: not found in PATH".to_owned());
    assert_eq!(
        desk.ended("c0r1a1.server.0", end),
        ["store c0r1a1 final: error command server was not started: httpd: not found in PATH"]
    );
}

#[test]
fn expect_doubts_when_processes_are_left_or_output_is_cut() {
    let mut desk = Desk::new(plan(1));
    desk.open(&[]);
    desk.run_up("c0r1a1");
    desk.ended_with(
        "c0r1a1.client.0",
        Ending { kind: EndKind::Exited(0), leftovers: 0, output_cut: 7, spent: false },
    );
    desk.ended_with(
        "c0r1a1.server.0",
        Ending { kind: EndKind::Stopped(None), leftovers: 2, output_cut: 0, spent: false },
    );
    let doubts = vec![Doubt { kind: DoubtKind::ClientSaturated, detail: "the client used 99 %".to_owned() }];
    assert_eq!(
        desk.collected("c0r1a1", CollectOutcome { doubts, ..CollectOutcome::default() }),
        [
            "store c0r1a1 final: suspect leftovers server left 2 processes, which were killed; 7 bytes of the output of \
          client were over the limit and not kept; the client used 99 %"
        ]
    );
}

#[test]
fn expect_nothing_when_events_are_stale_or_come_twice() {
    let mut desk = Desk::new(plan(2));
    desk.open(&[]);
    desk.prepared("c0r1a1");
    assert!(desk.ended("c0r1a1.client.0", EndKind::Exited(1)).is_empty(), "it was not sent yet");
    desk.run_up("c0r1a1");
    assert!(desk.started("c0r1a1.server.0").is_empty(), "twice");
    assert!(desk.ready("c0r1a1.server.0").is_empty(), "twice");
    assert!(desk.prepared("c0r1a1").is_empty(), "twice");
    assert!(desk.ended("c0r2a1.client.0", EndKind::Exited(0)).is_empty(), "it was never sent");
    assert!(desk.ended("c0r7a1.client.0", EndKind::Exited(0)).is_empty(), "nobody knows it");
    assert!(desk.collected("c0r1a1", CollectOutcome::default()).is_empty(), "it runs");
    assert!(desk.stored("c0r1a1").is_empty(), "it runs");
    let refused = Event::TaskRefused { task: task("c0r1a1.client.0"), why: "late".to_owned() };
    assert!(desk.sees(refused).is_empty(), "it was heard of since");
    assert_eq!(desk.run_down("c0r1a1"), ["store c0r1a1 final: ok"]);
    desk.stored("c0r1a1");
    assert!(desk.ended("c0r1a1.client.0", EndKind::Exited(1)).is_empty(), "it is stored");
}

#[test]
fn expect_a_stop_to_be_repeated_when_it_may_have_overtaken_the_start() {
    let mut desk = Desk::new(plan(1));
    desk.open(&[]);
    desk.prepared("c0r1a1");
    desk.ready("c0r1a1.server.0");
    assert_eq!(desk.ended("c0r1a1.server.0", EndKind::Signaled(6)), ["stop c0r1a1.client.0"]);
    assert_eq!(desk.started("c0r1a1.client.0"), ["stop c0r1a1.client.0"]);
}

#[test]
fn expect_the_attempt_to_fail_and_its_task_to_be_killed_when_the_agent_is_silent() {
    let mut desk = Desk::new(plan(2));
    desk.open(&[]);
    desk.run_up("c0r1a1");
    assert_eq!(desk.scheduler.next_deadline(), Some(Duration::from_secs(60)));
    desk.now = Duration::from_secs(59);
    assert!(desk.sees(Event::TimerElapsed).is_empty(), "too early");
    desk.ended("c0r1a1.client.0", EndKind::Exited(0));
    assert_eq!(desk.scheduler.next_deadline(), Some(Duration::from_secs(65)), "the server was told to stop");
    desk.now = Duration::from_secs(65);
    assert_eq!(
        desk.sees(Event::TimerElapsed),
        ["kill c0r1a1.server.0", "collect c0r1a1: client"],
        "no other trial begins while it may run"
    );
    assert_eq!(
        desk.collected("c0r1a1", CollectOutcome::default()),
        ["store c0r1a1 passing: error agent-lost server: the agent did not report its end in time"]
    );
    assert_eq!(desk.ended("c0r1a1.server.0", EndKind::Killed), ["prepare c0r2a1"]);
}
