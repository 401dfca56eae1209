//! Reads the records of a spool back, also of one that a disk has damaged: what cannot be read is skipped, what follows it is
//! taken up. Pure.

use super::Record;

/// Farthest that the next sound record is looked for, in bytes: a few blocks of a disk. What is damaged over more than that is
/// given up with all that follows.
const FARTHEST: usize = 64 << 10;

/// The records in some bytes, each with its place and length.
#[derive(Debug)]
pub(super) struct Replay<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Where the last record ended.
    pub end: usize,
    /// Bytes between records that could not be read.
    pub skipped: usize,
}

impl<'a> Replay<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0, end: 0, skipped: 0 }
    }

    fn parse(&self, at: usize) -> Option<(Record, usize)> {
        Record::parse(self.bytes.get(at..)?)
    }
}

impl Iterator for Replay<'_> {
    type Item = (usize, Record, usize);

    fn next(&mut self) -> Option<Self::Item> {
        // Whatever length a damaged record claims to have, the next one may begin before that.
        let farthest = self.at.saturating_add(FARTHEST).min(self.bytes.len());
        let mut places = self.at..farthest;
        let (at, (record, length)) = places.find_map(|at| Some((at, self.parse(at)?)))?;
        self.skipped = self.skipped.saturating_add(at.saturating_sub(self.at));
        self.at = at.saturating_add(length);
        self.end = self.at;
        Some((at, record, length))
    }
}

#[cfg(test)]
mod tests {
    use drover_model::LeaseEpoch;
    use proptest::prelude::*;

    use super::{super::record::Note, *};

    fn record(number: u64) -> Record {
        Record::Note(Note::Head { next_seq: number, epoch: LeaseEpoch(number) })
    }

    fn frames(count: u64) -> Vec<Vec<u8>> {
        (0..count).map(|number| record(number).frame().unwrap()).collect()
    }

    proptest! {
        #[test]
        fn only_the_damaged_records_are_lost(count in 1_u64..20, from: prop::sample::Index, length in 1_usize..80) {
            let frames = frames(count);
            let mut bytes = frames.concat();
            let from = from.index(bytes.len());
            let to = bytes.len().min(from + length);
            bytes[from..to].iter_mut().for_each(|byte| *byte ^= 0xa5);
            let mut at = 0;
            let mut sound = Vec::new();
            for (number, frame) in (0..).zip(&frames) {
                if at + frame.len() <= from || at >= to {
                    sound.push(record(number));
                }
                at += frame.len();
            }
            let mut replay = Replay::new(&bytes);
            let found: Vec<Record> = replay.by_ref().map(|(_, record, _)| record).collect();
            prop_assert_eq!(&found, &sound);
            let whole: usize = sound.iter().map(|record| record.frame().unwrap().len()).sum();
            prop_assert_eq!(replay.end, whole + replay.skipped);
        }
    }

    #[test]
    fn expect_the_rest_given_up_when_the_damage_is_too_long() {
        let mut bytes = frames(1).concat();
        let end = bytes.len();
        bytes.extend(vec![0xff; FARTHEST + 1]);
        bytes.extend(frames(2).concat());
        let mut replay = Replay::new(&bytes);
        assert_eq!(replay.by_ref().count(), 1);
        assert_eq!((replay.end, replay.skipped), (end, 0));
    }
}
