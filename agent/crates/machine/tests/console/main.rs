//! The classifier against the reference table, against whole reports, and against what no kernel wrote.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod damaged;
mod golden;
mod life;
mod table;

use std::time::Duration;

use drover_machine::console::Classifier;

/// Reads all of `bytes`, as the console of a kernel whose start is expected.
fn classified(bytes: &[u8]) -> Classifier {
    let mut classifier = Classifier::new();
    classifier.expect_boot();
    classifier.push(bytes, Duration::ZERO);
    classifier.finish(Duration::ZERO);
    classifier
}
