//! Trials over several hosts: where they run, how they start together, what ends them.

use std::time::Duration;

use drover_model::{EndKind, ErrorCause, Seats, Verdict};
use drover_sched::{CollectOutcome, Event, Group, Plan, PlanError, RoleKind, RoleShape, Scheduler};

use crate::desk::{Desk, attempt, complete, group, name, plan, role};

/// A server on one host, and clients on as many others; the server must be reached.
pub fn apart(trials: u32, hosts: &[&str], clients: u32) -> Plan {
    let client = role("client", RoleKind::Awaited, &[0], 1);
    Plan {
        hosts: hosts.iter().map(|host| name(host)).collect(),
        roles: vec![
            RoleShape { reach: true, ..role("server", RoleKind::Service, &[], 1) },
            RoleShape { hosts: clients, other_host_than: vec![0], ..client },
        ],
        ..plan(trials)
    }
}

fn reached(desk: &mut Desk, id: &str) -> Vec<String> {
    desk.sees(Event::RoleReached { attempt: attempt(id), role: name("server") })
}

/// Up to clients that wait at the barrier on two hosts.
fn armed(plan: Plan) -> Desk {
    let mut desk = Desk::new(plan);
    desk.open(&[]);
    desk.connect_to("i", "b", &[]);
    desk.connect_to("j", "b", &[]);
    desk.prepared("c0r1a1");
    desk.ready("c0r1a1.server.0");
    assert_eq!(reached(&mut desk, "c0r1a1"), ["hold c0r1a1.client.0@i", "hold c0r1a1.client.1@j"]);
    desk.armed("c0r1a1.client.0");
    assert_eq!(desk.armed("c0r1a1.client.1"), ["release c0r1a1 on i j"]);
    desk
}

#[test]
fn expect_each_task_on_its_host_when_roles_run_apart() {
    let mut desk = Desk::new(apart(1, &["h", "i"], 1));
    assert_eq!(
        desk.open(&[]),
        ["connect h", "connect i", "journal c0r1a1@h/i", "lease h"],
        "not on one host alone"
    );
    assert_eq!(desk.connect_to("i", "b", &[]), ["lease i", "prepare c0r1a1"]);
    assert_eq!(desk.prepared("c0r1a1"), ["start c0r1a1.server.0"]);
    assert_eq!(desk.ready("c0r1a1.server.0"), ["reach c0r1a1.server from i"]);
    assert_eq!(reached(&mut desk, "c0r1a1"), ["start c0r1a1.client.0@i"]);
    assert!(reached(&mut desk, "c0r1a1").is_empty(), "twice");
    assert_eq!(desk.ended("c0r1a1.client.0", EndKind::Exited(0)), ["stop c0r1a1.server.0"]);
    let orders = desk.ended("c0r1a1.server.0", EndKind::Stopped(Some(0)));
    assert_eq!(orders, ["collect c0r1a1: server client@i"]);
    desk.collected("c0r1a1", CollectOutcome::default());
    assert_eq!(
        desk.stored("c0r1a1"),
        ["forget c0r1a1", "give back h", "forget c0r1a1@i", "give back i"],
        "on each of its hosts"
    );
}

#[test]
fn expect_no_client_when_the_service_cannot_be_reached() {
    let mut desk = Desk::new(apart(1, &["h", "i"], 1));
    desk.open(&[]);
    desk.connect_to("i", "b", &[]);
    desk.prepared("c0r1a1");
    desk.ready("c0r1a1.server.0");
    let verdict = Verdict::Error { cause: ErrorCause::Unreachable, detail: "no route".to_owned() };
    let event = Event::RoleUnreached { attempt: attempt("c0r1a1"), role: name("server"), verdict };
    assert_eq!(desk.sees(event), ["stop c0r1a1.server.0"]);
    desk.ended("c0r1a1.server.0", EndKind::Stopped(Some(0)));
    assert_eq!(
        desk.collected("c0r1a1", CollectOutcome::default()),
        ["store c0r1a1 passing: error unreachable no route"]
    );
}

#[test]
fn expect_the_question_again_when_the_connection_was_lost_before_the_answer() {
    let mut desk = Desk::new(apart(1, &["h", "i"], 1));
    desk.open(&[]);
    desk.connect_to("i", "b", &[]);
    desk.prepared("c0r1a1");
    desk.ready("c0r1a1.server.0");
    desk.lose_from("i");
    assert_eq!(desk.connect_to("i", "b", &[]), ["lease i", "reach c0r1a1.server from i"]);
}

