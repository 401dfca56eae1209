//! Hosts that the run boots as other machines: they are sought while they boot, and are what they were when they are given back.

use std::{collections::BTreeMap, time::Duration};

use drover_model::{MissingCause, Verdict};
use drover_sched::{BootPolicy, Event, Plan, PowerPolicy};

use crate::desk::{Desk, attempt, group, name, plan};

fn boots(trials: u32, astray: bool) -> Plan {
    let policy = BootPolicy { within: Duration::from_secs(60), astray, leaves: None };
    Plan { boots: BTreeMap::from([(0, policy)]), ..plan(trials) }
}

fn needed(desk: &mut Desk, id: &str) -> Vec<String> {
    desk.sees(Event::MachinesNeeded { attempt: attempt(id), hosts: vec![name("h")] })
}

fn rebooting(desk: &mut Desk) -> Vec<String> {
    desk.sees(Event::HostRebooting { host: name("h") })
}

fn restored(desk: &mut Desk, problem: Option<&str>) -> Vec<String> {
    desk.sees(Event::MachineRestored { host: name("h"), problem: problem.map(str::to_owned) })
}

fn later(desk: &mut Desk, seconds: u64) -> Vec<String> {
    desk.now += Duration::from_secs(seconds);
    desk.sees(Event::TimerElapsed)
}

/// A trial is over on a host that was booted for it.
fn done_on_another_machine(desk: &mut Desk) -> Vec<String> {
    desk.open(&[]);
    assert_eq!(needed(desk, "c0r1a1"), ["make h for c0r1a1"]);
    assert_eq!(rebooting(desk), [""; 0]);
    assert_eq!(later(desk, 2), ["connect h"]);
    assert_eq!(desk.connect("b2", &[]), ["lease h", "prepare c0r1a1"]);
    desk.run_up("c0r1a1");
    assert_eq!(desk.run_down("c0r1a1"), ["store c0r1a1 final: ok"], "the boot was expected");
    desk.stored("c0r1a1")
}

#[test]
fn expect_a_host_to_be_what_it_was_before_it_is_given_back() {
    let mut desk = Desk::new(boots(1, false));
    let orders = done_on_another_machine(&mut desk);
    assert_eq!(orders, ["forget c0r1a1", "restore h"]);
    assert_eq!(rebooting(&mut desk), [""; 0]);
    assert_eq!(later(&mut desk, 2), ["connect h"]);
    assert_eq!(desk.lose(), [""; 0]);
    assert_eq!(later(&mut desk, 2), ["connect h"]);
    assert_eq!(desk.connect("b3", &[]), ["lease h", "restore h"]);
    assert_eq!(restored(&mut desk, None), ["give back h"]);
    assert_eq!(restored(&mut desk, None), [""; 0], "a late answer");
    assert_eq!(desk.sees(Event::LeaseReleased { host: name("h") }), ["finish Complete, 1 done"]);
}

#[test]
fn expect_a_host_given_back_at_once_when_it_was_never_made_another_machine() {
    let mut desk = Desk::new(boots(1, false));
    desk.open(&[]);
    desk.run_up("c0r1a1");
    desk.run_down("c0r1a1");
    assert_eq!(desk.stored("c0r1a1"), ["forget c0r1a1", "give back h"]);
}

#[test]
fn expect_quarantine_when_a_host_cannot_be_made_what_it_was() {
    let mut desk = Desk::new(boots(1, false));
    done_on_another_machine(&mut desk);
    assert_eq!(restored(&mut desk, Some("6.1 runs")), ["quarantine h: 6.1 runs", "give back h"]);
}

#[test]
fn expect_a_host_sought_until_its_time_is_over_when_it_boots() {
    let mut desk = Desk::new(boots(1, false));
    desk.open(&[]);
    needed(&mut desk, "c0r1a1");
    rebooting(&mut desk);
    for _ in 0..29 {
        assert_eq!(later(&mut desk, 2), ["connect h"]);
        assert_eq!(desk.lose(), [""; 0], "many more tries than after a loss");
    }
    assert_eq!(later(&mut desk, 2), ["connect h"]);
    let orders = desk.lose();
    let why = "h is lost: cut; it was rebooted by this run, and was not back within 60 s";
    let lost = "store c0r1a1 passing: error lost-host the host was given up";
    assert_eq!(orders, [format!("quarantine h: {why}"), format!("{lost}: {why}")]);
}

#[test]
fn expect_the_power_cycled_when_a_host_does_not_come_back_from_a_boot() {
    let policy = PowerPolicy { within: Duration::from_secs(60), times: 1 };
    let mut desk = Desk::new(Plan { power: BTreeMap::from([(0, policy)]), ..boots(1, false) });
    desk.open(&[]);
    needed(&mut desk, "c0r1a1");
    rebooting(&mut desk);
    let orders = later(&mut desk, 60);
    assert_eq!(orders, ["connect h"]);
    let why = "h is lost: cut; it was rebooted by this run, and was not back within 60 s";
    assert_eq!(desk.lose(), [format!("cycle h: {why}")]);
    assert_eq!(desk.sees(Event::PowerCycled { host: name("h"), problem: None }), ["connect h"]);
    assert_eq!(desk.connect("b2", &[]), ["lease h", "prepare c0r1a1"], "the attempt was not sent yet");
    let verdict = Verdict::Missing { cause: MissingCause::WrongKernel, detail: "b2 runs".to_owned() };
    let orders = desk.sees(Event::AttemptUnprepared { attempt: attempt("c0r1a1"), verdict });
    assert_eq!(orders, ["store c0r1a1 final: missing wrong-kernel b2 runs"]);
}

