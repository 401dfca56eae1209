//! Hosts that are lost, come back, or never come; runs that are resumed.

use std::time::Duration;

use drover_model::{EndKind, Outcome};
use drover_sched::{CollectOutcome, Event, PastAttempt, Plan, RoleKind};

use crate::desk::{Desk, attempt, name, plan, role, seats, task};

fn stored(id: &str, outcome: Outcome, is_final: bool) -> PastAttempt {
    PastAttempt { id: attempt(id), outcome, retriable: outcome == Outcome::Error, is_final, died: None }
}

#[test]
fn expect_the_attempt_to_go_on_when_the_host_comes_back_and_knows_its_tasks() {
    let mut desk = Desk::new(plan(1));
    desk.open(&[]);
    desk.run_up("c0r1a1");
    assert_eq!(desk.lose(), ["connect h"], "at once");
    let orders = desk.connect("b", &["c0r1a1.server.0", "c0r1a1.client.0"]);
    assert_eq!(orders, ["lease h"]);
    assert_eq!(desk.run_down("c0r1a1"), ["store c0r1a1 final: ok"]);
}

#[test]
fn expect_lost_orders_again_when_the_host_comes_back() {
    let mut desk = Desk::new(plan(1));
    desk.open(&[]);
    desk.lose();
    assert_eq!(desk.connect("b", &[]), ["lease h", "prepare c0r1a1"]);
    desk.prepared("c0r1a1");
    desk.ready("c0r1a1.server.0");
    desk.lose();
    assert_eq!(
        desk.connect("b", &["c0r1a1.server.0"]),
        ["lease h", "start c0r1a1.client.0"],
        "the agent does not know of the client"
    );
    desk.ended("c0r1a1.client.0", EndKind::Exited(0));
    desk.lose();
    let known = ["c0r1a1.server.0", "c0r1a1.client.0!"];
    assert_eq!(desk.connect("b", &known), ["lease h", "stop c0r1a1.server.0"]);
    desk.ended("c0r1a1.server.0", EndKind::Stopped(Some(0)));
    desk.lose();
    let known = ["c0r1a1.server.0!", "c0r1a1.client.0!"];
    assert_eq!(desk.connect("b", &known), ["lease h", "collect c0r1a1: server client"]);
    desk.collected("c0r1a1", CollectOutcome::default());
    desk.lose();
    desk.stored("c0r1a1");
}

#[test]
fn expect_a_new_attempt_when_the_agent_died_with_the_tasks() {
    let mut desk = Desk::new(plan(1));
    desk.open(&[]);
    desk.run_up("c0r1a1");
    desk.lose();
    let known = ["c0r1a1.server.0!", "c0r1a1.client.0!"];
    assert_eq!(desk.connect("b", &known), ["lease h"]);
    assert_eq!(desk.ended("c0r1a1.server.0", EndKind::AgentLost), ["stop c0r1a1.client.0"]);
    assert_eq!(desk.ended("c0r1a1.client.0", EndKind::AgentLost), ["collect c0r1a1: server client"]);
    assert_eq!(
        desk.collected("c0r1a1", CollectOutcome::default()),
        ["store c0r1a1 passing: error agent-lost server: the agent ended while it ran"]
    );
    assert_eq!(desk.stored("c0r1a1"), ["journal c0r1a2@h"]);
}

#[test]
fn expect_an_error_when_the_agent_lost_even_its_spool() {
    let mut desk = Desk::new(plan(1));
    desk.open(&[]);
    desk.run_up("c0r1a1");
    desk.lose();
    let orders = desk.connect("b", &[]);
    let expected = "store c0r1a1 passing: error agent-lost server: the agent no longer knows of it";
    assert_eq!(orders, ["lease h", expected]);
}

#[test]
fn expect_no_task_to_be_started_twice_when_the_agent_lost_its_spool() {
    let mut desk = Desk::new(plan(1));
    desk.open(&[]);
    desk.prepared("c0r1a1");
    desk.started("c0r1a1.server.0");
    desk.lose();
    let orders = desk.connect("b", &[]);
    let expected = "store c0r1a1 passing: error agent-lost server: the agent no longer knows of it";
    assert_eq!(orders, ["lease h", expected], "it was seen running: not to be started again");
}

