//! Runs without a terminal, runs that are watched and stopped from another one, controllers that are killed.

use std::{
    fs,
    process::{Child, Command, Stdio},
};

use rustix::process::{Signal, kill_process};

use crate::harness::{Lab, Ran, processes_with, signal, wait_until};

/// Trials that note when they begin, and wait for a file to end; their value does not pass if the mark begins with `BAD`.
fn waiting_matrix(lab: &Lab, mark: &str, trap: &str) -> String {
    let text = format!(
        "version: 1\nname: waits\naxes: {{ n: [1, 2, 3] }}\nroles:\n  job:\n    env: {{ {mark}: 'yes' }}\n    shell: |\n      {trap}\n      \
         echo begun >> {log}\n      until test -e {go}; do sleep 0.01; done\n      \
         echo v=5\n\
         \x20   measure: {{ regex: 'v=(?<v>[0-9]+)' }}\n    stop: {{ signal: TERM, grace: 30s }}\n\
         metrics: {{ v: {{ unit: '1', better: higher, primary: true, must: '{must}' }} }}\n\
         order: declared\nobserve: off\ntimeout: 60s\n",
        log = lab.path().join("log").display(),
        go = lab.path().join("go").display(),
        must = if mark.starts_with("BAD") { "> 5" } else { "> 4" },
    );
    lab.write("m.yaml", &text).to_str().unwrap().to_owned()
}

fn begun(lab: &Lab) -> usize {
    fs::read_to_string(lab.path().join("log")).unwrap_or_default().lines().count()
}

fn let_go(lab: &Lab) {
    fs::write(lab.path().join("go"), "").unwrap();
}

fn log_of_last(lab: &Lab) -> String {
    let run = lab.report()["run"]["id"].as_str().unwrap().to_owned();
    fs::read_to_string(lab.results().join("runs").join(run).join("drover.log")).unwrap_or_default()
}

/// Starts the program with its standard error in a file, which is read while it runs.
struct Watching<'a> {
    lab: &'a Lab,
    child: Child,
}

impl<'a> Watching<'a> {
    fn new(lab: &'a Lab, arguments: &[&str]) -> Self {
        let said = fs::File::create(lab.path().join("said")).unwrap();
        let mut command = lab.drover(arguments);
        Self { lab, child: command.stdout(Stdio::piped()).stderr(said).spawn().unwrap() }
    }

    fn said(&self) -> String {
        fs::read_to_string(self.lab.path().join("said")).unwrap()
    }

    #[track_caller]
    fn says(&mut self, text: &str) {
        wait_until(&format!("it says `{text}`"), || {
            let ended = self.child.try_wait().unwrap();
            assert!(ended.is_none() || self.said().contains(text), "{ended:?}: {}", self.said());
            self.said().contains(text)
        });
    }

    fn end(self) -> Ran {
        let said = self.lab.path().join("said");
        let mut ran = Ran::of(self.child.wait_with_output().unwrap());
        ran.stderr = fs::read_to_string(said).unwrap();
        ran
    }
}

#[test]
fn expect_a_detached_run_to_go_on_when_its_terminal_is_closed_and_it_is_hung_up() {
    let lab = Lab::new();
    let matrix = waiting_matrix(&lab, "DETACHED", "true");
    let program = env!("CARGO_BIN_EXE_drover");
    // A session with a terminal of its own, which ends with the command; whoever is left in it is hung up.
    let terminal = Command::new("script")
        .args(["-qefc", &format!("'{program}' run --detach '{matrix}'"), "/dev/null"])
        .current_dir(lab.path())
        .env("DROVER_AGENT_DIR", lab.agent_dir())
        .env_remove("DROVER_RESULTS")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let started = Ran::of(terminal).expect(0).says("drover attach").says("drover stop").says("drover.log");
    let id = lab.report()["run"]["id"].as_str().unwrap().to_owned();
    assert!(started.stdout.lines().any(|line| line.trim() == id), "{}", started.stdout);
    let controller = lab.controller_pid().expect("it goes on");
    let stat = fs::read_to_string(format!("/proc/{}/stat", controller.as_raw_nonzero())).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    assert_eq!(
        (fields[3], fields[4]),
        (controller.as_raw_nonzero().to_string().as_str(), "0"),
        "session, terminal"
    );
    kill_process(controller, Signal::HUP).unwrap();
    wait_until("a task runs", || begun(&lab) == 1);
    let_go(&lab);
    lab.run(&["attach"]).expect(0).says("finished").says("3/3 cells measured");
    wait_until("it is gone", || lab.controller_pid().is_none());
    let log = log_of_last(&lab);
    assert!(log.contains("[3/3] n=3 #1: 5") && log.contains("3/3 cells measured"), "{log}");
    assert!(!log.contains("stopping"), "{log}");
}

