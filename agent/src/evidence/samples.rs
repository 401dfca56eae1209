//! The sensors of the last minutes, as a small table: a line for each of some series.

use std::{collections::VecDeque, fmt::Write, io, path::Path, sync::Arc};

use drover_machine::sensors::{Decoder, Sample, Schema, SeriesKind, rates};

use super::Bundle;

/// How far back, in nanoseconds.
const SPAN_NS: u64 = 300_000_000_000;
/// Moments that are shown.
const MOMENTS: usize = 11;
/// Most samples of the span that are held; with a shorter interval the span is shorter.
const MAX_SAMPLES: usize = 600;

/// Series that are shown, by the ends of their names.
const SHOWN: [&str; 20] = [
    "cpu.all.user_ticks",
    "cpu.all.system_ticks",
    "cpu.all.idle_ticks",
    "cpu.all.iowait_ticks",
    "cpu.all.steal_ticks",
    "sched.running",
    "sched.blocked",
    "sched.context_switches",
    "irq.total",
    "load.runnable",
    "MemAvailable",
    "kernel.tainted",
    "TcpExt.ListenOverflows",
    "TcpExt.ListenDrops",
    "Tcp.RetransSegs",
    "files.open",
    "vmstat.pswpout",
    "vmstat.oom_kill",
    "softnet.dropped",
    "psi.memory.full_us",
];

/// Figures of tasks that are shown.
const OF_TASKS: [&str; 8] = [
    ".processes",
    ".running",
    ".blocked",
    ".stopped",
    ".threads",
    ".rss_bytes",
    ".user_ticks",
    ".system_ticks",
];

pub(super) fn collect(path: &Path, bundle: &mut Bundle) {
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return bundle.missing("sensors: the lease did not ask for observation".to_owned());
        }
        Err(error) => return bundle.missing(format!("sensors: {error}")),
    };
    match table(&bytes) {
        Some(text) => bundle.section("sensors of the last minutes", &text, 256 << 10, false),
        None => bundle.missing("sensors: no sample is written yet".to_owned()),
    }
}

fn table(bytes: &[u8]) -> Option<String> {
    let mut last: VecDeque<(Arc<Schema>, Sample)> = VecDeque::new();
    for block in Decoder::new(bytes) {
        for sample in block.samples {
            last.push_back((Arc::clone(&block.schema), sample));
            if last.len() > MAX_SAMPLES {
                last.pop_front();
            }
        }
    }
    let (schema, newest) = last.back()?.clone();
    // Samples of another observer may have other series.
    let recent = last.into_iter().filter(|(of, sample)| {
        schema.series().starts_with(of.series())
            && newest.monotonic_ns.saturating_sub(sample.monotonic_ns) <= SPAN_NS
    });
    let recent: Vec<Sample> = recent.map(|(_, sample)| sample).collect();
    let stride = recent.len().div_ceil(MOMENTS).max(1);
    let mut picked: Vec<Sample> = recent.into_iter().rev().step_by(stride).collect();
    picked.reverse();
    let ago = |monotonic_ns: u64| newest.monotonic_ns.saturating_sub(monotonic_ns) / 1_000_000_000;
    let mut text = format!("{:<40}", "seconds before the last sample");
    for sample in &picked {
        let _ = write!(text, "{:>14}", ago(sample.monotonic_ns));
    }
    text.push('\n');
    for series in rates(&schema, &picked) {
        let is_of_task = series.name.starts_with("task.") && ends(&series.name, &OF_TASKS);
        if !is_of_task && !ends(&series.name, &SHOWN) {
            continue;
        }
        let kind = schema.find(&series.name).and_then(|id| schema.get(id)).map(|found| found.kind);
        let unit = if kind == Some(SeriesKind::Counter) || series.unit != "1" { &*series.unit } else { "" };
        let _ = write!(text, "{:<40}", format!("{} {unit}", series.name));
        for sample in &picked {
            let point = series.points.iter().find(|point| point.monotonic_ns == sample.monotonic_ns);
            let value = point.map_or_else(|| "-".to_owned(), |point| format!("{:.1}", point.value));
            let _ = write!(text, "{value:>14}");
        }
        text.push('\n');
    }
    Some(text)
}

fn ends(name: &str, wanted: &[&str]) -> bool {
    wanted.iter().any(|end| name.ends_with(end))
}