#[test]
fn expect_the_attempt_to_be_void_when_its_clients_start_too_far_apart() {
    let mut desk = armed(apart(1, &["h", "i", "j"], 2));
    desk.released("c0r1a1.client.0", 10);
    assert!(desk.released("c0r1a1.client.1", 810).is_empty(), "the clocks may be apart, too");
    assert_eq!(desk.barrier_released("c0r1a1", 300), ["stop c0r1a1.client.0@i", "stop c0r1a1.client.1@j"]);
    desk.ended("c0r1a1.client.0", EndKind::Stopped(None));
    desk.ended("c0r1a1.client.1", EndKind::Stopped(None));
    desk.ended("c0r1a1.server.0", EndKind::Stopped(None));
    assert_eq!(
        desk.collected("c0r1a1", CollectOutcome::default()),
        [
            "store c0r1a1 passing: error start-skew tasks that start together started up to 1100 us apart (800 us \
             measured, 300 us of clock error), 1000 us are allowed"
        ]
    );
}

#[test]
fn expect_the_attempt_to_be_void_when_nobody_knows_where_the_barrier_opened() {
    let mut desk = armed(apart(1, &["h", "i", "j"], 2));
    desk.released("c0r1a1.client.0", 10);
    desk.lose_from("j");
    desk.connect_to("j", "b", &["c0r1a1.client.1"]);
    assert_eq!(
        desk.scheduler.next_deadline(),
        Some(Duration::from_secs(2)),
        "it may still report its release"
    );
    desk.now = Duration::from_secs(2);
    assert_eq!(
        desk.sees(Event::TimerElapsed),
        ["stop c0r1a1.client.0@i", "stop c0r1a1.client.1@j"],
        "a second order would release it late"
    );
}

#[test]
fn expect_tasks_on_other_hosts_to_be_killed_when_a_host_is_lost() {
    let mut desk = Desk::new(apart(1, &["h", "i", "j"], 1));
    desk.open(&[]);
    desk.connect_to("i", "b", &[]);
    desk.prepared("c0r1a1");
    desk.ready("c0r1a1.server.0");
    reached(&mut desk, "c0r1a1");
    for _ in 0..3 {
        assert!(!desk.lose_from("i").iter().any(|line| line.starts_with("kill")), "it may come back");
        desk.now += Duration::from_secs(8);
        desk.sees(Event::TimerElapsed);
    }
    assert_eq!(desk.lose_from("i"), ["quarantine i: i is lost: cut", "kill c0r1a1.server.0"]);
    assert_eq!(desk.ended("c0r1a1.server.0", EndKind::Killed), ["collect c0r1a1: server"]);
    assert_eq!(
        desk.collected("c0r1a1", CollectOutcome::default()),
        ["store c0r1a1 passing: error lost-host the host was given up: i is lost: cut"]
    );
    assert_eq!(desk.stored("c0r1a1"), ["connect j", "journal c0r1a2@h/j"], "a spare host takes its place");
}

#[test]
fn expect_an_attempt_not_to_be_forgotten_where_it_runs_when_another_of_its_hosts_was_given_up() {
    let mut desk = Desk::resumed(apart(2, &["h", "i", "j"], 1), vec![], &["c0r1a1@h/i", "c0r2a1@h/i"]);
    desk.sees(Event::RunOpened);
    let orders = desk.sees(Event::HostUnusable { host: name("h"), why: "another key".to_owned() });
    assert_eq!(orders.iter().filter(|order| order.starts_with("store c0r")).count(), 2, "{orders:?}");
    desk.stored("c0r1a1");
    let orders = desk.connect_to("i", "b", &["c0r1a1.client.0"]);
    assert!(orders.contains(&"kill c0r1a1.client.0@i".to_owned()), "{orders:?}");
    desk.now = Duration::from_secs(2);
    let orders = desk.stored("c0r2a1");
    assert!(!orders.iter().any(|order| order.starts_with("forget c0r1a1")), "it runs: {orders:?}");
    desk.ended("c0r1a1.client.0", EndKind::Killed);
    let orders = desk.sees(Event::Interrupted);
    assert_eq!(orders[..2], ["forget c0r2a1 c0r1a1@i", "give back i"], "{orders:?}");
}

#[test]
fn expect_one_lane_each_when_groups_stay() {
    let stay = |cell| Group { stay: true, ..group(cell, 2) };
    let mut desk = Desk::new(Plan {
        hosts: vec![name("h"), name("i"), name("j")],
        groups: vec![stay(0), stay(1)],
        ..plan(0)
    });
    let orders = desk.open(&[]);
    assert_eq!(
        orders[..4],
        ["connect h", "journal c0r1a1@h c0r2a1@h", "connect i", "journal c1r1a1@i c1r2a1@i"],
        "the third host is spare"
    );
}

