//! Follows the kernel's log and turns its reports into events.

use std::time::Instant;

use drover_machine::{
    console::{Classifier, Finding, Hint, Severity},
    kernel_log::{KernelLog, KernelLogError, LogStart},
};
use drover_model::{HostEventKind, KernelHint};

/// Most records read in one look; the rest waits for the next one.
const RECORDS: usize = 50_000;

/// Longest excerpt that travels with an event, in bytes.
const EXCERPT: usize = 32 << 10;

/// The kernel's log from now on.
pub(super) struct KernelWatch {
    log: KernelLog,
    classifier: Classifier,
    /// Findings that were reported.
    told: usize,
    begin: Instant,
    lost: u64,
}

impl KernelWatch {
    pub(super) fn open() -> Result<Self, KernelLogError> {
        // All that is there is read once: the log says the number of its next record only after one was read.
        let mut log = KernelLog::open(LogStart::Oldest)?;
        let mut left = RECORDS;
        while left > 0 && matches!(log.next_record(), Ok(Some(_))) {
            left -= 1;
        }
        let lost = log.lost();
        Ok(Self { log, classifier: Classifier::new(), told: 0, begin: Instant::now(), lost })
    }

    /// Number of the first record that is not read yet.
    pub(super) fn next_sequence(&self) -> u64 {
        self.log.next_sequence().unwrap_or_default()
    }

    /// What is new, and why there will be no more, if so. A report is told once it is whole: when other lines have followed,
    /// when none have for a look, or when `finish` says that nobody waits for more. One that means the kernel's death is told
    /// at once.
    pub(super) fn look(&mut self, finish: bool) -> (Vec<HostEventKind>, Option<String>) {
        let at = self.begin.elapsed();
        let (mut read, mut blind) = (0, None);
        while read < RECORDS {
            match self.log.next_record() {
                Ok(Some(record)) => self.classifier.push(&line_of(&record.raw), at),
                Ok(None) => break,
                Err(error) => {
                    blind = Some(crate::text::chain(&error));
                    break;
                }
            }
            read += 1;
        }
        let untold = self.classifier.findings().get(self.told..).unwrap_or_default();
        let urgent = untold.iter().any(|finding| finding.severity == Severity::Fatal);
        if read == 0 || finish || urgent || blind.is_some() {
            self.classifier.finish(at);
        }
        let untold = self.classifier.findings().get(self.told..).unwrap_or_default();
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
fn line_of(raw: &[u8]) -> Vec<u8> {
    let mut line = raw.to_vec();
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
        Hint::Doubt(concern) => KernelHint::Doubt(concern.as_str().to_owned()),
        Hint::Missing(_) | Hint::Nothing => KernelHint::Nothing,
    }
}
