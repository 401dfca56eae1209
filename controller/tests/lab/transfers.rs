//! What travels between the controller and its hosts: bounded by size, whole after a cut.

use std::fs;

use crate::harness::{Lab, wait_until};

/// The matrix of the repository.
const TWO_HOSTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../matrices/accept-two-hosts.yaml");

/// All attempts are `ok`; there is one for each of so many trials.
#[track_caller]
fn all_ok(lab: &Lab, trials: usize) {
    assert_eq!(lab.verdicts(), vec![("ok".to_owned(), String::new()); trials]);
}

/// Files below the run's folder with this name.
fn found(lab: &Lab, name: &str) -> Vec<std::path::PathBuf> {
    let mut folders = vec![lab.results().join("runs")];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.file_name().is_some_and(|found| found == name) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

#[test]
fn expect_the_agent_stored_and_all_measured_when_its_upload_is_cut_off() {
    let lab = Lab::up(1);
    let matrix = lab.write(
        "one.yaml",
        "
version: 1
observe: off
name: one
axes: { n: [1, 2] }
roles: { job: { shell: 'echo {{ n }} >> /var/tmp/runs' } }
timeout: 20s
",
    );
    lab.lab(&["delay", "h1", "200"]);
    let running = lab.spawn(&["run", matrix.to_str().unwrap()]);
    wait_until("a part of the agent", || {
        lab.on("h1", "cat /var/tmp/drover-0/bin/upload-* 2>/dev/null | head -c 100000 | wc -c").trim()
            == "100000"
    });
    lab.lab(&["cut", "h1"]);
    assert_eq!(
        lab.on("h1", "ls /var/tmp/drover-0/bin/drover-agent-* 2>/dev/null"),
        "",
        "half of it is no agent"
    );
    lab.lab(&["delay", "h1", "0"]);
    lab.lab(&["heal", "h1"]);
    running.end().expect(0);
    all_ok(&lab, 2);
    assert_eq!(lab.on("h1", "cat /var/tmp/runs | sort"), "1\n2\n");
    assert_eq!(
        lab.on("h1", "ls /var/tmp/drover-0/bin/upload-* 2>/dev/null"),
        "",
        "nothing of the first try is left"
    );
}

#[test]
fn expect_whole_artifacts_of_all_hosts_when_a_link_is_cut_while_they_are_fetched() {
    let lab = Lab::up(3);
    let matrix = lab.write(
        "artifacts.yaml",
        "
version: 1
observe: off
name: artifacts
axes: { n: [1] }
roles:
  job:
    on: client
    hosts: 2
    shell: |
      hostname >> /var/tmp/runs; hostname > {{ dir }}/name.txt
      seq 1 900000 > {{ dir }}/long.txt
    artifacts: ['*.txt']
timeout: 60s
skew_limit: 5s
",
    );
    lab.lab(&["delay", "h3", "25"]);
    let mut running = lab.spawn(&["run", matrix.to_str().unwrap()]);
    // The other host's is there before, because nothing delays it; that one is on its way.
    wait_until("some of an artifact", || {
        let sizes: Vec<u64> = fs::read_dir(lab.results().join("runs"))
            .into_iter()
            .flatten()
            .flatten()
            .flat_map(|run| part_sizes(&run.path()))
            .collect();
        sizes.iter().any(|bytes| *bytes > 0)
    });
    lab.lab(&["cut", "h3"]);
    running.says("is lost");
    lab.lab(&["delay", "h3", "0"]);
    lab.lab(&["heal", "h3"]);
    running.end().expect(0);
    all_ok(&lab, 1);
    let expected: String = (1..=900_000).map(|n| format!("{n}\n")).collect();
    let long = found(&lab, "long.txt");
    assert_eq!(long.len(), 2, "{long:?}");
    for path in &long {
        assert!(fs::read_to_string(path).unwrap() == expected, "{} is not whole", path.display());
    }
    let mut names: Vec<String> =
        found(&lab, "name.txt").iter().map(|path| fs::read_to_string(path).unwrap()).collect();
    names.sort();
    assert_eq!(names, ["h2\n", "h3\n"]);
    for host in ["h2", "h3"] {
        assert_eq!(lab.on(host, "wc -l < /var/tmp/runs").trim(), "1", "{host}");
        assert_eq!(lab.on(host, "ls /var/tmp/drover-0/work | wc -l").trim(), "0", "{host}");
    }
}

/// Sizes of files that are being written below a folder.
fn part_sizes(folder: &std::path::Path) -> Vec<u64> {
    let mut sizes = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            sizes.extend(part_sizes(&path));
        } else if path.extension().is_some_and(|extension| extension == "part") {
            sizes.extend(entry.metadata().map(|found| found.len()));
        }
    }
    sizes
}

