//! What is tried again, and how often.

use drover_model::{EndKind, ErrorCause, NotStarted, Verdict};
use drover_sched::{CollectOutcome, Event, Plan};

use crate::desk::{Desk, attempt, plan, task};

fn journalled(desk: &mut Desk, id: &str) -> Vec<String> {
    desk.sees(Event::AttemptsJournalled { attempts: vec![(attempt(id), crate::desk::seats("h"))] })
}

#[test]
fn expect_another_attempt_when_a_port_was_taken_and_no_more_when_it_stays_taken() {
    let mut desk = Desk::new(plan(1));
    desk.open(&[]);
    let taken = || EndKind::NotStarted(NotStarted::PortTaken, "port 80 is taken".to_owned());
    desk.prepared("c0r1a1");
    assert_eq!(
        desk.ended("c0r1a1.server.0", taken()),
        ["store c0r1a1 passing: error port-taken server was not started: port 80 is taken"]
    );
    assert_eq!(desk.stored("c0r1a1"), ["journal c0r1a2@h"], "stored before it is tried again");
    assert_eq!(journalled(&mut desk, "c0r1a2"), ["prepare c0r1a2"]);
    desk.prepared("c0r1a2");
    assert_eq!(
        desk.ended("c0r1a2.server.0", taken()),
        ["store c0r1a2 final: error port-taken server was not started: port 80 is taken"]
    );
}

#[test]
fn expect_no_other_attempt_when_the_script_is_wrong() {
    let mut desk = Desk::new(plan(1));
    desk.open(&[]);
    let verdict = Verdict::Error { cause: ErrorCause::Template, detail: "no such variable".to_owned() };
    assert_eq!(
        desk.sees(Event::AttemptUnprepared { attempt: attempt("c0r1a1"), verdict }),
        ["store c0r1a1 final: error template no such variable"]
    );
}

#[test]
fn expect_suspect_when_it_passes_after_an_ng() {
    let mut desk = Desk::new(Plan { after_ng: 1, ..plan(1) });
    desk.open(&[]);
    desk.run_up("c0r1a1");
    desk.ended("c0r1a1.client.0", EndKind::Deadline);
    desk.ended("c0r1a1.server.0", EndKind::Stopped(Some(0)));
    assert_eq!(
        desk.collected("c0r1a1", CollectOutcome::default()),
        ["store c0r1a1 passing: ng timeout client was still running at its deadline"]
    );
    assert_eq!(desk.stored("c0r1a1"), ["journal c0r1a2@h"]);
    journalled(&mut desk, "c0r1a2");
    desk.run_up("c0r1a2");
    assert_eq!(
        desk.run_down("c0r1a2"),
        ["store c0r1a2 final: suspect passed-on-retry it was ng once before"]
    );
}

#[test]
fn expect_another_attempt_when_the_agent_refused() {
    let mut desk = Desk::new(plan(1));
    desk.open(&[]);
    desk.prepared("c0r1a1");
    let refused = Event::TaskRefused { task: task("c0r1a1.server.0"), why: "no such argument".to_owned() };
    assert_eq!(
        desk.sees(refused),
        ["store c0r1a1 passing: error internal the agent refused to start server: no such argument"]
    );
}
