//! What the tests of this crate share: a supervisor per containment, tasks made of shell scripts, and waiting without sleeping.

use std::{
    fs::File,
    io::Read,
    os::fd::OwnedFd,
    path::Path,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use drover_supervise::{Child, Config, Containment, CpuSet, Exit, Launch, SpawnError, Supervisor, clean_env};
use rustix::event::{PollFd, PollFlags, Timespec};

/// Longest wait for anything; a test that gets here has failed.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Numbers tasks.
static NEXT: AtomicU32 = AtomicU32::new(0);

/// A supervisor with its state directory, and a directory for the files of its tasks.
pub struct Lab {
    pub supervisor: Supervisor,
    pub dir: tempfile::TempDir,
}

/// Runs `test` with every containment that this host has: all three for root on a host with both cgroup versions, and always the
/// process group.
pub fn with_each_containment(test: impl Fn(&Lab)) {
    // Without cgroups some answers depend on which other tasks of the same program run; nextest has one program per test anyway.
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    for containment in [Containment::Cgroup2, Containment::Cgroup1, Containment::ProcessGroup] {
        match Lab::try_new(containment) {
            Ok(lab) => test(&lab),
            Err(error) => {
                assert_ne!(containment, Containment::ProcessGroup, "{error}");
                println!("{error}");
            }
        }
    }
}

impl Lab {
    pub fn try_new(containment: Containment) -> Result<Self, drover_supervise::SetupError> {
        let dir = tempfile::tempdir().unwrap();
        let unique: String =
            dir.path().to_str().unwrap().chars().filter(char::is_ascii_alphanumeric).collect();
        let mut config = Config::new(format!("test-{}-{unique}", std::process::id()), dir.path().to_owned());
        config.containment = Some(containment);
        Ok(Self { supervisor: Supervisor::new(config)?, dir })
    }

    /// What this lab runs in, for messages.
    pub fn name(&self) -> &'static str {
        self.supervisor.containment().as_str()
    }

    pub fn start(&self, argv: &[&str], adjust: impl FnOnce(&mut Adjust)) -> Result<Task, SpawnError> {
        let argv: Vec<String> = argv.iter().map(|&word| word.to_owned()).collect();
        let mut adjust_to = Adjust { hold: false, cpus: None, env: clean_env() };
        adjust(&mut adjust_to);
        let (ours, theirs) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
        let child = self.supervisor.spawn(Launch {
            task: &format!("task.{}", NEXT.fetch_add(1, Ordering::Relaxed)),
            argv: &argv,
            env: &adjust_to.env,
            cwd: self.dir.path(),
            cpus: adjust_to.cpus.as_ref(),
            hold: adjust_to.hold,
            stdout: theirs.try_clone().unwrap(),
            stderr: theirs,
        })?;
        Ok(Task { child, output: ours })
    }

    /// Starts a shell script.
    pub fn shell(&self, script: &str) -> Task {
        self.start(&["/bin/sh", "-c", script], |_| {}).unwrap()
    }

    pub fn file(&self, name: &str, contents: &str, mode: u32) -> String {
        use std::os::unix::fs::PermissionsExt;
        let path = self.dir.path().join(name);
        std::fs::write(&path, contents).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

/// What a test may want to differ.
pub struct Adjust {
    pub hold: bool,
    pub cpus: Option<CpuSet>,
    pub env: Vec<(String, String)>,
}

pub struct Task {
    pub child: Child,
    pub output: OwnedFd,
}

impl Task {
    /// Waits for the first process to end.
    pub fn exit(&mut self) -> Exit {
        let patience = Timespec::try_from(PATIENCE).unwrap();
        rustix::event::poll(&mut [PollFd::new(&self.child.pidfd(), PollFlags::IN)], Some(&patience)).unwrap();
        self.child.try_wait().unwrap().unwrap_or_else(|| panic!("still running after {PATIENCE:?}"))
    }

    /// Waits until the task has printed a line, and returns it.
    pub fn line(&mut self) -> String {
        let mut line = Vec::new();
        loop {
            let mut byte = [0];
            assert_eq!(
                rustix::io::read(&self.output, &mut byte).unwrap(),
                1,
                "ended before it printed a line"
            );
            if byte == *b"\n" {
                return String::from_utf8(line).unwrap();
            }
            line.push(byte[0]);
        }
    }

    /// All that is printed until every process of the task has closed its output.
    pub fn rest(self) -> String {
        let mut text = String::new();
        File::from(self.output).read_to_string(&mut text).unwrap();
        text
    }
}

/// Waits for a condition that has no event of its own.
pub fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "{what}: not after {PATIENCE:?}");
        let pause = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };
        rustix::event::poll(&mut [], Some(&pause)).unwrap();
    }
}

/// Whether a process exists and is no zombie.
pub fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat"));
    stat.is_ok_and(|stat| !stat.rsplit_once(") ").unwrap().1.starts_with(['Z', 'X']))
}
