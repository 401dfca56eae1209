//! A folder with results, kernels and a host file with one virtual machine.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    sync::LazyLock,
    time::{Duration, Instant},
};

use drover_vm::{AptOptions, Catalogue, Kernel};
use serde_json::Value;
use tempfile::TempDir;

/// Two kernels, by what matrices here call them.
pub const OLD: &str = "old";
pub const NEW: &str = "new+1";

/// Labels and packages.
const PACKAGES: [(&str, &str); 2] =
    [(OLD, "debian:linux-image-cloud-amd64"), (NEW, "debian:linux-image-6.12-cloud-amd64")];

/// The kernels, fetched once.
static KERNELS: LazyLock<Catalogue> = LazyLock::new(|| {
    let catalogue = Catalogue::new(Path::new(env!("CARGO_TARGET_TMPDIR")).join("kernels"));
    for (label, package) in PACKAGES {
        if catalogue.fetch(package, Some(label), &AptOptions::default()).is_err() {
            // There may be a newer one by now.
            fetch_anew(&catalogue, label);
        }
    }
    catalogue
});

fn fetch_anew(catalogue: &Catalogue, label: &str) {
    let _ = catalogue.remove(label);
    let package = PACKAGES.iter().find_map(|(known, package)| (*known == label).then_some(*package));
    let fetched = catalogue.fetch(package.expect("a label from here"), Some(label), &AptOptions::default());
    fetched.unwrap_or_else(|error| panic!("{package:?}: {error}"));
}

pub fn kernel(label: &str) -> Kernel {
    KERNELS.get(label).expect("a kernel that was fetched")
}

/// The module that breaks a kernel in the ways that its source names, built for this one.
pub fn fault_module(label: &str) -> PathBuf {
    build_module(&kernel(label)).unwrap_or_else(|| {
        // The archive keeps no headers for a kernel of last year.
        fetch_anew(&KERNELS, label);
        build_module(&kernel(label)).expect("a module for the kernel of today")
    })
}

fn build_module(kernel: &Kernel) -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("modules").join(&kernel.release);
    let build = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vms/module/build");
    let version = kernel.package_version.as_deref().expect("a kernel of a package");
    let built = Command::new(build).args([&kernel.release, version]).arg(&folder).status().expect("bash");
    built.success().then(|| folder.join("drover_fault.ko"))
}

/// The example that loads modules and resets machines.
pub fn guest_program() -> PathBuf {
    let test = std::env::current_exe().expect("this program's path");
    let target = test.parent().and_then(Path::parent).expect("cargo's folder");
    target.join("examples/vm_guest")
}

/// A place's own catalogue, below it.
const OWN_KERNELS: &str = "kernels";

/// Longest wait for a condition that has to come true: a machine may have to boot before.
const PATIENCE: Duration = Duration::from_secs(240);

/// Waits until a condition holds.
#[track_caller]
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "waited {PATIENCE:?} in vain until {what}");
        std::thread::park_timeout(Duration::from_millis(50));
    }
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

    /// With a QEMU that does something else than it is told: `cases` of a shell change `arg`, by the argument before, `last`, and
    /// may add to `args`.
    pub fn disobedient(vm: &str, cases: &str) -> Self {
        let lab = Self::new(&format!("{vm}, qemu: ./qemu"), "");
        let script = format!(
            "#!/bin/bash\nargs=()\nfor arg; do\n  case $last in {cases} esac\n  args+=(\"$arg\")\n  last=$arg\ndone\n\
             exec qemu-system-x86_64 \"${{args[@]}}\"\n"
        );
        let qemu = lab.write("qemu", &script);
        fs::set_permissions(&qemu, fs::Permissions::from_mode(0o755)).expect("our file");
        let hosts = fs::read_to_string(lab.path().join("hosts.yaml")).expect("the host file");
        lab.write("hosts.yaml", &hosts.replace("./qemu", qemu.to_str().expect("a plain path")));
        lab
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// A catalogue of its own, instead of that of all tests.
    pub fn catalogue(&self) -> Catalogue {
        Catalogue::new(self.path().join(OWN_KERNELS))
    }

    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path().join(name);
        fs::write(&path, text).expect("a writable folder");
        path
    }

    /// The program, set up for this place.
    pub fn drover(&self, arguments: &[&str]) -> Command {
        let own = self.path().join(OWN_KERNELS);
        let mut command = Command::new(env!("CARGO_BIN_EXE_drover"));
        command
            .args(arguments)
            .current_dir(self.path())
            .env("DROVER_KERNELS", if own.exists() { &own } else { KERNELS.root() })
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

    /// A file below the results whose path ends so.
    pub fn find(&self, end: &str) -> PathBuf {
        let runs = self.path().join("drover-results/runs");
        let mut found = runs.read_dir().expect("a run").flatten().map(|run| run.path().join(end));
        found.find(|path| path.exists()).unwrap_or_else(|| panic!("there is no {end}"))
    }

    /// The folders of the machines' boots, and what their consoles say.
    pub fn consoles(&self) -> Vec<(PathBuf, String)> {
        let machines = self.path().read_dir().expect("our folder").flatten();
        let is_machine = |name: &std::ffi::OsStr| name.to_string_lossy().starts_with("drover-vm-");
        let machines = machines.filter(|entry| is_machine(&entry.file_name())).map(|entry| entry.path());
        let boots = machines.filter_map(|machine| machine.read_dir().ok()).flat_map(Iterator::flatten);
        let console = |boot: PathBuf| {
            let bytes = fs::read(boot.join("console.log")).ok()?;
            Some((boot, String::from_utf8_lossy(&bytes).into_owned()))
        };
        boots.filter_map(|boot| console(boot.path())).collect()
    }

    /// The process of QEMU that works in this place.
    pub fn qemu(&self) -> Option<i32> {
        let processes = fs::read_dir("/proc").expect("/proc").flatten();
        let mut pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        pids.find(|pid: &i32| {
            let is_here =
                fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd.starts_with(self.path()));
            let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            is_here && name.starts_with("qemu")
        })
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
