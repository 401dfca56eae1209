//! A pool of cgroups for tasks. Making and removing one costs as much as a third of a short task, so empty ones are kept and used
//! again; one that holds processes when an agent starts is an orphan of an earlier agent.

use std::{
    fs, io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::fs::MetadataExt,
    },
    path::{Path, PathBuf},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use rustix::fs::{Mode, OFlags};

use super::{Cgroup1, Cgroup2, Tree, destroy};
use crate::sys::{self, Entry};

/// Most empty cgroups that are kept.
const KEPT: usize = 64;

/// How long the end of the pool waits for processes that were killed before.
const LAST_PATIENCE: Duration = Duration::from_secs(1);

/// Version of the hierarchy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SlotKind {
    V1,
    V2,
}

/// One cgroup, for one task at a time.
#[derive(Debug)]
pub(crate) struct Slot {
    kind: SlotKind,
    pub(super) path: PathBuf,
    pub(super) dir: OwnedFd,
    /// Version 2: `cgroup.events`.
    pub(super) events: Option<OwnedFd>,
    /// Where a process writes itself to, if it cannot be born inside.
    join: Option<OwnedFd>,
    /// Killed as a whole once. Linux 6.14 and later compare how often the parent's cgroup and the child's were killed, and kill what is
    /// born into one where the numbers differ; so this one is not used again.
    pub(super) spent: AtomicBool,
}

impl Slot {
    /// Opens a cgroup that exists.
    pub(crate) fn open(kind: SlotKind, path: PathBuf, born_inside: bool) -> io::Result<Self> {
        let directory = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = rustix::fs::open(&path, directory, Mode::empty())?;
        let file = |name: &str, flags| {
            rustix::fs::openat(&dir, name, flags | OFlags::CLOEXEC, Mode::empty()).map_err(io::Error::from)
        };
        let events = match kind {
            SlotKind::V2 => Some(file("cgroup.events", OFlags::RDONLY)?),
            SlotKind::V1 => None,
        };
        let join = if born_inside { None } else { Some(file("cgroup.procs", OFlags::WRONLY)?) };
        Ok(Self { kind, path, dir, events, join, spent: AtomicBool::new(false) })
    }

    /// Another handle of the same cgroup, that can list what is in it and do nothing else.
    pub(crate) fn view(&self) -> io::Result<Self> {
        let (path, dir) = (self.path.clone(), self.dir.try_clone()?);
        Ok(Self { kind: self.kind, path, dir, events: None, join: None, spent: AtomicBool::new(false) })
    }

    /// How a new process gets in.
    pub(crate) fn entry(&self) -> Entry<'_> {
        match &self.join {
            Some(procs) => Entry::Write(procs.as_fd()),
            None => Entry::BornInto(self.dir.as_fd()),
        }
    }

    /// All threads of its processes.
    pub(crate) fn threads(&self) -> io::Result<Vec<u32>> {
        let name = match self.kind {
            SlotKind::V1 => "tasks",
            SlotKind::V2 => "cgroup.threads",
        };
        self.collect(name)
    }

    /// The numbers in a file of this cgroup and of those that a task made below it.
    pub(super) fn collect(&self, file: &str) -> io::Result<Vec<u32>> {
        let mut found = read_numbers(self.dir.as_fd(), file)?;
        if self.has_children()? {
            for dir in descendants(&self.path) {
                if let Ok(fd) = rustix::fs::open(&dir, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()) {
                    found.extend(read_numbers(fd.as_fd(), file)?);
                }
            }
        }
        Ok(found)
    }

    /// A directory has two links and one more for each directory in it.
    fn has_children(&self) -> io::Result<bool> {
        Ok(rustix::fs::fstat(&self.dir)?.st_nlink > 2)
    }

    /// Removes the cgroups that a task made below.
    fn clear_children(&self) -> io::Result<()> {
        if self.has_children()? {
            for dir in descendants(&self.path).iter().rev() {
                fs::remove_dir(dir)?;
            }
        }
        Ok(())
    }

    /// Reads a control file.
    pub(super) fn read(&self, file: &str) -> io::Result<String> {
        read_file(self.dir.as_fd(), file)
    }

    /// Writes to a control file.
    pub(super) fn write(&self, file: &str, value: &str) -> io::Result<()> {
        let fd = rustix::fs::openat(&self.dir, file, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
        rustix::io::retry_on_intr(|| rustix::io::write(&fd, value.as_bytes()))?;
        Ok(())
    }
}

impl Tree for Slot {
    fn processes(&self) -> io::Result<Vec<u32>> {
        self.collect("cgroup.procs")
    }

    fn is_empty(&self) -> io::Result<bool> {
        match self.kind {
            SlotKind::V1 => Cgroup1(self).is_empty(),
            SlotKind::V2 => Cgroup2(self).is_empty(),
        }
    }

    fn strike(&self, processes: &[u32]) -> io::Result<()> {
        match self.kind {
            SlotKind::V1 => Cgroup1(self).strike(),
            SlotKind::V2 => Cgroup2(self).strike(processes),
        }
    }
}

/// Directories below, parents before children. Reads what is there at one moment; the tree is dead or about to be killed again.
fn descendants(path: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut next = vec![path.to_owned()];
    while let Some(dir) = next.pop() {
        for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                found.push(entry.path());
                next.push(entry.path());
            }
        }
    }
    found
}

