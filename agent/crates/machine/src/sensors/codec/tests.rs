//! Properties of streams: what goes in comes out, and damage stays where it is.

use std::num::NonZeroUsize;

use proptest::prelude::*;

use super::{Block, Damage, Decoder, EncodeError, Encoder};
use crate::sensors::{Sample, Schema, Series, SeriesKind, Value, ValueType};

const TYPES: [ValueType; 3] = [ValueType::Unsigned, ValueType::Signed, ValueType::Float];

fn schema_of(types: &[ValueType]) -> Schema {
    let mut schema = Schema::new();
    for (n, values) in types.iter().enumerate() {
        let kind = if n.is_multiple_of(2) { SeriesKind::Counter } else { SeriesKind::Gauge };
        schema.add(Series { name: format!("series.{n}"), unit: "1".into(), kind, values: *values }).unwrap();
    }
    schema
}

/// Numbers at the ends of their ranges, small ones, and any.
fn bits() -> impl Strategy<Value = u64> {
    let extremes = prop::sample::select(vec![
        0,
        1,
        u64::MAX,
        1 << 63,
        (1 << 63) - 1,
        f64::NAN.to_bits(),
        f64::INFINITY.to_bits(),
        (-0.0_f64).to_bits(),
        f64::MIN_POSITIVE.to_bits(),
    ]);
    prop_oneof![extremes, 0_u64..1000, any::<u64>()]
}

/// Types of series, and samples of which each may know only the first of them, as before a schema grew.
fn streams() -> impl Strategy<Value = (Vec<ValueType>, Vec<(usize, Sample)>)> {
    prop::collection::vec(prop::sample::select(TYPES.to_vec()), 0..8).prop_flat_map(|types| {
        let series = types.len();
        let row = (
            any::<u64>(),
            any::<i64>(),
            0..=series,
            prop::collection::vec(prop::option::weighted(0.8, bits()), series),
        );
        let with_types = types.clone();
        let rows = prop::collection::vec(row, 0..40).prop_map(move |rows| {
            let mut known = 0;
            let sample = |(monotonic_ns, unix_us, new, bits): (u64, i64, usize, Vec<Option<u64>>)| {
                known = known.max(new);
                let mut sample = Sample::new(monotonic_ns, unix_us);
                let schema = schema_of(&with_types);
                for ((series, bits), values) in schema.series().iter().zip(bits).zip(&with_types).take(known)
                {
                    if let Some(bits) = bits {
                        sample.set(schema.find(&series.name).unwrap(), Value::from_bits(bits, *values));
                    }
                }
                (known, sample)
            };
            rows.into_iter().map(sample).collect::<Vec<_>>()
        });
        (Just(types), rows)
    })
}

fn encode(types: &[ValueType], samples: &[(usize, Sample)], per_block: usize) -> Vec<u8> {
    let mut encoder = Encoder::new(NonZeroUsize::new(per_block).unwrap()).unwrap();
    let mut bytes = Vec::new();
    for (known, sample) in samples {
        encoder.push(&schema_of(&types[..*known]), sample, &mut bytes).unwrap();
    }
    encoder.flush(&mut bytes).unwrap();
    assert_eq!(encoder.pending(), 0);
    bytes
}

/// Times and values as bits, since NaN is not equal to itself.
fn exact(sample: &Sample) -> (u64, i64, Vec<Option<u64>>) {
    let mut bits: Vec<_> = sample.values().iter().map(|value| value.map(Value::bits)).collect();
    while bits.last() == Some(&None) {
        bits.pop();
    }
    (sample.monotonic_ns, sample.unix_us, bits)
}

fn all<'a>(blocks: impl IntoIterator<Item = &'a Block>) -> Vec<(u64, i64, Vec<Option<u64>>)> {
    blocks.into_iter().flat_map(|block| &block.samples).map(exact).collect()
}

/// 20 samples of 3 series, in blocks of 5.
fn four_blocks() -> Vec<u8> {
    let mut samples = Vec::new();
    for n in 0..20_u64 {
        let schema = schema_of(&TYPES);
        let mut sample = Sample::new(n * 1_000_000_007, i64::try_from(n).unwrap() * 1_000_000);
        sample.set(schema.find("series.0").unwrap(), Value::Unsigned(n * n * 1_000_003));
        sample.set(schema.find("series.1").unwrap(), Value::Signed(-i64::try_from(n).unwrap()));
        samples.push((3, sample));
    }
    encode(&TYPES, &samples, 5)
}

