//! Looks for reasons to doubt what was measured meanwhile. Pure: a window of samples in, doubts out.

use drover_model::{Doubt, DoubtKind};

use super::{
    rates::{Delta, delta},
    sample::{Sample, Value},
    schema::{Schema, SeriesId},
};

/// From how much on something is a reason for doubt.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Context {
    /// Share of all CPU time (0 to 1) that the hypervisor gave to others.
    pub steal_share: f64,
    /// SYNs sent again, as a share of the connections that were opened: each costs one of them a second, and foreign attempts to
    /// reach what is not there count as well.
    pub syn_retransmit_share: f64,
    /// Pages swapped in or out: some are whenever memory of idle processes is put aside.
    pub swapped_pages: f64,
    /// Change of a CPU's frequency, as a share of its highest: between the lowest and the highest tenth of what was seen.
    pub frequency_change: f64,
    /// The frequency of a CPU counts where it was busy for at least this share of the time since the sample before: idle ones clock
    /// down, and that is right.
    pub busy_share: f64,
    /// Share of all CPU time that neither tasks nor agent nor interrupts used. Processes that lived between two samples and that
    /// neither a process of a task nor the agent waited for cannot be told from foreign ones.
    pub foreign_share: f64,
    /// Share of its limit of open files that a process used.
    pub fd_share: f64,
}

impl Default for Context {
    fn default() -> Self {
        Self {
            steal_share: 0.01,
            syn_retransmit_share: 0.001,
            swapped_pages: 256.0,
            frequency_change: 0.05,
            busy_share: 0.9,
            foreign_share: 0.05,
            fd_share: 0.9,
        }
    }
}

/// Counters that should not move at all, with what it means if they do.
const STILL: [(&str, DoubtKind, &str); 6] = [
    ("netstat.TcpExt.ListenOverflows", DoubtKind::ListenQueue, "connections met a full listen queue"),
    ("netstat.TcpExt.ListenDrops", DoubtKind::ListenQueue, "connections were dropped by listeners"),
    ("netstat.TcpExt.SyncookiesSent", DoubtKind::SynCookies, "SYN cookies were sent"),
    ("netstat.TcpExt.TCPTimeWaitOverflow", DoubtKind::TimeWaitOverflow, "sockets found no room in TIME_WAIT"),
    ("vmstat.oom_kill", DoubtKind::OomKill, "processes were killed for want of memory"),
    ("softnet.dropped", DoubtKind::SoftnetDrops, "received packets were dropped"),
];

/// What gives reason for doubt in a window of samples, in order of time. Series that are absent give none. `schema` is the one of the last sample.
#[must_use]
pub fn judge(schema: &Schema, window: &[Sample], context: &Context) -> Vec<Doubt> {
    let window = Window { schema, samples: window };
    let mut doubts = Vec::new();
    for (name, kind, meaning) in STILL {
        if let Some(grown) = window.grown(name).filter(|grown| *grown > 0.0) {
            doubts.push(Doubt { kind, detail: format!("{grown} {meaning} ({name})") });
        }
    }
    syn_retransmits(&window, context, &mut doubts);
    swapping(&window, context, &mut doubts);
    throttling(&window, &mut doubts);
    cpu_time(&window, context, &mut doubts);
    frequency(&window, context, &mut doubts);
    open_files(&window, context, &mut doubts);
    tainted(&window, &mut doubts);
    doubts
}

struct Window<'a> {
    schema: &'a Schema,
    samples: &'a [Sample],
}

impl Window<'_> {
    fn values(&self, id: SeriesId) -> impl Iterator<Item = Value> {
        self.samples.iter().filter_map(move |sample| sample.get(id))
    }

    /// By how much a counter grew. Steps back are left out: by how much it grew in them is not known. `None` if it has less than
    /// two values.
    fn grown(&self, name: &str) -> Option<f64> {
        self.grown_of(self.schema.find(name)?)
    }

    fn grown_of(&self, id: SeriesId) -> Option<f64> {
        let mut values = self.values(id);
        let mut before = values.next()?;
        let mut grown = None;
        for value in values {
            let step = match delta(before, value) {
                Delta::Forward(step) => step,
                Delta::WentBack => 0.0,
            };
            grown = Some(grown.unwrap_or(0.0) + step);
            before = value;
        }
        grown
    }

    /// Series whose names begin and end so, with what is between.
    fn matching<'s>(&'s self, start: &'s str, end: &'s str) -> impl Iterator<Item = (&'s str, SeriesId)> {
        let middle = move |(index, series): (usize, &'s super::schema::Series)| {
            let middle = series.name.strip_prefix(start)?.strip_suffix(end)?;
            Some((middle, SeriesId(index)))
        };
        self.schema.series().iter().enumerate().filter_map(middle)
    }

    /// Ticks of one CPU, or of all: those that it was there, and the named ones.
    fn ticks(&self, cpu: &str, columns: &[&str]) -> Option<(f64, f64)> {
        const ALL: [&str; 8] = ["user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal"];
        let grown = |column: &&str| self.grown(&format!("cpu.{cpu}.{column}_ticks"));
        let total: f64 = ALL.iter().filter_map(grown).sum();
        let named = columns.iter().map(grown).sum::<Option<f64>>()?;
        (total > 0.0).then_some((total, named))
    }
}

