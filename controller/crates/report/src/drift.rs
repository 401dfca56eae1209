//! Whether a metric drifts over a soak, by how much, and whether that is bad: "leaks 3.1 MiB/h ± 0.2". Pure.
//!
//! Called with the time series of a trial's metrics and sensors. The way of one series:
//!
//! 1. The warm-up is cut: the first tenth of the time, but at least one and at most ten minutes.
//! 2. What remains is made into at most 600 medians of equally many successive points ([`block_medians`]). This bounds the work
//!    (a slope for each pair of points), and removes noise that is faster than a block.
//! 3. [`mann_kendall`] tests for a trend, [`theil_sen`] estimates it. Both assume independent points; their variance is
//!    multiplied by [`inflation`], which estimates how many independent points the correlated ones are worth.
//! 4. A trend is a finding if it is in the bad direction, significant, and large enough to matter.

mod autocorrelation;
mod finding;
mod mann_kendall;
mod normal;
mod points;
mod theil_sen;

pub use autocorrelation::inflation;
pub(crate) use finding::scaled;
pub use finding::{Drift, DriftOptions, Nature, drift};
pub use mann_kendall::{MannKendall, mann_kendall};
pub(crate) use normal::upper_tail;
pub use points::{MAX_BLOCKS, block_medians, without_warm_up};
pub use theil_sen::{TheilSen, theil_sen};

#[cfg(test)]
mod tests;