#[test]
fn expect_the_errors_and_their_status_at_once_when_a_detached_run_cannot_begin() {
    let lab = Lab::new();
    let bad = lab.write("bad.yaml", "version: 1\n");
    lab.run(&["run", "--detach", bad.to_str().unwrap()]).expect(2).says("bad.yaml:1:1");
    lab.run(&["resume", "--detach"]).expect(4).says("there are no results");
    let matrix = waiting_matrix(&lab, "LOCKED", "true");
    lab.run(&["run", "--detach", &matrix, "--hosts", "none.yaml"]).expect(2).says("none.yaml");
    let mut first = lab.spawn(&["run", &matrix]);
    wait_until("a task runs", || begun(&lab) == 1);
    lab.run(&["run", "--detach", &matrix]).expect(4).says("another Drover writes");
    let_go(&lab);
    assert_eq!(first.wait().unwrap().code(), Some(0));
    assert!(lab.controller_pid().is_none());
}

#[test]
fn expect_the_end_and_its_status_when_a_run_at_another_terminal_is_watched() {
    for (mark, status, shown) in [("GOOD", 0, "[3/3] n=3 #1: 5"), ("BAD", 1, "NG check-failed")] {
        let lab = Lab::new();
        let matrix = waiting_matrix(&lab, mark, "true");
        let run = lab.spawn(&["run", &matrix]);
        wait_until("a task runs", || begun(&lab) == 1);
        let mut watching = Watching::new(&lab, &["attach"]);
        watching.says("0/3 trials");
        let_go(&lab);
        watching.end().expect(status).says(shown).says("finished").says("cells measured");
        Ran::of(run.wait_with_output().unwrap()).expect(status);
        let id = lab.report()["run"]["id"].as_str().unwrap().to_owned();
        lab.run(&["attach", &id[..24], "--no-report"]).expect(status).says("finished");
        lab.run(&["stop", "last"]).expect(0).says("has ended already");
        lab.run(&["stop"]).expect(2).says("no run is going on");
        assert!(!lab.results().join("runs").join(id).join("live.sock").exists());
    }
}

#[test]
fn expect_the_run_to_go_on_when_whoever_watches_it_leaves() {
    let lab = Lab::new();
    let matrix = waiting_matrix(&lab, "LEFT", "true");
    let run = lab.spawn(&["run", &matrix]);
    wait_until("a task runs", || begun(&lab) == 1);
    let mut watching = Watching::new(&lab, &["attach", "last"]);
    watching.says("Ctrl-C leaves it alone");
    signal(&watching.child, Signal::INT);
    watching.end().expect(130).says("goes on");
    // At a terminal there is a bar; a file keeps what the terminal gets.
    let program = env!("CARGO_BIN_EXE_drover");
    let mut terminal = Command::new("script")
        .args(["-qefc", &format!("'{program}' attach"), "terminal"])
        .current_dir(lab.path())
        .env("TERM", "xterm")
        .env_remove("DROVER_RESULTS")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let shown = || fs::read_to_string(lab.path().join("terminal")).unwrap_or_default();
    wait_until("it is watched", || shown().contains("Ctrl-C leaves it alone"));
    let_go(&lab);
    assert_eq!(terminal.wait().unwrap().code(), Some(0), "{}", shown());
    assert!(shown().matches("0/3").count() > 1, "the bar, not only the greeting: {}", shown());
    Ran::of(run.wait_with_output().unwrap()).expect(0).says("3/3");
}

