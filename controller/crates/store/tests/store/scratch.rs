//! Results folders that vanish with the test, and this test program started again as another process.

use std::{
    env,
    io::Write,
    path::{Path, PathBuf},
    process::Command,
};

use drover_store::{ResultsDir, SqliteStore};
use tempfile::TempDir;

/// Tells a process that it was started by [`again`], and what to work on.
const FOLDER: &str = "DROVER_STORE_TEST_FOLDER";

pub struct Scratch {
    pub root: TempDir,
    pub dir: ResultsDir,
}

impl Scratch {
    pub fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let dir = ResultsDir::create(root.path().join("results")).unwrap();
        Self { root, dir }
    }

    pub fn open(&self) -> SqliteStore {
        SqliteStore::open(&self.dir).unwrap()
    }
}

/// The folder to work on, if this process was started by [`again`]: the body of a test named `child_...`.
pub fn folder_for_child() -> Option<PathBuf> {
    env::var_os(FOLDER).map(PathBuf::from)
}

/// This program, to run only the test `child` (its full path) on `folder`, started through `wrapper` if not empty.
pub fn again(wrapper: &[&str], child: &str, folder: &Path) -> Command {
    let mut words = wrapper.iter().map(std::ffi::OsString::from).collect::<Vec<_>>();
    words.push(env::current_exe().unwrap().into());
    let mut command = Command::new(words.remove(0));
    command.args(words).args([child, "--exact", "--nocapture", "--test-threads=1"]).env(FOLDER, folder);
    command
}

/// As [`again`], in a mount namespace of its own, as its root.
pub fn again_with_mounts(child: &str, folder: &Path) -> Command {
    let root = rustix::process::geteuid().is_root();
    let wrapper: &[&str] =
        if root { &["unshare", "--mount"] } else { &["unshare", "--mount", "--map-root-user"] };
    again(wrapper, child, folder)
}

/// Runs a child to its end; fails with what it wrote if it failed or had no test to run.
pub fn expect_success(mut command: Command) {
    let output = command.output().expect("`unshare` of util-linux must be installed");
    let text = String::from_utf8_lossy(&output.stdout);
    let good = output.status.success() && text.contains("1 passed");
    assert!(good, "{command:?}: {}\n{text}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
}

/// Mounts a small file system of its own on `folder`. Only in a child started with [`again_with_mounts`].
pub fn mount_tmpfs(folder: &Path, size: &str) {
    let status = Command::new("mount")
        .args(["-t", "tmpfs", "-o", size, "tmpfs"])
        .arg(folder)
        .status()
        .expect("`mount` must be installed");
    assert!(status.success(), "cannot mount a tmpfs: this test needs root or user namespaces");
}

/// Writes a whole line at once, past the test harness's own output.
pub fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("{line}\n").as_bytes()).and_then(|()| out.flush()).unwrap();
}
