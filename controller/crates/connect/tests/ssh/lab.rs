//! A host: sshd with a folder of its own, and the options to reach it.

use std::{
    io::{BufRead, BufReader},
    net::TcpListener,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    time::Duration,
};

use drover_connect::{AgentBinary, ConnectError, Connection, SshOptions, Target, connect};
use drover_proto::v1;
use rustix::{
    fs::{FlockOperation, flock},
    process::{Pid, Signal, kill_process},
};
use tempfile::TempDir;

/// A host with one user: whoever runs the tests.
pub struct Host {
    /// Everything of it.
    pub dir: TempDir,
    pub port: u16,
    sshd: Option<Sshd>,
    config: String,
    /// A command before sshd, such as `unshare`.
    around: Vec<String>,
}

struct Sshd {
    child: Child,
    log: Arc<Mutex<String>>,
}

impl Host {
    pub fn start() -> Self {
        Self::start_with("")
    }

    /// One with additional lines in `sshd_config`; `{dir}` in them is its folder.
    pub fn start_with(config: &str) -> Self {
        Self::start_around(config, &[])
    }

    /// One whose sshd is started by another command.
    pub fn start_around(config: &str, around: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        for kind in ["ed25519", "ecdsa", "rsa"] {
            keygen(&dir.path().join(format!("host_{kind}")), kind);
        }
        keygen(&dir.path().join("id"), "ed25519");
        let public = std::fs::read_to_string(dir.path().join("id.pub")).unwrap();
        std::fs::write(dir.path().join("authorized_keys"), public).unwrap();
        std::fs::write(dir.path().join("ssh_config"), "").unwrap();
        let around = around.iter().map(|word| (*word).to_owned()).collect();
        let mut host = Self { dir, port: 0, sshd: None, config: config.to_owned(), around };
        host.up();
        host.know();
        host
    }

    /// Starts sshd, at the port that it had before, or else at any.
    pub fn up(&mut self) {
        loop {
            let port = if self.port == 0 { free_port() } else { self.port };
            if let Some(sshd) = self.try_up(port) {
                (self.sshd, self.port) = (Some(sshd), port);
                return;
            }
            // Someone else took the port meanwhile.
            self.port = 0;
        }
    }

