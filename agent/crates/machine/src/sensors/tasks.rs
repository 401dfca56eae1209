//! The process trees of tasks: their figures, summed over the processes of each.

use std::{
    collections::{HashMap, hash_map::Entry},
    path::Path,
};

use super::{
    file::SensorFile,
    machine::TICKS,
    process::{Dear, Figures, ProcessReader, Spent, figures},
    schema::SeriesId,
    sink::Sink,
};

/// Files of processes that are kept open, of all tasks; those of further processes are opened at each reading.
const MAX_OPEN: usize = 256;
/// Tasks known at once.
const MAX_TASKS: usize = 4096;

/// The processes of one task at the moment.
#[derive(Clone, Copy, Debug)]
pub struct TaskProcesses<'a> {
    /// What the task is called in the names of its series, `task.NAME.rss_bytes` and so on.
    pub name: &'a str,
    /// All its processes, for instance those of its cgroup. Those that are gone already are left out.
    pub pids: &'a [u32],
}

/// How often what is dear is read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// Which reading it is.
    pub(crate) turn: u64,
    /// Dear figures of a process are read every so many readings.
    pub(crate) slow_every: u64,
    /// Of a task with more processes than this, a part is read each time, in turns.
    pub(crate) processes: usize,
}

impl Pace {
    /// Whether it is the turn of a process among those that have one every `every` readings.
    fn is_turn(self, pid: u32, every: u64) -> bool {
        (self.turn + u64::from(pid)).is_multiple_of(every.max(1))
    }
}

/// All tasks.
#[derive(Debug)]
pub(crate) struct Tasks {
    reader: ProcessReader,
    tasks: HashMap<String, Task>,
    page: u64,
    open: usize,
}

impl Tasks {
    pub(crate) fn new(root: &Path) -> Self {
        let page = u64::try_from(rustix::param::page_size()).unwrap_or(4096);
        Self { reader: ProcessReader::new(root), tasks: HashMap::new(), page, open: 0 }
    }

    /// Reads the processes of some tasks; forgets those of tasks that are not among them.
    pub(crate) fn read(
        &mut self,
        tasks: &[TaskProcesses<'_>],
        pace: Pace,
        buffer: &mut Vec<u8>,
        sink: &mut Sink<'_>,
    ) -> Spent {
        let mut all = Spent::default();
        for TaskProcesses { name, pids } in tasks {
            if !self.tasks.contains_key(*name) && self.tasks.len() < MAX_TASKS {
                let task = Task::new(&format!("task.{name}"), true, sink);
                self.tasks.insert((*name).to_owned(), task);
            }
            let Some(task) = self.tasks.get_mut(*name) else { continue };
            task.turn = pace.turn;
            task.read(pids, pace, &mut Reading { reader: &mut self.reader, buffer, open: &mut self.open });
            task.put(self.page, sink);
            all = all.plus(task.spent());
        }
        for task in self.tasks.values_mut().filter(|task| task.turn != pace.turn) {
            task.forget_except(pace.turn, &mut self.open);
        }
        all
    }
}

/// CPU time of the agent and all tasks, those included that have ended: what a task used since it was read last is the agent's as
/// soon as that has waited for it.
#[derive(Debug)]
pub(crate) struct Ours {
    ids: [Option<SeriesId>; 2],
    user: Total,
    system: Total,
}

impl Ours {
    pub(crate) fn new(sink: &mut Sink<'_>) -> Self {
        let ids = ["ours.user_ticks", "ours.system_ticks"].map(|name| sink.counter(name.to_owned(), TICKS));
        Self { ids, user: Total::default(), system: Total::default() }
    }

    /// Puts the sum of agent and tasks into the sample.
    pub(crate) fn put(&mut self, sum: Spent, sink: &mut Sink<'_>) {
        let [user, system] = self.ids;
        sink.put(user, Some(self.user.next(sum.user)));
        sink.put(system, Some(self.system.next(sum.system)));
    }
}

/// What reading a task needs.
#[derive(Debug)]
pub(crate) struct Reading<'a> {
    pub(crate) reader: &'a mut ProcessReader,
    pub(crate) buffer: &'a mut Vec<u8>,
    pub(crate) open: &'a mut usize,
}

/// One task.
#[derive(Debug)]
pub(crate) struct Task {
    ids: Ids,
    /// Whether time of children that a process waited for is time of the task.
    waited: bool,
    processes: HashMap<u32, Process>,
    user: Total,
    system: Total,
    major_faults: Total,
    voluntary: Total,
    involuntary: Total,
    turn: u64,
}

