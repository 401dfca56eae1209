//! A world that does not do what the matrix hopes for: each fault has its own verdict, and the run goes on.

use std::{
    fs,
    net::TcpListener,
    path::{Path, PathBuf},
    process::Command,
};

use crate::harness::{Lab, processes_with, wait_until};

/// Runs a matrix of one role and expects one verdict.
#[track_caller]
fn verdict_of(body: &str, status: i32, outcome: &str, cause: &str) -> Lab {
    let lab = Lab::new();
    let matrix = lab.matrix_of_one_role(body);
    lab.run(&["run", matrix.to_str().unwrap()]).expect(status);
    let last = lab.verdicts().pop().expect("an attempt");
    assert_eq!(last, (outcome.to_owned(), cause.to_owned()));
    lab
}

#[test]
fn expect_err_command_when_the_command_is_unknown() {
    let lab = verdict_of("    run: [no-such-command-at-all]", 4, "error", "command");
    lab.run(&["report"]).expect(4).says("ERR command").says("no-such-command-at-all");
}

#[test]
fn expect_err_command_when_the_command_may_not_be_run() {
    let lab = verdict_of("    run: [/etc/passwd]", 4, "error", "command");
    lab.run(&["report"]).expect(4).says("/etc/passwd").says("ermission");
}

#[test]
fn expect_err_script_and_the_output_kept_when_a_client_fails_with_output() {
    let body = "    run: [sh, -c, 'echo value=7; echo it went wrong >&2; exit 1']\n    measure: lines";
    let lab = verdict_of(body, 4, "error", "script");
    lab.run(&["report"]).expect(4).says("ERR script").says("it went wrong");
    lab.run(&["show", "last", "c0r1"]).says("value = 7").says("status 1");
}

#[test]
fn expect_the_number_when_that_exit_status_is_allowed() {
    verdict_of("    run: [sh, -c, 'exit 3']\n    status: [0, 3]", 0, "ok", "");
}

#[test]
fn expect_err_parse_when_the_output_lacks_the_metric() {
    let lab = Lab::new();
    let text = "version: 1\nname: m\naxes: { n: [1] }\nroles: { job: { run: [echo, other=1], measure: lines } }\n\
                metrics: { rate: { unit: 1/s, better: higher, primary: true } }\n";
    let matrix = lab.write("m.yaml", text);
    lab.run(&["run", matrix.to_str().unwrap()]).expect(4).says("ERR parse").says("rate").says("other");
}

/// A server and a client in one matrix.
fn server_and_client(server: &str) -> String {
    format!(
        "version: 1\nname: m\naxes: {{ n: [1] }}\nroles:\n  server:\n{server}\n  client:\n    after: server\n    run: [sleep, '30']\nobserve: off\n\
         timeout: 40s\n"
    )
}

#[test]
fn expect_ng_crash_at_once_when_the_server_ends_before_its_client() {
    let lab = Lab::new();
    let server = "    run: [sh, -c, 'echo up; echo my last words >&2; sleep 0.1; exit 5']\n    ready: { log: up, within: 5s }";
    let matrix = lab.write("m.yaml", &server_and_client(server));
    lab.run(&["run", matrix.to_str().unwrap()]).expect(1).says("NG crash").says("my last words");
    let attempt = lab.attempts().pop().unwrap();
    assert!(attempt["elapsed_s"].as_f64().unwrap() < 25.0, "it waited for the client: {attempt}");
}

#[test]
fn expect_ng_not_ready_when_the_server_never_listens() {
    let lab = Lab::new();
    let server = "    run: [sh, -c, 'echo starting up; exec sleep 30']\n    ports: [port]\n    ready: { tcp: port, within: 300ms }";
    let matrix = lab.write("m.yaml", &server_and_client(server));
    lab.run(&["run", matrix.to_str().unwrap()]).expect(1).says("NG not-ready").says("starting up");
}

#[test]
fn expect_ng_crash_when_the_server_exits_at_once() {
    let lab = Lab::new();
    let server = "    run: [sh, -c, 'echo bad configuration >&2; exit 1']\n    ports: [port]\n    ready: { tcp: port, within: 5s }";
    let matrix = lab.write("m.yaml", &server_and_client(server));
    lab.run(&["run", matrix.to_str().unwrap()]).expect(1).says("NG ").says("bad configuration");
}

