//! Kernels and machines that die under a trial: named, explained, and the run goes on.

use std::{
    fs::{self, File},
    io::{BufRead, BufReader, Write},
    os::{fd::AsRawFd, unix::net::UnixStream},
    path::{Path, PathBuf},
    process::{Child, Stdio},
};

use drover_vm::{InitramfsSpec, build};
use rustix::process::{Pid, Signal, kill_process};

use crate::harness::{Lab, NEW, guest_program, kernel, wait_until};

const MATRIX: &str = r#"
version: 1
name: deaths
axes: { fate: [NAMES] }
roles:
  job:
    run: [/bin/sh, -c, "echo fate-{{ fate }}-begins > /dev/ttyS0; {{ FATES[fate] }}; echo rate 7"]
    measure: { regex: 'rate (?<rate>[0-9]+)' }
metrics:
  rate: { unit: 1/s, better: higher, primary: true }
order: declared
timeout: 5m
"#;

/// Boots a kernel from within another.
const KEXEC: &str = "/usr/sbin/kexec";

/// What a trial does whose machine dies by our hand.
const WAIT: &str = "/bin/sleep 200";

/// The keys of the machine.
fn vm() -> String {
    format!("kernel: {NEW}, files: [/bin/sh, /bin/sleep, {}]", guest_program().display())
}

