//! Machine-wide sources: CPUs, scheduler, interrupts, pressure, memory.

use super::{
    layout::Layout,
    sample::Value,
    schema::{SeriesId, SeriesKind, ValueType},
    sink::{Parse, Sink},
    text::{fraction, lines, unsigned, words},
};

/// Unit of clock ticks: `USER_HZ` is 100 on all architectures that Linux still has but Alpha.
pub(crate) const TICKS: &str = "1/100 s";

/// Columns of a CPU in `/proc/stat`; time of guests is in `user` and `nice` already.
const CPU_COLUMNS: [&str; 8] = ["user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal"];
/// Columns of the `softirq` line after the total: the kernel's `enum` of softirqs.
const SOFTIRQS: [&str; 10] =
    ["HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU"];

/// `/proc/stat`. Softirqs are taken from it too: `/proc/softirqs` says the same for each CPU, at many times the price.
#[derive(Debug, Default)]
pub(crate) struct Stat {
    cpus: Layout<[Option<SeriesId>; CPU_COLUMNS.len()]>,
    totals: Layout<Option<SeriesId>>,
    softirqs: [Option<SeriesId>; SOFTIRQS.len()],
}

impl Parse for Stat {
    fn parse(&mut self, text: &[u8], sink: &mut Sink<'_>) {
        self.cpus.rewind();
        self.totals.rewind();
        for line in lines(text) {
            let mut words = words(line);
            let Some(key) = words.next() else { continue };
            if let Some(cpu) = key.strip_prefix(b"cpu") {
                let ids = self.cpus.find(cpu, |cpu| {
                    let cpu = if cpu.is_empty() { "all" } else { cpu };
                    CPU_COLUMNS.map(|column| sink.counter(format!("cpu.{cpu}.{column}_ticks"), TICKS))
                });
                for (id, word) in ids.into_iter().zip(words) {
                    sink.put(id, unsigned(word));
                }
            } else if key == b"softirq" {
                for (n, word) in words.skip(1).enumerate().take(SOFTIRQS.len()) {
                    let (Some(slot), Some(name)) = (self.softirqs.get_mut(n), SOFTIRQS.get(n)) else { break };
                    *slot = slot.or_else(|| sink.counter(format!("softirq.{name}"), "1"));
                    sink.put(*slot, unsigned(word));
                }
            } else {
                let id = self.totals.find(key, |key| total(key, sink));
                sink.put(id, words.next().and_then(unsigned));
            }
        }
    }
}

/// The series of a line of `/proc/stat` that is not of a CPU.
fn total(key: &str, sink: &mut Sink<'_>) -> Option<SeriesId> {
    match key {
        "ctxt" => sink.counter("sched.context_switches".to_owned(), "1"),
        "intr" => sink.counter("irq.total".to_owned(), "1"),
        "processes" => sink.counter("sched.forks".to_owned(), "1"),
        "procs_running" => sink.gauge("sched.running".to_owned(), "1"),
        "procs_blocked" => sink.gauge("sched.blocked".to_owned(), "1"),
        _ => None,
    }
}

/// `/proc/loadavg`.
#[derive(Debug, Default)]
pub(crate) struct Load {
    one: Option<SeriesId>,
    runnable: Option<SeriesId>,
    threads: Option<SeriesId>,
}

impl Parse for Load {
    fn parse(&mut self, text: &[u8], sink: &mut Sink<'_>) {
        self.one = self
            .one
            .or_else(|| sink.series("load.1min".to_owned(), "1", SeriesKind::Gauge, ValueType::Float));
        self.runnable = self.runnable.or_else(|| sink.gauge("load.runnable".to_owned(), "1"));
        self.threads = self.threads.or_else(|| sink.gauge("load.threads".to_owned(), "1"));
        let mut words = words(text);
        sink.put_value(self.one, words.next().and_then(fraction).map(Value::Float));
        let mut queue = words.nth(2).unwrap_or_default().split(|byte| *byte == b'/');
        sink.put(self.runnable, queue.next().and_then(unsigned));
        sink.put(self.threads, queue.next().and_then(unsigned));
    }
}

/// `/proc/pressure/*`: time in which some, or all, tasks waited for a resource.
#[derive(Debug)]
pub(crate) struct Pressure {
    resource: &'static str,
    layout: Layout<Option<SeriesId>>,
}

impl Pressure {
    pub(crate) fn of(resource: &'static str) -> Self {
        Self { resource, layout: Layout::default() }
    }
}

