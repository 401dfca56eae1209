//! A small generator of random numbers, the same on every machine and in every version: plans are made again from their
//! seed when a run is resumed, years later if need be.

/// `SplitMix64` of Steele, Lea and Flood, "Fast splittable pseudorandom number generators" (OOPSLA 2014).
#[derive(Clone, Debug)]
pub(crate) struct Rng(u64);

const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// The finaliser of `SplitMix64`: a bijection that scatters near values.
pub(crate) fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

impl Rng {
    /// A stream of its own for every seed and stream number.
    pub(crate) fn new(seed: u64, stream: u64) -> Self {
        Self(mix(seed.wrapping_add(GAMMA)) ^ mix(stream.wrapping_mul(GAMMA).wrapping_add(1)))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GAMMA);
        mix(self.0)
    }

    /// A number below `bound`, unbiased: Lemire, "Fast random integer generation in an interval" (2019).
    fn below(&mut self, bound: u64) -> u64 {
        let threshold = bound.wrapping_neg().checked_rem(bound).unwrap_or(0);
        loop {
            let product = u128::from(self.next()) * u128::from(bound);
            let low = u64::try_from(product & u128::from(u64::MAX)).unwrap_or(0);
            if low >= threshold {
                return u64::try_from(product >> 64).unwrap_or(0);
            }
        }
    }

    /// Fisher and Yates: every order is equally likely.
    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let bound = u64::try_from(last).unwrap_or(0) + 1;
            items.swap(last, usize::try_from(self.below(bound)).unwrap_or(0));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expect_the_published_numbers_when_the_state_is_known() {
        // The first outputs for the state 1234567, from the reference implementation.
        let mut rng = Rng(1_234_567);
        let numbers: Vec<u64> = (0..5).map(|_| rng.next()).collect();
        assert_eq!(
            numbers,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423,
                4_593_380_528_125_082_431,
                16_408_922_859_458_223_821,
            ],
        );
    }

    #[test]
    fn expect_the_same_order_on_every_machine_when_the_seed_is_the_same() {
        let mut items: Vec<u32> = (0..10).collect();
        Rng::new(42, 7).shuffle(&mut items);
        let again = {
            let mut items: Vec<u32> = (0..10).collect();
            Rng::new(42, 7).shuffle(&mut items);
            items
        };
        assert_eq!(items, again);
        let mut other: Vec<u32> = (0..10).collect();
        Rng::new(42, 8).shuffle(&mut other);
        assert_ne!(items, other);
    }

    #[test]
    fn expect_every_order_about_equally_often() {
        let mut seen = std::collections::BTreeMap::new();
        for seed in 0..6000 {
            let mut items = [0, 1, 2];
            Rng::new(seed, 1).shuffle(&mut items);
            *seen.entry(items).or_insert(0) += 1;
        }
        assert_eq!(seen.len(), 6);
        assert!(seen.values().all(|count| (850..1150).contains(count)), "{seen:?}");
    }
}
