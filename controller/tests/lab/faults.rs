//! Hosts and links that fail.

use crate::harness::{Lab, phased, wait_until};

fn runs(lab: &Lab, host: &str) -> usize {
    lab.on(host, "cat /var/tmp/runs 2>/dev/null").lines().count()
}

#[test]
fn expect_every_trial_ok_and_run_once_when_the_line_is_slow_and_lossy() {
    let lab = Lab::up(3);
    lab.lab(&["delay", "h2", "100"]);
    lab.lab(&["loss", "h3", "5"]);
    let matrix = lab.write("phased.yaml", &phased(4, "0.2"));
    lab.run(&["run", matrix.to_str().unwrap()]).expect(0);
    assert_eq!(lab.verdicts(), vec![("ok".to_owned(), String::new()); 4]);
    assert_eq!((runs(&lab, "h2"), runs(&lab, "h3")), (4, 4));
}

#[test]
fn expect_a_void_trial_when_the_clocks_cannot_be_told_well_enough() {
    let lab = Lab::up(3);
    lab.lab(&["delay", "h2", "50", "--one-way", "out"]);
    let matrix =
        lab.write("phased.yaml", &phased(1, "0.1").replace("skew_limit: 5s", "skew_limit: 5ms\nretries: 1"));
    lab.run(&["run", matrix.to_str().unwrap()]).expect(4);
    assert_eq!(lab.verdicts(), vec![("error".to_owned(), "start-skew".to_owned()); 2]);
    for attempt in lab.attempts() {
        // The delay of one way is the uncertainty: half of it, whatever was measured.
        let skew = attempt["start_skew_us"].as_u64().unwrap();
        assert!((25_000..200_000).contains(&skew), "{skew}");
    }
}

#[test]
fn expect_the_run_to_go_on_when_sshd_and_an_agent_are_killed() {
    let lab = Lab::up(3);
    let matrix = lab.write("phased.yaml", &phased(4, "1"));
    let mut running = lab.spawn(&["run", matrix.to_str().unwrap()]);
    wait_until("the first trial measures", || runs(&lab, "h2") == 1);
    // The session's own process too: the connection breaks, the agent stays.
    lab.lab(&["sshd-kill", "h2"]);
    running.says("is lost");
    lab.lab(&["sshd-start", "h2"]);
    wait_until("the second trial measures", || runs(&lab, "h3") == 2);
    let agent = lab.on("h3", "cat /var/tmp/drover-0/lock");
    lab.on("h3", &format!("kill -9 {}", agent.trim()));
    running.end().expect(0);
    let finals: Vec<_> = lab.attempts().into_iter().filter(|attempt| attempt["final"] == true).collect();
    assert_eq!(finals.len(), 4);
    assert!(finals.iter().all(|attempt| attempt["outcome"] == "ok"), "{:?}", lab.verdicts());
    // Only the trial whose agent was killed was tried again.
    assert!(
        lab.verdicts().iter().filter(|(outcome, _)| outcome == "error").count() <= 1,
        "{:?}",
        lab.verdicts()
    );
    for host in ["h1", "h2", "h3"] {
        assert_eq!(lab.strangers(host), [""; 0], "{host}");
    }
}

#[test]
fn expect_a_lost_host_quarantined_and_its_trial_run_elsewhere_when_it_disappears() {
    let lab = Lab::up(4);
    let matrix = lab.write("phased.yaml", &(phased(4, "1") + "mix_hosts: true\n"));
    let mut running = lab.spawn(&["run", matrix.to_str().unwrap()]);
    wait_until("a client measures", || runs(&lab, "h2") == 1);
    lab.lab(&["kill", "h2"]);
    running.says("host h2 is quarantined");
    running.end().expect(0);
    let attempts = lab.attempts();
    let lost: Vec<_> = attempts.iter().filter(|attempt| attempt["cause"] == "lost-host").collect();
    assert_eq!(lost.len(), 1, "{:?}", lab.verdicts());
    assert!(lost[0]["detail"].as_str().unwrap().contains("h2"), "{}", lost[0]);
    let finals: Vec<_> = attempts.iter().filter(|attempt| attempt["final"] == true).collect();
    assert_eq!(finals.len(), 4);
    assert!(finals.iter().all(|attempt| attempt["outcome"] == "ok"), "{:?}", lab.verdicts());
    for host in ["h1", "h3", "h4"] {
        assert_eq!(lab.strangers(host), [""; 0], "{host}");
    }
    lab.run(&["hosts"]).says("quarantined since");
    lab.lab(&["up-host", "h2"]);
    lab.run_bare(&["hosts", "release", "h2"]).expect(0).says("released: h2");
    lab.run(&["run", matrix.to_str().unwrap(), "--set", "n=1"]).expect(0);
}

