//! Published vectors, properties, and simulations of series without a trend.

use drover_model::Direction;
use proptest::prelude::*;

use super::{
    Drift, DriftOptions, MAX_BLOCKS, Nature, block_medians, drift, inflation, mann_kendall,
    normal::two_sided, theil_sen,
};

/// Annual flow of the Nile at Aswan, 1871 to 1970, in 10^8 m³: Cobb, Biometrika 65 (1978); `Nile` of R.
const NILE: [u16; 100] = [
    1120, 1160, 963, 1210, 1160, 1160, 813, 1230, 1370, 1140, 995, 935, 1110, 994, 1020, 960, 1180, 799, 958,
    1140, 1100, 1210, 1150, 1250, 1260, 1220, 1030, 1100, 774, 840, 874, 694, 940, 833, 701, 916, 692, 1020,
    1050, 969, 831, 726, 456, 824, 702, 1120, 1100, 832, 764, 821, 768, 845, 864, 862, 698, 845, 744, 796,
    1040, 759, 781, 865, 845, 944, 984, 897, 822, 1010, 771, 676, 649, 846, 812, 742, 801, 1040, 860, 874,
    848, 890, 744, 749, 838, 1050, 918, 986, 797, 923, 975, 815, 1020, 906, 901, 1170, 912, 746, 919, 718,
    714, 740,
];
/// Ties in time, in value, and in both.
const TIED: [(f64, f64); 12] = [
    (0.0, 3.0),
    (1.0, 3.0),
    (2.0, 1.0),
    (2.0, 4.0),
    (3.0, 4.0),
    (5.0, 5.0),
    (8.0, 5.0),
    (8.0, 6.0),
    (9.0, 2.0),
    (12.0, 6.0),
    (13.0, 7.0),
    (20.0, 6.0),
];

fn nile() -> Vec<(f64, f64)> {
    (1871..).zip(NILE).map(|(year, flow)| (f64::from(year), f64::from(flow))).collect()
}

fn evenly(values: &[f64]) -> Vec<(f64, f64)> {
    (0_u32..).zip(values).map(|(n, value)| (f64::from(n), *value)).collect()
}

fn assert_close(got: f64, want: f64) {
    assert!((got - want).abs() <= 1e-11 * want.abs(), "got {got}, want {want}");
}

/// Gilbert, "Statistical Methods for Environmental Pollution Monitoring" (1987), section 16.4.1: S of 10, 15, 14, 20. Variance, z and p:
/// `pymannkendall.original_test` 1.4.3.
#[test]
fn expect_published_figures_when_mann_kendall_is_given_their_examples() {
    let short = mann_kendall(&evenly(&[10.0, 15.0, 14.0, 20.0])).unwrap();
    assert_eq!((short.n, short.s), (4, 4));
    assert_close(short.variance, 8.666_666_666_666_666);
    assert_close(short.z(1.0), 1.019_049_330_730_136_3);
    assert_close(short.p(1.0), 0.308_179_547_467_053_9);
    let nile = mann_kendall(&nile()).unwrap();
    assert_eq!(nile.s, -1387);
    assert_close(nile.variance, 112_728.333_333_333_33);
    assert_close(nile.z(1.0), -4.128_066_522_844_101);
    assert_close(nile.p(1.0), 3.658_262_921_657_496e-5);
    let values: Vec<f64> = TIED.iter().map(|(_, y)| *y).collect();
    let tied = mann_kendall(&evenly(&values)).unwrap();
    assert_eq!((tied.s, tied.variance), (40, 206.0));
    assert_close(tied.p(1.0), 0.006_582_512_312_133_248_5);
}

/// `scipy.stats.kendalltau(x, y, method="asymptotic")` of SciPy 1.17.1, whose p has no continuity correction.
#[test]
fn expect_published_figures_when_times_are_tied_too() {
    for (points, p) in [(&TIED[..], 0.007_829_220_392_852_686), (&nile(), 3.611_179_919_481_615_4e-5)] {
        let test = mann_kendall(points).unwrap();
        let z = f64::from(i32::try_from(test.s).unwrap()) / test.variance.sqrt();
        assert!((two_sided(z) / p - 1.0).abs() < 1e-10, "{test:?}");
    }
}

/// `scipy.stats.theilslopes(y, x, 0.95)` of SciPy 1.17.1.
#[test]
fn expect_published_lines_when_theil_sen_is_given_their_examples() {
    let cases = [
        (nile(), [-2.6, 5886.8, -3.627_906_976_744_186, -1.428_571_428_571_428_6]),
        (TIED.to_vec(), [0.25, 2.875, 0.083_333_333_333_333_33, 0.4]),
        (evenly(&[10.0, 15.0, 14.0, 20.0]), [2.916_666_666_666_667, 10.125, -1.0, 6.0]),
    ];
    for (points, [slope, intercept, low, high]) in cases {
        let line = theil_sen(&points, 1.0).unwrap();
        assert_close(line.slope, slope);
        assert_close(line.intercept, intercept);
        assert_close(line.low, low);
        assert_close(line.high, high);
    }
}

