//! Attempts that last for a given time, and failures that the driver finds on the way.

use std::time::Duration;

use drover_model::{EndKind, NgCause, Verdict};
use drover_sched::{CollectOutcome, Ending, Event, Plan};

use crate::desk::{Desk, attempt, plan};

fn spent(kind: EndKind) -> Ending {
    Ending { kind, leftovers: 0, output_cut: 0, spent: true }
}

fn failed(id: &str, cause: NgCause) -> Event {
    let verdict = Verdict::Ng { cause, detail: "seen".to_owned() };
    Event::AttemptFailed { attempt: attempt(id), verdict }
}

/// A plan whose server outlasts its client.
fn outlasting() -> Plan {
    let mut plan = plan(1);
    plan.roles[0].outlasts = true;
    plan
}

#[test]
fn expect_the_services_to_stop_and_no_failure_when_the_time_of_a_load_is_over() {
    for kind in [EndKind::Exited(1), EndKind::Stopped(None), EndKind::Deadline, EndKind::Signaled(15)] {
        let mut desk = Desk::new(plan(1));
        desk.open(&[]);
        desk.run_up("c0r1a1");
        assert_eq!(desk.ended_with("c0r1a1.client.0", spent(kind)), ["stop c0r1a1.server.0"]);
        desk.ended("c0r1a1.server.0", EndKind::Stopped(Some(0)));
        assert_eq!(desk.collected("c0r1a1", CollectOutcome::default()), ["store c0r1a1 final: ok"]);
    }
}

#[test]
fn expect_loads_then_services_to_stop_and_the_verdict_to_be_kept_when_the_driver_finds_a_failure() {
    let mut desk = Desk::new(plan(1));
    desk.open(&[]);
    desk.run_up("c0r1a1");
    assert_eq!(desk.sees(failed("c0r1a1", NgCause::CheckFailed)), ["stop c0r1a1.client.0"]);
    assert_eq!(desk.scheduler.failure(&attempt("c0r1a1")).map(Verdict::cause), Some("check-failed"));
    assert_eq!(desk.ended("c0r1a1.client.0", EndKind::Stopped(None)), ["stop c0r1a1.server.0"]);
    desk.ended("c0r1a1.server.0", EndKind::Stopped(Some(0)));
    assert_eq!(
        desk.collected("c0r1a1", CollectOutcome::default()),
        ["store c0r1a1 final: ng check-failed seen"]
    );
}

#[test]
fn expect_the_cause_to_name_the_verdict_when_its_effect_was_found_first() {
    let mut desk = Desk::new(plan(1));
    desk.open(&[]);
    desk.run_up("c0r1a1");
    desk.sees(failed("c0r1a1", NgCause::CheckFailed));
    desk.ended("c0r1a1.server.0", EndKind::Signaled(11));
    assert_eq!(desk.scheduler.failure(&attempt("c0r1a1")).map(Verdict::cause), Some("crash"));
    desk.sees(failed("c0r1a1", NgCause::Hang));
    assert_eq!(desk.scheduler.failure(&attempt("c0r1a1")).map(Verdict::cause), Some("crash"));
}

#[test]
fn expect_nothing_when_a_failure_is_found_before_the_tasks_run_or_after_they_did_their_work() {
    let mut desk = Desk::new(plan(1));
    desk.open(&[]);
    assert!(desk.sees(failed("c0r1a1", NgCause::Hang)).is_empty());
    desk.run_up("c0r1a1");
    desk.ended_with("c0r1a1.client.0", spent(EndKind::Exited(0)));
    assert!(desk.sees(failed("c0r1a1", NgCause::Hang)).is_empty());
    desk.ended("c0r1a1.server.0", EndKind::Stopped(Some(0)));
    assert!(desk.sees(failed("c0r1a1", NgCause::Hang)).is_empty());
    assert_eq!(desk.collected("c0r1a1", CollectOutcome::default()), ["store c0r1a1 final: ok"]);
    assert_eq!(desk.scheduler.failure(&attempt("c0r1a1")), None);
}

#[test]
fn expect_nothing_when_the_user_has_interrupted_it() {
    let mut desk = Desk::new(plan(1));
    desk.open(&[]);
    desk.run_up("c0r1a1");
    desk.sees(Event::Interrupted);
    desk.sees(failed("c0r1a1", NgCause::Hang));
    assert_eq!(desk.scheduler.failure(&attempt("c0r1a1")).map(Verdict::cause), Some("cancelled"));
}

#[test]
fn expect_an_adopted_attempt_to_stop_when_what_its_agent_tells_shows_a_failure() {
    let mut desk = Desk::resumed(outlasting(), vec![], &["c0r1a1"]);
    desk.open(&["c0r1a1.server.0", "c0r1a1.client.0"]);
    desk.started("c0r1a1.server.0");
    desk.ready("c0r1a1.server.0");
    desk.started("c0r1a1.client.0");
    assert!(desk.sees(failed("c0r1a1", NgCause::Hang)).is_empty(), "it is not prepared yet");
    assert_eq!(desk.prepared("c0r1a1"), ["stop c0r1a1.client.0"]);
}

#[test]
fn expect_a_complete_attempt_when_a_service_outlasted_its_load_and_the_load_is_heard_of_last() {
    let mut two_hosts = outlasting();
    two_hosts.hosts = vec!["h".parse().unwrap(), "i".parse().unwrap()];
    two_hosts.roles[0].pool = vec![0];
    two_hosts.roles[1].pool = vec![1];
    let mut desk = Desk::resumed(two_hosts, vec![], &["c0r1a1@h/i"]);
    let lines = desk.sees(Event::RunOpened);
    desk.journalled(&lines);
    desk.connect_to("h", "b", &["c0r1a1.server.0!"]);
    desk.started("c0r1a1.server.0");
    desk.ready("c0r1a1.server.0");
    desk.ended("c0r1a1.server.0", EndKind::Deadline);
    desk.connect_to("i", "b", &["c0r1a1.client.0!"]);
    desk.started("c0r1a1.client.0");
    desk.ended_with("c0r1a1.client.0", spent(EndKind::Exited(0)));
    desk.prepared("c0r1a1");
    assert_eq!(desk.collected("c0r1a1", CollectOutcome::default()), ["store c0r1a1 final: ok"]);
}

#[test]
fn expect_a_timeout_when_a_service_runs_into_its_deadline_under_the_controller_that_began_it() {
    let mut desk = Desk::new(outlasting());
    desk.open(&[]);
    desk.run_up("c0r1a1");
    desk.now += Duration::from_secs(30);
    desk.ended("c0r1a1.server.0", EndKind::Deadline);
    assert_eq!(desk.scheduler.failure(&attempt("c0r1a1")).map(Verdict::cause), Some("timeout"));
}
