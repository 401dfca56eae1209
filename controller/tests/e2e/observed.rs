//! What is seen of the machine while a trial lasts: doubts with their counters, samples that are kept.

use std::fs;

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
