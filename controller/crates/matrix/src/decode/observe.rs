//! `observe` and `doubt`: how the machines are observed while trials run, and how much what is seen counts.

use std::time::Duration;

use drover_model::DoubtKind;

use super::{
    fields::{Fields, Problems},
    units, value,
};
use crate::{
    tree::{Kind, Node},
    weights::{Weight, Weights},
};

/// Time between two samples when the matrix does not say.
const DEFAULT_INTERVAL: Duration = Duration::from_secs(1);
const SHORTEST_INTERVAL: Duration = Duration::from_millis(100);
const LONGEST_INTERVAL: Duration = Duration::from_secs(60);
const WEIGHTS: [(&str, Weight); 3] =
    [("ignore", Weight::Ignore), ("suspect", Weight::Suspect), ("ng", Weight::Ng)];

/// The words that `doubt` knows.
pub(crate) fn words() -> Vec<&'static str> {
    DoubtKind::ALL.iter().filter(|kind| kind.is_of_machine()).map(|kind| kind.as_str()).collect()
}

/// Decodes `observe`: an interval, or `off`.
pub(crate) fn observe(node: Option<&Node>, problems: &mut Problems) -> Option<Duration> {
    let Some(node) = node else { return Some(DEFAULT_INTERVAL) };
    if matches!(&node.kind, Kind::Scalar(scalar) if scalar.text == "off") {
        return None;
    }
    let interval = units::duration(node, "`observe`", problems)?;
    if !(SHORTEST_INTERVAL..=LONGEST_INTERVAL).contains(&interval) {
        let help = "1s is the default; what happens between two samples the counters tell all the same; or write off";
        problems.add(node.span.clone(), "`observe` must lie between 100ms and 1m", help);
    }
    Some(interval)
}

/// Decodes `doubt`.
pub(crate) fn weights(node: Option<&Node>, problems: &mut Problems) -> Weights {
    let words = words();
    let fields = node.and_then(|node| Fields::open(node, "`doubt`", &words, problems));
    let mut weights = Weights::default();
    for word in words {
        let node = fields.as_ref().and_then(|fields| fields.get(word));
        let weight = node.and_then(|node| value::choice(node, &format!("`{word}`"), &WEIGHTS, problems));
        if let (Some(weight), Some(kind)) = (weight, DoubtKind::from_word(word)) {
            weights.set(kind, weight);
        }
    }
    weights
}