#[test]
fn expect_no_order_when_a_task_is_heard_of_while_the_host_is_away() {
    let mut desk = Desk::new(plan(1));
    desk.open(&[]);
    desk.prepared("c0r1a1");
    desk.started("c0r1a1.server.0");
    desk.lose();
    assert!(desk.ready("c0r1a1.server.0").is_empty(), "true, and kept in mind");
    let orders = desk.connect("b", &["c0r1a1.server.0"]);
    assert_eq!(orders, ["lease h", "start c0r1a1.client.0"]);
}

#[test]
fn expect_attempts_to_be_forgotten_again_when_the_answer_was_lost() {
    let mut desk = Desk::new(plan(3));
    desk.open(&[]);
    desk.run_up("c0r1a1");
    desk.run_down("c0r1a1");
    assert!(desk.stored("c0r1a1").is_empty(), "not one by one");
    desk.now = Duration::from_secs(5);
    desk.run_up("c0r2a1");
    desk.run_down("c0r2a1");
    assert_eq!(desk.stored("c0r2a1"), ["forget c0r1a1 c0r2a1"]);
    desk.lose();
    desk.connect("b", &["c0r1a1.server.0!", "c0r1a1.client.0!"]);
    desk.run_up("c0r3a1");
    desk.run_down("c0r3a1");
    assert_eq!(desk.stored("c0r3a1"), ["forget c0r1a1 c0r3a1", "give back h"]);
}

#[test]
fn expect_ng_when_the_host_came_back_with_another_boot_id() {
    let mut desk = Desk::new(plan(1));
    desk.open(&[]);
    desk.run_up("c0r1a1");
    desk.lose();
    let orders = desk.connect("c", &[]);
    let expected = "store c0r1a1 final: ng unexpected-reboot the host h rebooted while the attempt ran: boot id b \
                    before, c now";
    assert_eq!(orders, ["lease h", expected]);
}

#[test]
fn expect_longer_pauses_and_then_a_verdict_when_the_host_stays_away() {
    let mut desk = Desk::new(plan(3));
    desk.open(&[]);
    desk.run_up("c0r1a1");
    assert_eq!(desk.lose(), ["connect h"]);
    assert!(desk.lose().is_empty());
    assert_eq!(desk.scheduler.next_deadline(), Some(Duration::from_secs(1)));
    desk.now = Duration::from_secs(1);
    assert_eq!(desk.sees(Event::TimerElapsed), ["connect h"]);
    assert!(desk.lose().is_empty());
    assert_eq!(desk.scheduler.next_deadline(), Some(Duration::from_secs(3)));
    desk.now = Duration::from_secs(3);
    assert_eq!(desk.sees(Event::TimerElapsed), ["connect h"]);
    assert_eq!(
        desk.lose(),
        [
            "quarantine h: h is lost: cut",
            "store c0r1a1 passing: error lost-host the host was given up: h is lost: cut",
            "store c0r2a1 passing: missing host-unavailable h is lost: cut",
            "store c0r3a1 passing: missing host-unavailable h is lost: cut",
        ]
    );
    desk.stored("c0r1a1");
    desk.stored("c0r2a1");
    assert_eq!(desk.stored("c0r3a1"), ["finish HostsUnavailable { why: \"h is lost: cut\" }, 0 done"]);
}

#[test]
fn expect_tries_to_count_anew_when_the_agent_reported_something_new() {
    let mut desk = Desk::new(plan(1));
    desk.open(&[]);
    desk.prepared("c0r1a1");
    let lose_and_find = |desk: &mut Desk, known: &[&str]| {
        desk.lose();
        desk.lose();
        desk.now += Duration::from_secs(1);
        assert_eq!(desk.sees(Event::TimerElapsed), ["connect h"], "one pause only: it is the second try");
        desk.connect("b", known);
    };
    lose_and_find(&mut desk, &["c0r1a1.server.0"]);
    desk.started("c0r1a1.server.0");
    lose_and_find(&mut desk, &["c0r1a1.server.0"]);
    desk.started("c0r1a1.server.0");
    desk.lose();
    desk.now += Duration::from_secs(2);
    assert_eq!(desk.sees(Event::TimerElapsed), ["connect h"], "the third: what it said last was no news");
    assert_eq!(desk.lose()[0], "quarantine h: h is lost: cut", "given up");
}