#[test]
fn expect_the_trial_measured_when_a_host_is_cut_off_at_the_barrier() {
    let lab = Lab::up(3);
    let matrix = lab.write(
        "barrier.yaml",
        "
version: 1
observe: off
name: barrier
axes: { n: [1] }
roles:
  job:
    on: client
    hosts: 2
    shell: echo {{ dir }} >> /var/tmp/runs; echo rate 5
    measure: { regex: 'rate (?<rate>[0-9]+)' }
metrics: { rate: { unit: 1/s, better: higher, primary: true, across: sum } }
skew_limit: 10s
timeout: 120s
",
    );
    // The clock of a host that is far is asked for long.
    lab.lab(&["delay", "h3", "150"]);
    let mut running = lab.spawn(&["run", "-vv", matrix.to_str().unwrap()]);
    running.says("Armed");
    lab.lab(&["cut", "h3"]);
    running.says("is lost");
    lab.lab(&["delay", "h3", "0"]);
    lab.lab(&["heal", "h3"]);
    running.end().expect(0);
    let verdicts = lab.verdicts();
    assert_eq!(verdicts.last(), Some(&("ok".to_owned(), String::new())), "{verdicts:?}");
    for host in ["h2", "h3"] {
        let runs = lab.on(host, "sort /var/tmp/runs | uniq -d");
        assert_eq!(runs, "", "{host}: no attempt is run twice");
        assert_eq!(lab.strangers(host), [""; 0], "{host}");
    }
}

#[test]
fn expect_verdicts_and_clean_hosts_when_a_link_is_cut_in_the_middle_of_the_reference_matrix() {
    let lab = Lab::up(3);
    let mounts = |host: &str| lab.on(host, "sort /proc/self/mounts");
    let before: Vec<String> = ["h1", "h2", "h3"].map(mounts).to_vec();
    let mut running = lab.spawn(&[
        "run",
        TWO_HOSTS,
        "--set",
        "servers=2,4",
        "--set",
        "serialisation=none,fcntl",
        "--repeat",
        "1",
    ]);
    wait_until("load", || lab.strangers("h2").iter().any(|line| line.contains("workload client")));
    lab.lab(&["cut", "h2"]);
    running.says("is lost");
    lab.lab(&["heal", "h2"]);
    let ran = running.end();
    // What was measured without disturbance is ok. Connections that the cut has broken are failures, which are never silently tried
    // again; where it fell into the barrier, another attempt follows.
    let verdicts = lab.verdicts();
    let count =
        |wanted: &[&str]| verdicts.iter().filter(|(outcome, _)| wanted.contains(&outcome.as_str())).count();
    let (measured, failed) = (count(&["ok", "suspect"]), count(&["ng"]));
    assert!(measured + failed == 4 && failed <= 1, "{verdicts:?}\n{}", ran.stderr);
    for (outcome, cause) in &verdicts {
        assert!(outcome != "ng" || cause == "check-failed", "{verdicts:?}\n{}", ran.stdout);
        let ours = ["agent-lost", "lost-host", "start-skew"];
        assert!(outcome != "error" || ours.contains(&cause.as_str()), "{verdicts:?}\n{}", ran.stderr);
    }
    assert_eq!(["h1", "h2", "h3"].map(mounts).to_vec(), before);
    for host in ["h1", "h2", "h3"] {
        assert_eq!(lab.strangers(host), [""; 0], "{host}");
        assert_eq!(lab.on(host, "ls /var/tmp/drover-0/work 2>/dev/null | wc -l").trim(), "0", "{host}");
    }
}

#[test]
fn expect_what_is_too_large_refused_and_named_when_it_travels() {
    let lab = Lab::up(2);
    lab.write("large.bin", &"x".repeat(3 << 20));
    let matrix = |limits: &str| {
        format!(
            "
version: 1
observe: off
name: sizes
axes: {{ n: [1] }}
roles:
  job:
    on: client
    files: {{ input: {{ from: large.bin, raw: true }} }}
    shell: |
      echo rate 5; head -c 100000 /dev/zero > {{{{ dir }}}}/small.out; head -c 5000000 /dev/zero > {{{{ dir }}}}/huge.out
    artifacts: ['*.out']
    artifact_limit: 1MiB
    measure: {{ regex: 'rate (?<rate>[0-9]+)' }}
metrics: {{ rate: {{ unit: 1/s, better: higher, primary: true }} }}
timeout: 20s
{limits}
"
        )
    };
    // By the matrix.
    let path = lab.write("sizes.yaml", &matrix("limits: { file: 1MiB }"));
    lab.run(&["run", path.to_str().unwrap()]).expect(2).says("`large.bin` has more than 1048576 bytes");
    // An artifact that is too large is not kept, and the number is in doubt for it.
    let path = lab.write("sizes.yaml", &matrix(""));
    let ran = lab.run(&["run", path.to_str().unwrap()]);
    let attempts = lab.attempts();
    assert_eq!(attempts[0]["outcome"], "suspect", "{}", ran.stderr);
    let detail = attempts[0]["detail"].as_str().unwrap();
    assert!(detail.contains("huge.out") && detail.contains("was not kept"), "{detail}");
    assert_eq!(found(&lab, "small.out").len(), 1);
    assert_eq!(found(&lab, "huge.out").len(), 0);
    // By the host.
    let hosts = fs::read_to_string(lab.hosts_file()).unwrap();
    let limited = hosts.replace("labels: [lab, client]", "labels: [lab, client], limits: { files: 2MiB }");
    assert_ne!(hosts, limited);
    fs::write(lab.hosts_file(), limited).unwrap();
    lab.run(&["run", path.to_str().unwrap()]).says("raise its `limits: { files }`");
    assert_eq!(lab.verdicts()[0].0, "error");
}
