//! Follows what the kernel says, in its log and by its taint, and turns it into events.

use std::time::Instant;

use drover_machine::{
    console::{Classifier, Finding, Hint, Severity},
    kernel_log::{KernelLog, KernelLogError, LogRecord, LogStart, ReadError, read_taint},
};
use drover_model::{AttemptId, HostEventKind, KernelHint};

use crate::{agent::Agent, text::chain};

/// Most records read in one look; the rest waits for the next one.
const RECORDS: usize = 50_000;

/// Longest excerpt that travels with an event, in bytes.
const EXCERPT: usize = 32 << 10;

/// What the kernel says from now on. To open its log takes some 40 us, to look at it when there is nothing new one or two.
#[derive(Debug)]
pub(super) struct Kernel {
    log: Result<LogWatch, String>,
    taint: Result<u64, String>,
}

impl Kernel {
    pub(super) fn open() -> Self {
        let log = LogWatch::open().map_err(|error| chain(&error));
        Self { log, taint: read_taint().map_err(|error| chain(&error)) }
    }

    /// The same as opened now: what was said before does not count.
    pub(super) fn anew(self) -> Self {
        let log = self.log.and_then(|log| log.anew().map_err(|error| chain(&error)));
        Self { log, taint: read_taint().map_err(|error| chain(&error)) }
    }

    /// What cannot be looked at here, each with the reason.
    pub(super) fn missing(&self) -> impl Iterator<Item = String> {
        let log = self.log.as_ref().err();
        log.into_iter().chain(self.taint.as_ref().err()).cloned()
    }

    /// The number of the first record that came since it was opened, if one came and was looked at.
    pub(super) fn first_record(&self) -> Option<u64> {
        self.log.as_ref().ok()?.first
    }

    /// Records what is new. A report is told once it is whole: when other lines have followed, when none have for a look, or when
    /// `finish` says that nobody waits for more. One that means the kernel's death is told at once.
    pub(super) fn look(&mut self, agent: &Agent, attempt: AttemptId, finish: bool) {
        if let Ok(log) = &mut self.log {
            let (found, blind) = log.look(finish);
            for finding in found {
                tracing::warn!(%attempt, ?finding, "the kernel reports");
                agent.record_host(attempt, finding);
            }
            if let Some(why) = blind {
                tracing::warn!(%attempt, why, "the kernel's log is not read any more");
                agent.record_host(attempt, HostEventKind::Blind { why: why.clone() });
                self.log = Err(why);
            }
        }
        if let Ok(before) = self.taint
            && let Ok(after) = read_taint()
            && before != after
        {
            self.taint = Ok(after);
            agent.record_host(attempt, HostEventKind::Tainted { before, after });
        }
    }
}

/// The number of the record that the kernel's log will get next.
pub(super) fn next_record() -> Option<u64> {
    // All that is there is read once: the log says the number of its next record only after one was read.
    let mut log = KernelLog::open(LogStart::Oldest).ok()?;
    let mut left = RECORDS;
    while left > 0 && matches!(log.next_record(), Ok(Some(_))) {
        left -= 1;
    }
    Some(log.next_sequence().unwrap_or_default())
}

/// The kernel's log from now on.
#[derive(Debug)]
struct LogWatch {
    log: KernelLog,
    /// Made for the first record.
    classifier: Option<Box<Classifier>>,
    first: Option<u64>,
    /// Findings that were reported.
    told: usize,
    begin: Instant,
    lost: u64,
}

impl LogWatch {
    fn open() -> Result<Self, KernelLogError> {
        let log = KernelLog::open(LogStart::End)?;
        Ok(Self { log, classifier: None, first: None, told: 0, begin: Instant::now(), lost: 0 })
    }

    fn anew(mut self) -> Result<Self, ReadError> {
        self.log.skip_to_end()?;
        Ok(Self { classifier: None, first: None, told: 0, begin: Instant::now(), lost: 0, ..self })
    }

    /// What is new, and why there will be no more, if so.
    fn look(&mut self, finish: bool) -> (Vec<HostEventKind>, Option<String>) {
        let at = self.begin.elapsed();
        let (mut read, mut blind) = (0, None);
        while read < RECORDS {
            match self.log.next_record() {
                Ok(Some(record)) => {
                    self.first.get_or_insert(record.sequence);
                    self.classifier.get_or_insert_default().push(&line_of(&record), at);
                }
                Ok(None) => break,
                Err(error) => {
                    blind = Some(chain(&error));
                    break;
                }
            }
            read += 1;
        }
        let Some(classifier) = &mut self.classifier else { return (Vec::new(), blind) };
        let untold = classifier.findings().get(self.told..).unwrap_or_default();
        let urgent = untold.iter().any(|finding| finding.severity == Severity::Fatal);
        if read == 0 || finish || urgent || blind.is_some() {
            classifier.finish(at);
        }
        let untold = classifier.findings().get(self.told..).unwrap_or_default();
        let mut found: Vec<_> = untold.iter().take_while(|finding| finding.complete).map(event_of).collect();
        self.told += found.len();
        let lost = self.log.lost().saturating_sub(self.lost);
        if lost > 0 {
            self.lost = self.log.lost();
            let why = format!("{lost} records of the kernel's log were overwritten before they were read");
            found.push(HostEventKind::Blind { why });
        }
        (found, blind)
    }
}

/// A record as the classifier wants it: with its line end.
fn line_of(record: &LogRecord) -> Vec<u8> {
    let mut line = record.raw.to_vec();
    if !line.ends_with(b"\n") {
        line.push(b'\n');
    }
    line
}

fn event_of(finding: &Finding) -> HostEventKind {
    let mut excerpt = String::new();
    for line in finding.excerpt.before.iter().chain(&finding.excerpt.lines) {
        if excerpt.len() + line.len() >= EXCERPT {
            break;
        }
        excerpt.push_str(line);
        excerpt.push('\n');
    }
    HostEventKind::Kernel {
        class: finding.class.as_str().to_owned(),
        severity: finding.severity.as_str().to_owned(),
        hint: hint_of(finding.hint()),
        first_line: finding.first_line.clone(),
        excerpt,
    }
}

/// A hint of the classifier as it travels. A kernel that is not the wanted one is not told here: the machine has booted.
fn hint_of(hint: Hint) -> KernelHint {
    match hint {
        Hint::Ng(cause) => KernelHint::Ng(cause),
        Hint::Doubt(kind) => KernelHint::Doubt(kind),
        Hint::Missing(_) | Hint::Nothing => KernelHint::Nothing,
    }
}
