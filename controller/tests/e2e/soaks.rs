//! Soaks of some seconds, with real agents and processes: what is measured is kept as it comes, whoever is killed meanwhile, and
//! the report says what became of it.

use std::{
    fs,
    path::PathBuf,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use rustix::process::{Signal, kill_process};
use serde_json::Value;

use crate::harness::{Lab, Ran, processes_with, signal, wait_until};

/// A matrix of a server that does nothing and a load of `script`, whose figures are lines like `rate 5` and `failed 0`.
fn matrix(lab: &Lab, load: &str, script: &str, soak: &str) -> String {
    let text = format!(
        "
version: 1
name: soak
axes: {{ n: [1] }}
roles:
  server:
    env: {{ {mark}: 'yes' }}
    shell: 'echo up; exec sleep 1000'
    ready: {{ log: up }}
  client:
    after: server
    env: {{ {mark}: 'yes' }}
    load: {load}
    shell: |
{script}
    measure: {{ regex: 'rate (?<rate>[0-9]+) failed (?<failed>[0-9]+)' }}
metrics:
  rate: {{ unit: 1/s, better: higher, primary: true }}
  failed: {{ unit: requests, better: lower, must: '== 0' }}
retries: 0
observe: off
soak: {{ {soak} }}
",
        mark = mark(lab),
        script = script.lines().map(|line| format!("      {line}\n")).collect::<String>(),
    );
    lab.write("m.yaml", &text).to_str().unwrap().to_owned()
}

/// A variable that only tasks of this lab have.
fn mark(lab: &Lab) -> String {
    let name = lab.path().file_name().unwrap().to_str().unwrap();
    let letters = name.chars().filter(char::is_ascii_alphanumeric);
    format!("SOAK_{}", letters.collect::<String>())
}

/// The only soak of the last run, as the JSON export has it.
fn soak(lab: &Lab) -> Value {
    let soaks = lab.report()["soaks"].as_array().cloned().unwrap_or_default();
    assert_eq!(soaks.len(), 1, "{soaks:?}");
    soaks[0].clone()
}

/// A file of the first attempt of the last run.
fn file(lab: &Lab, name: &str) -> PathBuf {
    let runs = fs::read_dir(lab.results().join("runs")).unwrap().flatten();
    runs.map(|run| run.path()).max().unwrap().join("c0r1a1").join(name)
}

/// Time, round, and value of each point of a metric.
fn points(lab: &Lab, metric: &str) -> Vec<(u64, u64, f64)> {
    let Ok(text) = fs::read_to_string(file(lab, "series.csv")) else { return Vec::new() };
    let point = |line: &str| {
        let fields: Vec<&str> = line.split(',').collect();
        (fields.len() == 5 && fields[2] == metric)
            .then(|| (fields[0].parse().unwrap(), fields[1].parse().unwrap(), fields[3].parse().unwrap()))
    };
    text.lines().skip(1).filter_map(point).collect()
}

/// Times and texts of the marks of a kind.
fn marks(lab: &Lab, kind: &str) -> Vec<(u64, String)> {
    let text = fs::read_to_string(file(lab, "timeline.jsonl")).unwrap_or_default();
    let all = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let wanted = all.filter(|mark| mark["kind"] == kind);
    wanted
        .map(|mark| (mark["at_unix_us"].as_u64().unwrap(), mark["text"].as_str().unwrap().to_owned()))
        .collect()
}

/// The points are in order, each once, and further apart than nothing and closer than `most` seconds.
#[track_caller]
fn expect_whole(points: &[(u64, u64, f64)], most: u64) {
    for pair in points.windows(2) {
        let [(before, round, _), (at, next, _)] = pair else { unreachable!() };
        assert!(round < next && before < at && at - before < most * 1_000_000, "{points:?}");
    }
}

/// What the load wrote down when it did something, in microseconds since the Unix epoch.
fn logged(lab: &Lab, name: &str) -> u64 {
    let text = fs::read_to_string(lab.path().join(name)).unwrap();
    text.trim().parse::<u64>().unwrap() / 1000
}

fn now_us() -> u64 {
    let now: Duration = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u64::try_from(now.as_micros()).unwrap()
}

const ROUND: &str = "sleep 0.4; echo rate 100 failed 0";
const STREAM: &str = "while :; do echo rate 100 failed 0; sleep 0.5; done";

#[test]
fn expect_points_and_a_report_when_the_built_in_workload_holds() {
    let lab = Lab::new();
    let matrix = lab.write(
        "m.yaml",
        "
version: 1
name: holds
axes: { n: [1] }
roles:
  server:
    run: [drover-agent, workload, server, --listen, '{{ address }}:{{ port }}', --servers, 2, --serialisation, none]
    ports: [port]
    ready: { tcp: port }
    measure: workload
  client:
    after: server
    run: [drover-agent, workload, client, --connect, '{{ server.address }}:{{ server.port }}', --duration, 500ms, --rate, 100]
    measure: workload
metrics:
  conn_per_s: { unit: conn/s, better: higher, primary: true, from: client }
  failed: { unit: connections, better: lower, from: client, must: '== 0' }
  accepted: { unit: connections, better: higher, from: server }
observe: off
soak: { for: 6s, every: 1s, until: first-ng }
",
    );
    let ran =
        lab.run(&["run", matrix.to_str().unwrap()]).expect(0).says("of 6s: ").says("ok: held 6 s of 6 s");
    assert!(ran.stdout.contains("course      conn_per_s"), "{}", ran.stdout);
    let found = points(&lab, "conn_per_s");
    assert!(found.len() >= 2 && found.iter().all(|(_, _, rate)| *rate > 1.0), "{found:?}");
    expect_whole(&found, 30);
    let soak = soak(&lab);
    assert_eq!((soak["outcome"].as_str(), soak["rounds_failed"].as_u64()), (Some("ok"), Some(0)));
    let median = &soak["metrics"][0]["median"];
    let attempt = &lab.attempts()[0];
    assert_eq!(attempt["metrics"]["conn_per_s"], *median);
    let accepted = attempt["metrics"]["accepted"].as_f64().unwrap();
    assert!(accepted >= 100.0, "what the server says at its end: {accepted}");
    lab.run(&["report", "--format", "markdown"]).expect(0).says("held 6 s of 6 s");
    lab.run(&["reparse"]).expect(2).says("is a soak");
}

#[test]
fn expect_leak_and_hang_at_their_times_when_a_stream_leaks_and_hangs() {
    let lab = Lab::new();
    let log = lab.path().join("hung");
    let script = format!(
        "i=0; while [ $i -lt 14 ]; do echo rss $((1000000 + i * 40000)); i=$((i+1)); sleep 1; done\n\
         date +%s%N > {0}.new; mv {0}.new {0}; exec sleep 1000",
        log.display()
    );
    let text = fs::read_to_string(matrix(
        &lab,
        "stream",
        &script,
        "for: 60s, every: 1s, stall: 3s, warm_up: 1s, until: first-ng",
    ));
    let text = text.unwrap().replace("rate (?<rate>[0-9]+) failed (?<failed>[0-9]+)", "rss (?<rss>[0-9]+)");
    let (head, _) = text.split_once("metrics:").unwrap();
    let (_, tail) = text.split_once("retries:").unwrap();
    let metrics = "metrics: { rss: { unit: bytes, better: lower, primary: true } }\nretries:";
    let matrix = lab.write("m.yaml", &format!("{head}{metrics}{tail}").replace("observe: off\n", ""));
    lab.run(&["run", matrix.to_str().unwrap()]).expect(1).says("NG hang").says("seen by the agent of local");
    let soak = soak(&lab);
    assert_eq!((soak["outcome"].as_str(), soak["cause"].as_str()), (Some("ng"), Some("hang")));
    let hung = logged(&lab, "hung");
    let broke = marks(&lab, "broke")[0].0;
    assert!(broke > hung + 2_000_000, "it takes 3 s without progress: {hung} {broke}");
    let begun = marks(&lab, "begun")[0].0;
    let last = points(&lab, "rss").last().unwrap().0;
    let held = soak["held_s"].as_f64().unwrap();
    assert_eq!(Duration::from_secs_f64(held).as_millis(), Duration::from_micros(last - begun).as_millis());
    assert!(
        last <= hung + 1_500_000 && last + 10_000_000 >= hung,
        "the last point is the last before it hung"
    );
    // Of so few points, one that is late can make the trend seem a chance; that it is upwards, none can.
    let drift = &soak["metrics"][0]["drift"];
    assert!(drift["low"].as_f64() > Some(0.0), "{drift}");
    let sensors: Vec<&Value> =
        soak["metrics"].as_array().unwrap().iter().filter(|metric| metric["name"] == "server rss").collect();
    assert!(sensors.len() == 1 && sensors[0]["points"].as_u64() > Some(5), "{sensors:?}");
    assert_ne!(soak["evidence"]["state"], "none");
    let evidence = fs::read_to_string(file(&lab, "evidence.local.txt")).unwrap();
    assert!(evidence.contains("sleep"), "the process that hung is in it:\n{evidence}");
    wait_until("no task is left", || processes_with(&mark(&lab)).is_empty());
}

#[test]
fn expect_a_hang_when_a_load_burns_cpu_and_gives_nothing() {
    let lab = Lab::new();
    let script = "echo rate 1 failed 0; while :; do :; done";
    let matrix = matrix(&lab, "stream", script, "for: 60s, every: 1s, stall: 2s");
    lab.run(&["run", &matrix])
        .expect(1)
        .says("NG hang")
        .says("client gave no figure for 2s, seen by the controller");
}

#[test]
fn expect_failed_rounds_to_be_noted_and_counted_when_it_goes_on_until_the_end() {
    let lab = Lab::new();
    let script = "echo x >> ROUNDS; n=$(wc -l < ROUNDS); sleep 0.3\n\
                  if [ $n = 3 ]; then echo no luck >&2; exit 7; fi\n\
                  if [ $n = 5 ]; then echo rate 50 failed 2; exit 0; fi\n\
                  echo rate 100 failed 0"
        .replace("ROUNDS", &lab.path().join("rounds").display().to_string());
    let matrix = matrix(&lab, "rounds", &script, "for: 6s, every: 1s");
    lab.run(&["run", &matrix]).expect(1).says("2 rounds failed, the first: client ended with status 7");
    let soak = soak(&lab);
    assert_eq!((soak["cause"].as_str(), soak["rounds_failed"].as_u64()), (Some("check-failed"), Some(2)));
    let failed = marks(&lab, "round-failed");
    assert_eq!(failed.len(), 2, "{failed:?}");
    assert_eq!(failed[1].1, "failed = 2 requests, must be == 0");
    assert!(marks(&lab, "ended").len() == 1 && marks(&lab, "broke").is_empty());
    assert!(points(&lab, "rate").last().unwrap().0 > failed[1].0, "it went on");
}

#[test]
fn expect_the_end_at_once_with_evidence_when_a_check_fails_and_it_goes_until_the_first() {
    let lab = Lab::new();
    let script = "echo x >> ROUNDS; n=$(wc -l < ROUNDS); sleep 0.3\n\
                  if [ $n = 4 ]; then date +%s%N > FAILED; echo rate 50 failed 2; exit 0; fi\n\
                  echo rate 100 failed 0"
        .replace("ROUNDS", &lab.path().join("rounds").display().to_string())
        .replace("FAILED", &lab.path().join("failed").display().to_string());
    let matrix = matrix(&lab, "rounds", &script, "for: 60s, every: 1s, until: first-ng");
    lab.run(&["run", &matrix]).expect(1).says("NG check-failed").says("failed = 2 requests, must be == 0");
    let broke = marks(&lab, "broke")[0].0;
    let (failed, ended) = (logged(&lab, "failed"), now_us());
    assert!((failed - 1_000_000..ended).contains(&broke), "{failed} {broke} {ended}");
    let evidence = fs::read_to_string(file(&lab, "evidence.local.txt")).unwrap();
    assert!(evidence.contains("\nevidence: "), "{evidence}");
    assert!(marks(&lab, "note").iter().any(|(_, text)| text.starts_with("evidence of local: ")));
    assert!(!evidence.contains("sysrq-"), "it was not allowed");
}

#[test]
fn expect_a_crash_and_the_points_before_when_the_server_dies() {
    let lab = Lab::new();
    let path = matrix(&lab, "rounds", ROUND, "for: 60s, every: 1s");
    let text = fs::read_to_string(&path).unwrap();
    let dying = format!(
        "echo up; until test -e {0}; do sleep 0.1; done; kill -9 $$",
        lab.path().join("go").display()
    );
    lab.write("m.yaml", &text.replace("echo up; exec sleep 1000", &dying));
    let run = lab.spawn(&["run", &path]);
    wait_until("there are points", || points(lab_ready(&lab), "rate").len() >= 2);
    fs::write(lab.path().join("go"), "").unwrap();
    Ran::of(run.wait_with_output().unwrap()).expect(1).says("NG crash").says("server was killed by signal 9");
    assert!(marks(&lab, "task-ended")[0].1.contains("server on local was killed by signal 9"));
    assert!(points(&lab, "rate").len() >= 2);
    assert_eq!(soak(&lab)["cause"], "crash");
}

/// The lab, once its first run has a folder.
fn lab_ready(lab: &Lab) -> &Lab {
    wait_until("there is a run", || {
        fs::read_dir(lab.results().join("runs")).is_ok_and(|runs| runs.count() > 0)
    });
    lab
}

#[test]
fn expect_no_hole_and_nothing_twice_when_the_controller_is_killed_and_another_goes_on() {
    let lab = Lab::new();
    let log = lab.path().join("rounds").display().to_string();
    let script = format!("sleep 0.4; echo x >> {log}; echo rate $(wc -l < {log}) failed 0");
    let matrix = matrix(&lab, "rounds", &script, "for: 12s, every: 1s, until: first-ng");
    let mut run = lab.spawn(&["run", &matrix]);
    wait_until("there are points", || points(lab_ready(&lab), "rate").len() >= 2);
    run.kill().unwrap();
    run.wait().unwrap();
    let seen = fs::read_to_string(&log).unwrap().lines().count();
    wait_until("the load goes on without a controller", || {
        fs::read_to_string(&log).unwrap().lines().count() >= seen + 4
    });
    lab.run(&["report"]).says("goes on");
    lab.run(&["resume"]).expect(0).says("ok: held 12 s of 12 s");
    assert_eq!((marks(&lab, "begun").len(), marks(&lab, "controller-back").len()), (1, 1));
    let found = points(&lab, "rate");
    expect_whole(&found, 10);
    // What each round says it was is what it is: none is there twice, whoever read it.
    assert!(
        found.iter().all(|(_, round, rate)| {
            let round = f64::from(u32::try_from(*round).unwrap());
            (rate - round).abs() < 0.5
        }),
        "{found:?}"
    );
    assert!(found.iter().any(|(_, round, _)| *round > u64::try_from(seen).unwrap() + 1));
    assert_eq!(lab.attempts().len(), 1);
    let (begun, last) = (marks(&lab, "begun")[0].0, found.last().unwrap().0);
    assert!(last - begun <= 13_000_000, "the time counts from the true begin");
}

#[test]
fn expect_the_points_before_when_the_agent_is_killed() {
    let lab = Lab::new();
    let matrix = matrix(&lab, "stream", STREAM, "for: 60s, every: 1s");
    let run = lab.spawn(&["run", &matrix]);
    wait_until("there are points", || points(lab_ready(&lab), "rate").len() >= 2);
    kill_process(lab.agent_pid().unwrap(), Signal::KILL).unwrap();
    Ran::of(run.wait_with_output().unwrap()).expect(4).says("ERR agent-lost");
    let soak = soak(&lab);
    assert_eq!((soak["outcome"].as_str(), soak["cause"].as_str()), (Some("error"), Some("agent-lost")));
    assert!(soak["metrics"][0]["points"].as_u64().unwrap() >= 2, "{soak}");
    assert_eq!((marks(&lab, "host-lost").len(), marks(&lab, "host-back").len()), (1, 1));
    wait_until("no task is left", || processes_with(&mark(&lab)).is_empty());
}

#[test]
fn expect_the_series_to_be_kept_and_reported_when_the_user_interrupts() {
    let lab = Lab::new();
    let matrix = matrix(&lab, "stream", STREAM, "for: 60s, every: 1s");
    let run = lab.spawn(&["run", &matrix]);
    wait_until("there are points", || points(lab_ready(&lab), "rate").len() >= 2);
    signal(&run, Signal::INT);
    Ran::of(run.wait_with_output().unwrap()).expect(130).says("--- cancelled: held");
    assert_eq!(marks(&lab, "ended")[0].1, "interrupted");
    let soak = soak(&lab);
    assert_eq!((soak["outcome"].as_str(), soak["cause"].as_str()), (Some("missing"), Some("cancelled")));
    assert!(!file(&lab, "evidence.local.txt").exists(), "nothing has failed");
    wait_until("no task is left", || processes_with(&mark(&lab)).is_empty());
}

#[test]
fn expect_our_fault_at_once_when_the_load_never_works() {
    let lab = Lab::new();
    let matrix = matrix(&lab, "rounds", "echo what; exit 3", "for: 60s, every: 1s");
    lab.run(&["run", &matrix]).expect(4).says("ERR script").says("client ended with status 3");
    let lab = Lab::new();
    let path = self::matrix(&lab, "rounds", "echo nothing to read", "for: 60s, every: 1s");
    lab.run(&["run", &path]).expect(4).says("ERR parse");
}

#[test]
fn expect_cells_in_turns_within_the_time_when_they_share_it() {
    let lab = Lab::new();
    let path = matrix(&lab, "rounds", ROUND, "for: 20s, every: 1s, share: true");
    let text = fs::read_to_string(&path).unwrap().replace("n: [1]", "n: [1, 2]");
    lab.write("m.yaml", &text);
    lab.run(&["run", &path]).expect(0).says("held 10 s of 10 s");
    let soaks = lab.report()["soaks"].as_array().cloned().unwrap();
    assert_eq!(soaks.len(), 2);
    let begun = |soak: &Value| soak["begun"].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    let apart = begun(&soaks[0]).duration_until(begun(&soaks[1])).abs();
    assert!(apart.as_secs() >= 9, "one after the other: {apart:?}");
}
