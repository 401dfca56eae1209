//! What hosts report of themselves while attempts run on them: reports of the kernel, its taint, what the sensors say.

use std::collections::BTreeMap;

use drover_machine::{console::Hint, kernel_log::taints};
use drover_matrix::{Weight, Weights};
use drover_model::{AttemptId, Doubt, DoubtKind, HostEvent, HostEventKind, KernelHint, Name, NgCause};
use drover_sched::{CollectOutcome, Event};

use super::drive::Driver;

/// Most doubts of one host that are kept for an attempt; a kernel that is broken reports without end.
const MAX_DOUBTS: usize = 32;
/// Bytes of a line of the kernel's log that a verdict quotes.
const MAX_LINE: usize = 300;

/// What one host reported while an attempt ran on it.
#[derive(Debug, Default)]
pub struct Observed {
    /// Its sensors are read: there are samples to fetch and to judge.
    pub sampled: bool,
    /// Number of the last report that was taken in: they come again after a reconnection.
    last_seq: u64,
    /// From its kernel.
    doubts: Vec<Doubt>,
    /// From its samples, once they are judged.
    pub judged: Vec<Doubt>,
}

impl Observed {
    fn doubt(&mut self, kind: DoubtKind, detail: String) {
        let doubt = Doubt { kind, detail };
        if self.doubts.len() < MAX_DOUBTS && !self.doubts.contains(&doubt) {
            self.doubts.push(doubt);
        }
    }
}

impl Driver {
    /// Takes in what a host reports of itself.
    pub(super) fn host_reported(&mut self, host: Name, event: HostEvent) {
        let id = event.attempt;
        if !self.may_observe(&host, id) {
            tracing::error!(%host, attempt = %id, "a host reports on an attempt that is not its own");
            return;
        }
        let Some(attempt) = self.attempt_mut(id) else { return };
        let observed = attempt.observed.entry(host.clone()).or_default();
        if event.seq <= observed.last_seq {
            return;
        }
        observed.last_seq = event.seq;
        self.soak_sign(&host, &event);
        let attempt = self.attempts.get_mut(&id);
        let Some(observed) = attempt.and_then(|attempt| attempt.observed.get_mut(&host)) else { return };
        match event.kind {
            HostEventKind::Observing { interval, without } => {
                observed.sampled = true;
                tracing::debug!(%host, attempt = %id, ?interval, ?without, "is observed");
            }
            HostEventKind::Kernel { class, hint, first_line, excerpt, .. } => {
                tracing::warn!(%host, attempt = %id, class, "the kernel reports: {first_line}");
                tracing::info!(%host, attempt = %id, "its log around that:\n{excerpt}");
                let line = quoted(&first_line);
                match hint {
                    KernelHint::Ng(cause) => {
                        self.feed(Event::KernelFailed { host, attempt: id, cause, detail: line });
                    }
                    KernelHint::Doubt(kind) => observed.doubt(kind, format!("the kernel reports: {line}")),
                    KernelHint::Nothing => {}
                }
            }
            HostEventKind::Tainted { before, after } => {
                tracing::warn!(%host, attempt = %id, before, after, "the kernel's taint changed");
                let (detail, failure) = tainted(before, after);
                match failure {
                    // Its log says the same, where it can be read.
                    Some(cause) => self.feed(Event::KernelFailed { host, attempt: id, cause, detail }),
                    None => observed.doubt(DoubtKind::Tainted, detail),
                }
            }
            HostEventKind::Blind { why } => {
                tracing::warn!(%host, attempt = %id, why, "the host is not wholly observed");
            }
        }
    }

    /// Whether an attempt is on this host, as far as is known: what one host says counts for no other.
    fn may_observe(&self, host: &Name, attempt: AttemptId) -> bool {
        let seats = self.attempts.get(&attempt).and_then(|attempt| attempt.seats.as_ref());
        seats.is_none_or(|seats| seats.hosts().contains(&host))
    }
}

