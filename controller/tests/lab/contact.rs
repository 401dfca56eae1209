//! How hosts are reached: keys, bridges, users, and what `doctor` and `hosts` say of them.

use crate::harness::Lab;

const NOOP: &str = "version: 1\nname: noop\naxes: { n: [1] }\nroles: { job: { run: [id, -u] } }\nobserve: off\ntimeout: 20s\n";

#[test]
fn expect_a_loud_refusal_when_a_host_key_has_changed_and_no_trial_run() {
    let lab = Lab::up(1);
    lab.lab(&["rekey", "h1"]);
    let matrix = lab.write("noop.yaml", NOOP);
    lab.run(&["run", matrix.to_str().unwrap()]).expect(4).says("SHA256:").says("known_hosts");
    lab.run(&["run", matrix.to_str().unwrap(), "--accept-new"]).expect(4).says("SHA256:");
}

#[test]
fn expect_an_unknown_key_refused_and_then_written_down_when_it_is_accepted() {
    let lab = Lab::up(1);
    let known = lab.place().join("known_hosts");
    std::fs::write(&known, "").unwrap();
    let matrix = lab.write("noop.yaml", NOOP);
    lab.run(&["run", matrix.to_str().unwrap()]).expect(4).says("--accept-new");
    lab.run(&["run", matrix.to_str().unwrap(), "--accept-new"]).expect(0);
    assert!(std::fs::read_to_string(&known).unwrap().contains("ssh-ed25519"));
    lab.run(&["run", matrix.to_str().unwrap()]).expect(0);
}

#[test]
fn expect_a_run_through_the_bridge_when_the_server_forwards_no_sockets() {
    let lab = Lab::up_with(1, &["--no-streamlocal", "h1"]);
    let matrix = lab.write("noop.yaml", NOOP);
    lab.run(&["run", matrix.to_str().unwrap()]).expect(0);
}

#[test]
fn expect_a_run_without_root_and_what_falls_away_when_the_user_is_another() {
    let lab = Lab::up(1);
    let hosts = std::fs::read_to_string(lab.hosts_file()).unwrap().replace("user: root", "user: perf");
    std::fs::write(lab.hosts_file(), hosts).unwrap();
    let matrix = lab.write("noop.yaml", NOOP);
    lab.run(&["run", matrix.to_str().unwrap()]).expect(0);
    let output = lab.results().join("runs");
    let found =
        std::process::Command::new("find").arg(&output).args(["-name", "job.0.stdout"]).output().unwrap();
    let path = String::from_utf8(found.stdout).unwrap();
    assert_ne!(std::fs::read_to_string(path.trim()).unwrap().trim(), "0");
    lab.run(&["doctor"]).says("host h1").says("not available");
}

#[test]
fn expect_each_host_told_with_its_state_when_hosts_are_listed() {
    let lab = Lab::up(2);
    lab.lab(&["cut", "h2"]);
    let ran = lab.run(&["hosts"]).expect(4);
    let line =
        |host: &str| ran.stdout.lines().find(|line| line.trim_start().starts_with(host)).unwrap().to_owned();
    assert!(line("h1").contains("free"), "{}", ran.stdout);
    assert!(line("h2").contains("unreachable"), "{}", ran.stdout);
    lab.run(&["doctor"]).expect(4).says("ok    reach").says("FAIL  reach");
    assert_eq!(lab.lab(&["pids", "h1"]), "", "nothing is left of the agent");
}

#[test]
fn expect_doctor_to_name_a_wrong_clock_a_small_disk_and_a_missing_command() {
    let lab = Lab::up_with(2, &["--clock", "h1", "3600", "--small-disk", "h2", "64M"]);
    let matrix =
        lab.write("needs.yaml", &NOOP.replace("timeout", "requires: [sh, no-such-command]\ntimeout"));
    let ran = lab.run(&["doctor", matrix.to_str().unwrap()]).expect(4);
    let (h1, h2) = ran.stdout.split_once("host h2").unwrap();
    assert!(h1.contains("warn  clock") && h1.contains("ahead"), "{}", ran.stdout);
    assert!(h2.contains("FAIL  disk"), "{}", ran.stdout);
    assert!(h1.contains("FAIL  command no-such-command"), "{}", ran.stdout);
    assert!(h1.contains("ok    command sh "), "{}", ran.stdout);
}
