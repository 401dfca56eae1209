//! Whether a trial is tried again: one pure function. Called when the verdict of an attempt is known.

use drover_model::{MissingCause, Verdict};

use crate::past::Draw;

/// How often a trial may be tried again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Further attempts after faults of our own.
    pub retries: u32,
    /// Further attempts after an `ng`.
    pub after_ng: u32,
}

/// The attempt that may follow one that ended so; `None` if its verdict is final.
///
/// Attempts that were interrupted, or found no host, said nothing of the trial: they are followed by another without a
/// count, in this run of the controller or, after an interruption, in a later one.
pub(crate) fn next(draw: Draw, verdict: &Verdict, limits: Limits) -> Option<Draw> {
    let number = draw.number.checked_add(1)?;
    match verdict {
        Verdict::Missing { cause: MissingCause::Cancelled | MissingCause::HostUnavailable, .. } => {
            Some(Draw { number, ..draw })
        }
        Verdict::Ng { .. } if draw.ngs < limits.after_ng => Some(Draw { number, ngs: draw.ngs + 1, ..draw }),
        _ if verdict.is_retriable() && draw.faults < limits.retries => {
            Some(Draw { number, faults: draw.faults + 1, ..draw })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use drover_model::{ErrorCause, NgCause, TrialId};

    use super::*;

    #[test]
    fn expect_retries_only_within_their_limits_when_attempts_fail() {
        let detail = String::new;
        let fault = Verdict::Error { cause: ErrorCause::AgentLost, detail: detail() };
        let script = Verdict::Error { cause: ErrorCause::Script, detail: detail() };
        let ng = Verdict::Ng { cause: NgCause::Crash, detail: detail() };
        let cancelled = Verdict::Missing { cause: MissingCause::Cancelled, detail: detail() };
        let no_cpus = Verdict::Missing { cause: MissingCause::WrongCpus, detail: detail() };
        let first = Draw { trial: TrialId { cell: 0, repetition: 1 }, number: 1, faults: 0, ngs: 0 };
        let limits = Limits { retries: 1, after_ng: 1 };
        let strict = Limits { retries: 0, after_ng: 0 };

        let second = next(first, &fault, limits).unwrap();
        assert_eq!(second, Draw { number: 2, faults: 1, ..first });
        assert_eq!(next(second, &fault, limits), None);
        assert_eq!(next(second, &ng, limits), Some(Draw { number: 3, faults: 1, ngs: 1, ..first }));
        assert_eq!(next(first, &fault, strict), None);
        assert_eq!(next(first, &ng, strict), None);
        for last in [Verdict::Ok, script, no_cpus] {
            assert_eq!(next(first, &last, limits), None, "{last:?}");
        }
        assert_eq!(next(first, &cancelled, strict), Some(Draw { number: 2, ..first }), "without a count");
    }
}
