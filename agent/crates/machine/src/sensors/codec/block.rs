//! What is inside a frame before compression: schemas, and samples column by column.

use super::wire::{Reader, put_varint, unzigzag, zigzag};
use crate::sensors::{
    sample::{Sample, Value},
    schema::{MAX_SERIES, Schema, Series, SeriesId, SeriesKind, ValueType},
};

/// The most values in a block, absent ones included: bounds what a reader must hold. With times it is far below
/// [`super::frame::MAX_RAW`].
pub(super) const MAX_VALUES: usize = 1 << 20;

/// Presence of a column's values.
const NONE: u8 = 0;
const ALL: u8 = 1;
const SOME: u8 = 2;

pub(super) fn put_schema(out: &mut Vec<u8>, schema: &Schema) {
    for Series { name, unit, kind, values } in schema.series() {
        let kind = match kind {
            SeriesKind::Counter => 0,
            SeriesKind::Gauge => 1,
        };
        let values = match values {
            ValueType::Unsigned => 0,
            ValueType::Signed => 1,
            ValueType::Float => 2,
        };
        out.extend_from_slice(&[kind, values]);
        for text in [name, unit] {
            // A schema takes no texts that are longer.
            out.push(u8::try_from(text.len()).unwrap_or(u8::MAX));
            out.extend_from_slice(text.as_bytes());
        }
    }
}

pub(super) fn schema(bytes: &[u8]) -> Option<Schema> {
    let mut reader = Reader::new(bytes);
    let mut schema = Schema::new();
    while !reader.is_empty() {
        let kind = match reader.byte()? {
            0 => SeriesKind::Counter,
            1 => SeriesKind::Gauge,
            _ => return None,
        };
        let values = match reader.byte()? {
            0 => ValueType::Unsigned,
            1 => ValueType::Signed,
            2 => ValueType::Float,
            _ => return None,
        };
        let (name, unit) = (reader.text()?, reader.text()?);
        schema.add(Series { name, unit, kind, values })?;
    }
    Some(schema)
}

/// Values of each sample are at most as many as the schema has series, and of their types.
pub(super) fn put_samples(out: &mut Vec<u8>, schema: &Schema, samples: &[Sample]) {
    out.extend_from_slice(&schema.id().to_le_bytes());
    let count = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
    put_varint(out, count(samples.len()));
    put_varint(out, count(schema.len()));
    let mut column = Column::default();
    for sample in samples {
        column.put_number(out, sample.monotonic_ns);
    }
    column = Column::default();
    for sample in samples {
        // The two clocks run nearly alike, so their distance hardly changes.
        column.put_number(out, sample.unix_us.cast_unsigned().wrapping_sub(sample.monotonic_ns / 1000));
    }
    for (index, series) in schema.series().iter().enumerate() {
        let value = |sample: &Sample| sample.get(SeriesId(index));
        let present = samples.iter().filter(|sample| value(sample).is_some()).count();
        if present == 0 {
            out.push(NONE);
            continue;
        }
        out.push(if present == samples.len() { ALL } else { SOME });
        if present < samples.len() {
            for eight in samples.chunks(8) {
                let bits =
                    eight.iter().rev().fold(0, |bits, sample| bits << 1 | u8::from(value(sample).is_some()));
                out.push(bits);
            }
        }
        column = Column::default();
        for value in samples.iter().filter_map(value) {
            match series.values {
                ValueType::Float => column.put_float(out, value.bits()),
                ValueType::Unsigned | ValueType::Signed => column.put_number(out, value.bits()),
            }
        }
    }
}

/// The hash of the schema that a block was written with.
pub(super) fn schema_id(bytes: &[u8]) -> Option<u64> {
    Reader::new(bytes).array().map(u64::from_le_bytes)
}

pub(super) fn samples(bytes: &[u8], schema: &Schema) -> Option<Vec<Sample>> {
    let mut reader = Reader::new(bytes);
    if u64::from_le_bytes(reader.array()?) != schema.id() {
        return None;
    }
    let (samples, series) = (reader.count()?, reader.count()?);
    if series != schema.len() || series > MAX_SERIES || samples.checked_mul(series + 2)? > MAX_VALUES {
        return None;
    }
    let mut decoded = vec![Sample::default(); samples];
    let mut column = Column::default();
    for sample in &mut decoded {
        sample.monotonic_ns = column.number(&mut reader)?;
    }
    column = Column::default();
    for sample in &mut decoded {
        let distance = column.number(&mut reader)?;
        sample.unix_us = distance.wrapping_add(sample.monotonic_ns / 1000).cast_signed();
    }
    for (index, series) in schema.series().iter().enumerate() {
        let bitmap = match reader.byte()? {
            NONE => continue,
            ALL => None,
            SOME => Some(reader.take(samples.div_ceil(8))?),
            _ => return None,
        };
        column = Column::default();
        for (n, sample) in decoded.iter_mut().enumerate() {
            let is_set = |bitmap: &[u8]| bitmap.get(n / 8).is_some_and(|bits| (bits >> (n % 8)) & 1 == 1);
            if !bitmap.is_none_or(is_set) {
                continue;
            }
            let bits = match series.values {
                ValueType::Float => column.float(&mut reader)?,
                ValueType::Unsigned | ValueType::Signed => column.number(&mut reader)?,
            };
            sample.set(SeriesId(index), Value::from_bits(bits, series.values));
        }
    }
    reader.is_empty().then_some(decoded)
}

/// What the next value of a series is told from.
#[derive(Clone, Copy, Debug, Default)]
struct Column {
    last: u64,
    difference: u64,
}

impl Column {
    fn put_number(&mut self, out: &mut Vec<u8>, value: u64) {
        let difference = value.wrapping_sub(self.last);
        put_varint(out, zigzag(difference.wrapping_sub(self.difference)));
        *self = Self { last: value, difference };
    }

    fn number(&mut self, reader: &mut Reader<'_>) -> Option<u64> {
        let difference = unzigzag(reader.varint()?).wrapping_add(self.difference);
        let value = self.last.wrapping_add(difference);
        *self = Self { last: value, difference };
        Some(value)
    }

    /// Of neighbouring numbers the first bits are equal, and of short fractions the last are zero: reversed, few bits remain.
    fn put_float(&mut self, out: &mut Vec<u8>, bits: u64) {
        put_varint(out, (bits ^ self.last).reverse_bits());
        self.last = bits;
    }

    fn float(&mut self, reader: &mut Reader<'_>) -> Option<u64> {
        self.last ^= reader.varint()?.reverse_bits();
        Some(self.last)
    }
}