/// What a change of the kernel's taint says, and how the kernel failed, if it did.
fn tainted(before: u64, after: u64) -> (String, Option<NgCause>) {
    let new: Vec<_> = taints(after & !before).collect();
    let meanings: Vec<String> =
        new.iter().map(|taint| format!("{} ({})", taint.letter, taint.meaning)).collect();
    let detail = format!("kernel.tainted was {before} and is {after}: {}", meanings.join(", "));
    let failure = new.iter().find_map(|taint| match taint.hint() {
        Hint::Ng(cause) => Some(cause),
        Hint::Missing(_) | Hint::Doubt(_) | Hint::Nothing => None,
    });
    (detail, failure)
}

/// A line for people, of bounded length.
fn quoted(line: &str) -> String {
    let mut end = line.len().min(MAX_LINE);
    while !line.is_char_boundary(end) {
        end -= 1;
    }
    line.get(..end).unwrap_or_default().to_owned()
}

/// All reasons to doubt an attempt that its hosts gave, each once, with the host's name where there are several.
pub fn doubts(observed: &BTreeMap<Name, Observed>, hosts: usize) -> Vec<Doubt> {
    let mut all: Vec<Doubt> = Vec::new();
    for (host, observed) in observed {
        // The kernel's taint is told by its report and by the samples.
        let told =
            |kind| kind == DoubtKind::Tainted && observed.doubts.iter().any(|doubt| doubt.kind == kind);
        let judged = observed.judged.iter().filter(|doubt| !told(doubt.kind));
        for doubt in observed.doubts.iter().chain(judged) {
            let mut doubt = doubt.clone();
            if hosts > 1 {
                doubt.detail = format!("{host}: {}", doubt.detail);
            }
            if !all.contains(&doubt) {
                all.push(doubt);
            }
        }
    }
    all
}

/// Lets doubts count as the matrix says.
pub fn weigh(outcome: &mut CollectOutcome, weights: &Weights) {
    let mut failures = Vec::new();
    outcome.doubts.retain(|doubt| match weights.of(doubt.kind) {
        Weight::Suspect => true,
        Weight::Ignore => {
            tracing::info!(kind = doubt.kind.as_str(), doubt.detail, "is ignored, as the matrix says");
            false
        }
        Weight::Ng => {
            failures.push(format!("{}: {}", doubt.kind.as_str(), doubt.detail));
            true
        }
    });
    if !failures.is_empty() {
        let failed = outcome.check_failed.take().into_iter().chain(failures);
        outcome.check_failed = Some(failed.collect::<Vec<_>>().join("; "));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expect_a_failure_when_the_taint_says_that_the_kernel_died_or_locked_up() {
        let (detail, failure) = tainted(4096, 4096 | 1 << 9);
        assert_eq!(failure, None);
        assert_eq!(detail, "kernel.tainted was 4096 and is 4608: W (the kernel warned)");
        assert_eq!(tainted(0, 1 << 14 | 1 << 12).1, Some(NgCause::Lockup));
        assert_eq!(tainted(1 << 7, 1 << 7 | 1 << 12).1, None, "it had died before");
    }

    #[test]
    fn expect_doubts_to_count_as_the_matrix_says_when_they_are_weighed() {
        let text = "version: 1\nname: m\naxes: { n: [1] }\ndoubt: { steal: ignore, swap: ng }\n\
                    roles: { job: { run: [id, '{{ n }}'] } }\n";
        let source = drover_matrix::Source::new("m.yaml", text);
        let matrix = drover_matrix::parse(&source, &drover_matrix::Options::default()).unwrap();
        let doubt = |kind, detail: &str| Doubt { kind, detail: detail.to_owned() };
        let all = [
            doubt(DoubtKind::Steal, "2 %"),
            doubt(DoubtKind::Swap, "300 pages"),
            doubt(DoubtKind::FdLimit, "99 of 100"),
        ];
        let mut outcome = CollectOutcome {
            check_failed: Some("failed is 1".to_owned()),
            doubts: all.to_vec(),
            ..CollectOutcome::default()
        };
        weigh(&mut outcome, &matrix.policy().doubts);
        assert_eq!(outcome.doubts, all[1..]);
        assert_eq!(outcome.check_failed.as_deref(), Some("failed is 1; swap: 300 pages"));
    }
}
