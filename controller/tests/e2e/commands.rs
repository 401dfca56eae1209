//! Every command on a small run that works.

use std::fs;

use crate::harness::Lab;

/// Two cells, two trials each, of a job that prints a number.
const SMALL: &str = r#"
version: 1
name: small
about: A job that prints a number.
axes:
  size: [10, 20]
  mode: [plain]
roles:
  job:
    run: [sh, -c, "echo value={{ size * 2 }}; echo run of {{ size }} >&2"]
    measure: lines
metrics:
  value: { unit: things, better: higher, primary: true, must: "> 0" }
  cpu: { unit: s, better: lower, from: job.cpu_s }
repeat: 2
seed: 7
observe: off
timeout: 10s
"#;

fn after_a_run() -> Lab {
    let lab = Lab::new();
    let matrix = lab.write("small.yaml", SMALL);
    lab.run(&["run", matrix.to_str().unwrap()]).expect(0).says("4/4").says("small");
    lab
}

#[test]
fn expect_a_table_and_raw_outputs_after_a_run() {
    let lab = after_a_run();
    let ran = lab.run(&["report"]).expect(0);
    assert!(ran.stdout.contains("20") && ran.stdout.contains("40"), "{}", ran.stdout);
    let mut outputs = 0;
    for run in fs::read_dir(lab.results().join("runs")).unwrap() {
        for attempt in fs::read_dir(run.unwrap().path()).unwrap() {
            let path = attempt.unwrap().path();
            if path.is_dir() {
                let out = fs::read_to_string(path.join("job.0.stdout")).unwrap();
                assert!(out.starts_with("value="), "{out}");
                outputs += 1;
            } else {
                assert!(path.ends_with("drover.log"), "{}", path.display());
            }
        }
    }
    assert_eq!(outputs, 4);
    assert!(lab.agent_pid().is_none(), "the agent outlived an orderly run");
}

#[test]
fn expect_every_export_to_have_the_numbers() {
    let lab = after_a_run();
    let csv = lab.run(&["report", "--format", "csv"]).expect(0).stdout;
    assert_eq!(csv.lines().count(), 5, "{csv}");
    let cells = lab.run(&["report", "--format", "cells-csv"]).expect(0).stdout;
    assert_eq!(cells.lines().count(), 3, "{cells}");
    lab.run(&["report", "--format", "junit"]).expect(0).says("<testcase");
    lab.run(&["report", "--format", "markdown"]).expect(0).says("|");
    let values: Vec<f64> =
        lab.attempts().iter().filter_map(|attempt| attempt["metrics"]["value"].as_f64()).collect();
    assert_eq!(values.iter().sum::<f64>(), 120.0, "{values:?}");
    let file = lab.path().join("out.md");
    lab.run(&["report", "--format", "markdown", "-o", file.to_str().unwrap()]).expect(0);
    assert!(fs::read_to_string(file).unwrap().contains("small"));
    lab.run(&["report", "--rows", "sise"]).expect(2).says("size");
    lab.run(&["report", "--metric", "cpu"]).expect(0).says("cpu");
}

#[test]
fn expect_the_run_in_list_and_show() {
    let lab = after_a_run();
    lab.run(&["list"]).expect(0).says("small").says("4/4").says("finished");
    lab.run(&["show"]).expect(0).says("size=10").says("seed 7").says("boot_id");
    lab.run(&["show", "last", "c0r1"]).expect(0).says("value = 20").says("run of 10").says("command");
    lab.run(&["show", "last", "c9r1"]).expect(2).says("c9r1");
    lab.run(&["show", "ffffffff"]).expect(2).says("ffffffff");
}

#[test]
fn expect_new_numbers_from_old_outputs_when_a_metric_was_changed() {
    let lab = after_a_run();
    let text = SMALL.replace("must: \"> 0\"", "must: \"> 30\"");
    let changed = lab.write("changed.yaml", &text);
    lab.run(&["reparse", "last", "--matrix", changed.to_str().unwrap()]).expect(0).says("2 changed");
    let verdicts = lab.verdicts();
    assert_eq!(verdicts.iter().filter(|(_, cause)| cause == "check-failed").count(), 2, "{verdicts:?}");
    lab.run(&["report"]).expect(1).says("NG check-failed").says("must be > 30");
    lab.run(&["reparse"]).expect(0).says("2 changed");
    lab.run(&["report"]).expect(0);
}