proptest! {
    #[test]
    fn expect_the_same_samples_when_a_stream_is_read_back((types, samples) in streams(), per_block in 1_usize..70) {
        let bytes = encode(&types, &samples, per_block);
        let mut decoder = Decoder::new(&bytes);
        let blocks: Vec<Block> = decoder.by_ref().collect();
        prop_assert_eq!(decoder.damage(), Damage::default());
        prop_assert_eq!(all(&blocks), samples.iter().map(|(_, sample)| exact(sample)).collect::<Vec<_>>());
        for block in &blocks {
            prop_assert_eq!(&*block.schema, &schema_of(&types[..block.schema.len()]));
        }
    }

    #[test]
    fn expect_no_panic_when_bytes_are_any(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let mut decoder = Decoder::new(&bytes);
        prop_assert_eq!(decoder.by_ref().count(), 0);
        prop_assert_eq!(decoder.damage().tail, u64::try_from(bytes.len()).unwrap());
    }

    #[test]
    fn expect_no_panic_when_the_insides_of_a_block_are_any(insides in prop::collection::vec(any::<u8>(), 0..200)) {
        let schema = schema_of(&TYPES);
        let mut bytes = schema.id().to_le_bytes().to_vec();
        bytes.extend(&insides);
        if let Some(samples) = super::block::samples(&bytes, &schema) {
            prop_assert!(samples.len() <= insides.len());
        }
        let _ = super::block::schema(&insides);
    }
}

#[test]
fn expect_only_the_last_block_lost_when_a_stream_is_cut_anywhere() {
    let bytes = four_blocks();
    let whole: Vec<Block> = Decoder::new(&bytes).collect();
    assert_eq!(whole.len(), 4);
    let mut seen = Vec::new();
    for length in 0..=bytes.len() {
        let mut decoder = Decoder::new(&bytes[..length]);
        let blocks: Vec<Block> = decoder.by_ref().collect();
        assert_eq!(blocks[..], whole[..blocks.len()], "cut at {length}");
        let damage = decoder.damage();
        assert_eq!((damage.places, damage.bytes, damage.unreadable), (0, 0, 0));
        seen.push((blocks.len(), damage.tail));
    }
    assert_eq!(seen.last(), Some(&(4, 0)));
    // Cutting one byte more never loses more than one block, and of each block all bytes are needed.
    assert!(seen.windows(2).all(|pair| pair[1].0 - pair[0].0 <= 1));
    assert_eq!(seen[bytes.len() - 1].0, 3);
}

#[test]
fn expect_one_block_lost_at_most_when_any_byte_is_damaged() {
    let bytes = four_blocks();
    let whole: Vec<Block> = Decoder::new(&bytes).collect();
    for at in 0..bytes.len() {
        let mut bytes = bytes.clone();
        bytes[at] ^= 0x10;
        let mut decoder = Decoder::new(&bytes);
        let blocks: Vec<Block> = decoder.by_ref().collect();
        assert!(blocks.len() >= 3 && blocks.iter().all(|block| whole.contains(block)), "byte {at}");
        let damage = decoder.damage();
        assert!(damage.places == 1 && damage.bytes > 0 || damage.tail > 0, "byte {at}: {damage:?}");
    }
}

#[test]
fn expect_the_rest_when_a_hole_is_in_the_middle() {
    let bytes = four_blocks();
    let mut holed = bytes.clone();
    holed.drain(bytes.len() / 2..bytes.len() / 2 + 20);
    let mut decoder = Decoder::new(&holed);
    let blocks = decoder.by_ref().count();
    assert_eq!((blocks, decoder.damage().places), (3, 1));
}

#[test]
fn expect_a_refusal_when_a_sample_does_not_fit_its_schema() {
    let mut encoder = Encoder::new(Encoder::PER_BLOCK).unwrap();
    let schema = schema_of(&TYPES);
    let mut sample = Sample::new(1, 1);
    sample.set(schema.find("series.1").unwrap(), Value::Unsigned(1));
    let mut out = Vec::new();
    let wrong_type = encoder.push(&schema, &sample, &mut out);
    assert!(matches!(wrong_type, Err(EncodeError::Unfit { index: 1, series: 3 })), "{wrong_type:?}");
    let too_short = encoder.push(&schema_of(&TYPES[..1]), &sample, &mut out);
    assert!(matches!(too_short, Err(EncodeError::Unfit { index: 1, series: 1 })), "{too_short:?}");
    assert_eq!((encoder.pending(), out.len()), (0, 0));
}

#[test]
fn expect_few_bytes_when_counters_grow_evenly() {
    let schema = schema_of(&[ValueType::Unsigned; 200]);
    let mut encoder = Encoder::new(Encoder::PER_BLOCK).unwrap();
    let mut bytes = Vec::new();
    let mut sizes = Vec::new();
    for n in 0..180_u64 {
        let mut sample = Sample::new(n * 1_000_000_000, 0);
        for (k, series) in (0_u64..).zip(schema.series()) {
            sample.set(schema.find(&series.name).unwrap(), Value::Unsigned(k * 1_000_000 + n * k));
        }
        let before = bytes.len();
        encoder.push(&schema, &sample, &mut bytes).unwrap();
        if bytes.len() > before {
            sizes.push(bytes.len() - before);
        }
    }
    assert_eq!(sizes.len(), 3);
    // First values and first differences remain: some 9 bytes of the 480 of a series.
    assert!(sizes[2] < 2400, "60 samples of 200 series: {sizes:?}");
}
