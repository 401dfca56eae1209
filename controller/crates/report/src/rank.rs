//! Whether the values of one sample lie below those of another: the rank sum test of Wilcoxon, Mann and Whitney.

use crate::drift::upper_tail;

/// Values of both samples together up to which the probability is exact.
const MOST_EXACT: usize = 30;

/// The probability, if both samples were drawn from the same distribution, that `low` lies as far below `high` as it does or
/// farther: one-sided, and 1/2 or so for samples that lie alike. Values that are tied have the mean of their ranks.
///
/// Up to 30 values, all ways to divide their ranks are counted (Mann and Whitney, "On a test of whether one of two random
/// variables is stochastically larger than the other", Annals of Mathematical Statistics 18, 1947). For more, the normal
/// approximation is taken, with continuity and tie correction (Lehmann, "Nonparametrics", 1975, section 1.4). `None` if a
/// sample is empty; no value may be NaN.
pub(crate) fn rank_sum_below(low: &[f64], high: &[f64]) -> Option<f64> {
    if low.is_empty() || high.is_empty() {
        return None;
    }
    let (ranks, ties) = doubled_ranks(low, high);
    let sum: usize = ranks.get(..low.len())?.iter().sum();
    if ranks.len() <= MOST_EXACT {
        return Some(exact(&ranks, low.len(), sum));
    }
    let (n, m) = (number(low.len()), number(high.len()));
    let all = n + m;
    let below = number(sum) / 2.0 - n * (n + 1.0) / 2.0;
    let tied: f64 = ties.iter().map(|run| number(*run)).map(|run| run.powi(3) - run).sum();
    let variance = n * m / 12.0 * (all + 1.0 - tied / (all * (all - 1.0)));
    let distance = n * m / 2.0 - below - 0.5;
    Some(if variance > 0.0 { upper_tail(distance / variance.sqrt()) } else { 1.0 })
}

/// The least that [`rank_sum_below`] can be for samples of these sizes: one way of all to divide their ranks.
pub(crate) fn least_chance(low: usize, high: usize) -> f64 {
    (1..=low).map(|i| number(i) / number(high + i)).product()
}

/// The share of all ways to take so many of these ranks whose sum is not larger.
fn exact(ranks: &[usize], take: usize, sum: usize) -> f64 {
    // By how many are taken and what they sum up to.
    let mut ways = vec![vec![0.0; sum + 1]; take + 1];
    let mut all = vec![0.0; take + 1];
    let start = ways.first_mut().and_then(|none| none.first_mut()).zip(all.first_mut());
    if let Some((ways, all)) = start {
        (*ways, *all) = (1.0, 1.0);
    }
    for rank in ranks {
        for taken in (0..take).rev() {
            let (before, after) = ways.split_at_mut(taken + 1);
            if let (Some(from), Some(to)) = (before.last(), after.first_mut()) {
                to.iter_mut().skip(*rank).zip(from).for_each(|(to, from)| *to += from);
            }
            all[taken + 1] += all[taken];
        }
    }
    ways[take].iter().sum::<f64>() / all[take]
}

/// Twice the rank of every value among all, those of `low` first, and how many values each tie has.
fn doubled_ranks(low: &[f64], high: &[f64]) -> (Vec<usize>, Vec<usize>) {
    let values: Vec<f64> = low.iter().chain(high).copied().collect();
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
    let mut ranks = vec![0; values.len()];
    let mut ties = Vec::new();
    let mut first = 1;
    for run in order.chunk_by(|a, b| values[*a] == values[*b]) {
        run.iter().for_each(|at| ranks[*at] = 2 * first + run.len() - 1);
        first += run.len();
        ties.push(run.len());
    }
    (ranks, ties)
}

