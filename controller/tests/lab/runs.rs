//! Matrices over several hosts, from the file to the table.

use crate::harness::Lab;

/// The matrix of the repository.
const TWO_HOSTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../matrices/accept-two-hosts.yaml");

#[test]
fn expect_a_table_with_skew_and_coverage_when_server_and_clients_are_on_hosts_of_their_own() {
    let lab = Lab::up(3);
    let ran = lab
        .run(&["run", TWO_HOSTS, "--set", "servers=2", "--set", "serialisation=none,fcntl", "--repeat", "2"])
        .expect(0);
    assert!(ran.stdout.contains("started together within"), "{}", ran.stdout);
    assert!(ran.stdout.contains("conn/s"), "{}", ran.stdout);
    for attempt in lab.attempts() {
        let hosts: Vec<_> = attempt["hosts"]
            .as_array()
            .unwrap()
            .iter()
            .map(|host| host["name"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(hosts, ["h1", "h2", "h3"]);
        assert!(attempt["start_skew_us"].as_u64().is_some(), "{attempt}");
        let tasks = attempt["tasks"].as_array().unwrap();
        assert_eq!(tasks.len(), 3);
        let total = attempt["metrics"]["conn_per_s"].as_f64().unwrap();
        let of_clients: f64 = tasks
            .iter()
            .flat_map(|task| task["samples"].as_array().unwrap())
            .filter(|sample| sample["name"] == "conn_per_s")
            .map(|sample| sample["value"].as_f64().unwrap())
            .sum();
        assert!((total - of_clients).abs() < 1e-6 * total, "{total} {of_clients}");
    }
    for host in ["h1", "h2", "h3"] {
        assert_eq!(lab.strangers(host), [""; 0], "{host}");
        assert_eq!(lab.on(host, "ls /var/tmp/drover-0/work 2>/dev/null | wc -l").trim(), "0");
    }
}

#[test]
fn expect_all_hosts_at_work_when_trials_may_mix_and_one_when_they_are_compared() {
    let lab = Lab::up(4);
    let matrix = |mix: &str| {
        format!(
            "version: 1\nname: noop\naxes: {{ n: ['1..40'] }}\nroles: {{ job: {{ run: [sleep, '0.05'] }} }}\n{mix}timeout: 20s\n"
        )
    };
    let used = |text: &str| {
        let path = lab.write("noop.yaml", text);
        lab.run(&["run", path.to_str().unwrap()]).expect(0);
        let mut hosts: Vec<String> = lab
            .attempts()
            .iter()
            .map(|attempt| attempt["hosts"][0]["name"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(hosts.len(), 40);
        hosts.sort();
        hosts.dedup();
        hosts
    };
    assert_eq!(used(&matrix("mix_hosts: true\n")), ["h1", "h2", "h3", "h4"]);
    assert_eq!(used(&matrix("")).len(), 1);
}

#[test]
fn expect_a_host_axis_when_a_matrix_is_spread_over_each() {
    let lab = Lab::up(3);
    let matrix = lab.write(
        "each.yaml",
        "
version: 1
name: each
axes: { n: [1, 2] }
roles:
  job:
    on: client
    shell: echo rate {{ n }}; hostname
    measure: { regex: 'rate (?<rate>[0-9]+)' }
metrics: { rate: { unit: 1/s, better: higher, primary: true } }
spread: each
observe: off
timeout: 20s
",
    );
    let ran = lab.run(&["run", matrix.to_str().unwrap()]).expect(0);
    assert!(ran.stdout.contains("h2") && ran.stdout.contains("h3"), "{}", ran.stdout);
    let report = lab.report();
    let cells = report["cells"].as_array().unwrap();
    let hosts: Vec<_> = cells.iter().map(|cell| cell["values"]["host"].as_str().unwrap()).collect();
    assert_eq!(hosts, ["h2", "h2", "h3", "h3"]);
    for attempt in lab.attempts() {
        let cell = &cells[usize::try_from(attempt["cell"].as_u64().unwrap()).unwrap()];
        assert_eq!(attempt["hosts"][0]["name"], cell["values"]["host"]);
    }
}

#[test]
fn expect_files_staged_once_and_artifacts_fetched_when_a_role_declares_them() {
    let lab = Lab::up(2);
    let big: String = (0..200_000).map(|n| format!("{n}\n")).collect();
    lab.write("big.txt", &big);
    let matrix = lab.write(
        "files.yaml",
        "
version: 1
name: files
axes: { n: [1, 2, 3] }
roles:
  job:
    on: client
    files: { input: { from: big.txt, raw: true } }
    shell: |
      wc -l < {{ dir }}/input | sed 's/^/rate /'
      mkdir -p {{ dir }}/logs; echo cell {{ n }} > {{ dir }}/logs/out.log
      ln -s /etc/passwd {{ dir }}/logs/link.log
    artifacts: ['logs/*.log']
    measure: { regex: 'rate (?<rate>[0-9]+)' }
metrics: { rate: { unit: 1/s, better: higher, primary: true, must: '== 200000' } }
observe: off
timeout: 20s
",
    );
    let ran = lab.run(&["run", matrix.to_str().unwrap()]);
    let attempts = lab.attempts();
    assert_eq!(attempts.len(), 3, "{}{}", ran.stdout, ran.stderr);
    let report = lab.report();
    let run = report["run"]["id"].as_str().unwrap();
    for (cell, _) in attempts.iter().enumerate() {
        let folder = lab.results().join(format!("runs/{run}/c{cell}r1a1/artifacts/job.0/logs"));
        let log = std::fs::read_to_string(folder.join("out.log")).unwrap();
        assert_eq!(log, format!("cell {}\n", cell + 1));
        assert!(!folder.join("link.log").exists(), "links are not followed");
    }
    let blobs = lab.on("h2", "ls /var/tmp/drover-0/blobs | wc -l");
    assert_eq!(blobs.trim(), "1", "one copy for all attempts");
}

#[test]
fn expect_20_hosts_at_work_when_all_are_contacted_at_once() {
    let lab = Lab::up(20);
    let matrix = lab.write(
        "wide.yaml",
        "
version: 1
name: wide
axes: { n: ['1..3'] }
roles: { job: { run: [sleep, '0.1'] } }
spread: each
observe: off
timeout: 60s
",
    );
    lab.run(&["run", matrix.to_str().unwrap()]).expect(0);
    assert_eq!(lab.verdicts(), vec![("ok".to_owned(), String::new()); 60]);
    let attempts = lab.attempts();
    let mut hosts: Vec<_> =
        attempts.iter().map(|attempt| attempt["hosts"][0]["name"].as_str().unwrap()).collect();
    hosts.sort_unstable();
    hosts.dedup();
    assert_eq!(hosts.len(), 20, "{hosts:?}");
}

#[test]
fn expect_missing_trials_and_no_number_from_elsewhere_when_a_host_of_the_axis_cannot_be_used() {
    let lab = Lab::up(3);
    let matrix = lab.write(
        "each.yaml",
        "
version: 1
name: each
axes: { n: [1] }
roles: { job: { on: client, run: [hostname] } }
spread: each
observe: off
timeout: 20s
",
    );
    lab.lab(&["kill", "h3"]);
    lab.run(&["run", matrix.to_str().unwrap()]).expect(4);
    let by_host = |lab: &Lab| {
        let report = lab.report();
        let outcomes = report["cells"].as_array().unwrap().iter().map(|cell| {
            format!("{} {}", cell["values"]["host"].as_str().unwrap(), cell["outcome"].as_str().unwrap())
        });
        outcomes.collect::<Vec<_>>()
    };
    assert_eq!(by_host(&lab), ["h2 ok", "h3 missing"]);
    let file = std::fs::read_to_string(lab.hosts_file()).unwrap();
    let without: String =
        file.lines().filter(|line| !line.contains("h3:")).map(|line| format!("{line}\n")).collect();
    let other = lab.write("without.yaml", &without);
    lab.run_bare(&["resume", "--hosts", other.to_str().unwrap()]).expect(4).says("not in the host file");
    assert_eq!(by_host(&lab), ["h2 ok", "h3 missing"]);
    lab.lab(&["up-host", "h3"]);
    lab.run_bare(&["resume"]).expect(0);
    assert_eq!(by_host(&lab), ["h2 ok", "h3 ok"]);
}
