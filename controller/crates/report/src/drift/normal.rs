//! The normal distribution, as far as tests of trends and ranks need it.

use std::f64::consts::{FRAC_1_SQRT_2, PI};

/// The 97.5 % quantile: the half-width of a 95 % interval in standard deviations.
pub(super) const Z_95: f64 = 1.959_963_984_540_054;

/// The probability that a standard normal variable is at least as far from zero as `z`.
pub(super) fn two_sided(z: f64) -> f64 {
    erfc(z.abs() * FRAC_1_SQRT_2)
}

/// The probability that a standard normal variable is at least `z`.
pub(crate) fn upper_tail(z: f64) -> f64 {
    let half = two_sided(z) / 2.0;
    if z >= 0.0 { half } else { 1.0 - half }
}

/// The complementary error function for `x >= 0`: Abramowitz and Stegun, "Handbook of Mathematical Functions", the series
/// 7.1.6 for small and the continued fraction 7.1.14 for large `x`.
fn erfc(x: f64) -> f64 {
    let gauss = (-x * x).exp() / PI.sqrt();
    if x < 2.5 {
        let mut term = 2.0 * x;
        let mut sum = term;
        let mut odd = 1.0;
        while term > sum * f64::EPSILON {
            odd += 2.0;
            term *= 2.0 * x * x / odd;
            sum += term;
        }
        return 1.0 - gauss * sum;
    }
    // From the inside out; 60 steps are enough from 2.5 on.
    let fraction = (1..=60).rev().fold(x, |below, k| x + f64::from(k) / 2.0 / below);
    gauss / fraction
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `scipy.special.erfc` of SciPy 1.17.1.
    #[test]
    fn expect_published_values_when_erfc_is_taken() {
        let table = [
            (0.0, 1.0),
            (0.1, 0.887_537_083_981_715_2),
            (0.5, 0.479_500_122_186_953_5),
            (1.0, 0.157_299_207_050_285_16),
            (1.5, 0.033_894_853_524_689_27),
            (2.0, 0.004_677_734_981_047_266),
            (2.4, 0.000_688_513_896_645_078_9),
            (2.6, 0.000_236_034_416_529_349),
            (3.0, 2.209_049_699_858_544_5e-5),
            (4.0, 1.541_725_790_028_002e-8),
            (5.0, 1.537_459_794_428_034_7e-12),
            (6.0, 2.151_973_671_249_891_3e-17),
        ];
        for (x, expected) in table {
            assert!((erfc(x) / expected - 1.0).abs() < 1e-11, "erfc({x}) = {}", erfc(x));
        }
        assert!((two_sided(-Z_95) - 0.05).abs() < 1e-12);
        assert!((upper_tail(Z_95) - 0.025).abs() < 1e-12 && (upper_tail(-Z_95) - 0.975).abs() < 1e-12);
    }
}