#[test]
fn expect_nothing_when_points_are_too_few_or_at_one_time() {
    assert_eq!(mann_kendall(&[(1.0, 1.0), (2.0, f64::NAN)]), None);
    assert_eq!(theil_sen(&[(1.0, 1.0), (1.0, 2.0)], 1.0), None);
    assert_eq!(theil_sen(&[], 1.0), None);
    let flat = mann_kendall(&evenly(&[2.0; 30])).unwrap();
    assert_eq!((flat.s, flat.variance, flat.z(1.0), flat.p(1.0)), (0, 0.0, 0.0, 1.0));
    let two = theil_sen(&[(0.0, 1.0), (2.0, 5.0)], 1.0).unwrap();
    assert_eq!((two.slope, two.low, two.high), (2.0, 2.0, 2.0));
}

/// Counts pairs one by one.
fn slow_s(points: &[(f64, f64)]) -> i64 {
    let mut s = 0;
    for (n, (x, y)) in points.iter().enumerate() {
        for (x2, y2) in &points[n + 1..] {
            let along = (x2 - x) * (y2 - y);
            s += i64::from(along > 0.0) - i64::from(along < 0.0);
        }
    }
    s
}

fn few_values() -> impl Strategy<Value = Vec<(f64, f64)>> {
    prop::collection::vec((0_u8..20, 0_i8..12), 2..60)
        .prop_map(|points| points.into_iter().map(|(x, y)| (f64::from(x), f64::from(y))).collect())
}

proptest! {
    #[test]
    fn expect_the_same_s_when_pairs_are_counted_one_by_one(points in few_values()) {
        prop_assert_eq!(mann_kendall(&points).unwrap().s, slow_s(&points));
    }

    #[test]
    fn expect_the_opposite_when_values_or_times_are_turned_round(points in few_values()) {
        let test = mann_kendall(&points).unwrap();
        let line = theil_sen(&points, 1.0);
        for turned in [
            points.iter().map(|(x, y)| (*x, -y)).collect::<Vec<_>>(),
            points.iter().map(|(x, y)| (-x, *y)).collect(),
        ] {
            let other = mann_kendall(&turned).unwrap();
            prop_assert_eq!(other.s, -test.s);
            prop_assert!((other.variance - test.variance).abs() < 1e-9);
            prop_assert!((other.z(1.0) + test.z(1.0)).abs() < 1e-12);
            let slope = theil_sen(&turned, 1.0).map(|line| line.slope);
            let opposite = line.map(|line| -line.slope);
            prop_assert!(slope.zip(opposite).is_none_or(|(a, b)| (a - b).abs() < 1e-12), "{:?} {:?}", slope, opposite);
        }
    }

    #[test]
    fn expect_the_line_to_follow_when_points_are_shifted_and_scaled(
        points in few_values(), shift in -1e3..1e3_f64, scale in 0.1..50.0_f64, trend in -5.0..5.0_f64,
    ) {
        let moved: Vec<_> = points.iter().map(|(x, y)| (*x, y * scale + trend * x + shift)).collect();
        let (Some(line), Some(other)) = (theil_sen(&points, 1.0), theil_sen(&moved, 1.0)) else { return Ok(()) };
        prop_assert!((other.slope - (line.slope * scale + trend)).abs() < 1e-9 * (1.0 + other.slope.abs()));
        let scaled: Vec<_> = points.iter().map(|(x, y)| (x * scale + shift, *y)).collect();
        let other = theil_sen(&scaled, 1.0).unwrap();
        for (a, b) in [(other.slope, line.slope), (other.low, line.low), (other.high, line.high)] {
            prop_assert!((a * scale - b).abs() < 1e-9 * (1.0 + b.abs()));
        }
        prop_assert!(line.low <= line.slope && line.slope <= line.high);
        let wider = theil_sen(&points, 3.0).unwrap();
        prop_assert!(wider.low <= line.low && wider.high >= line.high);
    }
}

/// SplitMix64 (Steele, Lea and Flood, 2014), and normal numbers by the method of Box and Muller.
struct Random(u64);

impl Random {
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (f64::from(u32::try_from((z ^ (z >> 31)) >> 32).unwrap()) + 0.5) / 4_294_967_296.0
    }

    fn normal(&mut self) -> f64 {
        (-2.0 * self.unit().ln()).sqrt() * (std::f64::consts::TAU * self.unit()).cos()
    }

    /// Points one second apart of an autoregression of first order; `phi` 0 is white noise.
    fn series(&mut self, n: u32, phi: f64) -> Vec<(f64, f64)> {
        let mut last = self.normal() / (1.0 - phi * phi).sqrt();
        let step = |second| {
            last = phi * last + self.normal();
            (f64::from(second), last)
        };
        (0..n).map(step).collect()
    }
}

