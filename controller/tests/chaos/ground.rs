//! Where a round takes place: a folder with the controller's results, and the hosts, which are this machine or those of a lab.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use tempfile::TempDir;

use crate::plan::{LAB_HOSTS, Plan};

/// The program under test.
const DROVER: &str = env!("CARGO_BIN_EXE_drover");
const LAB: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/lab");
/// The agent's folder on a host of a lab, and the log of its jobs.
const LAB_AGENT: &str = "var-tmp/drover-0";
const LAB_LOG: &str = "/var/tmp/history";

/// The place of one round.
pub struct Ground {
    dir: TempDir,
    lab: Option<Lab>,
    /// A variable of this value is in the environment of every job.
    pub mark: String,
}

/// A lab of its own.
struct Lab {
    name: String,
    place: PathBuf,
}

impl Ground {
    pub fn new(plan: &Plan) -> Result<Self, String> {
        let dir = TempDir::with_prefix("drover-chaos-").map_err(|error| error.to_string())?;
        let mark = format!("{}-{}", plan.seed, std::process::id());
        let mut ground = Self { dir, lab: None, mark };
        fs::write(ground.clock(), "0").map_err(|error| error.to_string())?;
        if plan.lab {
            // Interfaces are named after it, and their names are short.
            let name = format!("c{}", std::process::id() % 100_000);
            let place = ground.dir().join("lab");
            ground.lab = Some(Lab { name, place });
            let (hosts, clock) = (LAB_HOSTS.to_string(), plan.clock_s.to_string());
            ground.script(&["up", &hosts, "--clock", "h2", &clock])?;
        }
        Ok(ground)
    }

    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The file by which the clocks of controller and agent are set.
    pub fn clock(&self) -> PathBuf {
        self.dir().join("clock")
    }

    /// What may be a disk of its own.
    pub fn disk(&self) -> PathBuf {
        self.dir().join("disk")
    }

    pub fn results(&self) -> PathBuf {
        self.disk().join("results")
    }

    /// What the controllers said.
    pub fn said(&self) -> PathBuf {
        self.dir().join("controllers.log")
    }

    /// The folder of a host's agent, as seen from here.
    pub fn agent_dir(&self, host: usize) -> PathBuf {
        match &self.lab {
            Some(lab) => lab.place.join("hosts").join(host_name(host)).join(LAB_AGENT),
            None => self.dir().join("agent"),
        }
    }

    pub fn hosts(&self) -> usize {
        if self.lab.is_some() { LAB_HOSTS } else { 1 }
    }

    /// The logs of the jobs.
    pub fn logs(&self) -> Vec<PathBuf> {
        match &self.lab {
            Some(lab) => (0..LAB_HOSTS)
                .map(|host| lab.place.join("hosts").join(host_name(host)).join("var-tmp/history"))
                .collect(),
            None => vec![self.dir().join("history")],
        }
    }

    /// The same as a job calls it.
    pub fn log_of_jobs(&self) -> String {
        match &self.lab {
            Some(_) => LAB_LOG.to_owned(),
            None => self.dir().join("history").display().to_string(),
        }
    }

    /// The program, set up for this place.
    pub fn drover(&self, arguments: &[&str]) -> Command {
        let mut command = match &self.lab {
            Some(_) => {
                let mut command = self.lab_script();
                command.args(["exec", "controller", DROVER]);
                command
            }
            None => Command::new(DROVER),
        };
        command
            .args(arguments)
            .current_dir(self.dir())
            .env("DROVER_RESULTS", self.results())
            .env("DROVER_LAB_CLOCK_OFFSET_FILE", self.clock())
            .env_remove("DROVER_LOG")
            .stdin(Stdio::null());
        if self.lab.is_none() {
            command.env("DROVER_AGENT_DIR", self.agent_dir(0));
        }
        command
    }

    /// Begins the run.
    pub fn run(&self) -> Command {
        match &self.lab {
            Some(lab) => {
                let hosts = lab.place.join("hosts.yaml").display().to_string();
                self.drover(&["run", "matrix.yaml", "--no-report", "--hosts", &hosts])
            }
            None => self.drover(&["run", "matrix.yaml", "--no-report"]),
        }
    }

    fn lab_script(&self) -> Command {
        let mut command = Command::new(LAB);
        if let Some(lab) = &self.lab {
            command.env("DROVER_LAB_NAME", &lab.name).env("DROVER_LAB_DIR", &lab.place);
        }
        // Nothing of the user's own ssh.
        command.env("HOME", self.dir()).env_remove("SSH_AUTH_SOCK").stdin(Stdio::null());
        command
    }

    /// Runs a command of `scripts/lab` and gives what it prints.
    pub fn script(&self, arguments: &[&str]) -> Result<String, String> {
        let output = self.lab_script().args(arguments).output().map_err(|error| error.to_string())?;
        said(&format!("lab {arguments:?}"), output)
    }

    /// Sends a signal to the agent of a host; says whether there was one.
    pub fn signal_agent(&self, host: usize, signal: &str) -> bool {
        let pid = fs::read_to_string(self.agent_dir(host).join("lock")).unwrap_or_default();
        let Ok(pid) = pid.trim().parse::<u32>() else { return false };
        // A number that was used again is somebody else's.
        let script = format!("grep -q serve /proc/{pid}/cmdline && kill -{signal} {pid}");
        match &self.lab {
            Some(_) => self.script(&["exec", &host_name(host), "sh", "-c", &script]).is_ok(),
            None => Command::new("sh")
                .args(["-c", &script])
                .stderr(Stdio::null())
                .status()
                .is_ok_and(|status| status.success()),
        }
    }

    /// Commands of what runs on the hosts of a lab besides sshd.
    pub fn strangers(&self) -> Vec<String> {
        let of_host = |host: usize| {
            let found = self.script(&["pids", &host_name(host)]).unwrap_or_else(|error| error);
            found.lines().map(|line| format!("on {}: {line}", host_name(host))).collect::<Vec<_>>()
        };
        if self.lab.is_some() { (0..LAB_HOSTS).flat_map(of_host).collect() } else { Vec::new() }
    }

    /// Keeps the folder, for whoever wants to know what happened in it.
    pub fn keep(self) -> PathBuf {
        self.down();
        let mut ground = self;
        ground.lab = None;
        ground.dir.disable_cleanup(true);
        ground.dir().to_owned()
    }

    fn down(&self) {
        if self.lab.is_some()
            && let Err(error) = self.script(&["down"])
        {
            eprintln!("{error}");
        }
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        self.down();
    }
}

/// Name of a host of a lab.
pub fn host_name(host: usize) -> String {
    format!("h{}", host + 1)
}

fn said(what: &str, output: Output) -> Result<String, String> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() {
        return Ok(text(&output.stdout));
    }
    Err(format!("{what}: {}{}", text(&output.stdout), text(&output.stderr)))
}
