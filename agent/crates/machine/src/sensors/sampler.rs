//! Opens all sources once and reads them into one sample.

use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use rustix::time::{ClockId, clock_gettime};

use super::{
    file::{BUFFER, SensorFile},
    frequency::Frequencies,
    machine::{Gauges, Listed, Load, Pressure, Stat},
    network::{Sockets, Softnet, Tables},
    process::ProcessReader,
    sample::Sample,
    schema::Schema,
    sink::{Parse, Sink},
    tasks::{Ours, Pace, Reading, Task, TaskProcesses, Tasks},
};

/// How often samples are meant to be taken.
pub const INTERVAL: Duration = Duration::from_secs(1);

/// Where sensors read, and how often what is dear.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SensorOptions {
    /// Directory with `proc` and `sys`; another one than `/` for recorded trees.
    pub root: PathBuf,
    /// Directory of the network files, below `root`: `proc/self/net`, or `proc/PID/net` for the network namespace of another process.
    pub net: PathBuf,
    /// Open files and context switches of processes, frequencies and throttling are read in every so many samples; one process now, another
    /// then, so that no sample costs much more than the others.
    pub slow_every: u64,
    /// Of a task with more processes than this, each sample reads a part, in turns, and takes the others' last figures: of 200 processes each
    /// is read every 10 samples, and what is dear of it every 40.
    pub processes_per_sample: usize,
}

impl Default for SensorOptions {
    fn default() -> Self {
        Self { root: "/".into(), net: "proc/self/net".into(), slow_every: 10, processes_per_sample: 20 }
    }
}

/// Why there are no sensors.
#[derive(Debug, thiserror::Error)]
#[error("cannot open {}: sensors need it; is /proc mounted?", path.display())]
pub struct SensorsError {
    /// The file.
    pub path: PathBuf,
    /// Why.
    pub source: io::Error,
}

/// The open sources of an attempt.
#[derive(Debug)]
pub struct Sensors {
    schema: Schema,
    refused: u64,
    sources: Vec<(SensorFile, Box<dyn Parse>)>,
    missing: Vec<(PathBuf, io::ErrorKind)>,
    frequencies: Frequencies,
    tasks: Tasks,
    agent: Task,
    ours: Ours,
    agent_reader: ProcessReader,
    agent_open: usize,
    boot_id: Option<String>,
    turn: u64,
    slow_every: u64,
    processes: usize,
    page: u64,
    buffer: Vec<u8>,
}

impl Sensors {
    /// Opens what is there of all sources.
    ///
    /// # Errors
    ///
    /// When not even `/proc/stat` can be opened. What else is not there is in [`Self::missing`], and its series are absent.
    pub fn open(options: &SensorOptions) -> Result<Self, SensorsError> {
        let root = &options.root;
        let mut schema = Schema::new();
        let mut refused = 0;
        let (mut sources, mut missing) = (Vec::new(), Vec::new());
        for (path, parser) in parsers(&options.net) {
            let path = root.join(path);
            match SensorFile::open(&path) {
                Ok(file) => sources.push((file, parser)),
                Err(source) if path.ends_with("proc/stat") => return Err(SensorsError { path, source }),
                Err(error) => missing.push((path, error.kind())),
            }
        }
        let mut sample = Sample::default();
        let mut sink = Sink { schema: &mut schema, sample: &mut sample, refused: &mut refused };
        let agent = Task::new("agent", false, &mut sink);
        let ours = Ours::new(&mut sink);
        let boot_id = std::fs::read_to_string(root.join("proc/sys/kernel/random/boot_id")).ok();
        Ok(Self {
            schema,
            refused,
            sources,
            missing,
            frequencies: Frequencies::new(root),
            tasks: Tasks::new(root),
            agent,
            ours,
            agent_reader: ProcessReader::new(root),
            agent_open: 0,
            boot_id: boot_id.map(|id| id.trim().to_owned()),
            turn: 0,
            slow_every: options.slow_every.max(1),
            processes: options.processes_per_sample.max(1),
            page: u64::try_from(rustix::param::page_size()).unwrap_or(4096),
            buffer: vec![0; BUFFER],
        })
    }

    /// Reads everything into `sample`, whose memory is used again. A source that cannot be read leaves its series absent.
    pub fn read(&mut self, tasks: &[TaskProcesses<'_>], sample: &mut Sample) {
        sample.clear();
        sample.monotonic_ns = monotonic_ns();
        sample.unix_us = unix_us();
        let Self { schema, refused, buffer, .. } = self;
        let mut sink = Sink { schema, sample, refused };
        for (file, parser) in &mut self.sources {
            if let Ok(text) = file.read(buffer) {
                parser.parse(text, &mut sink);
            }
        }
        if self.turn.is_multiple_of(self.slow_every) {
            self.frequencies.read(buffer, &mut sink);
        }
        let pace = Pace { turn: self.turn, slow_every: self.slow_every, processes: self.processes };
        let mut reading = Reading { reader: &mut self.agent_reader, buffer, open: &mut self.agent_open };
        self.agent.read(&[std::process::id()], pace, &mut reading);
        self.agent.put(self.page, &mut sink);
        let of_tasks = self.tasks.read(tasks, pace, buffer, &mut sink);
        self.ours.put(self.agent.spent().plus(of_tasks), &mut sink);
        self.turn += 1;
    }

    /// The series of all samples so far. It grows when something new is seen, at the end only.
    #[must_use]
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// Sources that were not there, with the reason.
    #[must_use]
    pub fn missing(&self) -> &[(PathBuf, io::ErrorKind)] {
        &self.missing
    }

    /// How often a series found no room in the schema.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// The id of the running boot, where the kernel tells it.
    #[must_use]
    pub fn boot_id(&self) -> Option<&str> {
        self.boot_id.as_deref()
    }
}

/// All files with their parsers. `/proc/interrupts` is not among them: it is large and slow on hosts with many CPUs, and its sum is in `/proc/stat`.
fn parsers(net: &Path) -> Vec<(PathBuf, Box<dyn Parse>)> {
    vec![
        ("proc/stat".into(), Box::new(Stat::default())),
        ("proc/loadavg".into(), Box::new(Load::default())),
        ("proc/pressure/cpu".into(), Box::new(Pressure::of("cpu"))),
        ("proc/pressure/io".into(), Box::new(Pressure::of("io"))),
        ("proc/pressure/memory".into(), Box::new(Pressure::of("memory"))),
        ("proc/meminfo".into(), Box::new(Listed::meminfo())),
        ("proc/vmstat".into(), Box::new(Listed::vmstat())),
        ("proc/sys/kernel/tainted".into(), Box::new(Gauges::tainted())),
        ("proc/sys/fs/file-nr".into(), Box::new(Gauges::files())),
        (net.join("netstat"), Box::new(Tables::netstat())),
        (net.join("snmp"), Box::new(Tables::snmp())),
        (net.join("sockstat"), Box::new(Sockets::default())),
        (net.join("softnet_stat"), Box::new(Softnet::default())),
    ]
}

fn monotonic_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(u64::try_from(time.tv_nsec).unwrap_or(0))
}

fn unix_us() -> i64 {
    let time = clock_gettime(ClockId::Realtime);
    time.tv_sec.saturating_mul(1_000_000).saturating_add(time.tv_nsec / 1000)
}
