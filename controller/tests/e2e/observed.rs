//! What is seen of the machine: before a run, and while a trial lasts; doubts with their counters, samples that are kept.

use std::{collections::BTreeSet, fs, net::TcpListener, process::Command};

use crate::harness::{Lab, Ran, wait_until};

/// Fills the queue of a listener that accepts nothing, again and again for some seconds: when sensors are first read is not known.
const FLOOD: &str = "import socket, time
end = time.monotonic() + 2
while time.monotonic() < end:
    s = socket.socket(); s.bind((\"127.0.0.1\", 0)); s.listen(0)
    cs = [socket.socket() for _ in range(5)]
    for c in cs:
        c.setblocking(False)
        try: c.connect(s.getsockname())
        except BlockingIOError: pass
    time.sleep(0.2)
    for c in cs: c.close()
    s.close()
print(\"rate 1\")
";

/// A matrix of one job, observed ten times a second.
fn matrix(lab: &Lab, job: &str, more: &str) -> String {
    let text = format!(
        "version: 1\nname: observed\naxes: {{ n: [1] }}\nroles:\n  job:\n{job}\n    measure: {{ regex: 'rate (?<rate>[0-9]+)' }}\n\
         metrics: {{ rate: {{ unit: 1/s, better: higher, primary: true }} }}\nobserve: 100ms\ntimeout: 60s\n{more}"
    );
    lab.write("m.yaml", &text).to_str().unwrap().to_owned()
}

fn flooding(lab: &Lab, more: &str) -> String {
    let script = lab.write("flood.py", FLOOD);
    matrix(lab, &format!("    run: [python3, {}]", script.display()), more)
}

#[test]
fn expect_the_counter_named_when_connections_meet_a_full_queue() {
    let lab = Lab::new();
    let ran = lab.run(&["run", &flooding(&lab, "")]).expect(0);
    let attempt = lab.attempts().pop().unwrap();
    assert_eq!(attempt["outcome"], "suspect", "{}{}", ran.stdout, ran.stderr);
    let detail = attempt["detail"].as_str().unwrap();
    assert!(detail.contains("netstat.TcpExt.Listen"), "{detail}");
    let shown = lab.run(&["report"]).expect(0);
    assert!(
        shown.stdout.contains("1**") && shown.stdout.contains("netstat.TcpExt.Listen"),
        "{}",
        shown.stdout
    );
}

#[test]
fn expect_what_the_matrix_says_when_it_weighs_a_doubt() {
    let lab = Lab::new();
    lab.run(&["run", &flooding(&lab, "doubt: { listen-queue: ng }\n")]).expect(1).says("NG check-failed");
    let attempt = lab.attempts().pop().unwrap();
    assert!(attempt["detail"].as_str().unwrap().contains("listen-queue: "), "{attempt}");
    lab.run(&["reparse", "last"]).expect(0);
    assert_eq!(lab.attempts().pop().unwrap()["cause"], "check-failed", "no output says that it passed");
    lab.run(&["run", &flooding(&lab, "doubt: { listen-queue: ignore, network: ignore }\n")]).expect(0);
    let attempt = lab.attempts().pop().unwrap();
    assert!(!attempt["detail"].as_str().unwrap().contains("TcpExt.Listen"), "{attempt}");
}

#[test]
fn expect_all_samples_kept_when_the_controller_is_killed() {
    let lab = Lab::new();
    let go = lab.path().join("go");
    let job =
        format!("    shell: 'until test -e {}; do sleep 0.05; done; sleep 0.5; echo rate 1'", go.display());
    let matrix = matrix(&lab, &job, "");
    let mut controller = lab.spawn(&["run", &matrix]);
    let observed = lab.agent_dir().join("observed");
    let is_observed = || fs::read_dir(&observed).is_ok_and(|mut files| files.next().is_some());
    wait_until("the attempt is observed", is_observed);
    let _ = controller.kill();
    assert_eq!(Ran::of(controller.wait_with_output().unwrap()).status, 128 + 9);
    fs::write(go, "").unwrap();
    lab.run(&["resume"]).expect(0);
    let report = lab.report();
    let run = report["run"]["id"].as_str().unwrap();
    let kept = lab.results().join(format!("runs/{run}/c0r1a1/sensors.local.bin"));
    assert!(kept.metadata().is_ok_and(|meta| meta.len() > 0), "{}", kept.display());
    let ran = lab.run(&["show", "last", "c0r1", "--sensors", "task.job.0.processes"]).expect(0);
    let values: Vec<&str> = ran.stdout.lines().skip(1).map(|line| line.rsplit(',').next().unwrap()).collect();
    assert!(values.len() >= 2 && values.iter().any(|value| *value != "0"), "{}", ran.stdout);
    let all = lab.run(&["show", "last", "c0r1a1", "--sensors"]).expect(0);
    let header = "attempt,host,at_unix_us,monotonic_ns,series,unit,kind,value\nc0r1a1,local,";
    assert!(
        all.stdout.starts_with(header) && all.stdout.contains(",cpu.all.user_ticks,1/100 s,counter,"),
        "{}",
        all.stdout
    );
    lab.run(&["show", "last", "c0r1", "--sensors", "no-such-series"]).expect(0);
    fs::remove_file(kept).unwrap();
    lab.run(&["show", "last", "c0r1", "--sensors"]).expect(2).says("no samples are kept");
}

/// A job that opens most of the files that it may.
const GREEDY: &str = "import resource, time
resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))
files = [open(\"/dev/null\") for _ in range(93)]
time.sleep(2.5)
print(\"rate 1\")
";

#[test]
fn expect_the_limit_named_when_a_role_has_most_files_open_that_it_may() {
    let lab = Lab::new();
    let script = lab.write("greedy.py", GREEDY);
    let matrix = matrix(&lab, &format!("    run: [python3, {}]", script.display()), "");
    lab.run(&["run", &matrix]).expect(0);
    let attempt = lab.attempts().pop().unwrap();
    let detail = attempt["detail"].as_str().unwrap();
    assert!(detail.contains("of 100 files open (task.job.0.most_fds)"), "{attempt}");
}

#[test]
fn expect_foreign_load_when_somebody_else_keeps_a_cpu_busy() {
    let lab = Lab::new();
    let mut busy = Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
    let ran = lab.run(&["run", &matrix(&lab, "    shell: sleep 2; echo rate 1", "")]);
    let _ = busy.kill();
    let _ = busy.wait();
    ran.expect(0);
    let attempt = lab.attempts().pop().unwrap();
    assert_eq!(attempt["outcome"], "suspect");
    assert!(attempt["detail"].as_str().unwrap().contains("processes that are not ours used"), "{attempt}");
}

#[test]
fn expect_leftovers_taken_ports_and_short_queues_named_when_doctor_looks() {
    let lab = Lab::new();
    let mut left = Command::new("sleep").arg("1000").env("DROVER_TASK", "agent/task").spawn().unwrap();
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let text = format!(
        "version: 1\nname: m\naxes: {{ n: [1] }}\nroles:\n  server:\n    run: [server, --backlog, '2147483647', '{{{{ n }}}}']\n    \
         ports: {{ port: {port} }}\n    ready: {{ tcp: port }}\n  client: {{ after: server, run: [client] }}\n"
    );
    let matrix = lab.write("m.yaml", &text);
    let ran = lab.run(&["doctor", matrix.to_str().unwrap()]);
    let _ = left.kill();
    let _ = left.wait();
    let ran = ran.expect(4);
    let row = |what: &str| {
        let is_row = |line: &&str| line.get(6..).is_some_and(|rest| rest.starts_with(what));
        ran.stdout.lines().find(is_row).unwrap_or_default().to_owned()
    };
    assert!(row("leftovers").contains(&left.id().to_string()), "{}", ran.stdout);
    assert!(
        row("ports ").contains(&format!("{port} is taken by process {}", std::process::id())),
        "{}",
        ran.stdout
    );
    assert!(row("backlog").contains("role server asks for 2147483647"), "{}", ran.stdout);
    assert!(row("clock source").len() > 20 && row("client ports").contains("TIME_WAIT"), "{}", ran.stdout);
    let names = ran.stdout.lines().filter_map(|line| line.get(6..20)).filter(|name| !name.starts_with(' '));
    let names: Vec<&str> = names.collect();
    assert_eq!(
        names.iter().collect::<BTreeSet<_>>().len(),
        names.len(),
        "each has its own name: {}",
        ran.stdout
    );
}
