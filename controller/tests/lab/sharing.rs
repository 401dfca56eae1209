//! Several controllers, and controllers that are killed.

use rustix::process::Signal;

use crate::harness::{Lab, phased, wait_until};

fn runs(lab: &Lab, host: &str) -> usize {
    lab.on(host, "cat /var/tmp/runs 2>/dev/null").lines().count()
}

#[test]
fn expect_a_second_controller_told_who_holds_the_hosts_and_to_run_after_it_when_it_waits() {
    let lab = Lab::up(3);
    let matrix = lab.write("phased.yaml", &phased(3, "1"));
    let first = lab.spawn(&["run", matrix.to_str().unwrap()]);
    wait_until("the first run measures", || runs(&lab, "h2") == 1);
    let other = lab.path().join("other-results");
    let other = other.to_str().unwrap();
    lab.run(&["--results", other, "run", matrix.to_str().unwrap()]).expect(4).says("held by").says("since");
    let waiting = lab.spawn(&["--results", other, "run", "--wait", matrix.to_str().unwrap()]);
    first.end().expect(0);
    waiting.end().expect(0);
    assert_eq!(lab.verdicts(), vec![("ok".to_owned(), String::new()); 3], "the first was not disturbed");
    assert_eq!((runs(&lab, "h2"), runs(&lab, "h3")), (6, 6));
}

#[test]
fn expect_every_trial_run_once_when_the_controller_is_killed_and_resumed() {
    let lab = Lab::up(3);
    let matrix = lab.write("phased.yaml", &phased(3, "1"));
    let running = lab.spawn(&["run", matrix.to_str().unwrap()]);
    wait_until("the second trial measures", || runs(&lab, "h3") == 2);
    running.signal(Signal::KILL);
    running.end();
    lab.run_bare(&["resume"]).expect(0);
    // How well the clocks were known at the start of the second trial went with the first controller.
    let is_fine = |(outcome, cause): &(String, String)| {
        outcome == "ok" || (outcome, cause) == (&"suspect".to_owned(), &"start-skew".to_owned())
    };
    let verdicts = lab.verdicts();
    assert!(verdicts.len() == 3 && verdicts.iter().all(is_fine), "{verdicts:?}");
    assert!(verdicts.iter().filter(|(outcome, _)| outcome == "suspect").count() <= 1, "{verdicts:?}");
    assert_eq!((runs(&lab, "h2"), runs(&lab, "h3")), (3, 3));
}
