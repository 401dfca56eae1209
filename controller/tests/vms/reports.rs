//! Failures that a real kernel reports, each provoked by a module: named by the first report, explained, and the run goes on.

use std::fs;

use crate::harness::{Lab, NEW, OLD, Ran, fault_module, guest_program};

const MATRIX: &str = r#"
version: 1
name: reports
axes: { fate: [NAMES] }
roles:
  job:
    run: [/bin/sh, -c, "PROGRAM load MODULE; {{ FATES[fate] }}; echo rate 7"]
    measure: { regex: 'rate (?<rate>[0-9]+)' }
metrics:
  rate: { unit: 1/s, better: higher, primary: true }
order: declared
timeout: 5m
"#;

/// Place of the job that ends well: what comes after a death must not be taken for its victim.
const FINE: usize = 1;

/// A way to break a kernel, and what must become of the trial.
struct Fate {
    name: &'static str,
    /// What is set before, so that it is noticed soon: file and value.
    set: &'static [(&'static str, &'static str)],
    /// Written to the module's parameter.
    way: &'static str,
    cause: &'static str,
    /// In the evidence.
    words: &'static [&'static str],
}

/// Runs a matrix of these fates, and of a job that ends well after the first.
fn run(kernel: &str, cpus: u32, fates: &[Fate]) -> (Lab, Ran) {
    let (program, module) = (guest_program(), fault_module(kernel));
    let (program, module) = (program.to_str().unwrap(), module.to_str().unwrap());
    let files = format!("[/bin/sh, /bin/sleep, {program}, {module}]");
    let lab = Lab::new(&format!("kernel: {kernel}, cpus: {cpus}, files: {files}"), "");
    let mut names: Vec<&str> = fates.iter().map(|fate| fate.name).collect();
    names.insert(FINE, "fine");
    let script = |fate: &Fate| {
        let set: String = fate.set.iter().map(|(file, value)| format!("echo {value} > {file}; ")).collect();
        let provoke = format!("echo {} > /sys/module/drover_fault/parameters/provoke", fate.way);
        format!("'{}': '{set}{provoke}; /bin/sleep 200'", fate.name)
    };
    let scripts: Vec<String> = fates.iter().map(script).chain(["'fine': 'true'".to_owned()]).collect();
    let matrix = MATRIX
        .replace("NAMES", &names.join(", "))
        .replace("PROGRAM", program)
        .replace("MODULE", module)
        .replace("FATES", &format!("{{{}}}", scripts.join(", ")));
    lab.write("m.yaml", &matrix);
    let ran = lab.run(&["run", "m.yaml"]);
    (lab, ran)
}

fn check(kernel: &str, cpus: u32, fates: &[Fate]) {
    let (lab, ran) = run(kernel, cpus, fates);
    let mut verdicts = lab.verdicts();
    let (_, fine, _) = verdicts.remove(FINE);
    let causes: Vec<(&str, &str)> =
        verdicts.iter().map(|(_, outcome, cause)| (outcome.as_str(), cause.as_str())).collect();
    let expected: Vec<(&str, &str)> = fates.iter().map(|fate| ("ng", fate.cause)).collect();
    assert_eq!(causes, expected, "{verdicts:?}\n{}\n{}", ran.stdout, ran.stderr);
    assert!(["ok", "suspect"].contains(&fine.as_str()), "{fine}\n{}\n{}", ran.stdout, ran.stderr);
    assert_eq!(ran.status, 1, "{}\n{}", ran.stdout, ran.stderr);
    for (index, fate) in fates.iter().enumerate() {
        let place = if index < FINE { index } else { index + 1 };
        let path = lab.find(&format!("c{place}r1a1/evidence.vm1.txt"));
        let evidence = fs::read_to_string(path).unwrap();
        for words in fate.words {
            assert!(evidence.contains(words), "no `{words}` in the evidence of {}:\n{evidence}", fate.name);
        }
    }
}

const OOPS: &[&str] = &["BUG: kernel NULL pointer dereference", "null_dereference+0x", "Call Trace"];

#[test]
fn expect_the_first_report_to_name_it_when_a_panic_follows_an_oops() {
    let fates = [
        Fate { name: "oops", set: &[], way: "null-dereference", cause: "oops", words: OOPS },
        Fate {
            name: "panic",
            set: &[("/proc/sys/kernel/panic_on_oops", "1")],
            way: "null-dereference",
            cause: "oops",
            words: &["BUG: kernel NULL pointer dereference", "Kernel panic - not syncing: Fatal exception"],
        },
    ];
    check(OLD, 1, &fates);
}

#[test]
fn expect_lockups_and_hangs_told_apart_when_a_cpu_a_reader_or_a_task_does_not_go_on() {
    let fates = [
        Fate {
            name: "lockup",
            set: &[("/proc/sys/kernel/watchdog_thresh", "1")],
            way: "soft-lockup",
            cause: "lockup",
            words: &["watchdog: BUG: soft lockup - CPU#", "soft_lockup+0x"],
        },
        Fate {
            name: "stall",
            set: &[("/sys/module/rcupdate/parameters/rcu_cpu_stall_timeout", "3")],
            way: "rcu-stall",
            cause: "lockup",
            words: &["rcu: INFO: rcu_", "rcu_stall+0x"],
        },
        Fate {
            name: "deaf",
            set: &[("/sys/module/rcupdate/parameters/rcu_cpu_stall_timeout", "3")],
            way: "silence",
            cause: "lockup",
            words: &["rcu: INFO: rcu_", "NMI backtrace for cpu", "silence+0x"],
        },
        Fate {
            name: "hung",
            set: &[("/proc/sys/kernel/hung_task_timeout_secs", "1")],
            way: "hung-task",
            cause: "hang",
            words: &["blocked for more than", "hung_task+0x"],
        },
    ];
    check(NEW, 2, &fates);
}

#[test]
fn expect_a_hang_with_the_place_where_it_stands_when_the_only_cpu_takes_no_interrupts() {
    let fate = Fate {
        name: "silence",
        set: &[],
        way: "silence",
        cause: "hang",
        words: &["NMI: Not continuing", "silence+0x", "CPUs, by QEMU", "RIP="],
    };
    check(OLD, 1, &[fate]);
}
