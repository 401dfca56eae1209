//! A folder with results, kernels and a host file with one virtual machine.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    sync::LazyLock,
};

use drover_vm::{AptOptions, Catalogue, Kernel};
use serde_json::Value;
use tempfile::TempDir;

/// Two kernels, by what matrices here call them.
pub const OLD: &str = "old";
pub const NEW: &str = "new+1";

/// The kernels, fetched once.
static KERNELS: LazyLock<Catalogue> = LazyLock::new(|| {
    let catalogue = Catalogue::new(Path::new(env!("CARGO_TARGET_TMPDIR")).join("kernels"));
    for (label, package) in
        [(OLD, "debian:linux-image-cloud-amd64"), (NEW, "debian:linux-image-6.12-cloud-amd64")]
    {
        let fetch = || catalogue.fetch(package, Some(label), &AptOptions::default());
        if fetch().is_err() {
            // There may be a newer one by now.
            let _ = catalogue.remove(label);
            fetch().unwrap_or_else(|error| panic!("{package}: {error}"));
        }
    }
    catalogue
});

pub fn kernel(label: &str) -> Kernel {
    KERNELS.get(label).expect("a kernel that was fetched")
}

/// A place of its own for every test.
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
    /// With a host file of one machine: `vm` are the keys of its `vm`, `more` goes behind the hosts.
    pub fn new(vm: &str, more: &str) -> Self {
        let lab = Self { dir: TempDir::with_prefix("drover-vms-").expect("a temporary folder") };
        lab.write(
            "hosts.yaml",
            &format!("version: 1\nhosts:\n  vm1: {{ vm: {{ {vm}, accelerator: tcg, boot: 4m }} }}\n{more}"),
        );
        lab
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path().join(name);
        fs::write(&path, text).expect("a writable folder");
        path
    }

    /// The program, set up for this place.
    pub fn drover(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_drover"));
        command
            .args(arguments)
            .current_dir(self.path())
            .env("DROVER_KERNELS", KERNELS.root())
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
