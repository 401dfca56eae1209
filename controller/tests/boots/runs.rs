//! Whole runs over a host that boots: kernels and CPUs as axes, kernels that do not come up, and a host that is what it was at the
//! end, whatever becomes of the controller.

use std::{
    fs,
    path::PathBuf,
    process::{Child, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};

use crate::{
    host::{Host, wait_for},
    tree::{GOLDEN, NAME, OTHER, kernel},
};

/// A trial that fails unless the machine is what its cell asks for. Kernels are called by their releases.
fn matrix(axes: &str, check: &str) -> String {
    format!(
        r#"
version: 1
name: machines
axes: {axes}
order: declared
roles:
  job:
    run: [/bin/sh, -c, "{check} && echo rate 7"]
    measure: {{ regex: 'rate (?<rate>[0-9]+)' }}
metrics:
  rate: {{ unit: 1/s, better: higher, primary: true }}
timeout: 3m
"#
    )
}

const IS_KERNEL: &str = "test $(uname -r) = {{ kernel }}";
const HAS_CPUS: &str = "test $(grep -c ^processor /proc/cpuinfo) = {{ cpus }}";

fn by_grub(more: &str) -> String {
    let entry =
        |name: &str| format!("Advanced options for Debian GNU/Linux>Debian GNU/Linux, with Linux {name}");
    format!(
        "boot:\n  by: grub\n  within: 4m\n{more}  kernels:\n    {}: {}\n    {}: {}\n",
        kernel(GOLDEN).release,
        entry(GOLDEN),
        kernel(OTHER).release,
        entry(OTHER)
    )
}

/// The outcome of each trial, with its cause unless it has a number.
fn outcomes(host: &Host) -> Vec<String> {
    let shown = |(trial, outcome, cause): (String, String, String)| match outcome.as_str() {
        "ok" | "suspect" => format!("{trial} number"),
        _ => format!("{trial} {outcome} {cause}"),
    };
    host.verdicts().into_iter().map(shown).collect()
}

fn run_folder(host: &Host) -> PathBuf {
    let runs = fs::read_dir(host.path().join("drover-results/runs")).expect("runs");
    runs.flatten().map(|entry| entry.path()).max().expect("a run")
}

/// What a host said of itself after a trial.
fn machine(host: &Host, trial: &str) -> serde_json::Value {
    let file = run_folder(host).join(format!("{trial}a1/machine.{NAME}.json"));
    serde_json::from_slice(&fs::read(file).expect("the proof beside the outputs")).expect("JSON")
}

/// The host runs its own kernel on all its CPUs, and nobody holds it.
async fn is_golden(host: &Host) {
    let hello = host.agent().await.hello;
    assert_eq!(hello.facts.kernel_release, kernel(GOLDEN).release);
    assert_eq!(hello.facts.cpus.len(), 2);
    assert!(!hello.facts.cmdline.contains("drover.nonce"), "{}", hello.facts.cmdline);
    assert!(hello.lease.is_none(), "{:?}", hello.lease);
}

#[tokio::test]
async fn expect_every_cell_on_its_kernel_and_its_cpus_and_the_golden_kernel_after_the_run() {
    let host = Host::with_grub(2, |_| {});
    host.agent().await;
    let (golden, other) = (kernel(GOLDEN).release, kernel(OTHER).release);
    host.write("hosts.yaml", &host.hosts_file(&format!("{}cpus: {{ by: hotplug }}\n", by_grub(""))));
    let axes = format!("{{ kernel: [{golden}, {other}], cpus: [1, 2] }}");
    host.write("m.yaml", &matrix(&axes, &format!("{IS_KERNEL} && {HAS_CPUS}")));
    let doctor = host.run(&["doctor", "--hosts", "hosts.yaml"]).stdout;
    assert!(doctor.contains(&format!("2 by grub; {golden} runs")), "{doctor}");
    assert!(doctor.contains("2 online, others by hotplug"), "{doctor}");
    let ran = host.run(&["run", "m.yaml"]);
    assert_eq!(ran.status, 0, "{}\n{}", ran.stdout, ran.stderr);
    assert_eq!(outcomes(&host), ["c0r1 number", "c1r1 number", "c2r1 number", "c3r1 number"]);
    let said = |text: &str| assert!(ran.stderr.contains(text), "{text}: {}", ran.stderr);
    said(&format!("host {NAME} boots kernel {other}"));
    said(&format!("host {NAME} is rebooted to what it ran before: {golden}"));
    said(&format!("host {NAME} runs {golden} again"));
    assert_eq!(ran.stderr.matches("boots kernel").count(), 1, "no more than needed: {}", ran.stderr);
    let proof = machine(&host, "c2r1");
    assert_eq!(proof["found"]["release"], other.as_str());
    assert!(proof["found"]["nonce"].is_string() && proof["found"]["cpus"].as_array().is_some(), "{proof}");
    is_golden(&host).await;
}

#[tokio::test]
async fn expect_cpus_by_words_on_the_command_line_when_kernels_are_started_by_kexec() {
    let host = Host::with_grub(2, |_| {});
    host.agent().await;
    let other = kernel(OTHER).release;
    let kernels = format!("{other}: {{ image: /boot/vmlinuz-{OTHER}, initrd: /boot/initrd.img-{OTHER} }}");
    let boot = format!("boot:\n  by: kexec\n  within: 4m\n  kernels:\n    {kernels}\n");
    host.write("hosts.yaml", &host.hosts_file(&format!("{boot}cpus: {{ by: boot, word: maxcpus }}\n")));
    let axes = format!("{{ kernel: [{other}], cpus: [1, 2] }}");
    host.write("m.yaml", &matrix(&axes, &format!("{IS_KERNEL} && {HAS_CPUS}")));
    let ran = host.run(&["run", "m.yaml"]);
    assert_eq!(ran.status, 0, "{}\n{}", ran.stdout, ran.stderr);
    assert_eq!(outcomes(&host), ["c0r1 number", "c1r1 number"]);
    assert!(ran.stderr.contains(&format!("boots kernel {other} with 1 CPU")), "{}", ran.stderr);
    let cmdline = machine(&host, "c0r1")["found"]["cmdline"].as_str().unwrap_or_default().to_owned();
    assert!(cmdline.contains("maxcpus=1"), "{cmdline}");
    is_golden(&host).await;
}

#[tokio::test]
async fn expect_no_number_and_the_next_trial_when_kernels_do_not_come_up_as_they_should() {
    let host = Host::with_grub(2, |_| {});
    host.agent().await;
    // One that is another kernel than its label says, one that panics, one that neither lives nor dies.
    let image = format!("image: /boot/vmlinuz-{OTHER}, initrd: /boot/initrd.img-{OTHER}");
    let bad = |panic: &str| format!("cmdline: rdinit=/nothing root=/dev/nothing console=ttyS0 panic={panic}");
    let kernels = [
        format!("liar: {{ {image}, release: 9.9.9 }}"),
        format!("panics: {{ {image}, {}, release: a }}", bad("1")),
        format!("hangs: {{ {image}, {}, release: b }}", bad("0")),
        format!("late: {{ {image}, release: {} }}", kernel(OTHER).release),
    ];
    let kernels = kernels.map(|kernel| format!("    {kernel}\n")).concat();
    let boot = format!("boot:\n  by: kexec\n  within: 100s\n  times: 3\n  kernels:\n{kernels}");
    let cut = host.path().join("cut");
    let power = format!("power: {{ cycle: [touch, {}], within: 4m }}\n", cut.display());
    host.write("hosts.yaml", &host.hosts_file(&format!("{boot}{power}")));
    host.write("m.yaml", &matrix("{ kernel: [liar, panics, hangs, late, running] }", "true"));
    let ran = std::thread::scope(|scope| {
        let run = scope.spawn(|| host.run(&["run", "m.yaml"]));
        wait_for("the power is cycled, or the run is over", || {
            (cut.exists() || run.is_finished()).then_some(())
        });
        if cut.exists() {
            host.cut_power();
        }
        run.join().expect("the program ran")
    });
    let wrong = "missing wrong-kernel";
    let expected = [
        format!("c0r1 {wrong}"),
        format!("c1r1 {wrong}"),
        format!("c2r1 {wrong}"),
        "c3r1 missing budget-spent".to_owned(),
        "c4r1 number".to_owned(),
    ];
    assert_eq!(outcomes(&host), expected, "{}\n{}", ran.stdout, ran.stderr);
    let said = |text: &str| assert!(ran.stderr.contains(text), "{text}: {}", ran.stderr);
    said("(release 9.9.9), and runs");
    said("was not back within 100 s; its power is cycled");
    is_golden(&host).await;
}

/// The program in the background, with its words in a file.
fn start(host: &Host, arguments: &[&str]) -> Child {
    let log = fs::File::create(host.path().join("said")).expect("a writable folder");
    let mut command = host.drover(arguments);
    command.stdout(Stdio::null()).stderr(log).spawn().expect("the program starts")
}

#[tokio::test]
async fn expect_the_run_to_go_on_and_the_golden_kernel_after_it_when_the_controller_dies_while_the_host_boots()
 {
    let host = Host::with_grub(2, |_| {});
    host.agent().await;
    let other = kernel(OTHER).release;
    host.write("hosts.yaml", &host.hosts_file(&by_grub("")));
    host.write("m.yaml", &matrix(&format!("{{ kernel: [{other}] }}"), IS_KERNEL));
    let mut controller = start(&host, &["run", "m.yaml"]);
    wait_for("the host goes down", || host.console().contains("a controller asked for it").then_some(()));
    controller.kill().expect("our child");
    controller.wait().expect("our child");
    let ran = host.run(&["resume", "last"]);
    assert_eq!(ran.status, 0, "{}\n{}", ran.stdout, ran.stderr);
    assert_eq!(outcomes(&host), ["c0r1 number"], "{}", ran.stderr);
    let asked = fs::read_to_string(run_folder(&host).join("boots.jsonl")).expect("what was done");
    assert_eq!(asked.matches(r#""step":"boots""#).count(), 2, "there and back: {asked}");
    is_golden(&host).await;
}

#[tokio::test]
async fn expect_the_golden_kernel_when_the_run_is_interrupted_on_another_one() {
    let host = Host::with_grub(2, |_| {});
    host.agent().await;
    let (golden, other) = (kernel(GOLDEN).release, kernel(OTHER).release);
    host.write("hosts.yaml", &host.hosts_file(&by_grub("")));
    host.write("m.yaml", &matrix(&format!("{{ kernel: [{other}] }}"), "sleep 150"));
    let mut controller = start(&host, &["run", "m.yaml"]);
    let said = || fs::read_to_string(host.path().join("said")).unwrap_or_default();
    let is_up = || fs::read_to_string(run_folder(&host).join("boots.jsonl")).unwrap_or_default();
    wait_for("the host boots", || said().contains("boots kernel").then_some(()));
    wait_for("it is up again", || is_up().contains(r#""step":"up""#).then_some(()));
    kill_process(Pid::from_child(&controller), Signal::INT).expect("our child");
    let status = controller.wait().expect("our child");
    assert_eq!(status.code(), Some(130), "{}", said());
    assert!(said().contains(&format!("host {NAME} runs {golden} again")), "{}", said());
    is_golden(&host).await;
}
