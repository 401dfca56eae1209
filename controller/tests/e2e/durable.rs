//! SIGKILL at random moments: nothing that finished is lost or run again, and nothing is left running.

use std::{collections::BTreeMap, fs};

use rustix::process::{Signal, kill_process};
use serde_json::Value;

use crate::harness::{Lab, Ran, processes_with, wait_until};

/// Trials of a matrix of short jobs that log themselves.
const CELLS: usize = 40;

/// Every job appends its cell to a log when it begins, and again when it ends.
fn logging_matrix(lab: &Lab, mark: &str, retries: u32) -> String {
    let log = lab.path().join("log");
    let text = format!(
        "version: 1\nname: logs\naxes: {{ n: ['1..{CELLS}'] }}\nroles:\n  job:\n    env: {{ {mark}: 'yes' }}\n    \
         shell: 'echo begin {{{{ n }}}} >> {log}; sleep 0.02; echo value={{{{ n }}}}; echo end {{{{ n }}}} >> {log}'\n    \
         measure: lines\nmetrics: {{ value: {{ unit: '1', better: higher, primary: true }} }}\nretries: {retries}\nobserve: off\ntimeout: 20s\n",
        log = log.display()
    );
    lab.write("m.yaml", &text).to_str().unwrap().to_owned()
}

/// How often each word-and-cell stands in the log: the true history.
fn history(lab: &Lab) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for line in fs::read_to_string(lab.path().join("log")).unwrap_or_default().lines() {
        *counts.entry(line.to_owned()).or_default() += 1;
    }
    counts
}

fn lines(lab: &Lab) -> usize {
    history(lab).values().sum()
}

/// A small generator of pseudo-random numbers (Marsaglia's xorshift), so that a failure can be repeated.
struct Seeded(u64);

impl Seeded {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % u64::try_from(bound).unwrap()).unwrap()
    }
}

/// The final verdicts, checked: each trial has exactly one, `ok`, with the job's own number.
#[track_caller]
fn expect_complete(lab: &Lab) -> Vec<Value> {
    lab.run(&["list"]).expect(0).says(&format!("{CELLS}/{CELLS}"));
    let attempts = lab.attempts();
    let finals: Vec<&Value> =
        attempts.iter().filter(|attempt| attempt["final"] == Value::Bool(true)).collect();
    assert_eq!(finals.len(), CELLS);
    let mut numbers: Vec<f64> =
        finals.iter().filter_map(|attempt| attempt["metrics"]["value"].as_f64()).collect();
    numbers.sort_by(f64::total_cmp);
    let expected: Vec<f64> = (1..=u32::try_from(CELLS).unwrap()).map(f64::from).collect();
    assert_eq!(numbers, expected);
    attempts
}

#[test]
fn expect_each_trial_to_run_exactly_once_when_the_controller_is_killed_at_random_points() {
    let lab = Lab::new();
    let mark = format!("KILLED_{}", std::process::id());
    let matrix = logging_matrix(&lab, &mark, 0);
    let mut random = Seeded(0x9e37_79b9_7f4a_7c15);
    let mut kills = 0;
    let mut arguments = vec!["run", &matrix];
    // Kill points are places in the true history, so they fall everywhere in a trial's life. The last few trials are left
    // for the final resume.
    while kills < 25 && lines(&lab) < 2 * CELLS - 6 {
        let until = lines(&lab) + random.below(4);
        let mut controller = lab.spawn(&arguments);
        wait_until("the jobs have gone on", || {
            lines(&lab) > until || controller.try_wait().unwrap().is_some()
        });
        let _ = controller.kill();
        let ended = Ran::of(controller.wait_with_output().unwrap());
        assert_eq!(ended.status, 128 + 9, "{}", ended.stderr);
        kills += 1;
        if lab.results().join("drover.db").exists() {
            arguments = vec!["resume"];
        }
    }
    assert!(kills >= 20, "only {kills} kills");
    lab.run(&["resume"]).expect(0);
    let attempts = expect_complete(&lab);
    assert_eq!(attempts.len(), CELLS, "an attempt was made twice");
    let counts = history(&lab);
    assert_eq!(counts.len(), 2 * CELLS);
    assert!(counts.values().all(|count| *count == 1), "{counts:?}");
    assert!(processes_with(&mark).is_empty());
}

#[test]
fn expect_lost_attempts_to_be_noticed_and_tried_again_when_the_agent_is_killed() {
    let lab = Lab::new();
    let mark = format!("AGENTLESS_{}", std::process::id());
    let matrix = logging_matrix(&lab, &mark, 3);
    let mut random = Seeded(42);
    let mut controller = lab.spawn(&["run", &matrix]);
    let mut kills = 0;
    while kills < 8 && lines(&lab) < 2 * CELLS - 10 {
        let until = lines(&lab) + 2 + random.below(6);
        wait_until("the jobs have gone on", || {
            lines(&lab) > until || controller.try_wait().unwrap().is_some()
        });
        if let Some(pid) = lab.agent_pid() {
            let _ = kill_process(pid, Signal::KILL);
            kills += 1;
        }
    }
    assert!(kills >= 4, "only {kills} kills");
    Ran::of(controller.wait_with_output().unwrap()).expect(0);
    let attempts = expect_complete(&lab);
    let lost = attempts.iter().filter(|attempt| attempt["cause"] == "agent-lost").count();
    // A job that was begun more often than it has records would be one that nobody knows of.
    let begun: usize =
        history(&lab).iter().filter(|(line, _)| line.starts_with("begin")).map(|(_, count)| count).sum();
    assert!(begun <= CELLS + lost, "{begun} begun, {lost} lost");
    assert!(processes_with(&mark).is_empty());
}

#[test]
fn expect_nothing_lost_when_controller_and_agent_are_killed_together() {
    let lab = Lab::new();
    let mark = format!("BOTH_{}", std::process::id());
    let matrix = logging_matrix(&lab, &mark, 3);
    let mut random = Seeded(7);
    let mut arguments = vec!["run", &matrix];
    for _ in 0..6 {
        let until = lines(&lab) + 1 + random.below(6);
        let mut controller = lab.spawn(&arguments);
        wait_until("the jobs have gone on", || {
            lines(&lab) > until || controller.try_wait().unwrap().is_some()
        });
        let _ = controller.kill();
        if let Some(pid) = lab.agent_pid() {
            let _ = kill_process(pid, Signal::KILL);
        }
        let _ = controller.wait_with_output().unwrap();
        arguments = vec!["resume"];
    }
    lab.run(&["resume"]).expect(0);
    expect_complete(&lab);
    assert!(processes_with(&mark).is_empty());
}
