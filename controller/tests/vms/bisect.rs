//! The first bad kernel, found by booting, whatever happens to the controller meanwhile.

use std::{fs, process::Stdio};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use crate::harness::{Lab, NEW, OLD, wait_until};

/// Fails on every kernel but 6.1.
const MATRIX: &str = r#"
version: 1
name: culprit
axes: { kernel: [OLD, NEW, newer] }
roles:
  job:
    shell: |
      read -r linux version release rest < /proc/version
      case $release in 6.1.*) echo rate 200 ;; *) echo rate 10 ;; esac
    measure: { regex: 'rate (?<rate>[0-9]+)' }
metrics:
  rate: { unit: 1/s, better: higher, primary: true, must: '> 100' }
timeout: 3m
"#;

#[test]
fn expect_the_first_bad_kernel_when_the_search_is_killed_on_its_way() {
    let newer = format!("kernels: {{ newer: {{ catalogue: {NEW}, cmdline: quiet }} }}\n");
    let lab = Lab::new(&format!("kernel: {OLD}, files: [/bin/sh]"), &newer);
    lab.write("m.yaml", &MATRIX.replace("OLD", OLD).replace("NEW", NEW));
    let journal = || {
        let journals =
            fs::read_dir(lab.path().join("drover-results/bisects")).into_iter().flatten().flatten();
        journals.map(|entry| fs::read_to_string(entry.path()).unwrap_or_default()).collect::<String>()
    };
    let begun = || journal().matches(r#"{"begun""#).count();
    let mut search = lab.drover(&["bisect", "m.yaml", "--axis", "kernel", "--ends", "2"]);
    let mut search = search.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    // In the middle of the second try.
    wait_until("a second machine runs", || {
        assert!(search.try_wait().unwrap().is_none(), "the search ended: {}", journal());
        begun() == 2 && lab.qemu().is_some()
    });
    let qemu = Pid::from_raw(lab.qemu().expect("a machine")).unwrap();
    kill_process(Pid::from_child(&search), Signal::KILL).unwrap();
    search.wait().unwrap();
    wait_until("the machine is gone with its controller", || test_kill_process(qemu).is_err());
    let ran = lab.run(&["bisect", "--resume"]);
    assert_eq!(ran.status, 0, "{}\n{}", ran.stdout, ran.stderr);
    let found = format!("first bad: kernel={NEW}\nlast good: kernel={OLD}\nconfidence: ");
    assert!(ran.stdout.contains(&found), "{}", ran.stdout);
    // Two of each end, a third one of the good one, and one between: none twice, and a run for each.
    assert_eq!(begun(), 6, "{}", journal());
    let listed = lab.run(&["list"]).stdout;
    assert_eq!(listed.lines().filter(|line| line.contains("culprit")).count(), 6, "{listed}");
    assert!(ran.stdout.contains("tries: 6; 3 failed, after "), "{}", ran.stdout);
}
