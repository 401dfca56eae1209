//! A lab of its own for every test, made and removed by `scripts/lab`, and the program run at its controller.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// Longest wait for a condition that has to come true.
const PATIENCE: Duration = Duration::from_secs(120);

/// Hosts `h1` to `hN`, of which `h1` is labelled `server` and the others `client`.
pub struct Lab {
    dir: TempDir,
    name: String,
}

/// What a command printed and how it ended.
pub struct Ran {
    pub status: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Lab {
    pub fn up(hosts: usize) -> Self {
        Self::up_with(hosts, &[])
    }

    /// With options of `scripts/lab up`.
    pub fn up_with(hosts: usize, options: &[&str]) -> Self {
        let dir = TempDir::with_prefix("drover-lab-test-").expect("a temporary folder");
        // Interfaces are named after it, and their names are short.
        let name = format!("t{}", std::process::id() % 100_000);
        let lab = Self { dir, name };
        let hosts = hosts.to_string();
        let mut arguments = vec!["up", &hosts];
        arguments.extend(options);
        lab.lab(&arguments);
        lab
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// The lab's own folder.
    pub fn place(&self) -> PathBuf {
        self.path().join("lab")
    }

    pub fn hosts_file(&self) -> PathBuf {
        self.place().join("hosts.yaml")
    }

    /// Writes a file and gives its path.
    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path().join(name);
        fs::write(&path, text).expect("a writable folder");
        path
    }

    fn script(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/lab"));
        command
            .args(arguments)
            .current_dir(self.path())
            .env("DROVER_LAB_NAME", &self.name)
            .env("DROVER_LAB_DIR", self.place())
            // Nothing of the user's own ssh.
            .env("HOME", self.path())
            .env_remove("SSH_AUTH_SOCK")
            .stdin(Stdio::null());
        command
    }

    /// Runs a command of `scripts/lab`, which must succeed, and gives what it prints.
    #[track_caller]
    pub fn lab(&self, arguments: &[&str]) -> String {
        let ran = Ran::of(self.script(arguments).output().expect("the lab script starts"));
        assert_eq!(ran.status, 0, "lab {arguments:?}:\n{}\n{}", ran.stdout, ran.stderr);
        ran.stdout
    }

    /// Runs a shell command on a host and gives what it prints, whatever its status.
    pub fn on(&self, host: &str, script: &str) -> String {
        Ran::of(self.script(&["exec", host, "sh", "-c", script]).output().expect("it starts")).stdout
    }

    /// What runs on a host besides its sshd and an agent that may still be ending.
    pub fn strangers(&self, host: &str) -> Vec<String> {
        let pids = self.lab(&["pids", host]);
        let is_agent = |line: &&str| line.split_whitespace().any(|word| word == "serve" || word == "bridge");
        pids.lines().filter(|line| !is_agent(line)).map(str::to_owned).collect()
    }

    fn drover(&self, arguments: &[&str]) -> Command {
        let mut all = vec!["exec", "controller", env!("CARGO_BIN_EXE_drover")];
        all.extend(arguments);
        let mut command = self.script(&all);
        command.env("DROVER_RESULTS", self.results()).env_remove("DROVER_LOG");
        command
    }

    pub fn results(&self) -> PathBuf {
        self.path().join("results")
    }

    /// Runs the program to its end; the lab's host file is given.
    pub fn run(&self, arguments: &[&str]) -> Ran {
        Ran::of(self.drover(&self.with_hosts(arguments)).output().expect("the program starts"))
    }

    /// The same without a host file.
    pub fn run_bare(&self, arguments: &[&str]) -> Ran {
        Ran::of(self.drover(arguments).output().expect("the program starts"))
    }

    /// Starts the program; its standard error goes into a file. The lab's host file is given.
    pub fn spawn(&self, arguments: &[&str]) -> Running {
        self.spawn_bare(&self.with_hosts(arguments))
    }

    /// The same without a host file.
    pub fn spawn_bare(&self, arguments: &[&str]) -> Running {
        let log = self.path().join(format!("stderr-{}", arguments.join("_").replace('/', "-")));
        let file = fs::File::create(&log).expect("a writable folder");
        let mut command = self.drover(arguments);
        let child = command.stdout(Stdio::piped()).stderr(file).spawn().expect("the program starts");
        Running { child, log }
    }

    fn with_hosts<'a>(&self, arguments: &[&'a str]) -> Vec<&'a str> {
        let path: &'static str = Box::leak(self.hosts_file().display().to_string().into_boxed_str());
        let mut all = arguments.to_vec();
        all.extend(["--hosts", path]);
        all
    }

    /// The last run as the JSON export has it.
    pub fn report(&self) -> Value {
        let ran = self.run_bare(&["report", "--format", "json"]);
        serde_json::from_str(&ran.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}\n{}", ran.stdout, ran.stderr))
    }

    /// Every stored attempt of the last run.
    pub fn attempts(&self) -> Vec<Value> {
        self.report()["attempts"].as_array().cloned().unwrap_or_default()
    }

    /// Outcome and cause of every stored attempt.
    pub fn verdicts(&self) -> Vec<(String, String)> {
        let text = |attempt: &Value, key: &str| attempt[key].as_str().unwrap_or_default().to_owned();
        self.attempts().iter().map(|attempt| (text(attempt, "outcome"), text(attempt, "cause"))).collect()
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let down = self.script(&["down"]).output();
        if let Ok(output) = down
            && !output.status.success()
        {
            eprintln!("the lab did not go down: {}", String::from_utf8_lossy(&output.stderr));
        }
    }
}

