//! The supervisor: chooses how process trees are contained and starts tasks. One per agent.

use std::{
    fs::File,
    io,
    os::fd::{AsFd, AsRawFd, OwnedFd},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use rustix::process::PidfdFlags;

use crate::{
    Child, Config, Containment, Launch, OrphanError, OrphanReport, SetupError, SpawnError,
    child::{Gate, GateKey, Scope},
    contain::{CgroupPlaces, Group, MARKER, Slot, SlotKind, Slots, is_foreign, wait_for},
    launch, orphans, proc,
    registry::REGISTRY,
    sys::{self, CloneError, Entry, Image, Start},
};

/// Starts tasks and keeps their process trees together. Shared by reference between threads.
#[derive(Debug)]
pub struct Supervisor {
    shared: Arc<Shared>,
    name: String,
    state_dir: PathBuf,
    containment: Containment,
    drawbacks: Vec<String>,
    /// Standard input of every task.
    null: OwnedFd,
}

/// What children need of their supervisor.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) kill_wait: Duration,
    slots: Option<Slots>,
}

impl Supervisor {
    /// Chooses a containment and makes this process the one that adopts orphaned descendants (subreaper).
    ///
    /// # Errors
    ///
    /// A bad name, a kernel without pidfds (before Linux 5.4), or a containment that was insisted on and does not work.
    pub fn new(config: Config) -> Result<Self, SetupError> {
        if !is_file_name(&config.name, 64) {
            return Err(SetupError::BadName(config.name));
        }
        let system = |step| move |source: io::Error| SetupError::System { step, source };
        let own = rustix::process::getpid();
        rustix::process::set_child_subreaper(Some(own))
            .map_err(|e| system("become a subreaper")(e.into()))?;
        rustix::process::pidfd_open(own, PidfdFlags::empty())
            .map_err(|e| system("open a pidfd; Linux 5.4 or newer is needed")(e.into()))?;
        let null = File::options().read(true).open("/dev/null").map_err(system("open /dev/null"))?;
        let null = above_stdio(null.into()).map_err(system("open /dev/null"))?;
        let choice = contain(&config)?;
        if let Some(slots) = &choice.slots {
            orphans::record(&config.state_dir, choice.containment, slots.base())
                .map_err(system("record the place of the cgroup in the state directory"))?;
        }
        Ok(Self {
            shared: Arc::new(Shared { kill_wait: config.kill_wait, slots: choice.slots }),
            name: config.name,
            state_dir: config.state_dir,
            containment: choice.containment,
            drawbacks: choice.drawbacks,
            null,
        })
    }

    /// How tasks are contained.
    #[must_use]
    pub fn containment(&self) -> Containment {
        self.containment
    }

    /// Why a better containment was not chosen, for the log and `doctor`: one sentence per mechanism.
    #[must_use]
    pub fn drawbacks(&self) -> &[String] {
        &self.drawbacks
    }

    /// Kills what earlier agents of the same name left behind. To be called once, before the first `spawn`, by an agent
    /// that holds the lock of its state directory.
    ///
    /// # Errors
    ///
    /// When a process cannot be found out about or cannot be killed.
    pub fn reap_orphans(&self) -> Result<Vec<OrphanReport>, OrphanError> {
        orphans::reap(&self.name, &self.state_dir, self.shared.slots.as_ref(), self.shared.kill_wait)
    }

    /// Starts a task in its own session and containment. Returns after `exec` succeeded, or (held) when the process
    /// waits right before it.
    ///
    /// # Errors
    ///
    /// See [`SpawnError`]; nothing is left behind.
    pub fn spawn(&self, mut launch: Launch<'_>) -> Result<Child, SpawnError> {
        if !is_file_name(launch.task, 255) {
            return Err(SpawnError::Invalid(format!("`{}` is not a name for a task", launch.task)));
        }
        let system = |step| move |source: io::Error| SpawnError::System { step, source };
        let marker = format!("{}/{}", self.name, launch.task);
        let env = launch.environment((MARKER, &marker));
        let program = launch.program(&env)?;
        launch.stdout = above_stdio(launch.stdout).map_err(system("connect its output"))?;
        launch.stderr = above_stdio(launch.stderr).map_err(system("connect its output"))?;
        let stdio = [self.null.as_fd(), launch.stdout.as_fd(), launch.stderr.as_fd()];
        let image = Image::new(&program, launch.argv, &env, launch.cwd, stdio, launch.cpus)
            .map_err(|error| SpawnError::Invalid(format!("{:?} contains a NUL byte", error.0)))?;

        let slot =
            self.shared.slots.as_ref().map(Slots::take).transpose().map_err(system("make its cgroup"))?;
        let entry = slot.as_ref().map_or(Entry::Nothing, Slot::entry);
        let rss_floor = sys::own_peak_rss_bytes();
        let start = match self.start(&image, entry, launch.hold) {
            Ok(start) => start,
            Err(error) => {
                if let Some(slot) = slot {
                    self.shared.give_back_dirty(slot);
                }
                let command = launch.argv.first().map_or("", String::as_str);
                return Err(match error {
                    CloneError::Clone(source) => system("make a process")(source),
                    CloneError::Child(failure) => {
                        launch::failure(failure, command, &program, launch.cwd, launch.cpus)
                    }
                    CloneError::Died => SpawnError::NeverReleased,
                });
            }
        };
        let gate = start.gate.map(|socket| Gate {
            key: GateKey::new(socket),
            command: launch.argv.first().cloned().unwrap_or_default(),
            program,
            cwd: launch.cwd.to_owned(),
        });
        let scope = match slot {
            Some(slot) => Scope::Cgroup(slot),
            None => Scope::Group(Group { main: start.pid, marker }),
        };
        Ok(Child {
            shared: Arc::clone(&self.shared),
            pid: start.pid,
            pidfd: start.pidfd,
            gate,
            scope: Some(scope),
            exit: None,
            rss_floor,
        })
    }