/// A group on `h` that stays, with a spare host `i`, and its first trial stored with a number, if asked for.
fn staying(numbered: bool) -> Desk {
    let mut desk = Desk::new(Plan {
        hosts: vec![name("h"), name("i")],
        groups: vec![Group { stay: true, ..group(0, 2) }],
        ..plan(0)
    });
    desk.open(&[]);
    if numbered {
        desk.run_up("c0r1a1");
        desk.run_down("c0r1a1");
        desk.stored("c0r1a1");
    }
    desk
}

#[test]
fn expect_a_group_to_move_as_a_whole_when_nothing_of_it_has_a_number() {
    let mut desk = staying(false);
    let refused = Event::LeaseRefused { host: name("h"), why: "taken".to_owned() };
    assert_eq!(
        desk.sees(refused),
        [
            "store c0r1a1 passing: error lost-host the host was given up: h is not ours: taken",
            "connect i",
            "journal c0r2a1@i"
        ]
    );
    assert_eq!(desk.stored("c0r1a1"), ["journal c0r1a2@i"]);
}

#[test]
fn expect_the_rest_to_be_unavailable_when_the_numbers_of_a_group_are_from_the_lost_host() {
    let mut desk = staying(true);
    let refused = Event::LeaseRefused { host: name("h"), why: "taken".to_owned() };
    let lost = "store c0r2a1 passing: error lost-host the host was given up: h is not ours: taken";
    assert_eq!(desk.sees(refused), [lost], "the spare host is of no use");
    assert_eq!(desk.stored("c0r2a1"), ["finish HostsUnavailable { why: \"h is not ours: taken\" }, 1 done"]);
}

#[test]
fn expect_turns_when_groups_on_different_hosts_need_a_third() {
    let on = |cell, host| Group { stay: true, host: Some(host), ..group(cell, 2) };
    let mut shapes = apart(0, &["h", "i", "j"], 1);
    shapes.roles[0].pinned = true;
    shapes.roles[0].reach = false;
    shapes.roles[1].pool = vec![2];
    let mut desk = Desk::new(Plan { groups: vec![on(0, 0), on(1, 1)], ..shapes });
    desk.open(&[]);
    desk.connect_to("i", "b", &[]);
    assert_eq!(desk.connect_to("j", "b", &[]), ["lease j", "prepare c0r1a1"], "one at a time");
    let run = |desk: &mut Desk, id: &str| {
        desk.run_up(id);
        desk.ended(&format!("{id}.client.0"), EndKind::Exited(0));
        desk.ended(&format!("{id}.server.0"), EndKind::Stopped(None)).pop()
    };
    assert_eq!(run(&mut desk, "c0r1a1").as_deref(), Some("prepare c1r1a1"), "the other's turn");
    assert_eq!(run(&mut desk, "c1r1a1").as_deref(), Some("prepare c0r2a1"));
}

#[test]
fn expect_a_held_host_to_be_asked_for_again_when_the_plan_says_so() {
    let mut desk = Desk::new(Plan { wait_for_hosts: true, ..plan(1) });
    desk.sees(Event::RunOpened);
    desk.sees(Event::HostConnected { host: name("h"), boot_id: "b".to_owned() });
    for again in 1..=9 {
        let refused = Event::LeaseRefused { host: name("h"), why: "taken".to_owned() };
        assert!(desk.sees(refused).is_empty());
        assert_eq!(desk.scheduler.next_deadline(), Some(Duration::from_secs(2 * again)));
        desk.now = Duration::from_secs(2 * again);
        assert_eq!(desk.sees(Event::TimerElapsed), ["lease h"]);
    }
}

#[test]
fn expect_a_resumed_group_where_its_numbers_are_from() {
    let past = vec![drover_sched::PastAttempt::new(attempt("c0r1a1"), &Verdict::Ok, true)];
    let plan = Plan {
        hosts: vec![name("h"), name("i")],
        groups: vec![Group { stay: true, ..group(0, 2) }],
        ..plan(0)
    };
    let mut desk = Desk::resumed(plan, past, &["c0r1a1@i"]);
    assert_eq!(desk.sees(Event::RunOpened), ["connect i", "journal c0r2a1@i"]);
}

#[test]
fn expect_an_adopted_attempt_to_be_whole_when_the_servers_end_is_heard_of_first() {
    let mut desk = Desk::resumed(apart(1, &["h", "i"], 1), vec![], &["c0r1a1@h/i"]);
    desk.open(&["c0r1a1.server.0!"]);
    assert_eq!(desk.connect_to("i", "b", &["c0r1a1.client.0!"]), ["lease i", "prepare c0r1a1"]);
    desk.ready("c0r1a1.server.0");
    desk.ended("c0r1a1.server.0", EndKind::Stopped(Some(0)));
    assert_eq!(desk.prepared("c0r1a1"), ["stop c0r1a1.client.0@i"], "nothing more is started");
    let orders = desk.ended("c0r1a1.client.0", EndKind::Exited(0));
    assert_eq!(orders, ["collect c0r1a1: server client@i"]);
    assert_eq!(desk.collected("c0r1a1", CollectOutcome::default()), ["store c0r1a1 final: ok"]);
}