/// A program that runs.
pub struct Running {
    pub child: Child,
    log: PathBuf,
}

impl Running {
    /// What it has said so far.
    pub fn said(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Waits until it says something.
    #[track_caller]
    pub fn says(&mut self, text: &str) {
        let begun = Instant::now();
        while !self.said().contains(text) {
            let ended = self.child.try_wait().expect("it is a child");
            assert!(ended.is_none(), "it ended without saying `{text}`:\n{}", self.said());
            assert!(begun.elapsed() < PATIENCE, "it does not say `{text}`:\n{}", self.said());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Its end.
    pub fn end(self) -> Ran {
        let log = self.log.clone();
        let mut ran = Ran::of(self.child.wait_with_output().expect("it is a child"));
        ran.stderr = fs::read_to_string(log).unwrap_or_default();
        ran
    }

    /// The controller itself: the lab's script has become the program.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("it can be signalled");
    }
}

impl Ran {
    pub fn of(output: Output) -> Self {
        use std::os::unix::process::ExitStatusExt;
        let status = output.status.code().unwrap_or_else(|| 128 + output.status.signal().unwrap_or(0));
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Self { status, stdout: text(output.stdout), stderr: text(output.stderr) }
    }

    /// Fails, showing everything, unless the exit status is this.
    #[track_caller]
    pub fn expect(self, status: i32) -> Self {
        assert_eq!(self.status, status, "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        self
    }

    /// Fails, showing everything, unless either output has this text.
    #[track_caller]
    pub fn says(self, text: &str) -> Self {
        let said = self.stdout.contains(text) || self.stderr.contains(text);
        assert!(said, "`{text}` is not in\nstdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        self
    }
}

/// Waits for a condition, which is tried again and again.
#[track_caller]
pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < PATIENCE, "after {} s: not yet: {what}", PATIENCE.as_secs());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A matrix of `n` cells whose server and two clients, on hosts of their own, take `seconds` in the measured part. Every phase is
/// written into `/var/tmp/phase` of its host, every client run into `/var/tmp/runs`.
pub fn phased(cells: u32, seconds: &str) -> String {
    format!(
        "
version: 1
name: phased
axes: {{ n: ['1..{cells}'] }}
roles:
  server:
    on: server
    shell: |
      echo starting > /var/tmp/phase; sleep 0.3
      trap 'echo stopping > /var/tmp/phase; sleep 0.3; exit 0' TERM
      echo ready; echo serving > /var/tmp/phase
      while :; do sleep 0.05; done
    ready: {{ log: ready, within: 30s }}
  client:
    after: server
    on: client
    hosts: 2
    shell: |
      echo measuring > /var/tmp/phase; echo {{{{ n }}}} {{{{ dir }}}} >> /var/tmp/runs
      sleep {seconds}; echo rate 5; echo done > /var/tmp/phase
    measure: {{ regex: 'rate (?<rate>[0-9]+)' }}
metrics:
  rate: {{ unit: 1/s, better: higher, primary: true, across: sum }}
skew_limit: 5s
observe: off
timeout: 180s
"
    )
}
