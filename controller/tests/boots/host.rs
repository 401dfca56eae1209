//! A host in QEMU, and the program as its user runs it.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    net::TcpListener,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

use drover_connect::{Connection, Target, TlsOptions, connect};
use serde_json::Value;
use tempfile::TempDir;

use crate::{
    disk,
    tree::{NAME, PORT, Tree},
    uefi,
};

/// Longest wait for a condition that has to come true: a host may have to boot before, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(240);

/// How often QEMU is started anew because somebody else has taken its port.
const STARTS: usize = 5;

/// Waits until a condition gives something.
#[track_caller]
pub fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "waited {PATIENCE:?} in vain until {what}");
        std::thread::park_timeout(Duration::from_millis(100));
    }
}

/// A host that runs, and a folder with its disk, its console and all that the program makes. Ends when it is dropped.
pub struct Host {
    dir: TempDir,
    qemu: Child,
    port: u16,
}

/// What a command printed and how it ended.
pub struct Ran {
    pub status: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Host {
    /// Makes a host whose firmware boots GRUB, which boots the golden kernel, and switches it on. `change` may change what is on
    /// its disk.
    pub fn with_grub(cpus: u32, change: impl FnOnce(&Tree)) -> Self {
        let dir = TempDir::with_prefix("drover-boots-").expect("a temporary folder");
        let tree = Tree::new(dir.path().join("tree"), &dir.path().join("pki"));
        change(&tree);
        disk::grub(&tree, &dir.path().join("disk"));
        Self::on(dir, cpus, &[])
    }

    /// Makes a host whose firmware is UEFI and boots systemd-boot, which boots the golden kernel, and switches it on.
    pub fn with_systemd_boot(cpus: u32) -> Self {
        let dir = TempDir::with_prefix("drover-boots-").expect("a temporary folder");
        let tree = Tree::new(dir.path().join("tree"), &dir.path().join("pki"));
        uefi::systemd_boot(&tree, &dir.path().join("disk"), &dir.path().join("variables"));
        let code = format!("if=pflash,format=raw,readonly=on,file={}", uefi::FIRMWARE);
        let variables = "if=pflash,format=raw,file=variables".to_owned();
        Self::on(dir, cpus, &["-drive".to_owned(), code, "-drive".to_owned(), variables])
    }

    fn on(dir: TempDir, cpus: u32, more: &[String]) -> Self {
        let start = |_| {
            let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
            let port = free.expect("a free port").port();
            let mut qemu = start(dir.path(), cpus, port, more);
            let runs = wait_for("QEMU answers or ends", || match qemu.try_wait().expect("our child") {
                Some(_) => Some(false),
                None => monitor(&dir.path().join("qmp")).map(|_| true),
            });
            runs.then_some((qemu, port))
        };
        let started = (0..STARTS).find_map(start);
        let Some((qemu, port)) = started else {
            panic!("{}", fs::read_to_string(dir.path().join("qemu.log")).unwrap_or_default());
        };
        let host = Self { dir, qemu, port };
        host.write("hosts.yaml", &host.hosts_file(""));
        host
    }

    /// A host file with this host; `keys` are further keys of it, one per line.
    pub fn hosts_file(&self, keys: &str) -> String {
        let keys: String = keys.lines().map(|line| format!("    {line}\n")).collect();
        let pki = self.path().join("pki");
        format!(
            "version: 1\nhosts:\n  {NAME}:\n    tls: 127.0.0.1:{}\n    pki: {}\n{keys}",
            self.port,
            pki.display()
        )
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path().join(name);
        fs::write(&path, text).expect("a writable folder");
        path
    }

    /// Cuts its power, and gives it back at once.
    pub fn cut_power(&self) {
        let mut monitor = monitor(&self.path().join("qmp")).expect("QEMU greets");
        for command in ["qmp_capabilities", "system_reset"] {
            writeln!(monitor.get_mut(), "{{\"execute\": \"{command}\"}}").expect("QEMU reads");
            let mut answer = String::new();
            while !answer.contains("\"return\"") {
                answer.clear();
                assert!(monitor.read_line(&mut answer).expect("QEMU answers") > 0);
            }
        }
    }

    /// All that its firmware, boot loader, kernels and agent have said since it was switched on.
    pub fn console(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.path().join("console.log")).unwrap_or_default()).into_owned()
    }

    /// Connects to its agent, once it answers.
    pub async fn agent(&self) -> Connection {
        self.agent_when("the agent answers", |_| true).await
    }

    /// Connects to its agent, once that answers and says what is wanted of it.
    pub async fn agent_when(&self, what: &str, wanted: impl Fn(&Connection) -> bool) -> Connection {
        let target = Target::Tls(TlsOptions {
            name: NAME.parse().expect("a name"),
            address: format!("127.0.0.1:{}", self.port),
            pki: self.path().join("pki"),
            connect_timeout: Duration::from_secs(5),
        });
        let begun = Instant::now();
        loop {
            match connect(&target).await {
                Ok(connection) if wanted(&connection) => return connection,
                _ => {}
            }
            assert!(
                begun.elapsed() < PATIENCE,
                "waited {PATIENCE:?} in vain until {what}:\n{}",
                self.console()
            );
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// The program, set up for this place.
    pub fn drover(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_drover"));
        command
            .args(arguments)
            .current_dir(self.path())
            .env("TMPDIR", self.path())
            .env_remove("DROVER_RESULTS")
            .env_remove("DROVER_LOG")
            .stdin(Stdio::null());
        command
    }

    /// Runs the program to its end.
    pub fn run(&self, arguments: &[&str]) -> Ran {
        let Output { status, stdout, stderr } = self.drover(arguments).output().expect("the program starts");
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Ran { status: status.code().unwrap_or(-1), stdout: text(stdout), stderr: text(stderr) }
    }

    /// The last run as the JSON export has it.
    pub fn report(&self) -> Value {
        let ran = self.run(&["report", "--format", "json"]);
        serde_json::from_str(&ran.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}\n{}", ran.stdout, ran.stderr))
    }

    /// Trial, outcome and cause of every stored attempt, by trial.
    pub fn verdicts(&self) -> Vec<(String, String, String)> {
        let report = self.report();
        let attempts = report["attempts"].as_array().cloned().unwrap_or_default();
        let text = |attempt: &Value, key: &str| attempt[key].as_str().unwrap_or_default().to_owned();
        let of = |attempt: &Value| {
            let trial = format!("c{}r{}", attempt["cell"], attempt["repetition"]);
            (trial, text(attempt, "outcome"), text(attempt, "cause"))
        };
        let mut verdicts: Vec<_> = attempts.iter().map(of).collect();
        verdicts.sort();
        verdicts
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.qemu.kill();
        let _ = self.qemu.wait();
        if std::thread::panicking() {
            eprintln!("the host's console:\n{}", self.console());
        }
    }
}

/// Connects to QEMU, once it has made its machine: then it greets whoever connects.
fn monitor(socket: &Path) -> Option<BufReader<UnixStream>> {
    let stream = UnixStream::connect(socket).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    let mut stream = BufReader::new(stream);
    let mut greeting = String::new();
    stream.read_line(&mut greeting).ok()?;
    greeting.contains("QMP").then_some(stream)
}

/// Starts QEMU, which ends with this thread at the latest.
fn start(dir: &Path, cpus: u32, port: u16, more: &[String]) -> Child {
    let log = fs::File::create(dir.join("qemu.log")).expect("a writable folder");
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--", "qemu-system-x86_64"]);
    command.args([
        "-nodefaults",
        "-no-user-config",
        "-display",
        "none",
        "-qmp",
        "unix:qmp,server=on,wait=off",
    ]);
    command.args(["-accel", "tcg", "-cpu", "max", "-m", "512M", "-smp", &cpus.to_string()]);
    command.args(["-chardev", "file,id=console,path=console.log,append=on", "-serial", "chardev:console"]);
    command.args(["-drive", "file=disk,format=raw,if=virtio,cache=unsafe", "-device", "virtio-rng-pci"]);
    // It can be reached from this machine at one port, can reach nothing itself, and does not boot from there.
    let net = format!("user,id=net,restrict=on,hostfwd=tcp:127.0.0.1:{port}-:{PORT}");
    command.args(["-netdev", &net, "-device", "virtio-net-pci,netdev=net,romfile="]);
    command.args(more).current_dir(dir).stdin(Stdio::null());
    command.stdout(log.try_clone().expect("our own file")).stderr(log);
    command.spawn().expect("QEMU; scripts/test installs what the tests need")
}
