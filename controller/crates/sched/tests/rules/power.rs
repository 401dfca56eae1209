//! Hosts whose power can be cycled when they are lost.

use std::{collections::BTreeMap, time::Duration};

use drover_model::EndKind;
use drover_sched::{CollectOutcome, Event, Plan, PowerPolicy, Reconnect};

use crate::{
    desk::{Desk, attempt, name, plan},
    seats::apart,
};

/// One try to connect, then the power, twice in a run at most.
fn with_power(plan: Plan) -> Plan {
    let power = PowerPolicy { within: Duration::from_secs(100), times: 2 };
    let tries = Reconnect { tries: 1, ..plan.reconnect };
    Plan { power: BTreeMap::from([(0, power)]), reconnect: tries, ..plan }
}

fn cycled(desk: &mut Desk, problem: Option<&str>) -> Vec<String> {
    desk.sees(Event::PowerCycled { host: name("h"), problem: problem.map(str::to_owned) })
}

const CYCLE: &str = "cycle h: h is lost: cut";

#[test]
fn expect_the_trial_again_on_the_host_when_its_power_was_cycled_and_it_came_back() {
    let mut desk = Desk::new(with_power(plan(1)));
    desk.open(&[]);
    desk.run_up("c0r1a1");
    assert_eq!(desk.lose(), ["connect h"]);
    let lost = "store c0r1a1 passing: error lost-host the power of the host was cycled: h is lost: cut";
    assert_eq!(desk.lose(), [CYCLE, lost], "what ran there is lost");
    let orders = desk.stored("c0r1a1");
    desk.journalled(&orders);
    assert_eq!(cycled(&mut desk, None), ["connect h"]);
    assert_eq!(desk.connect("c", &[]), ["lease h", "prepare c0r1a2"], "another boot, as it was asked for");
    desk.run_up("c0r1a2");
    assert_eq!(desk.run_down("c0r1a2"), ["store c0r1a2 final: ok"]);
}

#[test]
fn expect_an_attempt_that_was_not_sent_to_wait_when_its_host_is_cycled() {
    let mut desk = Desk::new(with_power(plan(1)));
    desk.open(&[]);
    desk.lose();
    assert_eq!(desk.lose(), [CYCLE]);
    assert!(desk.prepared("c0r1a1").is_empty(), "an answer from before");
    cycled(&mut desk, None);
    assert_eq!(desk.connect("c", &[]), ["lease h", "prepare c0r1a1"]);
}

#[test]
fn expect_it_sought_until_its_time_is_over_and_the_story_when_it_does_not_come_back() {
    let mut desk = Desk::new(with_power(plan(1)));
    desk.open(&[]);
    desk.lose();
    desk.lose();
    desk.now = Duration::from_secs(10);
    assert_eq!(cycled(&mut desk, None), ["connect h"]);
    let mut tries = 0;
    let last = loop {
        let orders = desk.lose();
        if !orders.is_empty() {
            break orders;
        }
        desk.now = desk.scheduler.next_deadline().expect("it is sought again");
        assert_eq!(desk.sees(Event::TimerElapsed), ["connect h"]);
        tries += 1;
    };
    assert_eq!((desk.now, tries), (Duration::from_secs(110), 13), "every eight seconds, and at the end");
    let story = "h is lost: cut; its power was cycled, and it was not back within 100 s";
    assert_eq!(last[0], format!("quarantine h: {story}"));
    assert!(last[1].ends_with(story), "{last:?}");
}

#[test]
fn expect_what_it_says_while_it_boots_not_to_be_its_last_word() {
    let mut desk = Desk::new(with_power(plan(1)));
    desk.open(&[]);
    desk.lose();
    desk.lose();
    cycled(&mut desk, None);
    let refused = Event::HostUnusable { host: name("h"), why: "nobody may log in yet".to_owned() };
    assert!(desk.sees(refused).is_empty());
    assert_eq!(desk.scheduler.next_deadline(), Some(Duration::from_secs(8)));
}

#[test]
fn expect_the_host_given_up_when_the_power_command_fails() {
    let mut desk = Desk::new(with_power(plan(1)));
    desk.open(&[]);
    desk.lose();
    desk.lose();
    let orders = cycled(&mut desk, Some("no such outlet"));
    assert_eq!(orders[0], "quarantine h: h is lost: cut; its power could not be cycled: no such outlet");
    assert!(cycled(&mut desk, None).is_empty(), "twice the same answer");
}

#[test]
fn expect_no_more_cycles_than_the_plan_allows() {
    let mut desk = Desk::new(Plan { retries: 5, ..with_power(plan(1)) });
    desk.open(&[]);
    for (number, boot) in [(1, "c"), (2, "d")] {
        let id = format!("c0r1a{number}");
        desk.run_up(&id);
        desk.lose();
        assert_eq!(desk.lose()[0], CYCLE);
        let orders = desk.stored(&id);
        desk.journalled(&orders);
        cycled(&mut desk, None);
        desk.connect(boot, &[]);
    }
    desk.run_up("c0r1a3");
    desk.lose();
    let story = "h is lost: cut; its power was cycled 2 times in this run, which is all it may";
    assert_eq!(desk.lose()[0], format!("quarantine h: {story}"));
}

