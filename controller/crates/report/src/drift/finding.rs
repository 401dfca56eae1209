//! From a series to a sentence.

use drover_model::Direction;

use super::{
    autocorrelation::inflation,
    mann_kendall::mann_kendall,
    points::{MAX_BLOCKS, after, block_medians, length, median, without_warm_up},
    theil_sen::Slopes,
};

const HOUR: f64 = 3600.0;
/// Fewer points after the warm-up say nothing about a trend.
const FEWEST: usize = 10;

/// What kind of quantity a series is: which way is bad, and what that is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nature {
    /// Work in a time: falling is bad, and slows down.
    Throughput,
    /// Time for work: rising is bad, and slows down.
    Latency,
    /// What should be given back, such as memory and open files: rising is bad, and leaks.
    Resource,
    /// Anything else: the other way than better is bad.
    Other(Direction),
}

impl Nature {
    fn is_bad(self, slope: f64) -> bool {
        match self {
            Self::Throughput | Self::Other(Direction::Higher) => slope < 0.0,
            Self::Latency | Self::Resource | Self::Other(Direction::Lower) => slope > 0.0,
        }
    }
}

/// When a drift is a finding.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DriftOptions {
    /// Highest probability that it is chance. Below the usual 5 %, since a soak has many series.
    pub significance: f64,
    /// Least change over the measured time, as a share of the median: what is less does not matter, however certain it is.
    pub relevant_share: f64,
    /// Seconds from the first point that are warm-up. `None`: a tenth of the time, but at least one and at most ten minutes.
    pub warm_up: Option<f64>,
}

impl Default for DriftOptions {
    fn default() -> Self {
        Self { significance: 0.01, relevant_share: 0.01, warm_up: None }
    }
}

/// What one series did.
#[derive(Clone, Debug, PartialEq)]
pub struct Drift {
    /// Name of the metric or series.
    pub metric: String,
    /// Its unit.
    pub unit: String,
    /// Change in an hour, in that unit.
    pub per_hour: f64,
    /// Lower end of its 95 % confidence interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Probability of such a trend by chance (two-sided).
    pub p: f64,
    /// Points after the warm-up.
    pub n: usize,
    /// The sentence, if it is bad, significant, and large enough to matter.
    pub finding: Option<String>,
}

/// Judges a series of points (seconds, value). `None` if there are too few after the warm-up, or all at one time: nothing is known then, which is not "no drift".
#[must_use]
pub fn drift(
    metric: &str,
    unit: &str,
    nature: Nature,
    points: &[(f64, f64)],
    options: &DriftOptions,
) -> Option<Drift> {
    let points = match options.warm_up {
        None => without_warm_up(points),
        Some(seconds) => after(points, seconds),
    };
    if points.len() < FEWEST {
        return None;
    }
    let blocks = block_medians(&points, MAX_BLOCKS);
    let slopes = Slopes::of(&blocks);
    let factor = inflation(&blocks, slopes.middle()?);
    let line = slopes.line(&blocks, factor)?;
    let p = mann_kendall(&blocks)?.p(factor);
    let level = median(blocks.iter().map(|(_, y)| *y).collect())?;
    let seconds = blocks.last()?.0 - blocks.first()?.0;
    let [per_hour, low, high] = [line.slope, line.low, line.high].map(|slope| slope * HOUR);
    let certain = p < options.significance && (low > 0.0 || high < 0.0);
    let relevant = (line.slope * seconds).abs() >= options.relevant_share * level.abs();
    let is_finding = certain && relevant && nature.is_bad(per_hour);
    let finding = is_finding.then(|| sentence(nature, unit, per_hour, (high - low) / 2.0, level));
    Some(Drift {
        metric: metric.to_owned(),
        unit: unit.to_owned(),
        per_hour,
        low,
        high,
        p,
        n: points.len(),
        finding,
    })
}

/// `leaks 3.1 MiB/h ± 0.2`, `slows down by 1.2 %/h ± 0.3`.
fn sentence(nature: Nature, unit: &str, per_hour: f64, half: f64, level: f64) -> String {
    let percent = if level == 0.0 { None } else { Some(100.0 / level.abs()) };
    let (verb, (scale, unit)) = match (nature, percent) {
        (Nature::Resource, _) => ("leaks", scaled(unit, per_hour.abs())),
        (Nature::Throughput | Nature::Latency, Some(percent)) => ("slows down by", (percent, "%")),
        (Nature::Throughput | Nature::Latency, None) => ("slows down by", scaled(unit, per_hour.abs())),
        (Nature::Other(_), _) if per_hour < 0.0 => ("falls by", scaled(unit, per_hour.abs())),
        (Nature::Other(_), _) => ("rises by", scaled(unit, per_hour.abs())),
    };
    let (change, half) = (per_hour.abs() * scale, half * scale);
    let decimals = decimals(if half > 0.0 { half } else { change / 100.0 });
    // A plain count has no unit to name.
    let unit = if unit == "1" { String::new() } else { format!(" {unit}") };
    let per = if unit.is_empty() { " per hour" } else { "/h" };
    format!("{verb} {change:.decimals$}{unit}{per} ± {half:.decimals$}")
}

/// A factor and the unit that it leads to.
pub(crate) fn scaled(unit: &str, value: f64) -> (f64, &str) {
    const BYTES: [(f64, &str); 4] =
        [(1_099_511_627_776.0, "TiB"), (1_073_741_824.0, "GiB"), (1_048_576.0, "MiB"), (1024.0, "KiB")];
    let larger = BYTES.iter().find(|(size, _)| unit == "bytes" && value >= *size);
    larger.map_or((1.0, unit), |(size, name)| (1.0 / size, name))
}

/// How many decimals show the first digit of a number; rounding up to it counts.
fn decimals(half: f64) -> usize {
    let mut shown = half;
    for decimals in 0..9 {
        if shown >= 0.95 || length(decimals) >= 8.0 {
            return decimals;
        }
        shown *= 10.0;
    }
    9
}