/// Begins a run of these fates: their names, and what their trials do. The last one ends well.
fn run(lab: &Lab, fates: &[(&str, &str)]) -> Child {
    let all = fates.iter().copied().chain([("fine", "true")]);
    let names: Vec<&str> = all.clone().map(|(fate, _)| fate).collect();
    let words: Vec<String> = all.map(|(fate, words)| format!("'{fate}': '{words}'")).collect();
    let matrix = MATRIX
        .replace("NAMES", &names.join(", "))
        .replace("FATES", &format!("{{{}}}", words.join(", ")))
        .replace("PROGRAM", guest_program().to_str().unwrap());
    lab.write("m.yaml", &matrix);
    lab.drover(&["run", "m.yaml"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// Waits until the run has ended, with these causes and a number at the end.
fn expect_causes(lab: &Lab, run: &mut Child, expected: &[&str]) {
    let status = run.wait().unwrap();
    let verdicts = lab.verdicts();
    let causes: Vec<(&str, &str)> =
        verdicts.iter().map(|(_, outcome, cause)| (outcome.as_str(), cause.as_str())).collect();
    let (fine, others) = causes.split_last().unwrap();
    let expected: Vec<(&str, &str)> = expected.iter().map(|cause| ("ng", *cause)).collect();
    assert_eq!(others, expected, "{verdicts:?}");
    assert!(["ok", "suspect"].contains(&fine.0), "{verdicts:?}");
    assert_eq!(status.code(), Some(1));
}

/// A first root file system like those of Drover's machines, for a kernel that a guest boots by itself.
fn write_initramfs(lab: &Lab) -> PathBuf {
    let (agent, own) = match std::env::var_os("DROVER_AGENT") {
        Some(path) => (PathBuf::from(path), None),
        None => (PathBuf::from(env!("CARGO_BIN_EXE_drover")), Some("agent")),
    };
    let dir = "/run/drover";
    let args = own.into_iter().chain(["serve", "--dir", dir, "--linger", "3650d"]).map(str::to_owned);
    let made = build(&InitramfsSpec {
        init: PathBuf::from(env!("CARGO_BIN_EXE_drover")),
        program: agent,
        args: args.collect(),
        socket: Path::new(dir).join("agent.sock"),
        modules: kernel(NEW).modules,
        more_modules: Vec::new(),
        files: Vec::new(),
    });
    let path = lab.path().join("initramfs");
    fs::write(&path, made.unwrap()).unwrap();
    path
}

/// Waits until the trial of a fate has begun; the process of QEMU, and the folder of the machine.
fn begun(lab: &Lab, run: &mut Child, fate: &str) -> (Pid, PathBuf) {
    let mark = format!("fate-{fate}-begins");
    let mut folder = None;
    wait_until("the trial begins", || {
        assert!(run.try_wait().unwrap().is_none(), "the run ended: {:?}", lab.verdicts());
        let consoles = lab.consoles().into_iter();
        folder = consoles.filter(|(_, said)| said.contains(&mark)).map(|(folder, _)| folder).next();
        folder.is_some()
    });
    let qemu = lab.qemu().and_then(Pid::from_raw);
    (qemu.expect("a machine that runs"), folder.unwrap())
}

/// Says a command to QEMU's second control, as its owner may.
fn tell_monitor(folder: &Path, command: &str) {
    let folder = File::open(folder).unwrap();
    // The folder's own path may be too long for a socket.
    let path = format!("/proc/self/fd/{}/monitor.sock", folder.as_raw_fd());
    let socket = UnixStream::connect(path).unwrap();
    let mut lines = BufReader::new(&socket).lines();
    let greeting = lines.next().unwrap().unwrap();
    assert!(greeting.contains("QMP"), "{greeting}");
    for command in ["qmp_capabilities", command] {
        writeln!(&socket, "{}", serde_json::json!({ "execute": command })).unwrap();
        // Events come in between.
        let mut answers = lines.by_ref().map(Result::unwrap).filter(|line| !line.contains("\"event\""));
        let answer = answers.next().unwrap();
        assert!(answer.contains("\"return\""), "{answer}");
    }
}

#[test]
fn expect_each_end_named_and_the_run_to_go_on_when_machines_panic_reboot_or_lose_their_power() {
    let fates = [
        ("panic", "echo c > /proc/sysrq-trigger; /bin/sleep 200"),
        ("reset", "echo b > /proc/sysrq-trigger; /bin/sleep 200"),
        ("reboot", "PROGRAM reboot"),
        ("cut", WAIT),
    ];
    let lab = Lab::new(&vm(), "");
    let mut run = run(&lab, &fates);
    kill_process(begun(&lab, &mut run, "cut").0, Signal::KILL).unwrap();
    expect_causes(&lab, &mut run, &["panic", "unexpected-reboot", "unexpected-reboot", "unexpected-reboot"]);
    let evidence = fs::read_to_string(lab.find("c0r1a1/evidence.vm1.txt")).unwrap();
    assert!(evidence.contains("Kernel panic - not syncing: sysrq triggered crash"), "{evidence}");
    let details = lab.report()["attempts"].to_string();
    assert!(details.contains("QEMU ended with signal 9"), "{details}");
    assert_eq!(details.matches("rebooted or powered off by itself (guest-reset)").count(), 2, "{details}");
}

#[test]
fn expect_the_boot_id_to_tell_when_a_guest_boots_anew_by_itself_and_nobody_else_says_so() {
    // The other kernel and its first root file system are in memory twice before it boots.
    let lab = Lab::new(&format!("{}, cmdline: quiet, memory: 2GiB", vm()), "");
    let (initramfs, image) = (write_initramfs(&lab), kernel(NEW).image);
    let files = format!("/bin/sleep, {KEXEC}, {}, {}", initramfs.display(), image.display());
    let hosts = fs::read_to_string(lab.path().join("hosts.yaml")).unwrap();
    lab.write("hosts.yaml", &hosts.replacen("/bin/sleep", &files, 1));
    let load = format!("{KEXEC} -s -l {} --initrd={} --reuse-cmdline", image.display(), initramfs.display());
    let mut run = run(&lab, &[("kexec", &format!("{load} && {KEXEC} -e; {WAIT}"))]);
    expect_causes(&lab, &mut run, &["unexpected-reboot"]);
    let details = lab.report()["attempts"].to_string();
    assert!(details.contains("rebooted by itself: the boot id was `"), "{details}");
}

#[test]
fn expect_a_hang_and_the_run_to_go_on_when_machines_or_their_qemu_stand_still() {
    let lab = Lab::new(&vm(), "");
    let mut run = run(&lab, &[("stop", WAIT), ("freeze", WAIT)]);
    tell_monitor(&begun(&lab, &mut run, "stop").1, "stop");
    kill_process(begun(&lab, &mut run, "freeze").0, Signal::STOP).unwrap();
    expect_causes(&lab, &mut run, &["hang", "hang"]);
    let details = lab.report()["attempts"].to_string();
    for words in ["QEMU says that it is paused", "QEMU does not answer, either"] {
        assert!(details.contains(words), "no `{words}` in {details}");
    }
    let evidence = fs::read_to_string(lab.find("c0r1a1/evidence.vm1.txt")).unwrap();
    assert!(evidence.contains("CPUs, by QEMU") && evidence.contains("RIP="), "{evidence}");
}
