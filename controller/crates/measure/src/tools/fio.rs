//! fio, with `--output-format=json`.
//!
//! Jobs of one group ran at the same time: their rates add up. Groups ran one after the other: with several of them,
//! each sample carries the name of its group's first job. A direction without any I/O gives no samples.

use std::collections::BTreeMap;

use drover_model::{DoubtKind, Measurement};
use serde::Deserialize;

use crate::{
    Input, ParseError,
    http::{check_little, latency_name_of},
    json,
    number::{self, Figure, approx},
    sheet::{Sheet, sample_name},
    text::Text,
};

const ADVICE: &str = "run fio with --output-format=json";

#[derive(Deserialize)]
struct Document {
    jobs: Vec<Job>,
    #[serde(rename = "global options", default)]
    global: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Job {
    jobname: String,
    #[serde(default)]
    groupid: u64,
    #[serde(default)]
    error: i64,
    #[serde(rename = "job options", default)]
    options: BTreeMap<String, String>,
    read: Option<Direction>,
    write: Option<Direction>,
    trim: Option<Direction>,
}

#[derive(Deserialize)]
struct Direction {
    io_bytes: u64,
    bw_bytes: f64,
    iops: f64,
    /// Milliseconds.
    runtime: f64,
    total_ios: u64,
    clat_ns: Option<Latency>,
    lat_ns: Option<Latency>,
}

#[derive(Deserialize)]
struct Latency {
    max: f64,
    mean: f64,
    #[serde(rename = "N")]
    number: u64,
    #[serde(default)]
    percentile: BTreeMap<String, f64>,
}

pub(super) fn parse(input: &Input<'_>) -> Result<Measurement, ParseError> {
    let text = Text::everything(input, "fio", ADVICE);
    let document: Document = json::read(&text)?;
    let mut groups: BTreeMap<u64, Vec<&Job>> = BTreeMap::new();
    for job in &document.jobs {
        groups.entry(job.groupid).or_default().push(job);
    }
    let mut sheet = Sheet::default();
    for jobs in groups.values() {
        let first = jobs.first().map_or("", |job| &job.jobname);
        let prefix = if groups.len() > 1 { format!("{}_", sample_name(first)) } else { String::new() };
        write_group(&mut sheet, &prefix, jobs, &document.global);
    }
    if sheet.is_empty() {
        return Err(text.missing("job that did any I/O"));
    }
    for job in document.jobs.iter().filter(|job| job.error != 0) {
        sheet.doubt(DoubtKind::Incomplete, format!("job {} ended with error {}", job.jobname, job.error));
    }
    sheet.finish(text.parser)
}

fn write_group(sheet: &mut Sheet, prefix: &str, jobs: &[&Job], global: &BTreeMap<String, String>) {
    let mut in_flight = Vec::new();
    let sides = [
        ("read", jobs.iter().filter_map(|job| job.read.as_ref()).collect::<Vec<_>>()),
        ("write", jobs.iter().filter_map(|job| job.write.as_ref()).collect()),
        ("trim", jobs.iter().filter_map(|job| job.trim.as_ref()).collect()),
    ];
    for (name, parts) in sides {
        let parts: Vec<_> = parts.into_iter().filter(|part| part.total_ios > 0).collect();
        if parts.is_empty() {
            continue;
        }
        let name = format!("{prefix}{name}");
        let iops: f64 = parts.iter().map(|part| part.iops).sum();
        sheet.put(format!("{name}_iops"), "io/s", iops);
        sheet.put(format!("{name}_bytes_per_s"), "bytes/s", parts.iter().map(|part| part.bw_bytes).sum());
        sheet.put(format!("{name}_bytes"), "bytes", parts.iter().map(|part| approx(part.io_bytes)).sum());
        for part in &parts {
            let product = part.iops * part.runtime / 1e3;
            let ios = approx(part.total_ios);
            // The run time is in whole milliseconds.
            let slack = part.iops / 1e3 + 0.01 * ios + 1.0;
            sheet.check_equal(&format!("{name}: iops x runtime against I/Os"), product, ios, slack);
        }
        if let Some(mean) = write_latency(sheet, &name, &parts) {
            in_flight.push((iops, mean));
        }
    }
    // Both directions share the places in the queue, so their sum is bounded: as one rate with one mean.
    let rate: f64 = in_flight.iter().map(|(iops, _)| iops).sum();
    let weighted: f64 = in_flight.iter().map(|(iops, mean)| iops * mean).sum();
    if let (Some(depth), true) = (depth(jobs, global), rate > 0.0) {
        check_little(sheet, rate, Figure::exact(weighted / rate), depth);
    }
}

/// Mean over all jobs, largest maximum, and of a single job the percentiles (those of several cannot be joined).
/// Returns the mean in seconds.
fn write_latency(sheet: &mut Sheet, name: &str, parts: &[&Direction]) -> Option<f64> {
    let totals: Vec<_> =
        parts.iter().filter_map(|part| part.lat_ns.as_ref()).filter(|latency| latency.number > 0).collect();
    let number: f64 = totals.iter().map(|latency| approx(latency.number)).sum();
    if number <= 0.0 {
        return None;
    }
    let mean = totals.iter().map(|latency| latency.mean * approx(latency.number)).sum::<f64>() / number / 1e9;
    let max = totals.iter().map(|latency| latency.max).fold(0.0, f64::max) / 1e9;
    sheet.put(format!("{name}_latency_mean_s"), "s", mean);
    sheet.put(format!("{name}_latency_max_s"), "s", max);
    if let [part] = parts {
        // Total latency has percentiles on request only, completion latency by default.
        let of_total = part.lat_ns.as_ref().filter(|latency| !latency.percentile.is_empty());
        let percentiles = of_total.or(part.clat_ns.as_ref()).map(|latency| &latency.percentile);
        for (percent, value) in percentiles.into_iter().flatten() {
            if let Some(sample) = latency_name_of(percent) {
                sheet.put(format!("{name}_{sample}"), "s", value / 1e9);
            }
        }
    }
    Some(mean)
}

/// I/Os that can be under way: queue depth x jobs, where the options say both (fio's default for either is 1).
fn depth(jobs: &[&Job], global: &BTreeMap<String, String>) -> Option<f64> {
    let mut sum = 0.0;
    for job in jobs {
        let option = |name: &str| match job.options.get(name).or_else(|| global.get(name)) {
            None => Some(1.0),
            Some(text) => number::plain(text).map(|figure| figure.value),
        };
        // Without group reporting each of the clones is a job of its own here, and their options repeat.
        let clones = if jobs.len() > 1 { 1.0 } else { option("numjobs")? };
        sum += option("iodepth")? * clones;
    }
    Some(sum)
}