/// A count as a number; exact below 2^32.
fn number(n: usize) -> f64 {
    f64::from(u32::try_from(n).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Two samples without ties, so that so many pairs have the value of `low` above that of `high`.
    fn samples(low: usize, high: usize, above: usize) -> (Vec<f64>, Vec<f64>) {
        let mut left = above;
        let at = |i: usize| number(i);
        let mut lows = Vec::new();
        for i in 0..low {
            let over = left.min(high);
            left -= over;
            // Above `over` values of the other sample; earlier ones are above more.
            lows.push(at(over) - 0.5 - 0.001 * at(i));
        }
        (lows, (0..high).map(at).collect())
    }

    /// Mann and Whitney's table of 1947, as reprinted in Siegel, "Nonparametric Statistics" (1956), table J: the probability
    /// of a U as small as this or smaller.
    #[test]
    fn expect_the_published_table_when_samples_are_small() {
        let table: [(usize, usize, &[f64]); 5] = [
            (3, 3, &[0.050, 0.100, 0.200, 0.350, 0.500]),
            (2, 4, &[0.067, 0.133, 0.267, 0.400, 0.600]),
            (4, 4, &[0.014, 0.029, 0.057, 0.100, 0.171, 0.243, 0.343, 0.443]),
            (3, 5, &[0.018, 0.036, 0.071, 0.125, 0.196, 0.286, 0.393]),
            (5, 5, &[0.004, 0.008, 0.016, 0.028, 0.048, 0.075, 0.111]),
        ];
        for (n, m, row) in table {
            for (u, expected) in row.iter().enumerate() {
                let (low, high) = samples(n, m, u);
                let p = rank_sum_below(&low, &high).unwrap();
                assert!((p - expected).abs() <= 0.000_51, "n={n} m={m} U={u}: {p}");
            }
        }
        assert_eq!(least_chance(3, 3), 1.0 / 20.0);
        assert!((least_chance(4, 4) - 1.0 / 70.0).abs() < 1e-15);
        assert_eq!((least_chance(1, 1), least_chance(1, 19)), (0.5, 0.05));
    }

    /// The example in the documentation of SciPy's `mannwhitneyu`: U = 3 for the lower sample, exact and two-sided 0.1111.
    #[test]
    fn expect_the_published_p_when_given_scipys_example() {
        let males = [19.0, 22.0, 16.0, 29.0, 24.0];
        let females = [20.0, 11.0, 17.0, 12.0];
        let p = rank_sum_below(&females, &males).unwrap();
        assert!((2.0 * p - 0.111_111_111_111_111_1).abs() < 1e-12, "{p}");
    }

    #[test]
    fn expect_the_exact_value_nearly_when_it_is_approximated() {
        let high: Vec<f64> = (0..16).map(number).collect();
        let low: Vec<f64> = (0..16).map(|i| number(i) * 0.8 - 2.0).collect();
        let (ranks, _) = doubled_ranks(&low, &high);
        let sum = ranks[..16].iter().sum();
        let (exactly, nearly) = (exact(&ranks, 16, sum), rank_sum_below(&low, &high).unwrap());
        assert!(
            (0.001..0.05).contains(&exactly) && (exactly - nearly).abs() < 0.1 * exactly,
            "{exactly} {nearly}"
        );
        let same = vec![1.0; 40];
        assert!(rank_sum_below(&same, &same).unwrap() > 0.49);
    }

    #[test]
    fn expect_no_evidence_when_nothing_differs_or_is_there() {
        assert_eq!(rank_sum_below(&[5.0, 5.0], &[5.0, 5.0, 5.0]), Some(1.0));
        assert_eq!(rank_sum_below(&[], &[1.0]), None);
        assert_eq!(rank_sum_below(&[1.0], &[]), None);
    }

    proptest! {
        #[test]
        fn the_share_is_that_of_all_ways_to_divide(values in prop::collection::vec(0..6_u8, 2..9), take in 1..8_usize) {
            let values: Vec<f64> = values.into_iter().map(f64::from).collect();
            let take = take.min(values.len() - 1);
            let (ranks, _) = doubled_ranks(&values, &[]);
            let seen: usize = ranks[..take].iter().sum();
            let subsets = (0..1_u32 << values.len()).filter(|set| usize::try_from(set.count_ones()) == Ok(take));
            let sums: Vec<usize> = subsets
                .map(|set| (0..values.len()).filter(|at| set & (1 << at) != 0).map(|at| ranks[at]).sum())
                .collect();
            let share = number(sums.iter().filter(|sum| **sum <= seen).count()) / number(sums.len());
            let p = rank_sum_below(&values[..take], &values[take..]).unwrap();
            prop_assert!((p - share).abs() < 1e-12, "{p} {share}");
            prop_assert!(p >= least_chance(take, values.len() - take) - 1e-12);
        }
    }
}
