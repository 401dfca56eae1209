//! Hosts that lose their power, or whose agents are mute, and that the controller switches off and on: the last rung before a host
//! is given up. The power commands are those of the lab.

use std::fs;

use crate::harness::{Lab, phased, wait_until};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/lab");

/// The lab's host file with these power keys for all hosts.
fn with_power(lab: &Lab, power: &str) -> String {
    let hosts = fs::read_to_string(lab.hosts_file()).unwrap();
    let hosts = hosts.replacen("defaults: {", &format!("defaults: {{ power: {power},"), 1);
    assert!(hosts.contains(power), "{hosts}");
    lab.write("power.yaml", &hosts).to_str().unwrap().to_owned()
}

fn runs(lab: &Lab, host: &str) -> usize {
    lab.on(host, "cat /var/tmp/runs 2>/dev/null").lines().count()
}

fn log(lab: &Lab) -> String {
    let run = lab.report()["run"]["id"].as_str().unwrap().to_owned();
    fs::read_to_string(lab.results().join("runs").join(run).join("drover.log")).unwrap()
}

#[test]
fn expect_all_trials_measured_when_a_host_loses_its_power_and_is_switched_on_again() {
    let lab = Lab::up(3);
    let power = format!(
        "{{ off: ['{SCRIPT}', kill, '{{{{ host }}}}'], on: ['{SCRIPT}', up-host, '{{{{ host }}}}'], within: 2m }}"
    );
    let hosts = with_power(&lab, &power);
    let matrix = lab.write("phased.yaml", &phased(4, "1"));
    let mut running = lab.spawn_bare(&["run", matrix.to_str().unwrap(), "--hosts", &hosts]);
    wait_until("the second trial measures", || runs(&lab, "h3") == 2);
    lab.lab(&["kill", "h3"]);
    running.says("h3 is lost");
    running.says("its power is cycled");
    running.says("the power of h3 was cycled");
    running.end().expect(0);
    let attempts = lab.attempts();
    let finals: Vec<_> = attempts.iter().filter(|attempt| attempt["final"] == true).collect();
    assert_eq!(finals.len(), 4, "{:?}", lab.verdicts());
    assert!(finals.iter().all(|attempt| attempt["outcome"] == "ok"), "{:?}", lab.verdicts());
    let lost: Vec<_> = attempts.iter().filter(|attempt| attempt["outcome"] != "ok").collect();
    assert_eq!(lost.len(), 1, "{:?}", lab.verdicts());
    assert_eq!(lost[0]["cause"], "lost-host", "its reboot was not unexpected");
    assert!(lost[0]["detail"].as_str().unwrap().contains("the power of the host was cycled"), "{}", lost[0]);
    let log = log(&lab);
    assert!(log.contains("up-host h3` is done"), "{log}");
    for host in ["h1", "h2", "h3"] {
        assert_eq!(lab.strangers(host), [""; 0], "{host}");
    }
    assert!(!lab.run(&["hosts"]).expect(0).stdout.contains("quarantined"));
}

#[test]
fn expect_the_story_in_the_quarantine_when_the_power_command_fails() {
    let lab = Lab::up(3);
    let hosts = with_power(&lab, "{ cycle: [sh, -c, 'echo no such outlet >&2; exit 3'] }");
    let matrix = lab.write("phased.yaml", &phased(3, "1"));
    let mut running = lab.spawn_bare(&["run", matrix.to_str().unwrap(), "--hosts", &hosts]);
    wait_until("the first trial measures", || runs(&lab, "h2") == 1);
    lab.lab(&["kill", "h2"]);
    running.says("host h2 is quarantined");
    running
        .end()
        .expect(4)
        .says("its power could not be cycled")
        .says("failed (exit status: 3): no such outlet");
    lab.run(&["hosts"]).says("quarantined since").says("no such outlet");
}
