//! A soak on several hosts: a link that is cut in the middle, a host whose clock is wrong, evidence of all.

use std::fs;

use serde_json::Value;

use crate::harness::{Lab, wait_until};

/// Each client says how many rounds it has run; one that finds `/var/tmp/fail` says that something failed.
const MATRIX: &str = "
version: 1
name: night
axes: { n: [1] }
roles:
  server:
    on: server
    run: [drover-agent, workload, server, --listen, '{{ address }}:{{ port }}', --servers, 1, --serialisation, none]
    ports: [port]
    ready: { tcp: port, within: 30s }
  client:
    after: server
    on: client
    hosts: 2
    timeout: 60s
    shell: |
      sleep 0.7; echo x >> /var/tmp/rounds
      test -e /var/tmp/fail && failed=1 || failed=0
      echo rounds $(wc -l < /var/tmp/rounds) failed $failed
    measure: { regex: 'rounds (?<rounds>[0-9]+) failed (?<failed>[0-9]+)' }
metrics:
  rounds: { unit: rounds, better: higher, primary: true, across: sum }
  failed: { unit: requests, better: lower, across: max, must: '== 0' }
retries: 0
skew_limit: 5s
observe: off
soak: { for: 10m, every: 1s, stall: 8s, until: first-ng }
";

fn file(lab: &Lab, name: &str) -> String {
    let runs = fs::read_dir(lab.results().join("runs")).into_iter().flatten().flatten();
    let newest = runs.map(|run| run.path()).max();
    newest
        .map(|run| fs::read_to_string(run.join("c0r1a1").join(name)).unwrap_or_default())
        .unwrap_or_default()
}

/// Time in microseconds, and value, of each point of a metric.
fn points(lab: &Lab, metric: &str) -> Vec<(u64, f64)> {
    let series = file(lab, "series.csv");
    let lines = series.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let whole = lines.filter(|fields| fields.len() == 5 && fields[2] == metric);
    whole.map(|fields| (fields[0].parse().unwrap(), fields[3].parse().unwrap())).collect()
}

fn marks(lab: &Lab, kind: &str) -> Vec<Value> {
    let timeline = file(lab, "timeline.jsonl");
    let all = timeline.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    all.filter(|mark| mark["kind"] == kind).collect()
}

#[test]
fn expect_no_hole_and_nothing_twice_when_a_link_is_cut_in_the_middle_and_evidence_of_all_when_it_fails() {
    let lab = Lab::up_with(3, &["--clock", "h2", "3600"]);
    let matrix = lab.write("night.yaml", MATRIX);
    let mut running = lab.spawn(&["run", matrix.to_str().unwrap()]);
    wait_until("there are points", || points(&lab, "rounds").len() >= 3);
    lab.lab(&["cut", "h2"]);
    running.says("is lost");
    let before = lab.on("h3", "wc -l < /var/tmp/rounds").trim().parse::<f64>().unwrap();
    lab.lab(&["heal", "h2"]);
    wait_until("the series goes on", || {
        points(&lab, "rounds").last().is_some_and(|(_, sum)| *sum > 2.0 * before)
    });
    lab.on("h3", "touch /var/tmp/fail");
    running.end().expect(1).says("NG check-failed").says("failed = 1 requests, must be == 0");

    assert_eq!((marks(&lab, "begun").len(), marks(&lab, "host-back").len()), (1, 1));
    assert!(marks(&lab, "host-lost")[0]["text"].as_str().unwrap().starts_with("h2: "));
    let found = points(&lab, "rounds");
    for pair in found.windows(2) {
        let [(at, sum), (next, more)] = pair else { unreachable!() };
        assert!(at < next && sum < more && next - at < 10_000_000, "{found:?}");
    }
    let soak = &lab.report()["soaks"][0];
    assert_eq!((soak["cause"].as_str(), soak["rounds_failed"].as_u64()), (Some("check-failed"), Some(1)));
    let now = jiff::Timestamp::now();
    let broke: jiff::Timestamp = soak["broke"]["at"].as_str().unwrap().parse().unwrap();
    assert!(broke <= now && broke > now - jiff::SignedDuration::from_secs(120), "{broke} {now}");
    for host in ["h1", "h2", "h3"] {
        let evidence = file(&lab, &format!("evidence.{host}.txt"));
        assert!(evidence.contains("\nevidence: "), "{host}: {evidence}");
    }
    assert_ne!(soak["evidence"]["state"], "none");
    for host in ["h1", "h2", "h3"] {
        wait_until("nothing is left", || lab.strangers(host).is_empty());
    }
}

#[test]
fn expect_what_was_measured_when_a_host_disappears() {
    let lab = Lab::up(3);
    let matrix = lab.write("night.yaml", MATRIX);
    let running = lab.spawn(&["run", matrix.to_str().unwrap()]);
    wait_until("there are points", || points(&lab, "rounds").len() >= 3);
    lab.lab(&["kill", "h3"]);
    running.end().expect(4).says("ERR lost-host");
    let soak = &lab.report()["soaks"][0];
    assert_eq!((soak["outcome"].as_str(), soak["cause"].as_str()), (Some("error"), Some("lost-host")));
    assert!(soak["metrics"][0]["points"].as_u64() >= Some(3), "{soak}");
    assert_eq!(soak["evidence"]["state"], "partial", "of h1 and h2");
}