#[derive(Debug)]
struct Process {
    stat: Option<SensorFile>,
    figures: Figures,
    dear: Dear,
    turn: u64,
}

#[derive(Debug)]
struct Ids {
    processes: Option<SeriesId>,
    running: Option<SeriesId>,
    blocked: Option<SeriesId>,
    stopped: Option<SeriesId>,
    zombies: Option<SeriesId>,
    threads: Option<SeriesId>,
    rss: Option<SeriesId>,
    user: Option<SeriesId>,
    system: Option<SeriesId>,
    major_faults: Option<SeriesId>,
    voluntary: Option<SeriesId>,
    involuntary: Option<SeriesId>,
    fds: Option<SeriesId>,
    most_fds: Option<SeriesId>,
    most_fds_limit: Option<SeriesId>,
}

/// The sum of counters of processes that come and go. What a process counted stays in its parent's figures if that waited for it; where
/// it does not, the sum would go back, and what is missing is added for good.
#[derive(Debug, Default)]
struct Total {
    lost: u64,
    last: u64,
}

impl Total {
    fn next(&mut self, sum: u64) -> u64 {
        let total = sum.saturating_add(self.lost);
        self.lost += self.last.saturating_sub(total);
        self.last = self.last.max(total);
        self.last
    }
}

impl Task {
    pub(crate) fn new(prefix: &str, waited: bool, sink: &mut Sink<'_>) -> Self {
        let mut gauge = |name: &str, unit: &str| sink.gauge(format!("{prefix}.{name}"), unit);
        let (processes, running) = (gauge("processes", "1"), gauge("running", "1"));
        let (blocked, stopped, zombies) =
            (gauge("blocked", "1"), gauge("stopped", "1"), gauge("zombies", "1"));
        let (threads, rss) = (gauge("threads", "1"), gauge("rss_bytes", "bytes"));
        let (fds, most_fds, most_fds_limit) =
            (gauge("fds", "1"), gauge("most_fds", "1"), gauge("most_fds_limit", "1"));
        let mut counter = |name: &str, unit: &str| sink.counter(format!("{prefix}.{name}"), unit);
        let ids = Ids {
            processes,
            running,
            blocked,
            stopped,
            zombies,
            threads,
            rss,
            user: counter("user_ticks", TICKS),
            system: counter("system_ticks", TICKS),
            major_faults: counter("major_faults", "1"),
            voluntary: counter("voluntary_switches", "1"),
            involuntary: counter("involuntary_switches", "1"),
            fds,
            most_fds,
            most_fds_limit,
        };
        Self {
            ids,
            waited,
            processes: HashMap::new(),
            user: Total::default(),
            system: Total::default(),
            major_faults: Total::default(),
            voluntary: Total::default(),
            involuntary: Total::default(),
            turn: 0,
        }
    }

    /// What its processes have used, and children that those have waited for.
    pub(crate) fn spent(&self) -> Spent {
        let spent = self.processes.values().flat_map(|process| [process.figures.own, process.figures.waited]);
        spent.fold(Spent::default(), Spent::plus)
    }

    /// Reads its processes, and forgets those that are gone.
    pub(crate) fn read(&mut self, pids: &[u32], pace: Pace, reading: &mut Reading<'_>) {
        let parts = u64::try_from(pids.len().div_ceil(pace.processes.max(1))).unwrap_or(u64::MAX);
        // What is dear takes several files, each as dear as `stat`: among many processes it must not cost more than that.
        let slow = if parts > 1 { pace.slow_every.max(parts.saturating_mul(4)) } else { pace.slow_every };
        for pid in pids {
            match self.processes.entry(*pid) {
                Entry::Vacant(entry) => {
                    if let Some(process) = Process::open(*pid, pace, reading) {
                        entry.insert(process);
                    }
                }
                Entry::Occupied(mut entry) => {
                    let process = entry.get_mut();
                    let there = !pace.is_turn(*pid, parts) || process.read(*pid, reading);
                    if there {
                        process.turn = pace.turn;
                        if pace.is_turn(*pid, slow) {
                            process.dear = reading.reader.dear(*pid, reading.buffer);
                        }
                    }
                }
            }
        }
        self.forget_except(pace.turn, reading.open);
    }

    fn forget_except(&mut self, turn: u64, open: &mut usize) {
        self.processes.retain(|_, process| {
            let stays = process.turn == turn;
            if !stays && process.stat.is_some() {
                *open = open.saturating_sub(1);
            }
            stays
        });
    }