#[test]
fn expect_the_role_named_when_no_hosts_can_be_chosen() {
    let plan = complete(apart(1, &["h", "i"], 2));
    let error = Scheduler::new(plan, [], Vec::<(_, Seats)>::new()).err();
    let why =
        "it runs on 2 hosts, and its pool has 2, of which roles that it shares no host with may take up to 1";
    assert_eq!(error, Some(PlanError::NoSeats { role: name("client"), why: why.to_owned() }));
}

#[test]
fn expect_clients_beside_their_servers_when_roles_share_hosts() {
    let mut shapes = Plan { hosts: vec![name("h"), name("i"), name("j")], ..plan(1) };
    shapes.roles[0].hosts = 2;
    shapes.roles[1].same_host_as = Some(0);
    let mut desk = Desk::new(shapes);
    assert_eq!(desk.open(&[]), ["connect h", "connect i", "journal c0r1a1@h,i/h,i", "lease h"]);
    assert_eq!(desk.connect_to("i", "b", &[]), ["lease i", "prepare c0r1a1"]);
    assert_eq!(desk.prepared("c0r1a1"), ["start c0r1a1.server.0", "start c0r1a1.server.1@i"]);
    desk.ready("c0r1a1.server.0");
    assert_eq!(desk.ready("c0r1a1.server.1"), ["hold c0r1a1.client.0", "hold c0r1a1.client.1@i"]);
    desk.armed("c0r1a1.client.0");
    assert_eq!(desk.armed("c0r1a1.client.1"), ["release c0r1a1 on h i"]);
    assert_eq!(
        desk.ended("c0r1a1.client.0", EndKind::Exited(3)),
        ["stop c0r1a1.client.1@i"],
        "what fails on one host ends on all"
    );
    assert_eq!(
        desk.ended("c0r1a1.client.1", EndKind::Stopped(None)),
        ["stop c0r1a1.server.0", "stop c0r1a1.server.1@i"]
    );
}

#[test]
fn expect_common_trials_beside_a_group_that_stays_when_the_plan_has_both() {
    let mut desk = Desk::new(Plan {
        hosts: vec![name("h"), name("i")],
        groups: vec![group(1, 9), Group { stay: true, ..group(0, 2) }],
        ..plan(0)
    });
    assert_eq!(
        desk.open(&[])[..4],
        [
            "connect i",
            "journal c1r1a1@i c1r2a1@i c1r3a1@i c1r4a1@i",
            "connect h",
            "journal c0r1a1@h c0r2a1@h"
        ]
    );
    desk.connect_to("i", "b", &[]);
    for id in ["c0r1a1", "c0r2a1"] {
        desk.run_up(id);
        desk.run_down(id);
    }
    assert!(desk.stored("c0r1a1").is_empty(), "the host is the group's until the group is done");
    assert_eq!(desk.stored("c0r2a1"), ["journal c1r5a1@h c1r6a1@h c1r7a1@h c1r8a1@h"]);
}

#[test]
fn expect_half_of_what_waits_to_move_when_another_host_has_nothing_to_do() {
    let hosts = ["h", "i", "j"].map(name).to_vec();
    let mut desk = Desk::new(Plan { hosts, journal_window: 8, ..plan(8) });
    let opened = desk.sees(Event::RunOpened);
    assert_eq!(
        opened,
        ["connect h", "journal c0r1a1@h c0r2a1@h c0r3a1@h c0r4a1@h c0r5a1@h c0r6a1@h c0r7a1@h c0r8a1@h"]
    );
    let first = desk.journalled(&opened);
    assert_eq!(
        first,
        [
            "connect i",
            "journal c0r5a1@i c0r6a1@i c0r7a1@i c0r8a1@i",
            "connect j",
            "journal c0r3a1@j c0r4a1@j"
        ]
    );
    assert!(desk.journalled(&first).is_empty(), "no more than once");
    desk.connect("b", &[]);
    desk.run_up("c0r1a1");
    assert_eq!(desk.run_down("c0r1a1"), ["store c0r1a1 final: ok"]);
    desk.run_up("c0r2a1");
    desk.ended("c0r2a1.client.0", EndKind::Exited(0));
    assert_eq!(
        desk.ended("c0r2a1.server.0", EndKind::Stopped(Some(0))),
        ["collect c0r2a1: server client"],
        "nothing is moved back"
    );
}
