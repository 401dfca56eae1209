//! Ctrl-C, a closed terminal, a reader that goes away: the store stays whole, and `resume` goes on.

use std::{fs, io::Read};

use rustix::process::Signal;

use crate::harness::{Lab, Ran, processes_with, signal, wait_until};

/// Cells that note when they begin and wait for a file to end.
fn waiting_matrix(lab: &Lab, mark: &str, trap: &str) -> String {
    let text = format!(
        "version: 1\nname: waits\naxes: {{ n: [1, 2, 3] }}\nroles:\n  job:\n    env: {{ {mark}: 'yes' }}\n    shell: |\n      {trap}\n      \
         echo begun >> {log}\n      until test -e {go}; do sleep 0.01; done\n\
         \x20   stop: {{ signal: TERM, grace: 30s }}\norder: declared\nobserve: off\ntimeout: 60s\n",
        log = lab.path().join("log").display(),
        go = lab.path().join("go").display(),
    );
    lab.write("m.yaml", &text).to_str().unwrap().to_owned()
}

fn begun(lab: &Lab) -> usize {
    fs::read_to_string(lab.path().join("log")).unwrap_or_default().lines().count()
}

#[track_caller]
fn expect_resumable(lab: &Lab, mark: &str) {
    wait_until("no task is left", || processes_with(mark).is_empty());
    lab.run(&["list"]).expect(0).says("interrupted").says("0/3");
    fs::write(lab.path().join("go"), "").unwrap();
    lab.run(&["resume"]).expect(0).says("3/3");
    lab.run(&["list"]).expect(0).says("finished").says("3/3");
}

#[test]
fn expect_tasks_to_be_stopped_and_the_run_resumable_when_interrupted_once() {
    for (number, kind) in [Signal::INT, Signal::TERM, Signal::HUP].into_iter().enumerate() {
        let lab = Lab::new();
        let mark = format!("ONCE_{number}_{}", std::process::id());
        let matrix = waiting_matrix(&lab, &mark, "true");
        let run = lab.spawn(&["run", &matrix]);
        wait_until("a task runs", || begun(&lab) == 1);
        signal(&run, kind);
        Ran::of(run.wait_with_output().unwrap()).expect(130).says("drover resume");
        expect_resumable(&lab, &mark);
    }
}

#[test]
fn expect_tasks_to_be_killed_when_interrupted_twice() {
    let lab = Lab::new();
    let mark = format!("TWICE_{}", std::process::id());
    let matrix = waiting_matrix(&lab, &mark, "trap '' TERM");
    let mut run = lab.spawn(&["run", &matrix]);
    wait_until("a task runs", || begun(&lab) == 1);
    signal(&run, Signal::INT);
    let mut said = String::new();
    let stderr = run.stderr.as_mut().unwrap();
    // The controller says that it stops; the task ignores its signal for half a minute.
    while !said.contains("stopping") {
        let mut byte = [0];
        assert_eq!(stderr.read(&mut byte).unwrap(), 1, "{said}");
        said.push(char::from(byte[0]));
    }
    signal(&run, Signal::INT);
    Ran::of(run.wait_with_output().unwrap()).expect(130);
    expect_resumable(&lab, &mark);
}

#[test]
fn expect_the_run_to_end_well_when_nobody_reads_its_output() {
    let lab = Lab::new();
    let matrix = waiting_matrix(&lab, "UNREAD", "true");
    let mut run = lab.spawn(&["run", &matrix]);
    drop(run.stdout.take());
    drop(run.stderr.take());
    fs::write(lab.path().join("go"), "").unwrap();
    assert_eq!(run.wait().unwrap().code(), Some(0));
    lab.run(&["list"]).expect(0).says("3/3");
}
