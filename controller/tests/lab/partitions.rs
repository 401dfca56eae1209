//! A host that is cut off in each phase of a trial, and comes back.

use crate::harness::{Lab, phased, wait_until};

/// Cuts a host off when a phase begins on it, until the controller has noticed, and expects that nothing was lost or run twice.
fn partition(host: &str, phase: &str) {
    let lab = Lab::up(3);
    let matrix = lab.write("phased.yaml", &phased(3, "1"));
    let mut running = lab.spawn(&["run", matrix.to_str().unwrap()]);
    wait_until(phase, || lab.on(host, "cat /var/tmp/phase 2>/dev/null").trim() == phase);
    lab.lab(&["cut", host]);
    running.says("is lost");
    lab.lab(&["heal", host]);
    running.end().expect(0);
    assert_eq!(lab.verdicts(), vec![("ok".to_owned(), String::new()); 3]);
    for host in ["h2", "h3"] {
        let runs = lab.on(host, "cut -d' ' -f1 /var/tmp/runs | sort | uniq -c");
        let counts: Vec<_> =
            runs.lines().map(|line| line.split_whitespace().next().unwrap().to_owned()).collect();
        assert_eq!(counts, ["1"; 3], "{host}: {runs}");
    }
    for host in ["h1", "h2", "h3"] {
        assert_eq!(lab.strangers(host), [""; 0], "{host}");
    }
}

#[test]
fn expect_nothing_lost_when_the_server_is_cut_off_while_it_starts() {
    partition("h1", "starting");
}

#[test]
fn expect_nothing_lost_when_the_server_is_cut_off_while_it_stops() {
    partition("h1", "stopping");
}

#[test]
fn expect_nothing_lost_when_a_client_is_cut_off_while_it_measures() {
    partition("h2", "measuring");
}

#[test]
fn expect_nothing_lost_when_a_client_is_cut_off_when_it_is_done() {
    partition("h3", "done");
}