    /// Makes the process and registers it under one lock.
    fn start(&self, image: &Image<'_>, entry: Entry<'_>, hold: bool) -> Result<Start, CloneError> {
        let mut pause = BUSY_PAUSE;
        loop {
            let mut known = REGISTRY.lock();
            let result = if hold {
                sys::start_held(image, entry)
            } else {
                sys::start_now(image, entry, &mut known.stack)
            };
            match result {
                // A program that was just written is busy while a process that is being started at the same moment still has a
                // copy of the descriptor it was written through.
                Err(CloneError::Child(failure)) if failure.errno == libc::ETXTBSY && pause < BUSY_LIMIT => {
                    drop(known);
                    wait_for(&mut [], pause).map_err(CloneError::Clone)?;
                    pause *= 2;
                }
                Ok(start) => {
                    known.insert(start.pid);
                    return Ok(start);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Collects the status of adopted processes that have ended; never that of a task's first process, nor of a child
    /// that the agent started by other means in its own session. One system call if there is none. Returns how many.
    pub fn reap_strays(&self) -> u32 {
        self.shared.reap_strays()
    }
}

impl Shared {
    pub(crate) fn give_back(&self, slot: Slot) {
        if let Some(slots) = &self.slots {
            slots.give_back(slot);
        }
    }

    pub(crate) fn give_back_dirty(&self, slot: Slot) {
        if let Some(slots) = &self.slots {
            slots.give_back_dirty(slot);
        }
    }

    /// See [`Supervisor::reap_strays`].
    pub(crate) fn reap_strays(&self) -> u32 {
        // While a process is being made its end could be mistaken for that of a stray; there will be another occasion.
        let Some(known) = REGISTRY.try_lock() else { return 0 };
        let mut reaped = 0;
        let mut reap = |pid: u32| {
            let stray = !known.contains(pid) && is_foreign(pid) && matches!(sys::reap(pid), Ok(Some(_)));
            reaped += u32::from(stray);
            stray
        };
        // The kernel shows one ended child at a time. As long as that is a stray, there is no need to list them all.
        while let Ok(Some(pid)) = sys::peek_ended_child() {
            if !reap(pid) {
                for pid in proc::own_children().unwrap_or_default() {
                    reap(pid);
                }
                break;
            }
        }
        reaped
    }
}

/// First and longest pause before a busy program is tried again.
const BUSY_PAUSE: Duration = Duration::from_millis(1);
const BUSY_LIMIT: Duration = Duration::from_millis(200);

/// The containment that works.
struct Choice {
    containment: Containment,
    slots: Option<Slots>,
    drawbacks: Vec<String>,
}

fn contain(config: &Config) -> Result<Choice, SetupError> {
    let places = CgroupPlaces::find()
        .map_err(|source| SetupError::System { step: "read /proc/self/mountinfo", source })?;
    let mut drawbacks = Vec::new();
    let cgroups = [
        (Containment::Cgroup2, SlotKind::V2, places.v2),
        (Containment::Cgroup1, SlotKind::V1, places.freezer),
    ];
    for (containment, kind, parents) in cgroups {
        if config.containment.is_some_and(|wanted| wanted != containment) {
            continue;
        }
        if parents.is_empty() {
            drawbacks.push(format!("{}: no hierarchy is mounted", containment.as_str()));
        }
        for parent in parents {
            match Slots::open(kind, &parent, &config.name) {
                Ok(slots) => return Ok(Choice { containment, slots: Some(slots), drawbacks }),
                Err(error) => {
                    drawbacks.push(format!("{}: {}: {error}", containment.as_str(), parent.display()));
                }
            }
        }
    }
    match config.containment {
        None | Some(Containment::ProcessGroup) => {
            Ok(Choice { containment: Containment::ProcessGroup, slots: None, drawbacks })
        }
        Some(containment) => Err(SetupError::Unavailable { containment, reason: drawbacks.join("; ") }),
    }
}

/// Descriptors 0 to 2 would be overwritten while those of a task are put into place.
fn above_stdio(fd: OwnedFd) -> io::Result<OwnedFd> {
    if fd.as_raw_fd() > 2 { Ok(fd) } else { Ok(rustix::io::fcntl_dupfd_cloexec(&fd, 3)?) }
}

/// Whether a text is safe as a file name and in a marker.
fn is_file_name(text: &str, longest: usize) -> bool {
    let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    (1..=longest).contains(&text.len()) && text.chars().all(good) && !text.starts_with('.')
}
