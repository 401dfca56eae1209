//! Streams made small: medians of blocks, and samples that are spread evenly.

use crate::{drift::MAX_BLOCKS, statistics::quantile};

/// Medians of successive points of a stream whose length is known, at least about: at most 600 of them, if it is not longer
/// than said.
#[derive(Clone, Debug)]
pub struct BlockMedians {
    size: usize,
    times: Vec<f64>,
    values: Vec<f64>,
    blocks: Vec<(f64, f64)>,
}

impl BlockMedians {
    /// For a stream of so many points.
    #[must_use]
    pub fn new(points: u64) -> Self {
        let size = usize::try_from(points).unwrap_or(usize::MAX).div_ceil(MAX_BLOCKS).max(1);
        Self { size, times: Vec::new(), values: Vec::new(), blocks: Vec::new() }
    }

    /// Takes the next point: a time and a value, both finite.
    pub fn push(&mut self, time: f64, value: f64) {
        self.times.push(time);
        self.values.push(value);
        if self.times.len() >= self.size {
            self.close();
        }
    }

    /// The medians of time and value of each block, in the order of the stream.
    #[must_use]
    pub fn finish(mut self) -> Vec<(f64, f64)> {
        self.close();
        self.blocks
    }

    fn close(&mut self) {
        self.blocks.extend(middle(&mut self.times).zip(middle(&mut self.values)));
        self.times.clear();
        self.values.clear();
    }
}

/// The median of values, which are sorted for it.
pub(super) fn middle(values: &mut [f64]) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    quantile(values, 0.5)
}

/// Values of a stream of any length, evenly spread over it: always more than half as many as allowed, once there were so many.
#[derive(Clone, Debug)]
pub(super) struct EvenSample {
    most: usize,
    stride: u64,
    seen: u64,
    values: Vec<f64>,
}

impl EvenSample {
    pub(super) fn new(most: usize) -> Self {
        Self { most: most.max(2), stride: 1, seen: 0, values: Vec::new() }
    }

    pub(super) fn push(&mut self, value: f64) {
        if self.seen.is_multiple_of(self.stride) {
            if self.values.len() >= self.most {
                let mut place = 0_u32;
                self.values.retain(|_| {
                    place = place.wrapping_add(1);
                    place % 2 == 1
                });
                self.stride = self.stride.saturating_mul(2);
            }
            if self.seen.is_multiple_of(self.stride) {
                self.values.push(value);
            }
        }
        self.seen += 1;
    }

    pub(super) fn into_values(self) -> Vec<f64> {
        self.values
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::drift::block_medians;

    #[test]
    fn expect_every_second_value_when_there_are_twice_too_many() {
        let mut sample = EvenSample::new(4);
        (0..9).for_each(|n| sample.push(f64::from(n)));
        assert_eq!(sample.into_values(), [0.0, 4.0, 8.0]);
        let mut sample = EvenSample::new(4);
        (0..7).for_each(|n| sample.push(f64::from(n)));
        assert_eq!(sample.into_values(), [0.0, 2.0, 4.0, 6.0]);
    }

    proptest! {
        #[test]
        fn blocks_of_a_stream_are_those_of_all_points(values in prop::collection::vec(-1e9..1e9_f64, 0..2000)) {
            let points: Vec<(f64, f64)> = (0..).map(f64::from).zip(values.iter().copied()).collect();
            let mut blocks = BlockMedians::new(u64::try_from(points.len()).unwrap());
            points.iter().for_each(|(time, value)| blocks.push(*time, *value));
            prop_assert_eq!(blocks.finish(), block_medians(&points, MAX_BLOCKS));
        }

        #[test]
        fn a_sample_is_evenly_spread_and_never_large(length in 0..5000_u32, most in 2..50_usize) {
            let mut sample = EvenSample::new(most);
            (0..length).for_each(|n| sample.push(f64::from(n)));
            let values = sample.into_values();
            prop_assert!(values.len() <= most);
            prop_assert!(values.len() * 2 >= most.min(usize::try_from(length).unwrap()) || values.len() * 2 + 2 >= most);
            let steps: Vec<f64> = values.windows(2).map(|pair| pair[1] - pair[0]).collect();
            prop_assert!(steps.windows(2).all(|pair| pair[0] == pair[1]), "{:?}", values);
        }
    }
}
