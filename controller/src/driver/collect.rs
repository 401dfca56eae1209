//! From what tasks wrote and how they ended to records, metrics and doubts. Pure; used when an attempt ends, and by
//! `reparse`.

use std::time::Duration;

use drover_matrix::{Matrix, Role, RoleSamples};
use drover_measure::{Input, client_doubts, parse, usage_doubts, usage_samples};
use drover_model::{
    Doubt, DoubtKind, EndKind, Measurement, Name, OutputSummary, ParserSpec, Sample, TaskEnd, Usage, Verdict,
};
use drover_sched::CollectOutcome;
use drover_store::TaskRecord;

/// Last lines of an output that are kept with the record.
const TAIL_LINES: usize = 12;
/// Bytes of them.
const TAIL_BYTES: usize = 4096;
/// Last lines of a failed task that go into the verdict itself.
const QUOTED_LINES: usize = 4;

/// A task that is over, with its outputs.
#[derive(Clone)]
pub struct TaskOutput<'a> {
    /// The role it played.
    pub role: &'a Role,
    /// Which instance.
    pub instance: u32,
    /// Where it ran.
    pub host: Name,
    /// Its command.
    pub argv: Vec<String>,
    /// How it ended, if that was seen.
    pub end: Option<&'a TaskEnd>,
    /// CPUs it was verified to run on at its start.
    pub cpus: &'a str,
    /// Standard output, as kept.
    pub stdout: &'a [u8],
    /// Standard error, as kept.
    pub stderr: &'a [u8],
}

/// What was found in the outputs of an attempt.
#[derive(Clone, Debug, PartialEq)]
pub struct Collected {
    /// A record for every task.
    pub tasks: Vec<TaskRecord>,
    /// The matrix's metrics, if all were found.
    pub metrics: Vec<(Name, f64)>,
    /// The part of the verdict that the outputs decide.
    pub outcome: CollectOutcome,
}

