//! CPU counts as an axis: what the table says of them, and what the plan says of the boots that they cost.

use std::fs;

use crate::harness::Lab;

/// A job that gives less the more CPUs it has, on a machine that has two.
const SHRINKS: &str = "
version: 1
name: shrinks
axes: { cpus: [1, 2], n: [3, 5] }
roles:
  job:
    run: [echo, 'rate {{ 600 * n / cpus }}']
    measure: { regex: 'rate (?<rate>[0-9.]+)' }
metrics:
  rate: { unit: 1/s, better: higher, primary: true }
repeat: 3
observe: off
timeout: 20s
table: { rows: [cpus], cols: [n] }
";

#[test]
fn expect_every_format_to_say_where_more_cpus_gave_less() {
    let lab = Lab::new();
    let matrix = lab.write("m.yaml", SHRINKS);
    let ran = lab.run(&["run", matrix.to_str().unwrap()]).expect(0);
    let said = "more CPUs gave less, in 2 of 2 series (2 comparisons, each at 95 %):\n  n=3: 2 CPUs gave 50 % less than 1 \
                (900 against 1,800 1/s)\n  n=5: 2 CPUs gave 50 % less than 1 (1,500 against 3,000 1/s)\n";
    assert!(ran.stdout.contains(said), "{}", ran.stdout);
    lab.run(&["report"]).expect(0).says(said);
    let runs = fs::read_dir(lab.results().join("runs")).unwrap();
    let attempts = runs.flat_map(|run| fs::read_dir(run.unwrap().path()).unwrap());
    let attempts: Vec<_> =
        attempts.map(|attempt| attempt.unwrap().path()).filter(|path| path.is_dir()).collect();
    for attempt in &attempts {
        let proof = fs::read_to_string(attempt.join("machine.local.json")).unwrap();
        assert!(proof.contains("\"boot_id\"") && proof.contains("\"cpus\""), "{proof}");
    }
    assert_eq!(attempts.len(), 12);
    lab.run(&["report", "--format", "markdown"])
        .expect(0)
        .says("- n=3: 2 CPUs gave 50 % less than 1 (900 against");
    let losses = lab.report()["scaling"]["worse"].as_array().cloned().unwrap();
    assert_eq!((losses.len(), losses[1]["change"].as_f64()), (2, Some(-0.5)), "{losses:?}");
    // One that grows, and one trial of each, which proves nothing.
    let matrix = lab.write("m.yaml", &SHRINKS.replace("n / cpus", "n * cpus"));
    let matrix = matrix.to_str().unwrap();
    lab.run(&["run", matrix]).expect(0).says("more CPUs gave less nowhere (2 comparisons, each at 95 %)\n");
    lab.run(&["run", matrix, "--repeat", "1", "--set", "n=3"])
        .expect(0)
        .says("more CPUs gave less nowhere, as far as so few trials can tell (1 comparison)\n");
}

#[test]
fn expect_a_boot_planned_for_each_machine_that_cells_ask_for() {
    let lab = Lab::new();
    let matrix = lab.write("m.yaml", &SHRINKS.replace("axes: {", "axes: { kernel: [a, b],"));
    let matrix = matrix.to_str().unwrap();
    lab.write("vms.yaml", "version: 1\nhosts: { vm1: { vm: { kernel: a, boot: 10m } } }\n");
    let plan = lab.run(&["plan", "--hosts", "vms.yaml", matrix]).expect(0).says("\n4 boots\n");
    // 24 trials of 20 s and a grace of 5 s, and four boots of 10 min.
    assert!(plan.stdout.contains("timeouts bound it to 50m 0s\n"), "{}", plan.stdout);
    let shuffled = lab.write(
        "s.yaml",
        &fs::read_to_string(matrix).unwrap().replace("repeat: 3", "repeat: 3\norder: shuffled\nseed: 1"),
    );
    let plan = lab.run(&["plan", "--hosts", "vms.yaml", shuffled.to_str().unwrap()]).expect(0);
    let boots: u32 = plan.stdout.lines().find_map(|line| line.strip_suffix(" boots")?.parse().ok()).unwrap();
    assert!(boots > 10, "{}", plan.stdout);
    // This machine is taken as it is.
    assert!(!lab.run(&["plan", matrix]).expect(0).stdout.contains(" boots"));
    // What trials took is known once some are stored, what boots take is not.
    lab.run(&["run", matrix, "--set", "kernel=running", "--set", "n=3"]).expect(0);
    lab.run(&["plan", "--hosts", "vms.yaml", matrix, "--set", "kernel=running,b"])
        .expect(0)
        .says("a guess from the mean for 18 trials of cells not run before; without the boots, of which none is stored yet)");
}