#[test]
fn expect_a_host_not_taken_for_booted_when_its_old_boot_still_answers() {
    let mut desk = Desk::new(boots(1, false));
    desk.open(&[]);
    needed(&mut desk, "c0r1a1");
    rebooting(&mut desk);
    assert_eq!(later(&mut desk, 2), ["connect h"]);
    assert_eq!(desk.sees(Event::HostConnected { host: name("h"), boot_id: "b".to_owned() }), [""; 0]);
    assert_eq!(later(&mut desk, 2), ["connect h"]);
    let unusable = Event::HostUnusable { host: name("h"), why: "the system is going down".to_owned() };
    assert_eq!(desk.sees(unusable), [""; 0], "not its last word");
    assert_eq!(later(&mut desk, 2), ["connect h"]);
    assert_eq!(desk.connect("b2", &[]), ["lease h", "prepare c0r1a1"]);
    assert_eq!(desk.lose(), ["connect h"]);
    assert_eq!(desk.connect("b2", &[]), ["lease h", "prepare c0r1a1"], "the same boot is right by now");
}

#[test]
fn expect_a_host_waited_for_and_restored_when_the_run_is_interrupted_while_it_boots() {
    let mut desk = Desk::new(boots(1, false));
    desk.open(&[]);
    needed(&mut desk, "c0r1a1");
    rebooting(&mut desk);
    assert_eq!(desk.sees(Event::Interrupted), [""; 0]);
    assert_eq!(later(&mut desk, 2), ["connect h"]);
    assert_eq!(desk.connect("b2", &[]), ["lease h", "restore h"]);
    assert_eq!(restored(&mut desk, None), ["give back h"]);
    let end = desk.sees(Event::LeaseReleased { host: name("h") });
    assert_eq!(end, ["finish Interrupted, 0 done"]);
}

#[test]
fn expect_an_order_that_is_under_way_to_be_waited_for_when_the_run_is_interrupted() {
    let mut desk = Desk::new(boots(1, false));
    desk.open(&[]);
    needed(&mut desk, "c0r1a1");
    assert_eq!(desk.sees(Event::Interrupted), [""; 0], "the host may be going down");
    let verdict = Verdict::Missing { cause: MissingCause::WrongKernel, detail: String::new() };
    let refused = Event::MachineRefused { host: name("h"), attempt: attempt("c0r1a1"), verdict };
    assert_eq!(desk.sees(refused), ["connect h"]);
    assert_eq!(desk.connect("b", &[]), ["lease h", "restore h"]);
    assert_eq!(restored(&mut desk, None), ["give back h"]);
}

#[test]
fn expect_nothing_waited_for_when_the_run_is_interrupted_twice() {
    let mut desk = Desk::new(boots(1, false));
    desk.open(&[]);
    needed(&mut desk, "c0r1a1");
    rebooting(&mut desk);
    desk.sees(Event::Interrupted);
    assert_eq!(desk.sees(Event::Interrupted), ["finish Interrupted, 0 done"]);

    let mut desk = Desk::new(boots(1, false));
    done_on_another_machine(&mut desk);
    assert_eq!(desk.sees(Event::Interrupted), [""; 0], "this is what is done after the first one");
    assert_eq!(desk.sees(Event::Interrupted), ["give back h"]);
    assert_eq!(desk.sees(Event::LeaseReleased { host: name("h") }), ["finish Complete, 1 done"]);
}

#[test]
fn expect_a_host_restored_when_a_former_controller_left_it_astray_and_nothing_is_left_to_run() {
    let mut desk = Desk::new(boots(1, true));
    desk.open(&[]);
    desk.run_up("c0r1a1");
    desk.run_down("c0r1a1");
    assert_eq!(desk.stored("c0r1a1"), ["forget c0r1a1", "restore h"]);

    let past = drover_sched::PastAttempt::new(attempt("c0r1a1"), &Verdict::Ok, true);
    let mut desk = Desk::resumed(boots(1, true), vec![past], &["c0r1a1"]);
    assert_eq!(desk.sees(Event::RunOpened), ["connect h"]);
    for _ in 0..20 {
        desk.lose();
        assert_eq!(later(&mut desk, 2), ["connect h"], "it may be booting");
    }
    assert_eq!(desk.connect("b", &[]), ["lease h", "restore h"]);
    assert_eq!(restored(&mut desk, None), ["give back h"]);
}

#[test]
fn expect_quarantine_when_a_host_does_not_come_back_as_what_it_was() {
    let mut desk = Desk::new(Plan { groups: vec![group(0, 1)], ..boots(1, false) });
    done_on_another_machine(&mut desk);
    rebooting(&mut desk);
    later(&mut desk, 60);
    let orders = desk.lose();
    let why = "h is lost: cut; it was rebooted by this run, and was not back within 60 s";
    assert_eq!(orders, [format!("quarantine h: {why}"), "finish Complete, 1 done".to_owned()]);
}

#[test]
fn expect_a_boot_not_taken_for_the_next_one_when_a_former_controller_may_have_ended_it() {
    let policy = BootPolicy { within: Duration::from_secs(60), astray: true, leaves: Some("b".to_owned()) };
    let plan = Plan { boots: BTreeMap::from([(0, policy)]), ..plan(1) };
    let mut desk = Desk::resumed(plan, vec![], &["c0r1a1"]);
    assert_eq!(desk.sees(Event::RunOpened), ["connect h"]);
    let still_up = || Event::HostConnected { host: name("h"), boot_id: "b".to_owned() };
    for _ in 0..30 {
        assert_eq!(desk.sees(still_up()), [""; 0], "it may be going down");
        assert_eq!(later(&mut desk, 2), ["connect h"]);
    }
    assert_eq!(desk.sees(still_up()), ["lease h"], "it was never told");
}