impl Parse for Pressure {
    fn parse(&mut self, text: &[u8], sink: &mut Sink<'_>) {
        self.layout.rewind();
        for line in lines(text) {
            let mut words = words(line);
            let Some(share) = words.next() else { continue };
            let resource = self.resource;
            let id =
                self.layout.find(share, |share| sink.counter(format!("psi.{resource}.{share}_us"), "us"));
            sink.put(id, words.find_map(|word| word.strip_prefix(b"total=")).and_then(unsigned));
        }
    }
}

/// `/proc/meminfo` and `/proc/vmstat`: a name and a number on each line, of which some are wanted.
#[derive(Debug)]
pub(crate) struct Listed {
    prefix: &'static str,
    kind: SeriesKind,
    unit: &'static str,
    /// What one of the file's units is in ours.
    factor: u64,
    wanted: &'static [&'static str],
    layout: Layout<Option<SeriesId>>,
}

impl Listed {
    /// Memory of the machine, as gauges in bytes.
    pub(crate) fn meminfo() -> Self {
        const WANTED: &[&str] = &[
            "MemTotal",
            "MemFree",
            "MemAvailable",
            "Buffers",
            "Cached",
            "SwapCached",
            "Active",
            "Inactive",
            "SwapTotal",
            "SwapFree",
            "Dirty",
            "Writeback",
            "AnonPages",
            "Mapped",
            "Shmem",
            "Slab",
            "SReclaimable",
            "SUnreclaim",
            "KernelStack",
            "PageTables",
            "Committed_AS",
            "Percpu",
        ];
        Self::of("meminfo", SeriesKind::Gauge, "bytes", 1024, WANTED)
    }

    /// Events of memory management, as counters.
    pub(crate) fn vmstat() -> Self {
        const WANTED: &[&str] = &[
            "pgpgin",
            "pgpgout",
            "pswpin",
            "pswpout",
            "pgfault",
            "pgmajfault",
            "pgscan_kswapd",
            "pgscan_direct",
            "pgsteal_kswapd",
            "pgsteal_direct",
            "allocstall_normal",
            "allocstall_movable",
            "oom_kill",
            "compact_stall",
            "numa_pages_migrated",
            "thp_fault_fallback",
        ];
        Self::of("vmstat", SeriesKind::Counter, "1", 1, WANTED)
    }

    fn of(
        prefix: &'static str,
        kind: SeriesKind,
        unit: &'static str,
        factor: u64,
        wanted: &'static [&'static str],
    ) -> Self {
        Self { prefix, kind, unit, factor, wanted, layout: Layout::default() }
    }
}

impl Parse for Listed {
    fn parse(&mut self, text: &[u8], sink: &mut Sink<'_>) {
        self.layout.rewind();
        for line in lines(text) {
            let mut words = words(line);
            let Some(key) = words.next() else { continue };
            let key = key.strip_suffix(b":").unwrap_or(key);
            let id = self.layout.find(key, |key| {
                let name = format!("{}.{key}", self.prefix);
                self.wanted
                    .contains(&key)
                    .then(|| sink.series(name, self.unit, self.kind, ValueType::Unsigned))
                    .flatten()
            });
            if id.is_some() {
                sink.put(id, words.next().and_then(unsigned).and_then(|n| n.checked_mul(self.factor)));
            }
        }
    }
}

/// A file with numbers on one line, each a gauge.
#[derive(Debug)]
pub(crate) struct Gauges {
    /// Name and unit of each number; those without a name are not wanted.
    columns: &'static [Option<(&'static str, &'static str)>],
    layout: Layout<Option<SeriesId>>,
}

impl Gauges {
    /// `/proc/sys/kernel/tainted`: a mask of bits.
    pub(crate) fn tainted() -> Self {
        Self { columns: &[Some(("kernel.tainted", "bits"))], layout: Layout::default() }
    }

    /// `/proc/sys/fs/file-nr`: open files, nothing, and how many there may be.
    pub(crate) fn files() -> Self {
        const COLUMNS: &[Option<(&str, &str)>] =
            &[Some(("files.open", "1")), None, Some(("files.limit", "1"))];
        Self { columns: COLUMNS, layout: Layout::default() }
    }
}

impl Parse for Gauges {
    fn parse(&mut self, text: &[u8], sink: &mut Sink<'_>) {
        self.layout.rewind();
        for (column, word) in self.columns.iter().zip(words(text)) {
            let Some((name, unit)) = column else { continue };
            let id = self.layout.find(name.as_bytes(), |name| sink.gauge(name.to_owned(), unit));
            sink.put(id, unsigned(word));
        }
    }
}
