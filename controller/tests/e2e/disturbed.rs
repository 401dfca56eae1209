//! Runs that are disturbed from outside: by another controller, a clock that is set, an agent's disk that is full.

use std::{fs, path::Path, process::Command};

use rustix::process::Signal;

use crate::{
    harness::{Lab, Ran, signal, wait_until},
    wrong_world::Tmpfs,
};

/// Jobs that log which attempt they are; the one of `n` = 2 waits for the file `go`.
fn waiting_matrix(lab: &Lab, extra: &str) -> String {
    let (log, go) = (lab.path().join("log"), lab.path().join("go"));
    let text = format!(
        "version: 1\nname: waits\naxes: {{ n: ['1..4'] }}\norder: declared\nroles:\n  job:\n    shell: |\n      \
         echo $DROVER_ATTEMPT >> {log}\n      if test {{{{ n }}}} = 2; then {extra}\n        \
         until test -e {go}; do sleep 0.01; done; fi\nretries: 0\nobserve: off\ntimeout: 50s\n",
        log = log.display(),
        go = go.display()
    );
    lab.write("m.yaml", &text).to_str().unwrap().to_owned()
}

fn log(lab: &Lab) -> Vec<String> {
    fs::read_to_string(lab.path().join("log")).unwrap_or_default().lines().map(str::to_owned).collect()
}

#[track_caller]
fn expect_each_once(lab: &Lab) {
    let mut executed = log(lab);
    executed.sort();
    let count = executed.len();
    executed.dedup();
    assert_eq!((count, executed.len()), (4, 4), "{executed:?}");
}

/// A run whose controller was killed while its second job waits.
fn orphaned(lab: &Lab) {
    let matrix = waiting_matrix(lab, "");
    let controller = lab.spawn(&["run", &matrix]);
    wait_until("the second job runs", || log(lab).len() == 2);
    signal(&controller, Signal::KILL);
    Ran::of(controller.wait_with_output().unwrap()).expect(128 + 9);
}

#[test]
fn expect_one_to_go_on_and_the_other_to_name_it_when_two_controllers_adopt_a_run_at_once() {
    let lab = Lab::new();
    orphaned(&lab);
    let controllers = [lab.spawn(&["resume"]), lab.spawn(&["resume"])];
    let pids = controllers.each_ref().map(|controller| controller.id().to_string());
    let [mut first, mut second] = controllers;
    wait_until("one of them has ended", || {
        first.try_wait().unwrap().is_some() || second.try_wait().unwrap().is_some()
    });
    fs::write(lab.path().join("go"), "").unwrap();
    let [first, second] = [first, second].map(|child| Ran::of(child.wait_with_output().unwrap()));
    let (good, bad, winner) =
        if first.status == 0 { (first, second, &pids[0]) } else { (second, first, &pids[1]) };
    good.expect(0);
    bad.expect(4).says(winner);
    expect_each_once(&lab);
    assert_eq!(lab.verdicts(), vec![("ok".to_owned(), String::new()); 4]);
}

#[test]
fn expect_the_former_controller_to_let_go_when_another_adopts_its_run_from_a_copy_of_the_store() {
    let lab = Lab::new();
    orphaned(&lab);
    let copied = Command::new("cp").args(["-a", "drover-results", "copy"]).current_dir(lab.path()).status();
    assert!(copied.unwrap().success());
    let mut former = lab.spawn(&["resume"]);
    let log_of_agent = lab.agent_dir().join("agent.log");
    let took = || fs::read_to_string(&log_of_agent).unwrap_or_default().matches("took the host").count();
    wait_until("it has the host", || took() == 2);
    let latter = lab.spawn(&["--results", "copy", "resume"]);
    // The job still runs; nobody but the lease tells the former one.
    wait_until("the former one has ended", || former.try_wait().unwrap().is_some());
    Ran::of(former.wait_with_output().unwrap()).expect(4).says("does not hold the host");
    fs::write(lab.path().join("go"), "").unwrap();
    Ran::of(latter.wait_with_output().unwrap()).expect(0);
    expect_each_once(&lab);
}

#[test]
fn expect_the_last_run_resumed_and_its_durations_right_when_the_clock_is_set_back_by_an_hour() {
    let lab = Lab::new();
    let clock = lab.write("clock", "0");
    let drover = |arguments: &[&str]| {
        let mut command = lab.drover(arguments);
        command.env("DROVER_LAB_CLOCK_OFFSET_FILE", &clock);
        Ran::of(command.output().unwrap())
    };
    let before = lab.matrix_of_one_role("    run: [/bin/true]");
    drover(&["run", before.to_str().unwrap()]).expect(0);
    let set = format!("echo -3600000 > {}", clock.display());
    let matrix = waiting_matrix(&lab, &set);
    fs::write(&clock, "-3600000").unwrap();
    let mut command = lab.drover(&["run", &matrix]);
    let controller = command
        .env("DROVER_LAB_CLOCK_OFFSET_FILE", &clock)
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    // It began an hour before the run before it, as far as the clock says; that is put right in its middle.
    wait_until("the second job runs", || log(&lab).len() == 2);
    fs::write(&clock, "0").unwrap();
    signal(&controller, Signal::KILL);
    Ran::of(controller.wait_with_output().unwrap()).expect(128 + 9);
    fs::write(lab.path().join("go"), "").unwrap();
    drover(&["resume"]).expect(0).says("waits");
    expect_each_once(&lab);
    for attempt in lab.attempts() {
        assert_eq!(attempt["outcome"], "ok", "{attempt}");
        assert!(attempt["elapsed_s"].as_f64().unwrap() < 300.0, "{attempt}");
    }
}

#[test]
fn expect_err_disk_full_once_and_no_agent_left_when_the_disk_of_the_agent_is_full() {
    let lab = Lab::new();
    let disk = Tmpfs::mount(&lab, "agent", "size=4m,mode=0711");
    let fill = format!("head -c 100000000 /dev/zero > {}", lab.agent_dir().join("ballast").display());
    let text = format!(
        "version: 1\nname: full\naxes: {{ n: ['1..40'] }}\norder: declared\nroles:\n  job:\n    ports: [port]\n    \
         shell: 'if test {{{{ n }}}} = 2; then {fill}; fi; true'\nretries: 3\nobserve: off\ntimeout: 20s\n"
    );
    let matrix = lab.write("m.yaml", &text);
    lab.run(&["run", matrix.to_str().unwrap()]).expect(4).says("ERR disk-full");
    // None is tried again, and none has another cause. Some find room in the last block of a file.
    let verdicts = lab.verdicts();
    assert_eq!(verdicts.len(), 40, "{verdicts:?}");
    assert_eq!(verdicts[0].0, "ok");
    assert_eq!(verdicts[39], ("error".to_owned(), "disk-full".to_owned()));
    assert!(verdicts.iter().all(|(outcome, cause)| outcome == "ok" || cause == "disk-full"), "{verdicts:?}");
    wait_until("the agent has ended", || lab.agent_pid().is_none());
    assert!(!Path::new(&lab.agent_dir().join("agent.sock")).exists());
    drop(disk);
}