/// Shares of series without a trend in which one is seen at 5 %, with and without regard to autocorrelation.
fn false_positives(seed: u64, n: u32, phi: f64, runs: u32) -> (f64, f64) {
    let mut random = Random(seed);
    let (mut seen, mut naive) = (0_u32, 0_u32);
    for _ in 0..runs {
        let points = random.series(n, phi);
        let factor = inflation(&points, theil_sen(&points, 1.0).unwrap().slope);
        let test = mann_kendall(&points).unwrap();
        seen += u32::from(test.p(factor) < 0.05);
        naive += u32::from(test.p(1.0) < 0.05);
    }
    (f64::from(seen) / f64::from(runs), f64::from(naive) / f64::from(runs))
}

/// 1000 runs have a standard error of 0.7 % at 5 %.
#[test]
fn expect_some_5_percent_of_false_trends_when_there_is_none() {
    let (white, naive) = false_positives(1, 60, 0.0, 1000);
    assert!((0.03..0.07).contains(&naive), "independent points, uncorrected: {naive}");
    assert!((0.03..0.07).contains(&white), "independent points: {white}");
    let (correlated, naive) = false_positives(2, 100, 0.5, 1000);
    assert!(naive > 0.2, "the correction is needed: {naive}");
    assert!((0.03..0.075).contains(&correlated), "autocorrelated points: {correlated}");
}

#[test]
fn expect_a_trend_or_none_when_blocks_of_a_night_are_judged() {
    let mut random = Random(3);
    let noise = random.series(28_800, 0.5);
    let judged = |slope: f64| {
        let points: Vec<_> = noise.iter().map(|(x, y)| (*x, 200e6 + y * 1e6 + slope / 3600.0 * x)).collect();
        drift("server.rss", "bytes", Nature::Resource, &points, &DriftOptions::default()).unwrap()
    };
    let none = judged(0.0);
    assert!(none.finding.is_none() && none.low < 0.0 && none.high > 0.0, "{none:?}");
    assert_eq!(none.n, 28_200);
    let leak = judged(3.1 * 1_048_576.0);
    assert!(leak.p < 1e-6 && leak.low < 3.1 * 1_048_576.0 && leak.high > 3.1 * 1_048_576.0, "{leak:?}");
    let text = leak.finding.unwrap();
    assert!(text.starts_with("leaks 3.1") && text.contains(" MiB/h ± 0.0"), "{text}");
    assert_eq!(block_medians(&noise, MAX_BLOCKS).len(), 600);
}

/// A line with alternating noise, over an hour, 10 s apart.
fn hour(nature: Nature, unit: &str, level: f64, per_hour: f64, noise: f64) -> Drift {
    let value = |n: u32| {
        let sign = if n.is_multiple_of(2) { noise } else { -noise };
        level + per_hour * f64::from(n) / 360.0 + sign
    };
    let points: Vec<_> = (0..360).map(|n| (f64::from(n) * 10.0, value(n))).collect();
    drift("metric", unit, nature, &points, &DriftOptions::default()).unwrap()
}

#[test]
fn expect_findings_only_in_the_bad_direction_when_something_drifts() {
    let finding = |nature, unit, level, per_hour| hour(nature, unit, level, per_hour, 0.1).finding;
    let said = |nature, unit, level, per_hour| finding(nature, unit, level, per_hour).unwrap();
    assert!(said(Nature::Throughput, "conn/s", 1000.0, -20.0).starts_with("slows down by 2.0"));
    assert_eq!(finding(Nature::Throughput, "conn/s", 1000.0, 20.0), None);
    assert!(said(Nature::Latency, "s", 100.0, 5.0).contains(" %/h ± "));
    assert_eq!(finding(Nature::Latency, "s", 100.0, -5.0), None);
    assert!(said(Nature::Resource, "1", 100.0, 40.0).starts_with("leaks 40.0"));
    assert!(said(Nature::Resource, "1", 100.0, 40.0).contains(" per hour ± "));
    assert_eq!(finding(Nature::Resource, "1", 100.0, -40.0), None);
    assert!(said(Nature::Other(Direction::Lower), "J", 100.0, 40.0).starts_with("rises by 40.0"));
    assert!(said(Nature::Other(Direction::Higher), "J", 100.0, -40.0).starts_with("falls by 40.0"));
    assert_eq!(finding(Nature::Other(Direction::Higher), "J", 100.0, 40.0), None);
}

#[test]
fn expect_no_finding_when_a_drift_is_certain_but_small() {
    let small = hour(Nature::Resource, "bytes", 1e9, 1e6, 10.0);
    assert!(small.p < 1e-10 && small.low > 0.0, "{small:?}");
    assert_eq!(small.finding, None);
}

#[test]
fn expect_nothing_known_when_little_is_left_after_the_warm_up() {
    let points: Vec<_> = (0..68).map(|n| (f64::from(n), f64::from(n))).collect();
    assert_eq!(drift("metric", "s", Nature::Latency, &points, &DriftOptions::default()), None);
    // A start that falls steeply and then holds is warm-up.
    let start: Vec<_> =
        (0..3600).map(|n| (f64::from(n), if n < 300 { f64::from(300 - n) } else { 5.0 })).collect();
    let held =
        drift("metric", "s", Nature::Other(Direction::Higher), &start, &DriftOptions::default()).unwrap();
    assert_eq!((held.finding, held.p), (None, 1.0));
}