    /// Puts the sums into the sample.
    pub(crate) fn put(&mut self, page: u64, sink: &mut Sink<'_>) {
        let mut spent = Spent::default();
        let (mut threads, mut rss) = (0_u64, 0_u64);
        let [mut running, mut blocked, mut stopped, mut zombies] = [0_u64; 4];
        // A sum of what is known of a part of the processes only is not the task's.
        let [mut voluntary, mut involuntary, mut fds] = [Some(0_u64); 3];
        let mut most: Option<(u64, u64)> = None;
        for Process { figures, dear, .. } in self.processes.values() {
            let waited = if self.waited { figures.waited } else { Spent::default() };
            spent = spent.plus(figures.own).plus(waited);
            match figures.state {
                b'R' => running += 1,
                b'D' => blocked += 1,
                b'T' | b't' => stopped += 1,
                b'Z' | b'X' => zombies += 1,
                _ => {}
            }
            threads = threads.saturating_add(figures.threads);
            rss = rss.saturating_add(figures.rss_pages);
            let sum = |sum: Option<u64>, value: Option<u64>| sum?.checked_add(value?);
            voluntary = sum(voluntary, dear.voluntary);
            involuntary = sum(involuntary, dear.involuntary);
            fds = sum(fds, dear.fds);
            let pair = dear.fds.zip(dear.fd_limit.filter(|limit| *limit > 0));
            let nearer = |(fds, limit): &(u64, u64)| {
                most.is_none_or(|(most, of)| {
                    u128::from(*fds) * u128::from(of) > u128::from(most) * u128::from(*limit)
                })
            };
            most = pair.filter(nearer).or(most);
        }
        let ids = &self.ids;
        sink.put(ids.processes, u64::try_from(self.processes.len()).ok());
        sink.put(ids.running, Some(running));
        sink.put(ids.blocked, Some(blocked));
        sink.put(ids.stopped, Some(stopped));
        sink.put(ids.zombies, Some(zombies));
        sink.put(ids.threads, Some(threads));
        sink.put(ids.rss, rss.checked_mul(page));
        sink.put(ids.user, Some(self.user.next(spent.user)));
        sink.put(ids.system, Some(self.system.next(spent.system)));
        sink.put(ids.major_faults, Some(self.major_faults.next(spent.major_faults)));
        sink.put(ids.voluntary, voluntary.map(|sum| self.voluntary.next(sum)));
        sink.put(ids.involuntary, involuntary.map(|sum| self.involuntary.next(sum)));
        sink.put(ids.fds, fds);
        sink.put(ids.most_fds, most.map(|(fds, _)| fds));
        sink.put(ids.most_fds_limit, most.map(|(_, limit)| limit));
    }
}

impl Process {
    fn open(pid: u32, pace: Pace, reading: &mut Reading<'_>) -> Option<Self> {
        let file = reading.reader.open(pid).ok()?;
        let figures = figures(file.read(reading.buffer).ok()?)?;
        let stat = (*reading.open < MAX_OPEN).then_some(file);
        *reading.open += usize::from(stat.is_some());
        let dear = reading.reader.dear(pid, reading.buffer);
        Some(Self { stat, figures, dear, turn: pace.turn })
    }

    /// Whether it is still there.
    fn read(&mut self, pid: u32, reading: &mut Reading<'_>) -> bool {
        let opened;
        let file = match &self.stat {
            Some(file) => file,
            None => match reading.reader.open(pid) {
                Ok(file) => {
                    opened = file;
                    &opened
                }
                Err(_) => return false,
            },
        };
        let new = file.read(reading.buffer).ok().and_then(figures);
        // A pid that was given to another process is seen as new in the next reading.
        let Some(new) = new.filter(|new| new.start == self.figures.start) else { return false };
        self.figures = new;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expect_totals_that_never_go_back_when_processes_end() {
        let mut total = Total::default();
        let sums = [100, 150, 90, 95, 95, 10, 12];
        let totals: Vec<u64> = sums.into_iter().map(|sum| total.next(sum)).collect();
        assert_eq!(totals, [100, 150, 150, 155, 155, 155, 157]);
    }

    #[test]
    fn expect_every_process_once_when_turns_are_shared() {
        for pid in 0..30 {
            let turns =
                (5..15).filter(|turn| Pace { turn: *turn, slow_every: 1, processes: 1 }.is_turn(pid, 10));
            assert_eq!(turns.count(), 1);
        }
    }
}