#[test]
fn expect_the_holder_named_when_a_port_is_taken() {
    let lab = Lab::new();
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = format!(
        "    run: [sleep, '30']\n    ports: {{ port: {port} }}\n    ready: {{ tcp: port, within: 5s }}"
    );
    let matrix = lab.write("m.yaml", &server_and_client(&server));
    let pid = std::process::id().to_string();
    lab.run(&["run", matrix.to_str().unwrap()])
        .expect(4)
        .says("ERR port-taken")
        .says(&port.to_string())
        .says(&pid);
}

#[test]
fn expect_a_bounded_record_when_a_task_writes_a_gibibyte() {
    let body = "    run: [sh, -c, 'echo first=1; head -c 1073741824 /dev/zero; echo; echo last=2']\n    output: 1MiB\n    measure: lines";
    let lab = Lab::new();
    let matrix = lab.matrix_of_one_role(&format!("{body}\n    timeout: 60s"));
    lab.run(&["run", matrix.to_str().unwrap()]).expect(0);
    assert_eq!(lab.verdicts(), [("suspect".to_owned(), "output-cut".to_owned())]);
    lab.run(&["show", "last", "c0r1"]).says("first = 1").says("last = 2");
    let size: u64 =
        files_below(&lab.results()).iter().map(|path| path.metadata().map_or(0, |meta| meta.len())).sum();
    assert!(size < 8 << 20, "{size} bytes are kept");
}

#[test]
fn expect_nothing_left_when_a_task_ignores_its_end_and_its_grandchild_escapes() {
    let mark = format!("MARK_{}", std::process::id());
    let script = "trap '' TERM; (trap '' TERM; setsid sh -c \"trap \\\"\\\" TERM; sleep 300; sleep 300\") & sleep 300; sleep 300";
    let body = format!(
        "    shell: '{}'\n    env: {{ {mark}: 'yes' }}\n    timeout: 700ms\n    stop: {{ signal: TERM, grace: 200ms }}",
        script.replace('\'', "''")
    );
    let lab = verdict_of(&body, 1, "ng", "timeout");
    let left = processes_with(&mark);
    assert!(left.is_empty(), "left over: {left:?}");
    lab.run(&["report"]).expect(1).says("NG timeout");
}

#[test]
fn expect_missing_when_the_machine_lacks_the_cpus_or_the_kernel() {
    let lab = Lab::new();
    let text = "version: 1\nname: m\naxes: { kernel: [running, 1.2.13], cpus: [1, 4096] }\n\
                roles: { job: { run: [/bin/true] } }\n";
    let matrix = lab.write("m.yaml", text);
    lab.run(&["run", matrix.to_str().unwrap()]).expect(3).says("---").says("1.2.13").says("4096");
    let ok = lab.verdicts().into_iter().filter(|(outcome, _)| outcome == "ok").count();
    assert_eq!(ok, 1);
}

#[test]
fn expect_the_mask_of_the_running_processes_in_the_record_when_cpus_are_asked_for() {
    let lab = Lab::new();
    let text = "version: 1\nname: m\naxes: { cpus: [1, 2] }\n\
                roles: { job: { run: [grep, Cpus_allowed_list, /proc/self/status] } }\n";
    let matrix = lab.write("m.yaml", text);
    lab.run(&["run", matrix.to_str().unwrap()]).expect(0);
    for (trial, mask) in [("c0r1", "0"), ("c1r1", "0-1")] {
        lab.run(&["show", "last", trial]).says(&format!("cpus        {mask}\n"));
        let kept = format!("{trial}a1/job.0.stdout");
        let output = files_below(&lab.results()).into_iter().find(|path| path.ends_with(&kept));
        let text = fs::read_to_string(output.unwrap()).unwrap();
        assert_eq!(text, format!("Cpus_allowed_list:\t{mask}\n"));
    }
}