#[test]
fn expect_nothing_to_happen_on_check_plan_and_dry_run() {
    let lab = Lab::new();
    let matrix = lab.write("small.yaml", SMALL);
    let matrix = matrix.to_str().unwrap();
    lab.run(&["check", matrix]).expect(0).says("2 cells");
    lab.run(&["plan", matrix]).expect(0).says("4 trials").says("seed 7").says("unknown");
    lab.run(&["run", "--dry-run", matrix]).expect(0).says("size=10 mode=plain #1");
    assert!(!lab.results().exists() && !lab.agent_dir().exists());
}

#[test]
fn expect_mistakes_of_host_files_when_they_are_checked_beside_a_matrix() {
    let lab = Lab::new();
    let matrix = lab.write("small.yaml", SMALL);
    let good = lab.write("good.yaml", "version: 1\nhosts:\n  a: { ssh: 10.0.0.1 }\n  b: { ssh: 10.0.0.2 }\n");
    let bad = lab.write("bad.yaml", "version: 1\nhosts:\n  a: { shh: 10.0.0.1 }\n");
    let [matrix, good, bad] = [&matrix, &good, &bad].map(|path| path.to_str().unwrap());
    lab.run(&["check", good, matrix])
        .expect(0)
        .says("good.yaml: ok: 2 hosts")
        .says("small.yaml: ok: 2 cells");
    lab.run(&["check", bad, matrix])
        .expect(2)
        .says("bad.yaml:3:8")
        .says("did you mean `ssh`")
        .says("2 cells");
}

#[test]
fn expect_what_hosts_can_be_made_and_kernels_that_none_can_boot_when_a_plan_is_asked_for() {
    let lab = Lab::new();
    let matrix = lab.write("m.yaml", &SMALL.replace("mode: [plain]", "kernel: [running, '6.1', '6.2']"));
    let hosts = "
version: 1
hosts:
  big:
    ssh: big
    boot: { by: grub, kernels: { '6.1': { entry: 'Linux 6.1', release: 6.1.0 } } }
    cpus: { by: hotplug }
";
    let hosts = lab.write("hosts.yaml", hosts);
    let (matrix, hosts) = (matrix.to_str().unwrap(), hosts.to_str().unwrap());
    let can = "big boots 6.1 by grub; CPUs by hotplug";
    lab.run(&["check", hosts]).expect(0).says(can);
    let plan = lab.run(&["plan", "--hosts", hosts, matrix]).expect(0).stdout;
    assert!(plan.contains(can), "{plan}");
    assert!(plan.contains("kernel 6.2: the host file does not say how to boot it"), "{plan}");
    assert!(!plan.contains("kernel 6.1:") && !plan.contains("kernel running:"), "{plan}");
}

#[test]
fn expect_only_the_cells_asked_for() {
    let lab = Lab::new();
    let matrix = lab.write("small.yaml", SMALL);
    let matrix = matrix.to_str().unwrap();
    lab.run(&["run", matrix, "--set", "size=1,2,3", "--only", "size != 2", "--repeat", "1"])
        .expect(0)
        .says("2/2");
    let metrics: Vec<f64> =
        lab.attempts().iter().filter_map(|attempt| attempt["metrics"]["value"].as_f64()).collect();
    assert_eq!(metrics.iter().sum::<f64>(), 8.0, "{metrics:?}");
}

#[test]
fn expect_no_colour_and_little_text_when_not_wanted() {
    let lab = Lab::new();
    let matrix = lab.write("small.yaml", &SMALL.replace("> 0", "> 30"));
    let ran = lab.run(&["--quiet", "run", "--no-report", matrix.to_str().unwrap()]).expect(1);
    assert_eq!(ran.stdout, "");
    assert_eq!(ran.stderr.lines().count(), 0, "{}", ran.stderr);
    let plain = lab.run(&["report", "--color", "never"]).expect(1);
    assert!(!plain.stdout.contains('\u{1b}'));
    let forced = lab.run(&["report", "--color", "always"]).expect(1);
    assert!(forced.stdout.contains('\u{1b}'), "{}", forced.stdout);
}

#[test]
fn expect_the_committed_schema_and_a_completion_script() {
    let lab = Lab::new();
    let matrices = concat!(env!("CARGO_MANIFEST_DIR"), "/../matrices");
    for (command, file) in [(&["schema"][..], "schema.json"), (&["schema", "--hosts"], "hosts.schema.json")] {
        let schema = lab.run(command).expect(0).stdout;
        let committed = fs::read_to_string(format!("{matrices}/{file}")).unwrap();
        assert_eq!(schema, committed, "write it anew: drover {} > matrices/{file}", command.join(" "));
    }
    for shell in ["bash", "zsh", "fish"] {
        lab.run(&["completions", shell]).expect(0).says("drover");
    }
    lab.run(&["doctor"]).says("ports").says("results");
}
