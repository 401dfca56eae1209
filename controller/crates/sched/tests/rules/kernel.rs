//! Kernels that say themselves that they failed.

use drover_model::{EndKind, NgCause};
use drover_sched::{CollectOutcome, Event};

use crate::desk::{Desk, attempt, name, plan};

const LOCKUP: &str = "ng lockup the kernel of h reports: soft lockup - CPU#1 stuck";

#[test]
fn expect_the_attempt_to_end_as_ng_when_the_kernel_fails_while_it_runs() {
    let mut desk = Desk::new(plan(2));
    desk.open(&[]);
    desk.run_up("c0r1a1");
    assert_eq!(desk.kernel_failed("h", "c0r1a1", NgCause::Lockup), ["stop c0r1a1.client.0"]);
    assert!(desk.kernel_failed("h", "c0r1a1", NgCause::Oops).is_empty(), "the first report names it");
    desk.ended("c0r1a1.client.0", EndKind::Exited(1));
    desk.ended("c0r1a1.server.0", EndKind::Signaled(11));
    let store = desk.collected("c0r1a1", CollectOutcome::default());
    assert_eq!(store, [format!("store c0r1a1 final: {LOCKUP}")], "the crash follows from it");
}

#[test]
fn expect_no_number_when_the_report_comes_after_the_work() {
    let mut desk = Desk::new(plan(1));
    desk.open(&[]);
    desk.run_up("c0r1a1");
    desk.ended("c0r1a1.client.0", EndKind::Exited(0));
    desk.ended("c0r1a1.server.0", EndKind::Stopped(Some(0)));
    assert!(desk.kernel_failed("h", "c0r1a1", NgCause::Lockup).is_empty());
    let store = desk.collected("c0r1a1", CollectOutcome::default());
    assert_eq!(store, [format!("store c0r1a1 final: {LOCKUP}")]);
    assert!(desk.kernel_failed("h", "c0r1a1", NgCause::Oops).is_empty(), "it is being stored");
}

#[test]
fn expect_the_report_to_count_when_a_later_controller_hears_it_again() {
    let mut desk = Desk::resumed(plan(1), vec![], &["c0r1a1"]);
    desk.open(&["c0r1a1.server.0", "c0r1a1.client.0!"]);
    desk.kernel_failed("h", "c0r1a1", NgCause::Lockup);
    desk.prepared("c0r1a1");
    desk.ended("c0r1a1.client.0", EndKind::Exited(0));
    desk.ended("c0r1a1.server.0", EndKind::Stopped(Some(0)));
    let store = desk.collected("c0r1a1", CollectOutcome::default());
    assert_eq!(store, [format!("store c0r1a1 final: {LOCKUP}")]);
}

#[test]
fn expect_nothing_when_the_report_is_of_another_host_or_attempt() {
    let mut desk = Desk::new(plan(1));
    desk.open(&[]);
    assert!(desk.kernel_failed("h", "c0r1a1", NgCause::Lockup).is_empty(), "nothing of it ran");
    desk.run_up("c0r1a1");
    assert!(desk.kernel_failed("elsewhere", "c0r1a1", NgCause::Lockup).is_empty());
    assert!(desk.kernel_failed("h", "c0r2a1", NgCause::Lockup).is_empty());
    assert_eq!(desk.run_down("c0r1a1"), ["store c0r1a1 final: ok"]);
    desk.sees(Event::AttemptStored { attempt: attempt("c0r1a1") });
    assert!(
        desk.sees(Event::LeaseReleased { host: name("h") }).iter().any(|line| line.starts_with("finish"))
    );
}