fn syn_retransmits(window: &Window<'_>, context: &Context, doubts: &mut Vec<Doubt>) {
    let (sent, opens) = ("netstat.TcpExt.TCPSynRetrans", "snmp.Tcp.ActiveOpens");
    // Where none was opened, none was late.
    let Some(opened) = window.grown(opens).filter(|opened| *opened > 0.0) else { return };
    let Some(again) = window.grown(sent).filter(|again| *again > opened * context.syn_retransmit_share)
    else {
        return;
    };
    let detail = format!("{again} SYNs were sent again for {opened} connections ({sent}, {opens})");
    doubts.push(Doubt { kind: DoubtKind::SynRetransmits, detail });
}

fn swapping(window: &Window<'_>, context: &Context, doubts: &mut Vec<Doubt>) {
    for (name, where_to) in [("vmstat.pswpin", "in"), ("vmstat.pswpout", "out")] {
        if let Some(pages) = window.grown(name).filter(|pages| *pages > context.swapped_pages) {
            let limit = context.swapped_pages;
            let detail = format!("{pages} pages were swapped {where_to} ({name}, limit {limit})");
            doubts.push(Doubt { kind: DoubtKind::Swap, detail });
        }
    }
}

fn throttling(window: &Window<'_>, doubts: &mut Vec<Doubt>) {
    for end in [".core_throttles", ".package_throttles"] {
        for (cpu, id) in window.matching("cpu.", end) {
            if let Some(grown) = window.grown_of(id).filter(|grown| *grown > 0.0) {
                let text = format!("CPU {cpu} was throttled {grown} times (cpu.{cpu}{end})");
                doubts.push(Doubt { kind: DoubtKind::Throttling, detail: text });
            }
        }
    }
}

/// Steal and foreign load.
fn cpu_time(window: &Window<'_>, context: &Context, doubts: &mut Vec<Doubt>) {
    if let Some((total, steal)) = window.ticks("all", &["steal"])
        && steal / total > context.steal_share
    {
        let text = format!(
            "the hypervisor took {} of all CPU time (cpu.all.steal_ticks {steal} of {total}, limit {})",
            percent(steal / total),
            percent(context.steal_share),
        );
        doubts.push(Doubt { kind: DoubtKind::Steal, detail: text });
    }
    let Some((total, busy)) = window.ticks("all", &["user", "nice", "system"]) else { return };
    let ours = ["ours.user_ticks", "ours.system_ticks"].into_iter();
    let ours: f64 = ours.filter_map(|name| window.grown_of(window.schema.find(name)?)).sum();
    let foreign = (busy - ours) / total;
    if foreign > context.foreign_share {
        let text = format!(
            "processes that are not ours used {} of all CPU time (cpu.all user, nice and system {busy} ticks, tasks and agent \
             {ours}, of {total}, limit {})",
            percent(foreign),
            percent(context.foreign_share),
        );
        doubts.push(Doubt { kind: DoubtKind::ForeignLoad, detail: text });
    }
}

fn frequency(window: &Window<'_>, context: &Context, doubts: &mut Vec<Doubt>) {
    for (cpu, id) in window.matching("cpu.", ".khz") {
        let mut seen: Vec<f64> = window
            .samples
            .windows(2)
            .filter(|pair| {
                let time = Window { schema: window.schema, samples: pair }.ticks(cpu, &["idle"]);
                time.is_some_and(|(total, idle)| 1.0 - idle / total >= context.busy_share)
            })
            .filter_map(|pair| Some(pair.last()?.get(id)?.as_f64()))
            .collect();
        seen.sort_by(f64::total_cmp);
        let tenth = seen.len() / 10;
        let ends = seen.get(tenth).zip(seen.len().checked_sub(tenth + 1).and_then(|last| seen.get(last)));
        if let Some((low, high)) = ends
            && (high - low) / high > context.frequency_change
        {
            let detail = format!(
                "CPU {cpu} ran at {:.0} to {:.0} MHz while it was busy (cpu.{cpu}.khz, limit {} of change)",
                low / 1000.0,
                high / 1000.0,
                percent(context.frequency_change),
            );
            doubts.push(Doubt { kind: DoubtKind::FrequencyChange, detail });
        }
    }
}

fn open_files(window: &Window<'_>, context: &Context, doubts: &mut Vec<Doubt>) {
    for (task, id) in window.matching("task.", ".most_fds") {
        let Some(limit_id) = window.schema.find(&format!("task.{task}.most_fds_limit")) else { continue };
        let pairs = window.samples.iter().filter_map(|sample| {
            let (fds, limit) = (sample.get(id)?.as_f64(), sample.get(limit_id)?.as_f64());
            (fds / limit >= context.fd_share).then_some((fds, limit))
        });
        if let Some((fds, limit)) = pairs.max_by(|a, b| (a.0 / a.1).total_cmp(&(b.0 / b.1))) {
            let text = format!("a process of {task} had {fds} of {limit} files open (task.{task}.most_fds)");
            doubts.push(Doubt { kind: DoubtKind::FdLimit, detail: text });
        }
    }
}

fn tainted(window: &Window<'_>, doubts: &mut Vec<Doubt>) {
    let Some(id) = window.schema.find("kernel.tainted") else { return };
    let mut values = window.values(id);
    let Some(first) = values.next() else { return };
    if let Some(changed) = values.find(|value| *value != first) {
        let text = format!("kernel.tainted changed from {} to {}", first.as_f64(), changed.as_f64());
        doubts.push(Doubt { kind: DoubtKind::Tainted, detail: text });
    }
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}
