//! How much a clean trial says about a failure that does not always show.

/// Most that the chance may be to call something good that is bad.
pub const CLEAN: f64 = 0.05;

/// The chance that something which failed in `failures` of `trials` trials passes the next `clean` ones.
///
/// With every rate of failure equally likely before (Bayes and Laplace), the rate follows a beta distribution with the parameters
/// `failures + 1` and `passes + 1`, and the chance is the product of `(passes + 1 + i) / (trials + 2 + i)` for `i` from 0 to
/// `clean - 1` (Gelman et al., Bayesian Data Analysis, 3rd edition, section 2.4).
#[must_use]
pub fn chance_of_clean(failures: u32, trials: u32, clean: u32) -> f64 {
    let (passes, trials) = (f64::from(trials.saturating_sub(failures)), f64::from(trials));
    (0..clean).map(f64::from).map(|i| (passes + 1.0 + i) / (trials + 2.0 + i)).product()
}

/// Clean trials that make something good, when what is bad failed in `failures` of `trials` trials: the fewest for which
/// [`chance_of_clean`] is at most [`CLEAN`]; `None` if more than `most` would be needed.
#[must_use]
pub fn clean_trials(failures: u32, trials: u32, most: u32) -> Option<u32> {
    (1..=most).find(|clean| chance_of_clean(failures, trials, *clean) <= CLEAN)
}

/// How much longer than the mean time to a failure a run must stay clean to be called clean at 95 %, when that mean is over
/// `failures` failures: `k (20^(1/k) - 1)`. Infinite for none.
///
/// From the exponential distribution with its rate unknown: the chance that the next time is longer than `t`, after `k` times with
/// the mean `m`, is `(1 + t / (k m))^-k`, which is set to 1/20. The same is the upper 5 % point of the F distribution with 2 and 2k
/// degrees of freedom.
#[must_use]
pub fn clean_time_factor(failures: u32) -> f64 {
    if failures == 0 {
        return f64::INFINITY;
    }
    let k = f64::from(failures);
    k * ((1.0 / CLEAN).powf(1.0 / k) - 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-9, "{found} instead of {expected}");
    }

    #[test]
    fn expect_the_rule_of_succession_when_one_more_trial_is_asked_for() {
        // Laplace: after 3 failures in 3 trials, the next one passes with 1/5; after 1 in 3, with 3/5.
        close(chance_of_clean(3, 3, 1), 0.2);
        close(chance_of_clean(1, 3, 1), 0.6);
        close(chance_of_clean(3, 3, 2), 0.2 * 2.0 / 6.0);
        close(chance_of_clean(2, 2, 0), 1.0);
    }

    #[test]
    fn expect_more_clean_trials_when_failures_are_rarer() {
        assert_eq!(clean_trials(3, 3, 100), Some(3));
        assert_eq!(clean_trials(10, 10, 100), Some(2));
        assert_eq!(clean_trials(30, 30, 100), Some(1));
        let needed: Vec<_> = (1..=5).rev().map(|failures| clean_trials(failures, 5, 1000).unwrap()).collect();
        assert!(needed.is_sorted() && needed[0] < needed[4], "{needed:?}");
        assert_eq!(clean_trials(1, 100, 100), None);
        // By hand: (1/4)(2/5)(3/6) is 5 % exactly, which is enough; (1/5)(2/6)(3/7) is 2.9 %, (1/5)(2/6) is 6.7 %.
        assert_eq!(clean_trials(2, 2, 100), Some(3));
        assert_eq!((clean_trials(3, 3, 3), clean_trials(3, 3, 2)), (Some(3), None));
    }

    #[test]
    fn expect_the_known_factors_when_a_time_is_asked_for() {
        close(clean_time_factor(1), 19.0);
        close(clean_time_factor(2), 2.0 * (20f64.sqrt() - 1.0));
        // Many failures: the exponential distribution itself, ln 20.
        assert!((clean_time_factor(1_000_000) - 20f64.ln()).abs() < 1e-4);
        assert!(clean_time_factor(0).is_infinite());
    }

    /// The next time over the mean of `k` former ones follows the F distribution with 2 and 2k degrees of freedom. Its upper 5 %
    /// points: Merrington and Thompson, "Tables of percentage points of the inverted beta (F) distribution", Biometrika 33 (1943).
    #[test]
    fn expect_the_published_points_of_f_when_a_time_is_asked_for() {
        let table = [
            (1, 19.000),
            (2, 6.9443),
            (3, 5.1433),
            (4, 4.4590),
            (5, 4.1028),
            (6, 3.8853),
            (7, 3.7389),
            (8, 3.6337),
            (9, 3.5546),
            (10, 3.4928),
            (12, 3.4028),
            (15, 3.3158),
            (20, 3.2317),
            (30, 3.1504),
            (60, 3.0718),
        ];
        for (failures, expected) in table {
            let factor = clean_time_factor(failures);
            assert!((factor - expected).abs() < 0.000_051, "{failures}: {factor}");
        }
    }
}
