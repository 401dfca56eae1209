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
