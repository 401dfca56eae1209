//! What the tests share: servers and clients as real processes, and ways to look at them.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::process::{Child, ChildStderr, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// The program under test.
pub fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_drover-workload"))
}

/// A running server. Killed on drop.
pub struct Server {
    child: Option<Child>,
    stderr: BufReader<ChildStderr>,
    pub address: SocketAddr,
}

/// How a server ended.
pub struct ServerEnd {
    pub status: ExitStatus,
    pub report: Value,
    pub stderr: String,
}

impl Server {
    /// Starts a server on a free port and waits until it says that it listens.
    pub fn start(args: &[&str]) -> Self {
        let mut command = program();
        command.args(["server", "--listen", "127.0.0.1:0"]).args(args);
        Self::spawn(command)
    }

    pub fn spawn(mut command: Command) -> Self {
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts");
        let mut stderr = BufReader::new(child.stderr.take().expect("stderr is piped"));
        let mut line = String::new();
        let address = loop {
            line.clear();
            assert_ne!(stderr.read_line(&mut line).expect("stderr is text"), 0, "the server ended early");
            if let Some(rest) = line.strip_prefix("listening on ") {
                break rest.split(' ').next().expect("an address").parse().expect("an address");
            }
        };
        Self { child: Some(child), stderr, address }
    }

    pub fn pid(&self) -> Pid {
        let child = self.child.as_ref().expect("the server runs");
        Pid::from_child(child)
    }

    pub fn workers(&self) -> Vec<Pid> {
        children_of(self.pid())
    }

    /// The next line of its standard error.
    pub fn read_message(&mut self) -> String {
        let mut line = String::new();
        self.stderr.read_line(&mut line).expect("stderr is text");
        line
    }

    /// Sends SIGTERM and collects the report.
    pub fn stop(self) -> ServerEnd {
        kill_process(self.pid(), Signal::TERM).expect("the server runs");
        self.wait()
    }

    /// Waits for its end and collects the report.
    pub fn wait(mut self) -> ServerEnd {
        let child = self.child.take().expect("the server runs");
        let output = child.wait_with_output().expect("the server ends");
        let mut stderr = String::new();
        self.stderr.read_to_string(&mut stderr).expect("stderr is text");
        let report = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
        ServerEnd { status: output.status, report, stderr }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// How a client ended.
pub struct ClientEnd {
    pub code: Option<i32>,
    pub report: Value,
    pub stderr: String,
}

impl ClientEnd {
    pub fn from_output(output: &Output) -> Self {
        Self {
            code: output.status.code(),
            report: serde_json::from_slice(&output.stdout).unwrap_or(Value::Null),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    pub fn count(&self, field: &str) -> u64 {
        self.report
            .get(field)
            .and_then(Value::as_u64)
            .unwrap_or_else(|| panic!("no {field}: {}", self.report))
    }

    pub fn errors(&self, kind: &str) -> u64 {
        self.report["errors"][kind].as_u64().unwrap_or_else(|| panic!("no {kind}: {}", self.report))
    }
}

/// Runs a client to its end.
pub fn client(address: SocketAddr, args: &[&str]) -> ClientEnd {
    let mut command = program();
    command.args(["client", "--connect", &address.to_string()]).args(args);
    ClientEnd::from_output(&command.output().expect("the program starts"))
}

/// The children of a process.
pub fn children_of(pid: Pid) -> Vec<Pid> {
    let raw = pid.as_raw_nonzero();
    let text = fs::read_to_string(format!("/proc/{raw}/task/{raw}/children")).expect("the process exists");
    text.split_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)).collect()
}

/// The system call a process sleeps in, with its first argument; `None` if it runs.
pub fn system_call_of(pid: Pid) -> Option<(i64, i64)> {
    let text = fs::read_to_string(format!("/proc/{}/syscall", pid.as_raw_nonzero())).ok()?;
    let mut words = text.split_whitespace();
    let number = words.next()?.parse().ok()?;
    let argument = i64::from_str_radix(words.next()?.trim_start_matches("0x"), 16).ok()?;
    Some((number, argument))
}

/// Polls until `look` finds something; fails after a minute.
pub fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "waited a minute for {what}");
        std::thread::park_timeout(Duration::from_millis(2));
    }
}

/// Waits until a process, which need not be a child, is gone (zombies count as gone).
pub fn wait_gone(pid: Pid) {
    wait_for("a process to end", || {
        let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
        let state = stat.rsplit(") ").next().and_then(|rest| rest.chars().next());
        matches!(state, None | Some('Z' | 'X')).then_some(())
    });
}
