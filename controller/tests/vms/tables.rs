//! Several tables on one machine: booted as often as planned, and every kernel named above them.

use crate::harness::{Lab, NEW, OLD, kernel};

const MATRIX: &str = r#"
version: 1
name: tables
axes: { kernel: [KERNELS], n: [1, 2] }
roles:
  job:
    run: [/bin/sh, -c, "echo rate {{ n }}"]
    measure: { regex: 'rate (?<rate>[0-9]+)' }
metrics:
  rate: { unit: 1/s, better: higher, primary: true }
timeout: 3m
table: { rows: [kernel], facet: [n] }
"#;

#[test]
fn expect_as_many_boots_as_planned_and_all_kernels_in_the_heading_when_there_are_several_tables() {
    let lab = Lab::new(&format!("kernel: {OLD}, files: [/bin/sh]"), "");
    lab.write("m.yaml", &MATRIX.replace("KERNELS", &format!("{OLD}, {NEW}")));
    let plan = lab.run(&["plan", "m.yaml"]);
    assert!(plan.stdout.contains("\n2 boots\n"), "{}", plan.stdout);
    let ran = lab.run(&["run", "m.yaml"]);
    assert_eq!(ran.status, 0, "{}\n{}", ran.stdout, ran.stderr);
    let report = lab.report();
    let states = report["hosts"][0]["states"].as_array().cloned().unwrap();
    let releases: Vec<&str> = states.iter().filter_map(|state| state["kernel_release"].as_str()).collect();
    let (old, new) = (kernel(OLD).release, kernel(NEW).release);
    assert_eq!(releases, [old.as_str(), new.as_str()], "{states:?}");
    assert_eq!(states[1]["boot_id"], report["hosts"][0]["boot_id"]);
    let named = format!("\nvm1 ran Linux {old} ({OLD}), {new} ({NEW})\n");
    assert!(
        ran.stdout.contains(&named) && ran.stdout.contains("host vm1: x86_64, 1 CPU ("),
        "{}",
        ran.stdout
    );
    // What the boot took is known now, and is part of the estimate.
    let plan = lab.run(&["plan", "m.yaml"]);
    assert!(plan.stdout.contains("from earlier trials (each boot took "), "{}", plan.stdout);
}
