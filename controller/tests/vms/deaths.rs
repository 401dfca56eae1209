//! Kernels and machines that die under a trial: named, explained, and the run goes on.

use std::{fs, process::Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::harness::{Lab, NEW, wait_until};

const MATRIX: &str = r#"
version: 1
name: deaths
axes: { fate: [panic, cut, stop, fine] }
roles:
  job:
    run: [/bin/sh, -c, "echo fate-{{ fate }}-begins > /dev/ttyS0; {{ FATES[fate] }}; echo rate 7"]
    measure: { regex: 'rate (?<rate>[0-9]+)' }
metrics:
  rate: { unit: 1/s, better: higher, primary: true }
order: declared
timeout: 5m
"#;

fn matrix() -> String {
    let fates = [
        ("panic", "echo c > /proc/sysrq-trigger; /bin/sleep 200"),
        ("cut", "/bin/sleep 200"),
        ("stop", "/bin/sleep 200"),
        ("fine", "true"),
    ];
    let fates: Vec<String> = fates.iter().map(|(fate, words)| format!("'{fate}': '{words}'")).collect();
    MATRIX.replace("FATES", &format!("{{{}}}", fates.join(", ")))
}

#[test]
fn expect_each_death_named_and_the_run_to_go_on_when_machines_die() {
    let lab = Lab::new(&format!("kernel: {NEW}, files: [/bin/sh, /bin/sleep]"), "");
    lab.write("m.yaml", &matrix());
    let mut run = lab.drover(&["run", "m.yaml"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    for (fate, signal) in [("cut", Signal::KILL), ("stop", Signal::STOP)] {
        let mark = format!("fate-{fate}-begins");
        wait_until("the trial begins", || {
            assert!(run.try_wait().unwrap().is_none(), "the run ended: {:?}", lab.verdicts());
            lab.consoles().iter().any(|(_, said)| said.contains(&mark))
        });
        let qemu = lab.qemu().expect("a machine that runs");
        kill_process(Pid::from_raw(qemu).unwrap(), signal).unwrap();
    }
    let status = run.wait().unwrap();
    let verdicts = lab.verdicts();
    let causes: Vec<(&str, &str)> =
        verdicts.iter().map(|(_, outcome, cause)| (outcome.as_str(), cause.as_str())).collect();
    let expected = [("ng", "panic"), ("ng", "unexpected-reboot"), ("ng", "hang")];
    assert_eq!(causes[..3], expected, "{verdicts:?}");
    assert!(["ok", "suspect"].contains(&causes[3].0), "{verdicts:?}");
    assert_eq!(status.code(), Some(1));
    let evidence = fs::read_to_string(lab.find("c0r1a1/evidence.vm1.txt")).unwrap();
    assert!(evidence.contains("Kernel panic - not syncing: sysrq triggered crash"), "{evidence}");
    let details = lab.report()["attempts"].to_string();
    assert!(details.contains("QEMU ended with signal 9"), "{details}");
}