#[test]
fn expect_the_reason_when_another_run_holds_the_only_host() {
    let mut desk = Desk::new(plan(1));
    desk.sees(Event::RunOpened);
    desk.sees(Event::HostConnected { host: name("h"), boot_id: "b".to_owned() });
    assert_eq!(
        desk.sees(Event::LeaseRefused { host: name("h"), why: "held by another since noon".to_owned() }),
        ["store c0r1a1 passing: missing host-unavailable h is not ours: held by another since noon"]
    );
}

#[test]
fn expect_queued_attempts_to_move_when_one_of_two_hosts_is_given_up() {
    let mut desk = Desk::new(Plan { hosts: vec![name("h"), name("i")], journal_window: 2, ..plan(4) });
    assert_eq!(
        desk.open(&[]),
        [
            "connect h",
            "journal c0r1a1@h c0r2a1@h",
            "connect i",
            "journal c0r3a1@i c0r4a1@i",
            "lease h",
            "prepare c0r1a1"
        ]
    );
    let refused = Event::LeaseRefused { host: name("h"), why: "taken".to_owned() };
    assert_eq!(
        desk.sees(refused),
        ["store c0r1a1 passing: error lost-host the host was given up: h is not ours: taken"]
    );
    desk.sees(Event::HostConnected { host: name("i"), boot_id: "b".to_owned() });
    assert_eq!(
        desk.sees(Event::LeaseGranted { host: name("i"), known: vec![] }),
        ["prepare c0r3a1", "journal c0r2a1@i"]
    );
}

#[test]
fn expect_an_idle_host_to_take_over_when_another_has_a_long_queue() {
    let mut desk = Desk::new(Plan { hosts: vec![name("h"), name("i")], ..plan(4) });
    desk.sees(Event::RunOpened);
    let attempts = (1..=4).map(|n| (attempt(&format!("c0r{n}a1")), seats("h"))).collect();
    assert_eq!(desk.sees(Event::AttemptsJournalled { attempts }), ["connect i", "journal c0r3a1@i c0r4a1@i"]);
    let stale = vec![(attempt("c0r3a1"), seats("h"))];
    desk.sees(Event::HostConnected { host: name("i"), boot_id: "b".to_owned() });
    desk.sees(Event::LeaseGranted { host: name("i"), known: vec![] });
    assert!(desk.sees(Event::AttemptsJournalled { attempts: stale }).is_empty(), "that is the old entry");
}

#[test]
fn expect_only_what_is_left_when_a_run_is_resumed() {
    let past = vec![
        stored("c0r1a1", Outcome::Ok, true),
        stored("c0r2a1", Outcome::Error, false),
        stored("c0r3a1", Outcome::Error, false),
    ];
    let mut desk = Desk::resumed(plan(4), past, &["c0r1a1", "c0r2a1", "c0r3a1", "c0r3a2"]);
    let orders = desk.open(&[]);
    assert_eq!(orders, ["connect h", "journal c0r2a2@h c0r4a1@h", "lease h", "prepare c0r3a2"]);
}