#[test]
fn expect_no_unexpected_reboot_when_an_adopted_attempt_waits_at_a_host_that_is_cycled() {
    let mut desk = Desk::resumed(with_power(plan(2)), vec![], &["c0r1a1", "c0r2a1"]);
    desk.open(&["c0r1a1.server.0", "c0r1a1.client.0", "c0r2a1.server.0"]);
    desk.lose();
    let orders = desk.lose();
    assert_eq!(orders[0], CYCLE);
    desk.stored("c0r1a1");
    cycled(&mut desk, None);
    assert_eq!(desk.connect("c", &[]), ["lease h", "prepare c0r2a1"]);
    let orders = desk.prepared("c0r2a1");
    let lost = "store c0r2a1 passing: error lost-host the power of the host was cycled: h is lost: cut";
    assert_eq!(orders, [lost]);
}

#[test]
fn expect_an_unexpected_reboot_when_a_host_reboots_by_itself_after_it_was_cycled() {
    let mut desk = Desk::new(with_power(plan(1)));
    desk.open(&[]);
    desk.run_up("c0r1a1");
    desk.lose();
    desk.lose();
    let orders = desk.stored("c0r1a1");
    desk.journalled(&orders);
    cycled(&mut desk, None);
    desk.connect("c", &[]);
    desk.run_up("c0r1a2");
    desk.lose();
    let orders = desk.connect("d", &[]);
    assert!(orders.iter().any(|order| order.contains("ng unexpected-reboot")), "{orders:?}");
}

#[test]
fn expect_no_cycle_when_the_host_was_never_ours_or_is_another_runs() {
    let mut desk = Desk::new(with_power(plan(1)));
    desk.sees(Event::RunOpened);
    desk.lose();
    assert!(!desk.lose().iter().any(|order| order.starts_with("cycle")), "never reached");
    let mut desk = Desk::new(Plan { wait_for_hosts: true, ..with_power(plan(1)) });
    desk.open(&[]);
    desk.run_up("c0r1a1");
    desk.sees(Event::LeaseRefused { host: name("h"), why: "taken".to_owned() });
    desk.lose();
    let orders = desk.lose();
    assert_eq!(orders[0], "quarantine h: h is lost: cut", "the power is not ours to cut");
}

#[test]
fn expect_the_power_cycled_when_a_task_does_not_end() {
    let mut desk = Desk::new(with_power(Plan { retries: 0, ..plan(2) }));
    desk.open(&[]);
    desk.run_up("c0r1a1");
    desk.now = Duration::from_secs(60);
    desk.sees(Event::TimerElapsed);
    desk.stored("c0r1a1");
    desk.now = Duration::from_secs(66);
    assert_eq!(desk.sees(Event::TimerElapsed), ["cycle h: h does not end c0r1a1.server.0"]);
    assert!(desk.lose().is_empty(), "the connection goes with it");
    cycled(&mut desk, None);
    let orders = desk.connect("c", &["c0r1a1.server.0!"]);
    assert_eq!(orders, ["lease h", "prepare c0r2a1"]);
    desk.run_up("c0r2a1");
    desk.run_down("c0r2a1");
    assert_eq!(desk.stored("c0r2a1"), ["forget c0r1a1 c0r2a1", "give back h"]);
}

#[test]
fn expect_the_other_host_stopped_at_once_when_one_of_a_trial_is_cycled() {
    let mut desk = Desk::new(with_power(apart(1, &["h", "i"], 1)));
    desk.open(&[]);
    desk.connect_to("i", "b", &[]);
    desk.prepared("c0r1a1");
    desk.started("c0r1a1.server.0");
    desk.ready("c0r1a1.server.0");
    desk.sees(Event::RoleReached { attempt: attempt("c0r1a1"), role: name("server") });
    desk.started("c0r1a1.client.0");
    desk.lose();
    assert_eq!(desk.lose(), [CYCLE, "kill c0r1a1.client.0@i"]);
    desk.ended("c0r1a1.client.0", EndKind::Killed);
    cycled(&mut desk, None);
    let orders = desk.connect("c", &[]);
    assert_eq!(orders, ["lease h", "collect c0r1a1: client@i"]);
    let stored = desk.collected("c0r1a1", CollectOutcome::default());
    assert!(stored[0].contains("passing: error lost-host"), "{stored:?}");
}

#[test]
fn expect_an_end_without_waiting_when_the_user_interrupts_while_a_host_is_cycled() {
    let mut desk = Desk::new(with_power(plan(2)));
    desk.open(&[]);
    desk.run_up("c0r1a1");
    desk.lose();
    desk.lose();
    desk.stored("c0r1a1");
    assert_eq!(desk.sees(Event::Interrupted), ["finish Interrupted, 0 done"]);
    assert!(cycled(&mut desk, None).is_empty());
}