    fn try_up(&self, port: u16) -> Option<Sshd> {
        let dir = self.dir.path().display();
        let own = self.config.replace("{dir}", &dir.to_string());
        let config = format!(
            "{own}\nPort {port}\nListenAddress 127.0.0.1\nPidFile none\nUsePAM no\nStrictModes no\n\
             PasswordAuthentication no\nKbdInteractiveAuthentication no\nPermitRootLogin yes\nLogLevel VERBOSE\n\
             AuthorizedKeysFile {dir}/authorized_keys\nMaxStartups 10:30:100\n\
             HostKey {dir}/host_ed25519\nHostKey {dir}/host_ecdsa\nHostKey {dir}/host_rsa\n"
        );
        let path = self.path("sshd_config");
        std::fs::write(&path, config).unwrap();
        // Where sshd keeps its unprivileged half; Debian's start script makes it.
        let _ = std::fs::create_dir_all("/run/sshd");
        let mut words = self.around.clone();
        words.extend(["/usr/sbin/sshd", "-D", "-e", "-f"].map(str::to_owned));
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).arg(&path);
        let mut child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        let log = Arc::new(Mutex::new(String::new()));
        loop {
            let Some(line) = lines.next() else {
                child.wait().unwrap();
                let said = log.lock().unwrap().clone();
                assert!(said.contains("in use"), "sshd does not start: {said}");
                return None;
            };
            log.lock().unwrap().push_str(&format!("{line}\n"));
            if line.contains("Server listening") {
                break;
            }
        }
        let kept = Arc::clone(&log);
        std::thread::spawn(move || {
            lines.for_each(|line| kept.lock().unwrap().push_str(&format!("{line}\n")));
        });
        Some(Sshd { child, log })
    }

    /// Kills sshd and its sessions, not the agent.
    pub fn down(&mut self) {
        let Some(mut sshd) = self.sshd.take() else { return };
        for pid in self.sessions_of(sshd.child.id()) {
            signal(pid, Signal::KILL);
        }
        signal(sshd.child.id(), Signal::KILL);
        sshd.child.wait().unwrap();
    }

    /// Processes of sshd that serve connections.
    pub fn sessions(&self) -> Vec<u32> {
        self.sessions_of(self.sshd.as_ref().unwrap().child.id())
    }

    fn sessions_of(&self, sshd: u32) -> Vec<u32> {
        let mut found = vec![sshd];
        let mut index = 0;
        while let Some(parent) = found.get(index) {
            let children = std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children"));
            found.extend(
                children.unwrap_or_default().split_whitespace().map(|pid| pid.parse::<u32>().unwrap()),
            );
            index += 1;
        }
        found.split_off(1)
    }

    /// What sshd said so far.
    pub fn log(&self) -> String {
        self.sshd.as_ref().unwrap().log.lock().unwrap().clone()
    }

    /// Commands that were run so far.
    pub fn commands(&self) -> usize {
        self.log().matches("Starting session: command").count()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The agent's directory.
    pub fn agent_dir(&self) -> PathBuf {
        self.path("agent")
    }

    /// Writes down the host's key of this type as known.
    pub fn know_as(&self, name: &str, kind: &str) {
        let public = std::fs::read_to_string(self.path(&format!("host_{kind}.pub"))).unwrap();
        std::fs::write(self.path("known_hosts"), format!("{name} {public}")).unwrap();
    }

    fn know(&self) {
        self.know_as(&format!("[127.0.0.1]:{}", self.port), "ed25519");
    }

    pub fn options(&self) -> SshOptions {
        SshOptions {
            host: "127.0.0.1".to_owned(),
            user: Some(user()),
            port: Some(self.port),
            identity: Some(self.path("id")),
            jump: None,
            config: Some(self.path("ssh_config")),
            known_hosts: Some(self.path("known_hosts")),
            accept_new: false,
            agent: agent(),
            dir: Some(self.agent_dir().to_str().unwrap().to_owned()),
            linger: Duration::from_secs(60),
            connect_timeout: Duration::from_secs(60),
        }
    }

    /// Connects, as it has to work.
    pub async fn connect(&self) -> Connection {
        reach(&self.options()).await.unwrap_or_else(|error| panic!("{}\n{}", chain(&error), self.log()))
    }

    /// Ends the agent, and waits until it is gone.
    pub async fn end_agent(&self, mut connection: Connection) {
        connection.client.shutdown(v1::ShutdownRequest { lease: None }).await.unwrap();
        self.agent_ended().await;
    }

    /// Waits until no agent runs.
    pub async fn agent_ended(&self) {
        let lock = std::fs::File::open(self.agent_dir().join("lock")).unwrap();
        let locked = tokio::task::spawn_blocking(move || flock(&lock, FlockOperation::LockExclusive));
        locked.await.unwrap().unwrap();
    }

    /// The agent's process.
    pub fn agent_pid(&self) -> u32 {
        std::fs::read_to_string(self.agent_dir().join("lock")).unwrap().trim().parse().unwrap()
    }

    /// Names in the folder of agents.
    pub fn stored(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.agent_dir().join("bin")).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let pid = std::fs::read_to_string(self.agent_dir().join("lock")).ok();
        if let Some(pid) = pid.and_then(|pid| pid.trim().parse::<u32>().ok()) {
            let exe = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
            if exe.starts_with(self.agent_dir()) {
                signal(pid, Signal::TERM);
            }
        }
        self.down();
    }
}

pub fn signal(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(pid.try_into().unwrap()).unwrap();
    // It may have ended just now.
    let _ = kill_process(pid, signal);
}

pub fn mode(path: &Path) -> u32 {
    path.symlink_metadata().unwrap().permissions().mode() & 0o777
}

pub fn keygen(path: &Path, kind: &str) {
    let made = Command::new("ssh-keygen").args(["-q", "-N", "", "-t", kind, "-f"]).arg(path).status();
    assert!(made.unwrap().success());
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

pub fn user() -> String {
    let output = Command::new("id").arg("-un").output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// `examples/agent.rs` of this crate, which cargo builds for its tests.
pub fn agent() -> AgentBinary {
    let test = std::env::current_exe().unwrap();
    let profile = test.parent().and_then(Path::parent).unwrap();
    AgentBinary::read(profile.join("examples").join("agent"), vec!["agent".to_owned()]).unwrap()
}

pub async fn reach(options: &SshOptions) -> Result<Connection, ConnectError> {
    connect(&Target::Ssh(options.clone())).await
}

/// Why it cannot be connected to; in one line.
pub async fn refused(options: &SshOptions) -> String {
    match reach(options).await {
        Ok(_) => panic!("connected"),
        Err(error) => chain(&error),
    }
}

pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        text.push_str(&format!(": {inner}"));
        source = inner.source();
    }
    text
}