#[test]
fn expect_adoption_when_the_agent_ran_on_without_a_controller() {
    let mut desk = Desk::resumed(plan(4), vec![], &["c0r1a1", "c0r2a1", "c0r3a1", "c0r4a1"]);
    let known = ["c0r1a1.server.0!", "c0r1a1.client.0!", "c0r2a1.server.0"];
    assert_eq!(desk.open(&known), ["connect h", "lease h", "prepare c0r1a1"]);
    // The first is over; its events come from the spool, even before its turn.
    desk.started("c0r1a1.server.0");
    desk.ready("c0r1a1.server.0");
    desk.ended("c0r1a1.client.0", EndKind::Exited(0));
    desk.ended("c0r1a1.server.0", EndKind::Stopped(Some(0)));
    desk.ready("c0r2a1.server.0");
    assert_eq!(desk.prepared("c0r1a1"), ["collect c0r1a1: server client", "prepare c0r2a1"]);
    assert_eq!(desk.collected("c0r1a1", CollectOutcome::default()), ["store c0r1a1 final: ok"]);
    // The second is under way: it goes on where it stands.
    assert_eq!(desk.prepared("c0r2a1"), ["start c0r2a1.client.0"]);
}

#[test]
fn expect_no_new_task_in_an_attempt_that_its_host_went_on_from() {
    let mut desk = Desk::resumed(plan(2), vec![], &["c0r1a1", "c0r2a1"]);
    desk.open(&["c0r1a1.server.0!", "c0r2a1.server.0"]);
    desk.prepared("c0r1a1");
    desk.started("c0r1a1.server.0");
    assert!(
        desk.ready("c0r1a1.server.0").is_empty(),
        "the client of the first must not run beside the second"
    );
    assert_eq!(
        desk.ended("c0r1a1.server.0", EndKind::Exited(2)),
        ["collect c0r1a1: server", "prepare c0r2a1"]
    );
}

#[test]
fn expect_no_start_when_the_agent_lost_tasks_that_a_former_controller_started() {
    let mut desk = Desk::resumed(plan(1), vec![], &["c0r1a1"]);
    desk.open(&["c0r1a1.server.0", "c0r1a1.client.0"]);
    assert!(desk.prepared("c0r1a1").is_empty());
    desk.lose();
    assert_eq!(
        desk.connect("b", &[]),
        ["lease h", "store c0r1a1 passing: error agent-lost server: the agent no longer knows of it"],
        "a client must not be started without its server"
    );
}

#[test]
fn expect_no_number_when_a_former_controller_had_stopped_the_client() {
    let mut desk = Desk::resumed(plan(2), vec![], &["c0r1a1", "c0r2a1"]);
    desk.open(&["c0r1a1.server.0!", "c0r1a1.client.0!", "c0r2a1.server.0"]);
    desk.prepared("c0r1a1");
    desk.ready("c0r1a1.server.0");
    desk.ended("c0r1a1.client.0", EndKind::Stopped(Some(0)));
    desk.ended("c0r1a1.server.0", EndKind::Stopped(Some(0)));
    assert_eq!(
        desk.collected("c0r1a1", CollectOutcome::default()),
        ["store c0r1a1 passing: missing cancelled client was stopped by a former controller"]
    );
}

#[test]
fn expect_no_number_when_a_former_controller_ended_the_attempt_before_its_last_client_had_begun() {
    let roles = vec![
        role("server", RoleKind::Service, &[], 2),
        role("fill", RoleKind::Awaited, &[0], 1),
        role("client", RoleKind::Awaited, &[1], 1),
    ];
    let mut desk = Desk::resumed(Plan { roles, ..plan(1) }, vec![], &["c0r1a1"]);
    let known = ["c0r1a1.server.0!", "c0r1a1.server.1", "c0r1a1.fill.0!"];
    desk.open(&known);
    desk.prepared("c0r1a1");
    desk.ready("c0r1a1.server.0");
    desk.ready("c0r1a1.server.1");
    let orders = desk.ended("c0r1a1.fill.0", EndKind::Exited(0));
    assert_eq!(orders, ["start c0r1a1.client.0"], "that the servers were stopped is not known yet");
    desk.lose();
    desk.ended("c0r1a1.server.0", EndKind::Stopped(Some(0)));
    assert_eq!(desk.connect("b", &known), ["lease h", "stop c0r1a1.server.1"], "the start was lost");
    let orders = desk.ended("c0r1a1.server.1", EndKind::Stopped(Some(0)));
    assert_eq!(orders, ["collect c0r1a1: server server fill"]);
    assert_eq!(
        desk.collected("c0r1a1", CollectOutcome::default()),
        ["store c0r1a1 passing: missing cancelled the attempt was stopped by a former controller"]
    );
}

