//! Machines that are made for an attempt, machines that cannot be, and machines that die.

use drover_model::{EndKind, MissingCause, NgCause, Verdict};
use drover_sched::{CollectOutcome, Event, PastAttempt, Plan};

use crate::desk::{Desk, attempt, group, name, plan};

fn needed(desk: &mut Desk, id: &str) -> Vec<String> {
    desk.sees(Event::MachinesNeeded { attempt: attempt(id), hosts: vec![name("h")] })
}

fn refused(desk: &mut Desk, id: &str) -> Vec<String> {
    let verdict =
        Verdict::Missing { cause: MissingCause::WrongKernel, detail: "it does not boot".to_owned() };
    desk.sees(Event::MachineRefused { host: name("h"), attempt: attempt(id), verdict })
}

fn died(cause: NgCause) -> Event {
    Event::HostDied { host: name("h"), verdict: Verdict::Ng { cause, detail: "of it".to_owned() } }
}

/// The machine dies under an attempt that runs, and is back.
fn die(desk: &mut Desk, cause: NgCause, boot_id: &str) -> Vec<String> {
    assert_eq!(desk.sees(died(cause)), [""; 0]);
    desk.lose();
    desk.connect(boot_id, &[])
}

#[test]
fn expect_the_attempt_prepared_on_the_new_boot_when_a_machine_was_made_for_it() {
    let mut desk = Desk::new(plan(1));
    desk.open(&[]);
    assert_eq!(needed(&mut desk, "c0r1a1"), ["make h for c0r1a1"]);
    assert_eq!(desk.prepared("c0r1a1"), [""; 0], "a late answer");
    assert_eq!(desk.connect("b2", &[]), ["lease h", "prepare c0r1a1"]);
    desk.run_up("c0r1a1");
    assert_eq!(desk.run_down("c0r1a1"), ["store c0r1a1 final: ok"], "the boot was expected");
}

#[test]
fn expect_a_missing_trial_and_the_next_one_when_a_machine_cannot_be_made() {
    let mut desk = Desk::new(Plan { groups: vec![group(0, 1), group(1, 1)], ..plan(1) });
    desk.open(&[]);
    needed(&mut desk, "c0r1a1");
    let expected = ["connect h", "store c0r1a1 final: missing wrong-kernel it does not boot"];
    assert_eq!(refused(&mut desk, "c0r1a1"), expected);
    assert_eq!(refused(&mut desk, "c0r1a1"), [""; 0], "a late answer");
    assert_eq!(desk.connect("b3", &[]), ["lease h", "prepare c1r1a1"]);
    desk.run_up("c1r1a1");
    assert_eq!(desk.run_down("c1r1a1"), ["store c1r1a1 final: ok"]);
}

#[test]
fn expect_all_stored_first_when_the_next_trial_needs_another_machine() {
    let mut desk = Desk::new(plan(2));
    desk.open(&[]);
    desk.run_up("c0r1a1");
    desk.ended("c0r1a1.client.0", EndKind::Exited(0));
    let orders = desk.ended("c0r1a1.server.0", EndKind::Stopped(Some(0)));
    assert_eq!(orders, ["collect c0r1a1: server client", "prepare c0r2a1"]);
    assert_eq!(needed(&mut desk, "c0r2a1"), [""; 0]);
    let orders = desk.collected("c0r1a1", CollectOutcome::default());
    assert_eq!(orders, ["store c0r1a1 final: ok"]);
    let orders = desk.stored("c0r1a1");
    assert!(orders.contains(&"make h for c0r2a1".to_owned()), "{orders:?}");
}

#[test]
fn expect_the_run_to_end_at_once_when_it_is_interrupted_while_a_machine_is_made() {
    let mut desk = Desk::new(plan(1));
    desk.open(&[]);
    needed(&mut desk, "c0r1a1");
    assert_eq!(desk.sees(Event::Interrupted), ["finish Interrupted, 0 done"]);
}

#[test]
fn expect_the_death_named_and_the_run_to_go_on_when_a_machine_dies() {
    let mut desk = Desk::new(Plan { groups: vec![group(0, 1), group(1, 1)], ..plan(1) });
    desk.open(&[]);
    desk.run_up("c0r1a1");
    let orders = die(&mut desk, NgCause::Lockup, "b2");
    assert_eq!(orders, ["lease h", "store c0r1a1 final: ng lockup of it", "prepare c1r1a1"]);
    assert_eq!(desk.sees(died(NgCause::Panic)), [""; 0], "nothing of the next one runs yet");
    desk.run_up("c1r1a1");
    assert_eq!(desk.run_down("c1r1a1"), ["store c1r1a1 final: ok"]);
}

#[test]
fn expect_no_number_when_a_machine_dies_before_outputs_are_fetched() {
    let mut desk = Desk::new(plan(1));
    desk.open(&[]);
    desk.run_up("c0r1a1");
    desk.ended("c0r1a1.client.0", EndKind::Exited(0));
    desk.ended("c0r1a1.server.0", EndKind::Stopped(Some(0)));
    die(&mut desk, NgCause::Oops, "b2");
    let stored = desk.collected("c0r1a1", CollectOutcome::default());
    assert_eq!(stored, ["store c0r1a1 final: ng oops of it"]);
}

#[test]
fn expect_the_cell_and_not_the_run_given_up_when_it_dies_twice_in_the_same_way() {
    let mut desk = Desk::new(Plan { groups: vec![group(0, 3), group(1, 1)], after_ng: 1, ..plan(1) });
    desk.open(&[]);
    desk.run_up("c0r1a1");
    let orders = die(&mut desk, NgCause::Panic, "b2");
    assert_eq!(orders, ["lease h", "store c0r1a1 passing: ng panic of it", "prepare c0r2a1"]);
    desk.stored("c0r1a1");
    desk.run_up("c0r2a1");
    let given_up = "missing budget-spent attempts of this cell ended as `panic` twice: it is tried no more";
    let orders = die(&mut desk, NgCause::Panic, "b3");
    let expected = [
        "lease h".to_owned(),
        "store c0r2a1 final: ng panic of it".to_owned(),
        format!("store c0r3a1 final: {given_up}"),
        "prepare c1r1a1".to_owned(),
    ];
    assert_eq!(orders, expected);

    let past =
        |id: &str, cause| PastAttempt::new(attempt(id), &Verdict::Ng { cause, detail: String::new() }, true);
    let past = vec![past("c0r1a1", NgCause::Hang), past("c0r2a1", NgCause::Hang)];
    let mut desk = Desk::resumed(Plan { groups: vec![group(0, 3), group(1, 1)], ..plan(1) }, past, &[]);
    let orders = desk.open(&[]).join("\n");
    assert!(
        orders.contains(&format!("store c0r3a1 final: {}", given_up.replace("panic", "hang"))),
        "{orders}"
    );
    assert!(orders.contains("prepare c1r1a1"), "{orders}");
}