#[test]
fn expect_it_said_when_the_controller_of_a_watched_run_is_killed() {
    let lab = Lab::new();
    let matrix = waiting_matrix(&lab, "KILLED_WATCHED", "true");
    lab.run(&["run", "--detach", &matrix]).expect(0);
    wait_until("a task runs", || begun(&lab) == 1);
    let mut watching = Watching::new(&lab, &["attach", "--no-report"]);
    watching.says("0/3 trials");
    kill_process(lab.controller_pid().unwrap(), Signal::KILL).unwrap();
    watching.end().expect(3).says("has no controller").says("drover resume");
    lab.run(&["attach"]).expect(3).says("has no controller");
    lab.run(&["stop", "last"]).expect(4).says("has no controller");
    let resumed = lab.run(&["resume", "--detach"]).expect(0);
    let mut watching = Watching::new(&lab, &["attach", resumed.stdout.trim()]);
    watching.says("0/3 trials");
    let_go(&lab);
    watching.end().expect(0).says("finished");
    assert_eq!(begun(&lab), 3, "nothing ran twice");
}

#[test]
fn expect_tasks_stopped_at_the_first_request_and_killed_at_the_second_when_a_run_is_stopped() {
    let lab = Lab::new();
    let mark = format!("STOPPED_{}", std::process::id());
    let matrix = waiting_matrix(&lab, &mark, "trap '' TERM");
    lab.run(&["run", "--detach", &matrix]).expect(0);
    wait_until("a task runs", || begun(&lab) == 1);
    lab.run(&["stop"]).expect(0).says("tasks are asked to end");
    let mut watching = Watching::new(&lab, &["attach", "--no-report"]);
    watching.says("stopping: tasks are asked to end");
    assert!(!processes_with(&mark).is_empty(), "it does not mind");
    lab.run(&["stop", "--wait"]).expect(0).says("tasks are killed").says("has ended");
    watching.end().expect(3).says("tasks are killed").says("interrupted; `drover resume");
    assert!(processes_with(&mark).is_empty());
    let_go(&lab);
    lab.run(&["resume"]).expect(0).says("3/3");
}

#[test]
fn expect_the_last_points_and_how_long_it_lasts_when_a_soak_is_watched() {
    let lab = Lab::new();
    let text = "version: 1
name: soak
axes: { n: [1] }
roles:
  server: { shell: 'echo up; exec sleep 1000', ready: { log: up } }
  client:
    after: server
    load: stream
    shell: 'while :; do echo rate 5; sleep 0.2; done'
    measure: { regex: 'rate (?<rate>[0-9]+)' }
metrics: { rate: { unit: 1/s, better: higher, primary: true } }
observe: off
soak: { for: 60s, every: 1s }
";
    let matrix = lab.write("soak.yaml", text);
    lab.run(&["run", "--detach", matrix.to_str().unwrap()]).expect(0);
    let id = lab.report()["run"]["id"].as_str().unwrap().to_owned();
    let series = lab.results().join("runs").join(id).join("c0r1a1/series.csv");
    let points = || {
        fs::read_to_string(&series).unwrap_or_default().lines().filter(|line| line.contains(",rate,")).count()
    };
    wait_until("there are points", || points() > 0);
    let mut watching = Watching::new(&lab, &["attach", "--no-report"]);
    watching.says("last points of c0r1a1, ");
    watching.says("n=1 #1: ");
    watching.says(" of 1m 0s: 5");
    lab.run(&["stop", "--wait"]).expect(0);
    watching.end().expect(3).says("rate 5");
}
