//! A place of its own for every test: folder, results, agent. Nothing of it is left at the end.

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
const PATIENCE: Duration = Duration::from_secs(60);

/// A folder with its own results and its own agent.
pub struct Lab {
    dir: TempDir,
}

/// What a command printed and how it ended.
pub struct Ran {
    pub status: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Lab {
    pub fn new() -> Self {
        Self { dir: TempDir::with_prefix("drover-e2e-").expect("a temporary folder") }
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    pub fn results(&self) -> PathBuf {
        self.path().join("drover-results")
    }

    pub fn agent_dir(&self) -> PathBuf {
        self.path().join("agent")
    }

    /// Writes a file and gives its path.
    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path().join(name);
        fs::write(&path, text).expect("a writable folder");
        path
    }

    /// A matrix named `m.yaml` of one role, `body` being the role's keys, indented by four spaces.
    pub fn matrix_of_one_role(&self, body: &str) -> PathBuf {
        let text = format!(
            "version: 1\nname: one\naxes: {{ n: [1] }}\nroles:\n  job:\n{body}\nretries: 1\nobserve: off\ntimeout: 20s\n"
        );
        self.write("m.yaml", &text)
    }

    /// The program, set up for this place.
    pub fn drover(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_drover"));
        command
            .args(arguments)
            .current_dir(self.path())
            .env("DROVER_AGENT_DIR", self.agent_dir())
            .env_remove("DROVER_RESULTS")
            .env_remove("DROVER_LOG")
            .stdin(Stdio::null());
        command
    }

    /// Runs the program to its end.
    pub fn run(&self, arguments: &[&str]) -> Ran {
        Ran::of(self.drover(arguments).output().expect("the program starts"))
    }

    /// Starts the program, its output captured.
    pub fn spawn(&self, arguments: &[&str]) -> Child {
        let mut command = self.drover(arguments);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts")
    }

    /// The last run as the JSON export has it.
    pub fn report(&self) -> Value {
        let ran = self.run(&["report", "--format", "json"]);
        serde_json::from_str(&ran.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}\n{}", ran.stdout, ran.stderr))
    }

    /// Outcome and cause of every stored attempt.
    pub fn verdicts(&self) -> Vec<(String, String)> {
        let text = |attempt: &Value, key: &str| attempt[key].as_str().unwrap_or_default().to_owned();
        self.attempts().iter().map(|attempt| (text(attempt, "outcome"), text(attempt, "cause"))).collect()
    }

    /// Every stored attempt of the last run.
    pub fn attempts(&self) -> Vec<Value> {
        self.report()["attempts"].as_array().cloned().unwrap_or_default()
    }

    /// Process id of the controller, if one holds the results.
    pub fn controller_pid(&self) -> Option<Pid> {
        let text = fs::read_to_string(self.results().join("drover.lock")).ok()?;
        let holder: Value = serde_json::from_str(&text).ok()?;
        let pid = i32::try_from(holder["pid"].as_i64()?).ok()?;
        let place = fs::read_link(format!("/proc/{pid}/cwd")).ok()?;
        (place == self.path().canonicalize().ok()?).then(|| Pid::from_raw(pid)).flatten()
    }

    /// Process id of the agent, if one serves here.
    pub fn agent_pid(&self) -> Option<Pid> {
        let text = fs::read_to_string(self.agent_dir().join("lock")).ok()?;
        let pid = text.trim().parse().ok()?;
        let command = fs::read_to_string(format!("/proc/{pid}/cmdline")).ok()?;
        command.contains(self.agent_dir().to_str()?).then(|| Pid::from_raw(pid)).flatten()
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        // One without a terminal, of a test that failed.
        if let Some(pid) = self.controller_pid() {
            let _ = kill_process(pid, Signal::KILL);
        }
        if let Some(pid) = self.agent_pid() {
            let _ = kill_process(pid, Signal::TERM);
            wait_until("the agent ends", || self.agent_pid().is_none());
        }
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

/// Ends a child by a signal.
pub fn signal(child: &Child, signal: Signal) {
    let pid = Pid::from_child(child);
    kill_process(pid, signal).expect("the child can be signalled");
}

/// Waits until a condition holds.
#[track_caller]
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "waited {PATIENCE:?} in vain until {what}");
        std::thread::park_timeout(Duration::from_millis(2));
    }
}

/// Processes whose environment has this text.
pub fn processes_with(mark: &str) -> Vec<u32> {
    let entries = fs::read_dir("/proc").expect("/proc is there").flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let has_mark = |pid: &u32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.windows(mark.len()).any(|window| window == mark.as_bytes())
    };
    pids.filter(has_mark).collect()
}