/// Reads the outputs of an attempt.
pub fn collect(matrix: &Matrix, tasks: &[TaskOutput<'_>]) -> Collected {
    let ReadAll { records, histograms, mut problems, doubts } = read_all(tasks);
    let mut outcome = CollectOutcome { doubts, ..CollectOutcome::default() };
    let measured = records.iter().zip(&histograms).zip(tasks).filter(|(_, task)| task.role.measure.is_some());
    let mut samples = Vec::with_capacity(tasks.len());
    for ((record, histogram), _) in measured {
        samples.push(RoleSamples {
            role: &record.role,
            instance: record.instance,
            samples: &record.samples,
            histogram: histogram.as_deref(),
        });
    }
    let mut metrics = Vec::new();
    match matrix.metrics().evaluate(&samples) {
        Ok(values) => {
            let failures = matrix.metrics().failures(&values);
            if !failures.is_empty() {
                let texts: Vec<_> = failures.into_iter().map(|failure| failure.text).collect();
                outcome.check_failed = Some(texts.join("; "));
            }
            metrics = values;
        }
        // A parser that found nothing explains the metrics that are missing.
        Err(error) if problems.is_empty() => problems.push(error.to_string()),
        Err(_) => {}
    }
    if !problems.is_empty() {
        outcome.parse_error = Some(problems.join("; "));
    }
    Collected { tasks: records, metrics, outcome }
}

/// What was found in the outputs of all tasks, one by one.
pub(super) struct ReadAll {
    pub(super) records: Vec<TaskRecord>,
    /// All latencies of each, where its tool tells them.
    pub(super) histograms: Vec<Option<String>>,
    /// Why outputs could not be read.
    pub(super) problems: Vec<String>,
    pub(super) doubts: Vec<Doubt>,
}

/// Reads the outputs of all tasks.
pub(super) fn read_all(tasks: &[TaskOutput<'_>]) -> ReadAll {
    let mut all = ReadAll { records: vec![], histograms: vec![], problems: vec![], doubts: vec![] };
    for task in tasks {
        let Recorded { record, histogram, problem } = read_output(task);
        all.histograms.push(histogram);
        // The scheduler itself sees what was cut and what was left over.
        let known = [DoubtKind::OutputCut, DoubtKind::Leftovers];
        all.doubts.extend(record.doubts.iter().filter(|doubt| !known.contains(&doubt.kind)).cloned());
        all.problems.extend(problem);
        all.records.push(record);
    }
    dedup(&mut all.doubts);
    all
}

/// What became of a task.
pub(super) struct Recorded {
    pub(super) record: TaskRecord,
    /// All its latencies, where its tool tells them.
    pub(super) histogram: Option<String>,
    /// Why its output could not be read, if so.
    pub(super) problem: Option<String>,
}

/// Reads the outputs of one task.
pub(super) fn read_output(task: &TaskOutput<'_>) -> Recorded {
    let end = task.end;
    let cut =
        end.is_some_and(|end| end.stdout.kept < end.stdout.written || end.stderr.kept < end.stderr.written);
    let mut measurement = Measurement::default();
    let mut problem = None;
    if let (Some(spec), Some(_)) = (&task.role.measure, end) {
        let input = Input { stdout: task.stdout, stderr: task.stderr, output_cut: cut };
        match parse(spec, &input) {
            Ok(found) => measurement = found,
            Err(error) => {
                let name = if task.instance == 0 { task.role.name.to_string() } else { label(task) };
                problem = Some(format!("{name}: {}", super::link::chain(&error)));
            }
        }
    }
    let mut doubts = measurement.doubts.clone();
    let mut samples = measurement.samples.clone();
    if let Some(end) = end
        && task.role.measure.is_some()
    {
        // A service also lives before and after the load: what the machine counted then says nothing of the number.
        if !task.role.is_service() {
            doubts.extend(client_doubts(tool(task.role), &measurement, end, cpu_count(&end.cpus)));
            doubts.extend(usage_doubts(end, Some(&measurement)));
        }
        // What the tool itself says of a quantity outranks what was seen from outside.
        let usage = usage_samples(end);
        samples.extend(usage.into_iter().filter(|sample| !has(&measurement.samples, &sample.name)));
    }
    doubts.extend(left_cpus(task));
    let record = TaskRecord {
        role: task.role.name.clone(),
        instance: task.instance,
        host: task.host.clone(),
        argv: task.argv.clone(),
        end: end.map(|end| end.kind.clone()),
        wall: end.map_or(Duration::ZERO, |end| end.wall),
        usage: end.map_or_else(Usage::default, |end| end.usage),
        counters: end.and_then(|end| end.counters),
        cpus: end.map_or(task.cpus, |end| if end.cpus.is_empty() { task.cpus } else { &end.cpus }).to_owned(),
        samples,
        doubts,
        reported: measurement.reported.into_iter().collect(),
        output_bytes: end.map_or((0, 0), |end| (end.stdout.written, end.stderr.written)),
        tail: tail(task.stdout, task.stderr),
    };
    Recorded { record, histogram: measurement.histogram, problem }
}

/// `client.2`.
fn label(task: &TaskOutput<'_>) -> String {
    format!("{}.{}", task.role.name, task.instance)
}

/// The CPUs of a placed task are verified at its start; a process that moved itself elsewhere later is not what the cell
/// asks for.
fn left_cpus(task: &TaskOutput<'_>) -> Option<Doubt> {
    let end = task.end.filter(|end| task.role.placement.is_some() && !end.cpus.is_empty())?;
    if task.cpus.is_empty() || task.cpus == end.cpus {
        return None;
    }
    let detail = format!("{} began on CPUs {} and also ran on CPUs {}", task.role.name, task.cpus, end.cpus);
    Some(Doubt { kind: DoubtKind::LeftCpus, detail })
}

/// What a stored record says of a task's end, for parsing its outputs again.
pub fn end_of(record: &TaskRecord, stdout: &[u8], stderr: &[u8]) -> Option<TaskEnd> {
    let output = |written: u64, kept: &[u8]| OutputSummary {
        written,
        kept: u64::try_from(kept.len()).unwrap_or(u64::MAX).min(written),
        inline: None,
    };
    Some(TaskEnd {
        kind: record.end.clone()?,
        wall: record.wall,
        usage: record.usage,
        stdout: output(record.output_bytes.0, stdout),
        stderr: output(record.output_bytes.1, stderr),
        cpus: record.cpus.clone(),
        leftovers: 0,
        counters: record.counters,
    })
}

/// The verdict with the last lines of the tasks that failed.
pub fn describe(verdict: Verdict, tasks: &[TaskRecord]) -> Verdict {
    let add = |detail: String| {
        let failed = tasks
            .iter()
            .filter(|task| !matches!(task.end, None | Some(EndKind::Exited(0) | EndKind::Stopped(_))));
        let quotes: Vec<String> = failed.filter_map(quote).filter(|quote| !detail.contains(quote)).collect();
        if quotes.is_empty() { detail } else { format!("{detail}\n{}", quotes.join("\n")) }
    };
    match verdict {
        Verdict::Ng { cause, detail } => Verdict::Ng { cause, detail: add(detail) },
        Verdict::Error { cause, detail } => Verdict::Error { cause, detail: add(detail) },
        other => other,
    }
}

/// The last lines of a task: `server| ...`.
fn quote(task: &TaskRecord) -> Option<String> {
    let lines: Vec<&str> = task.tail.lines().filter(|line| !line.trim().is_empty()).collect();
    let last = lines.get(lines.len().saturating_sub(QUOTED_LINES)..)?;
    let quoted: Vec<String> = last.iter().map(|line| format!("{}| {line}", task.role)).collect();
    (!quoted.is_empty()).then(|| quoted.join("\n"))
}

/// The last lines of both outputs, standard error last.
fn tail(stdout: &[u8], stderr: &[u8]) -> String {
    let mut text = last_lines(stdout);
    let errors = last_lines(stderr);
    if !text.is_empty() && !errors.is_empty() {
        text.push('\n');
    }
    text + &errors
}

fn last_lines(output: &[u8]) -> String {
    let end = output.get(output.len().saturating_sub(TAIL_BYTES)..).unwrap_or(output);
    let text = String::from_utf8_lossy(end);
    let lines: Vec<&str> = text.lines().collect();
    lines.get(lines.len().saturating_sub(TAIL_LINES)..).unwrap_or(&lines).join("\n")
}

fn has(samples: &[Sample], name: &str) -> bool {
    samples.iter().any(|sample| sample.name == name)
}

fn tool(role: &Role) -> Option<drover_model::Tool> {
    match role.measure {
        Some(ParserSpec::Tool(tool)) => Some(tool),
        _ => None,
    }
}

/// CPUs in a list like `0-1,4`.
fn cpu_count(list: &str) -> u32 {
    let count = |part: &str| match part.split_once('-') {
        Some((from, to)) => {
            let (from, to) = (from.parse::<u32>().ok()?, to.parse::<u32>().ok()?);
            to.checked_sub(from)?.checked_add(1)
        }
        None => part.parse::<u32>().ok().map(|_| 1),
    };
    list.split(',').filter_map(count).sum()
}

/// The same machine-wide fault is seen by every task that ran then.
fn dedup(doubts: &mut Vec<Doubt>) {
    let mut seen = Vec::new();
    doubts.retain(|doubt| {
        let new = !seen.contains(doubt);
        if new {
            seen.push(doubt.clone());
        }
        new
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expect_cpus_counted_when_given_as_ranges() {
        assert_eq!(cpu_count("0-1,4"), 3);
        assert_eq!(cpu_count("7"), 1);
        assert_eq!(cpu_count(""), 0);
    }

    #[test]
    fn expect_the_last_lines_when_an_output_is_long() {
        let long = (0..10_000).map(|n| format!("line {n}\n")).collect::<String>();
        let tail = tail(long.as_bytes(), b"oops\n");
        assert!(tail.starts_with("line 9988\n"), "{tail}");
        assert!(tail.ends_with("line 9999\noops"), "{tail}");
    }
}