fn read_numbers(dir: std::os::fd::BorrowedFd<'_>, name: &str) -> io::Result<Vec<u32>> {
    let text = match read_file(dir, name) {
        // A cgroup in threaded mode lists threads only.
        Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => read_file(dir, "cgroup.threads")?,
        // Removed meanwhile, so empty.
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENODEV | libc::ENOENT)) => String::new(),
        other => other?,
    };
    Ok(text
        .split_ascii_whitespace()
        .filter_map(|number| number.parse().ok())
        .filter(|&pid| pid != 0)
        .collect())
}

fn read_file(dir: std::os::fd::BorrowedFd<'_>, name: &str) -> io::Result<String> {
    let fd = rustix::fs::openat(dir, name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    io::read_to_string(fs::File::from(fd))
}

/// The pool.
#[derive(Debug)]
pub(crate) struct Slots {
    kind: SlotKind,
    base: PathBuf,
    born_inside: bool,
    next: AtomicU32,
    /// Empty ones.
    free: Mutex<Vec<Slot>>,
    /// Given back before they were proven empty.
    dirty: Mutex<Vec<Slot>>,
}

impl Slots {
    /// A pool in `parent/drover-NAME`. Tries a process in it, because permissions, a container's filter or the kernel's version may
    /// forbid what the files promise.
    pub(crate) fn open(kind: SlotKind, parent: &Path, name: &str) -> io::Result<Self> {
        let base = parent.join(format!("drover-{name}"));
        make_dir(&base)?;
        let slots = Self {
            kind,
            base,
            born_inside: kind == SlotKind::V2,
            next: AtomicU32::new(0),
            free: Mutex::default(),
            dirty: Mutex::default(),
        };
        slots.probe()
    }

    fn probe(mut self) -> io::Result<Self> {
        loop {
            let slot = self.take()?;
            match sys::probe_entry(slot.entry()) {
                Ok(()) => {
                    if self.kind == SlotKind::V1 {
                        slot.write("freezer.state", "THAWED")?;
                    }
                    self.give_back(slot);
                    return Ok(self);
                }
                Err(_) if self.born_inside => {
                    self.born_inside = false;
                    let _ = fs::remove_dir(&slot.path);
                }
                Err(error) => {
                    let _ = fs::remove_dir(&slot.path);
                    return Err(error);
                }
            }
        }
    }

    /// The directory of the pool.
    pub(crate) fn base(&self) -> &Path {
        &self.base
    }

    /// An empty cgroup.
    pub(crate) fn take(&self) -> io::Result<Slot> {
        if let Some(slot) = lock(&self.free).pop() {
            return Ok(slot);
        }
        self.sweep();
        if let Some(slot) = lock(&self.free).pop() {
            return Ok(slot);
        }
        loop {
            let path = self.base.join(format!("t{}", self.next.fetch_add(1, Ordering::Relaxed)));
            match fs::create_dir(&path) {
                Ok(()) => return Slot::open(self.kind, path, self.born_inside),
                // Left by an earlier agent.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Takes back a cgroup that is proven empty.
    pub(crate) fn give_back(&self, slot: Slot) {
        let mut free = lock(&self.free);
        let keep = free.len() < KEPT && !slot.spent.load(Ordering::Relaxed) && slot.clear_children().is_ok();
        if keep {
            free.push(slot);
        } else if remove(&slot).is_err() {
            drop(free);
            self.give_back_dirty(slot);
        }
    }

    /// Looks again at those that could not be taken back properly.
    fn sweep(&self) {
        let (empty, dirty): (Vec<_>, Vec<_>) =
            lock(&self.dirty).drain(..).partition(|slot| slot.is_empty().unwrap_or(false));
        lock(&self.dirty).extend(dirty);
        empty.into_iter().for_each(|slot| self.give_back(slot));
    }

    /// Takes back a cgroup that may still hold processes.
    pub(crate) fn give_back_dirty(&self, slot: Slot) {
        lock(&self.dirty).push(slot);
    }

    /// The cgroups that were there before this pool was opened, or that another process of the same name made in it.
    pub(crate) fn left_behind(&self) -> io::Result<Vec<Slot>> {
        let ours: Vec<PathBuf> = lock(&self.free).iter().map(|slot| slot.path.clone()).collect();
        left_behind(self.kind, &self.base, &ours)
    }
}

/// Opens the cgroups below `base`, except those of `ours`.
pub(crate) fn left_behind(kind: SlotKind, base: &Path, ours: &[PathBuf]) -> io::Result<Vec<Slot>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(base)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() && !ours.contains(&entry.path()) {
            found.push(Slot::open(kind, entry.path(), true)?);
        }
    }
    Ok(found)
}

/// Removes a cgroup that is proven empty.
pub(crate) fn remove(slot: &Slot) -> io::Result<()> {
    slot.clear_children()?;
    fs::remove_dir(&slot.path)
}

impl Drop for Slots {
    fn drop(&mut self) {
        for slot in lock(&self.free).drain(..) {
            let _ = remove(&slot);
        }
        for slot in lock(&self.dirty).drain(..) {
            // What is left after this is found by the next agent.
            if destroy(&slot, LAST_PATIENCE).is_ok() {
                let _ = remove(&slot);
            }
        }
        let _ = fs::remove_dir(&self.base);
    }
}

fn make_dir(path: &Path) -> io::Result<()> {
    match fs::create_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            // Only a cgroup that is ours: another user's of the same name would let that user see and move our tasks.
            let owner = fs::metadata(path)?.uid();
            if owner == rustix::process::geteuid().as_raw() {
                Ok(())
            } else {
                Err(io::Error::new(io::ErrorKind::PermissionDenied, "it belongs to another user"))
            }
        }
        other => other,
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