#[test]
fn expect_strays_to_be_killed_and_forgotten_when_their_attempt_is_stored() {
    let past = vec![stored("c0r1a1", Outcome::Error, false), stored("c0r1a2", Outcome::Ok, true)];
    let mut desk = Desk::resumed(plan(2), past, &["c0r2a1"]);
    let known = ["c0r1a1.client.0", "c0r1a2.client.0!"];
    assert_eq!(desk.open(&known), ["connect h", "lease h", "kill c0r1a1.client.0"]);
    assert_eq!(desk.ended("c0r1a1.client.0", EndKind::Killed), ["prepare c0r2a1"], "the host is free now");
    desk.now = Duration::from_secs(5);
    desk.run_up("c0r2a1");
    desk.run_down("c0r2a1");
    assert_eq!(desk.stored("c0r2a1"), ["forget c0r1a2 c0r1a1 c0r2a1", "give back h"]);
}

#[test]
fn expect_a_stored_attempt_to_be_forgotten_when_the_connection_was_lost_before_its_stray_ended() {
    let mut desk = Desk::new(Plan { retries: 0, ..plan(2) });
    desk.open(&[]);
    desk.run_up("c0r1a1");
    desk.now = Duration::from_secs(60);
    assert_eq!(
        desk.sees(Event::TimerElapsed),
        [
            "kill c0r1a1.server.0",
            "kill c0r1a1.client.0",
            "store c0r1a1 final: error agent-lost server: the agent did not report its end in time"
        ]
    );
    assert!(desk.stored("c0r1a1").is_empty(), "its tasks may run");
    desk.lose();
    let orders = desk.connect("b", &["c0r1a1.client.0", "c0r1a1.server.0!"]);
    assert_eq!(orders, ["lease h", "kill c0r1a1.client.0"]);
    assert_eq!(desk.ended("c0r1a1.client.0", EndKind::Killed), ["prepare c0r2a1"]);
    desk.run_up("c0r2a1");
    desk.run_down("c0r2a1");
    assert_eq!(desk.stored("c0r2a1"), ["forget c0r1a1 c0r2a1", "give back h"]);
}

#[test]
fn expect_the_host_to_be_given_up_when_a_stray_does_not_end() {
    let past = vec![stored("c0r1a1", Outcome::Error, false), stored("c0r1a2", Outcome::Ok, true)];
    let mut desk = Desk::resumed(plan(2), past, &[]);
    desk.open(&["c0r1a1.client.0"]);
    assert_eq!(desk.scheduler.next_deadline(), Some(Duration::from_secs(6)));
    desk.now = Duration::from_secs(6);
    assert_eq!(
        desk.sees(Event::TimerElapsed),
        [
            "quarantine h: h does not end c0r1a1.client.0",
            "store c0r2a1 passing: missing host-unavailable h does not end c0r1a1.client.0"
        ]
    );
}

#[test]
fn expect_nothing_to_be_forgotten_when_an_attempt_is_of_nobody() {
    let mut desk = Desk::resumed(plan(1), vec![], &[]);
    desk.sees(Event::RunOpened);
    let known = ["c9r1a1.client.0!"];
    assert_eq!(desk.connect("b", &known), ["lease h"], "neither journalled nor stored: left alone");
    assert_eq!(task("c9r1a1.client.0").attempt, attempt("c9r1a1"));
}

#[test]
fn expect_a_host_given_up_at_once_and_not_quarantined_when_it_cannot_be_used() {
    let mut desk = Desk::new(plan(1));
    desk.sees(Event::RunOpened);
    let orders = desk.sees(Event::HostUnusable { host: name("h"), why: "another key".into() });
    assert!(
        !orders.iter().any(|order| order.starts_with("quarantine") || order == "connect h"),
        "{orders:?}"
    );
    let missing = "missing host-unavailable h cannot be used: another key";
    assert!(orders.iter().any(|order| order.contains(missing)), "{orders:?}");
}
