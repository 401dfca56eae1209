//! How often a cell ended in the same way by the death of its kernel. Asked before an attempt is begun: two identical deaths
//! are enough, the rest of the run goes on.

use std::collections::BTreeMap;

use drover_model::{NgCause, Verdict};

/// Identical deaths after which a cell is tried no more.
const ENOUGH: u32 = 2;

/// Deaths by cell.
#[derive(Debug, Default)]
pub(crate) struct Deaths(BTreeMap<u32, BTreeMap<NgCause, u32>>);

/// The death of a kernel, or of the machine that it ran on, if this is one.
pub(crate) fn death(verdict: &Verdict) -> Option<NgCause> {
    match verdict {
        Verdict::Ng {
            cause:
                cause @ (NgCause::Lockup
                | NgCause::Panic
                | NgCause::Oops
                | NgCause::Hang
                | NgCause::UnexpectedReboot),
            ..
        } => Some(*cause),
        _ => None,
    }
}

impl Deaths {
    /// Takes note of an attempt that has its verdict.
    pub fn note(&mut self, cell: u32, died: Option<NgCause>) {
        if let Some(cause) = died {
            let count = self.0.entry(cell).or_default().entry(cause).or_default();
            *count = count.saturating_add(1);
        }
    }

    /// What a cell ended by too often to be tried again.
    pub fn enough(&self, cell: u32) -> Option<NgCause> {
        let found = self.0.get(&cell)?.iter().find(|(_, count)| **count >= ENOUGH)?;
        Some(*found.0)
    }
}