#[test]
fn expect_missing_trials_when_a_host_that_cannot_be_replaced_disappears_and_a_resume_to_run_them() {
    let lab = Lab::up(3);
    let matrix = lab.write("phased.yaml", &phased(3, "1"));
    let mut running = lab.spawn(&["run", matrix.to_str().unwrap()]);
    wait_until("the second trial measures", || runs(&lab, "h3") == 2);
    lab.lab(&["kill", "h3"]);
    running.says("host h3 is quarantined");
    running.end().expect(4);
    let verdicts = lab.verdicts();
    assert_eq!(verdicts.iter().filter(|(outcome, _)| outcome == "ok").count(), 1, "{verdicts:?}");
    lab.lab(&["up-host", "h3"]);
    lab.run_bare(&["hosts", "release", "h3"]).expect(0);
    lab.run_bare(&["resume"]).expect(0);
    let finals = lab.attempts().into_iter().filter(|attempt| attempt["final"] == true);
    assert_eq!(finals.filter(|attempt| attempt["outcome"] == "ok").count(), 3, "{:?}", lab.verdicts());
}

#[test]
fn expect_the_cause_named_when_a_host_has_no_room_for_the_agent() {
    let lab = Lab::up_with(1, &["--small-disk", "h1", "64k"]);
    let matrix = lab.write(
        "noop.yaml",
        "version: 1\nname: noop\naxes: { n: [1] }\nroles: { job: { run: [true] } }\nobserve: off\ntimeout: 20s\n",
    );
    lab.run(&["run", matrix.to_str().unwrap()]).expect(4).says("h1").says("space");
}

#[test]
fn expect_a_host_left_out_when_it_has_less_room_than_asked_for() {
    let lab = Lab::up_with(2, &["--small-disk", "h2", "64M"]);
    let matrix = lab.write(
        "noop.yaml",
        "version: 1\nname: noop\naxes: { n: [1, 2] }\nroles: { job: { run: [true] } }\nobserve: off\ntimeout: 20s\nmix_hosts: true\n",
    );
    lab.run(&["run", matrix.to_str().unwrap()]).expect(0);
    let attempts = lab.attempts();
    assert!(attempts.iter().all(|attempt| attempt["hosts"][0]["name"] == "h1"), "{attempts:?}");
    let log = std::fs::read_dir(lab.results().join("runs")).unwrap().flatten().next().unwrap();
    let log = std::fs::read_to_string(log.path().join("drover.log")).unwrap();
    assert!(log.contains("host h2 cannot be used") && log.contains("256 MiB are asked for"), "{log}");
    assert_eq!(lab.lab(&["pids", "h2"]), "", "nothing is left of the agent");
}

#[test]
fn expect_the_right_times_when_a_host_clock_is_wrong_by_an_hour() {
    let lab = Lab::up_with(3, &["--clock", "h2", "3600"]);
    let matrix = lab.write("phased.yaml", &phased(2, "0.2").replace("skew_limit: 5s", "skew_limit: 20ms"));
    let before = jiff::Timestamp::now();
    lab.run(&["run", matrix.to_str().unwrap()]).expect(0);
    for attempt in lab.attempts() {
        let started: jiff::Timestamp = attempt["started"].as_str().unwrap().parse().unwrap();
        assert!(started >= before && started <= jiff::Timestamp::now(), "{started}");
    }
}

#[test]
fn expect_unreachable_when_a_service_is_ready_and_its_clients_cannot_come() {
    let lab = Lab::up(2);
    let matrix = lab.write(
        "walled.yaml",
        "
version: 1
name: walled
axes: { n: [1] }
roles:
  server:
    on: server
    run: [drover-agent, workload, server, --listen, '{{ address }}:{{ port }}', --servers, 1, --serialisation, none]
    ports: [port]
    ready: { tcp: port, within: 3s }
  client:
    after: server
    on: client
    run: [true]
retries: 0
observe: off
timeout: 20s
",
    );
    let wall =
        "nft add table inet wall && nft 'add chain inet wall in { type filter hook input priority 0; }' &&
                nft add rule inet wall in ip saddr 10.77.0.12 tcp dport != 22 drop && echo built";
    assert_eq!(lab.on("h1", wall).trim(), "built");
    lab.run(&["run", matrix.to_str().unwrap()]).expect(4);
    let attempts = lab.attempts();
    assert_eq!(attempts[0]["cause"], "unreachable", "{:?}", lab.verdicts());
    assert!(attempts[0]["detail"].as_str().unwrap().contains("h2 cannot reach it"), "{}", attempts[0]);
}