#[test]
fn expect_a_doubt_when_a_task_leaves_the_cpus_of_its_cell() {
    let lab = Lab::new();
    let text = "version: 1\nname: m\naxes: { cpus: [1] }\n\
                roles: { job: { shell: 'taskset -pc 0,1 $$; exec sleep 0.3' } }\n";
    let matrix = lab.write("m.yaml", text);
    lab.run(&["run", matrix.to_str().unwrap()]).expect(0).says("left-cpus").says("began on CPUs 0");
    assert_eq!(lab.verdicts(), [("suspect".to_owned(), "left-cpus".to_owned())]);
}

#[test]
fn expect_the_holder_named_when_a_second_controller_wants_the_store() {
    let lab = Lab::new();
    let flag = lab.path().join("go");
    let body = format!("    shell: 'until test -e {}; do sleep 0.01; done'", flag.display());
    let matrix = lab.matrix_of_one_role(&body);
    let matrix = matrix.to_str().unwrap();
    let first = lab.spawn(&["run", matrix]);
    wait_until("the first controller has an agent", || lab.agent_pid().is_some());
    let second = lab.run(&["run", matrix]).expect(4);
    second.says(&first.id().to_string());
    lab.run(&["list"]).expect(0).says("open");
    // Another store, the same machine: the lease keeps them apart.
    lab.run(&["--results", "other", "run", matrix]).expect(4).says(&first.id().to_string());
    fs::write(&flag, "").unwrap();
    let first = crate::harness::Ran::of(first.wait_with_output().unwrap());
    first.expect(0);
}

#[test]
fn expect_a_refusal_by_name_when_the_store_is_newer() {
    let lab = Lab::new();
    let matrix = lab.matrix_of_one_role("    run: [/bin/true]");
    let matrix = matrix.to_str().unwrap();
    lab.run(&["run", matrix]).expect(0);
    // `user_version` is a big-endian number at byte 60 of the file (SQLite's file format, 1.3).
    let path = lab.results().join("drover.db");
    let mut bytes = fs::read(&path).unwrap();
    bytes[60..64].copy_from_slice(&99_u32.to_be_bytes());
    fs::write(&path, bytes).unwrap();
    for command in [&["run", matrix][..], &["list"], &["report"]] {
        lab.run(command).expect(4).says("newer Drover");
    }
}

#[test]
fn expect_a_remedy_when_the_results_folder_is_read_only() {
    let lab = Lab::new();
    let matrix = lab.matrix_of_one_role("    run: [/bin/true]");
    let mounted = Tmpfs::mount(&lab, "sealed", "ro,size=1m");
    let results = mounted.path().join("results");
    lab.run(&["--results", results.to_str().unwrap(), "run", matrix.to_str().unwrap()])
        .expect(4)
        .says("read-only")
        .says("results folder");
    lab.write("file", "");
    lab.run(&["--results", "file", "run", matrix.to_str().unwrap()]).expect(4).says("not a folder");
}

#[test]
fn expect_one_failed_attempt_when_the_disk_is_too_full_for_its_output() {
    let lab = Lab::new();
    let text = "version: 1\nname: m\naxes: { bytes: [10, 20000000, 30] }\nroles:\n  job:\n    run: [head, -c, '{{ bytes }}', /dev/zero]\n\
                order: declared\nobserve: off\ntimeout: 20s\n";
    let matrix = lab.write("m.yaml", text);
    let mounted = Tmpfs::mount(&lab, "small", "size=6m");
    let results = mounted.path().join("results");
    let results = results.to_str().unwrap();
    lab.run(&["--results", results, "run", matrix.to_str().unwrap()]).expect(4).says("ERR disk-full");
    let csv = lab.run(&["--results", results, "report", "--format", "csv"]).stdout;
    assert_eq!(csv.matches(",ok,").count(), 2, "{csv}");
    assert_eq!(csv.matches(",disk-full,").count(), 1, "{csv}");
}

/// A file system of a few megabytes, mounted by root for one test.
pub struct Tmpfs(PathBuf);

impl Tmpfs {
    pub fn mount(lab: &Lab, name: &str, options: &str) -> Self {
        let path = lab.path().join(name);
        fs::create_dir(&path).unwrap();
        let mut command = Command::new("mount");
        let status = command.args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(&path).status().unwrap();
        assert!(status.success(), "this test mounts a tmpfs, which needs root");
        Self(path)
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() { files.extend(files_below(&path)) } else { files.push(path) }
    }
    files
}
