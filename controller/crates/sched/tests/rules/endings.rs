//! Interruptions and full disks.

use drover_model::EndKind;
use drover_sched::{CollectOutcome, Event};

use crate::desk::{Desk, attempt, name, plan};

#[test]
fn expect_tasks_to_stop_and_results_to_be_stored_when_interrupted_once() {
    let mut desk = Desk::new(plan(3));
    desk.open(&[]);
    desk.run_up("c0r1a1");
    assert_eq!(desk.sees(Event::Interrupted), ["stop c0r1a1.client.0"]);
    assert_eq!(desk.ended("c0r1a1.client.0", EndKind::Stopped(None)), ["stop c0r1a1.server.0"]);
    assert_eq!(desk.ended("c0r1a1.server.0", EndKind::Stopped(Some(0))), ["collect c0r1a1: server client"]);
    assert_eq!(
        desk.collected("c0r1a1", CollectOutcome::default()),
        ["store c0r1a1 passing: missing cancelled interrupted while it ran"]
    );
    assert_eq!(desk.stored("c0r1a1"), ["forget c0r1a1", "give back h"], "the others have no verdict");
    assert_eq!(desk.sees(Event::LeaseReleased { host: name("h") }), ["finish Interrupted, 0 done"]);
}

#[test]
fn expect_tasks_to_be_killed_when_interrupted_twice() {
    let mut desk = Desk::new(plan(1));
    desk.open(&[]);
    desk.run_up("c0r1a1");
    desk.sees(Event::Interrupted);
    assert_eq!(desk.sees(Event::Interrupted), ["kill c0r1a1.client.0", "kill c0r1a1.server.0"]);
    assert!(desk.sees(Event::Interrupted).is_empty());
}

#[test]
fn expect_the_verdict_to_stand_when_the_interruption_comes_after_the_work() {
    let mut desk = Desk::new(plan(2));
    desk.open(&[]);
    desk.run_up("c0r1a1");
    desk.ended("c0r1a1.client.0", EndKind::Exited(0));
    assert!(desk.sees(Event::Interrupted).is_empty(), "the server is being stopped already");
    desk.ended("c0r1a1.server.0", EndKind::Stopped(Some(0)));
    assert_eq!(desk.collected("c0r1a1", CollectOutcome::default()), ["store c0r1a1 final: ok"]);
}

#[test]
fn expect_an_end_at_once_when_interrupted_while_the_host_is_away() {
    let mut desk = Desk::new(plan(1));
    desk.open(&[]);
    desk.run_up("c0r1a1");
    desk.lose();
    assert_eq!(desk.sees(Event::Interrupted), ["finish Interrupted, 0 done"], "a later controller adopts it");
}

#[test]
fn expect_the_bare_verdict_to_be_stored_when_the_disk_is_full() {
    let mut desk = Desk::new(plan(1));
    desk.open(&[]);
    desk.run_up("c0r1a1");
    desk.run_down("c0r1a1");
    let full = || Event::StoreFailed {
        attempt: attempt("c0r1a1"),
        why: "no space left on device".to_owned(),
        disk_full: true,
    };
    assert_eq!(
        desk.sees(full()),
        ["store c0r1a1 final bare: error disk-full its results could not be stored: no space left on device"]
    );
    assert_eq!(desk.sees(full()), ["give back h"], "nothing is forgotten");
    assert_eq!(
        desk.sees(Event::LeaseReleased { host: name("h") }),
        ["finish StoreFailed { why: \"no space left on device\", disk_full: true }, 0 done"]
    );
}

#[test]
fn expect_running_tasks_to_stop_when_the_store_fails() {
    let mut desk = Desk::new(plan(2));
    desk.open(&[]);
    desk.run_up("c0r1a1");
    desk.run_down("c0r1a1");
    desk.run_up("c0r2a1");
    let failed = Event::StoreFailed {
        attempt: attempt("c0r1a1"),
        why: "input/output error".to_owned(),
        disk_full: false,
    };
    assert_eq!(desk.sees(failed), ["stop c0r2a1.client.0"]);
    desk.ended("c0r2a1.client.0", EndKind::Stopped(None));
    assert_eq!(
        desk.ended("c0r2a1.server.0", EndKind::Stopped(None)),
        ["give back h"],
        "it cannot be stored, so the agent keeps it"
    );
}

#[test]
fn expect_adopted_tasks_to_stop_before_the_host_is_given_back_when_the_journal_fails() {
    let mut desk = Desk::resumed(plan(2), vec![], &["c0r1a1"]);
    desk.open(&["c0r1a1.server.0"]);
    let failed = Event::JournalFailed { why: "input/output error".to_owned(), disk_full: false };
    assert!(desk.sees(failed).is_empty(), "the server runs");
    assert_eq!(desk.prepared("c0r1a1"), ["stop c0r1a1.server.0"]);
    assert_eq!(desk.ended("c0r1a1.server.0", EndKind::Stopped(None)), ["give back h"]);
}
