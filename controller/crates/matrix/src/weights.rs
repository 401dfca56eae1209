//! How much doubts about the machine count, as the matrix says.

use std::collections::BTreeMap;

use drover_model::DoubtKind;

/// How much a doubt counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Weight {
    /// Not at all.
    Ignore,
    /// The number is marked, and the doubt is a footnote.
    #[default]
    Suspect,
    /// There is no number: the trial is `ng`.
    Ng,
}

/// How much each kind of doubt counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Weights(BTreeMap<DoubtKind, Weight>);

impl Weights {
    /// How much doubts of a kind count; those that are not about the machine always make a number suspect.
    #[must_use]
    pub fn of(&self, kind: DoubtKind) -> Weight {
        self.0.get(&kind).copied().unwrap_or_default()
    }

    pub(crate) fn set(&mut self, kind: DoubtKind, weight: Weight) {
        self.0.insert(kind, weight);
    }
}
