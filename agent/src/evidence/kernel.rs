//! The kernel's own words: its log since the attempt began, and what it says when it is asked by sysrq.

use std::{collections::VecDeque, fmt::Write, fs::OpenOptions, io::Write as _, time::Duration};

use drover_machine::kernel_log::{KernelLog, LogRecord, LogStart};
use drover_model::AttemptId;

use super::Bundle;
use crate::{
    agent::Agent,
    clock::{monotonic_ns, unix_us},
    text::chain,
};

/// Bytes of the log.
const LIMIT: usize = 1 << 20;
/// Most records read: a log that is written as fast as it is read has no end.
const MAX_RECORDS: usize = 200_000;
/// The clock of the log drifts against the one that durations are measured with.
const SLACK: Duration = Duration::from_secs(60);
/// What the kernel is asked for: blocked tasks, the stacks of all CPUs, all tasks.
const QUESTIONS: &[u8] = b"wlt";
const TRIGGER: &str = "/proc/sysrq-trigger";

/// Asks the kernel for stacks; the answers go to its log.
pub(super) fn ask(bundle: &mut Bundle) {
    for question in QUESTIONS {
        let asked =
            OpenOptions::new().write(true).open(TRIGGER).and_then(|mut file| file.write_all(&[*question]));
        if let Err(error) = asked {
            return bundle.missing(format!("sysrq: cannot write to {TRIGGER}: {error}"));
        }
    }
}

pub(super) fn collect(agent: &Agent, attempt: AttemptId, bundle: &mut Bundle) {
    let sequence = agent.observatory.kernel_since(attempt);
    let start = sequence.map_or(LogStart::Oldest, LogStart::Sequence);
    let mut log = match KernelLog::open(start) {
        Ok(log) => log,
        Err(error) => return bundle.missing(format!("kernel log: {}", chain(&error))),
    };
    let since = if sequence.is_some() { Duration::ZERO } else { begin(agent, attempt) };
    let (mut lines, mut length) = (VecDeque::new(), 0_usize);
    for _ in 0..MAX_RECORDS {
        let record = match log.next_record() {
            Ok(Some(record)) => record,
            Ok(None) => break,
            Err(error) => {
                bundle.missing(format!("the end of the kernel log: {}", chain(&error)));
                break;
            }
        };
        if record.time < since {
            continue;
        }
        let line = show(&record);
        length += line.len();
        lines.push_back(line);
        while length > LIMIT {
            length -= lines.pop_front().map_or(length, |line: String| line.len());
        }
    }
    if log.lost() > 0 {
        bundle.missing(format!("{} records of the kernel log, which were overwritten", log.lost()));
    }
    let mut text: String = lines.into_iter().collect();
    let tells = !text.is_empty();
    if !tells {
        text.push_str("nothing\n");
    }
    let title = match sequence {
        Some(_) => "kernel log since the attempt began".to_owned(),
        None => format!("kernel log since about {} s before the attempt began", SLACK.as_secs()),
    };
    bundle.section(&title, &text, LIMIT, tells);
}

/// About when the attempt began, since boot.
fn begin(agent: &Agent, attempt: AttemptId) -> Duration {
    let begun = agent.registry().begun_unix_us(attempt);
    let age = Duration::from_micros(unix_us().saturating_sub(begun));
    Duration::from_nanos(monotonic_ns()).saturating_sub(age).saturating_sub(SLACK)
}

fn show(record: &LogRecord) -> String {
    let mut text = String::new();
    let who = if record.facility == 0 { "" } else { "(a process) " };
    for line in record.text.lines() {
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "<{}>[{:>5}.{:06}] {who}{line}",
            record.level,
            record.time.as_secs(),
            record.time.subsec_micros()
        );
    }
    text
}
