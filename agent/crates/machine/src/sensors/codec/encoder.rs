//! Samples in, frames out.

use std::{io, num::NonZeroUsize};

use super::{
    block::{self, MAX_VALUES},
    frame::{FrameKind, put_frame},
};
use crate::sensors::{sample::Sample, schema::Schema};

/// Blocks between repetitions of the schema.
const SCHEMA_EVERY: u64 = 32;
/// zstd's own default: higher levels gain little on columns of small numbers.
const LEVEL: i32 = 3;

/// Why a sample was not taken, or a block not written. What was pushed before is not affected.
#[derive(Debug, thiserror::Error)]
pub enum EncodeError {
    /// A sample has a value that the schema does not have, or not of this type.
    #[error(
        "value {index} of a sample does not fit the schema of {series} series: pass the schema it was read with"
    )]
    Unfit {
        /// Its place in the sample.
        index: usize,
        /// Series of the schema.
        series: usize,
    },
    /// zstd failed.
    #[error("cannot compress a block of samples")]
    Compress(#[source] io::Error),
}

/// Writes a stream of samples. Those that are not written yet are in memory only: [`Self::flush`] writes them, at the price of a smaller block.
pub struct Encoder {
    per_block: usize,
    schema: Schema,
    samples: Vec<Sample>,
    /// Blocks since the schema changed.
    blocks: u64,
    compressor: zstd::bulk::Compressor<'static>,
}

impl std::fmt::Debug for Encoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Encoder")
            .field("per_block", &self.per_block)
            .field("samples", &self.samples.len())
            .field("blocks", &self.blocks)
            .finish_non_exhaustive()
    }
}

impl Encoder {
    /// Samples of a block by default: a minute of them.
    pub const PER_BLOCK: NonZeroUsize = NonZeroUsize::MIN.saturating_add(59);

    /// A stream whose blocks have so many samples; fewer where there are too many series for that.
    ///
    /// # Errors
    ///
    /// [`EncodeError::Compress`] if zstd does not start.
    pub fn new(per_block: NonZeroUsize) -> Result<Self, EncodeError> {
        let compressor = zstd::bulk::Compressor::new(LEVEL).map_err(EncodeError::Compress)?;
        let (schema, samples) = (Schema::new(), Vec::new());
        Ok(Self { per_block: per_block.get(), schema, samples, blocks: 0, compressor })
    }

    /// Takes a sample with the schema it was read with. Appends the frames that became complete to `out`, if any.
    ///
    /// # Errors
    ///
    /// [`EncodeError::Unfit`] if sample and schema contradict each other; the sample is not taken. [`EncodeError::Compress`] if zstd fails;
    /// the block's samples are lost.
    pub fn push(&mut self, schema: &Schema, sample: &Sample, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let unfit = |(index, value): (usize, &Option<_>)| match (value, schema.series().get(index)) {
            (Some(value), Some(series)) if series.values == crate::sensors::Value::value_type(*value) => None,
            (None, Some(_)) => None,
            _ => Some(index),
        };
        if let Some(index) = sample.values().iter().enumerate().find_map(unfit) {
            return Err(EncodeError::Unfit { index, series: schema.len() });
        }
        if schema.id() != self.schema.id() {
            self.flush(out)?;
            self.schema = schema.clone();
            self.blocks = 0;
        }
        self.samples.push(sample.clone());
        let fitting = MAX_VALUES / (self.schema.len() + 2);
        if self.samples.len() >= self.per_block.min(fitting) {
            self.flush(out)?;
        }
        Ok(())
    }

    /// Samples that are not written yet.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.samples.len()
    }

    /// Writes what is not written yet.
    ///
    /// # Errors
    ///
    /// [`EncodeError::Compress`]; the block's samples are lost.
    pub fn flush(&mut self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        if self.samples.is_empty() {
            return Ok(());
        }
        let samples = std::mem::take(&mut self.samples);
        let mut raw = Vec::new();
        // Twice at first, so that no single frame is worth more than one block.
        if self.blocks <= 1 || self.blocks.is_multiple_of(SCHEMA_EVERY) {
            block::put_schema(&mut raw, &self.schema);
            self.put(FrameKind::Schema, &raw, out)?;
        }
        self.blocks += 1;
        raw.clear();
        block::put_samples(&mut raw, &self.schema, &samples);
        self.put(FrameKind::Block, &raw, out)
    }

    fn put(&mut self, kind: FrameKind, raw: &[u8], out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let length = u32::try_from(raw.len()).unwrap_or(u32::MAX);
        let mut payload = length.to_le_bytes().to_vec();
        payload.extend(self.compressor.compress(raw).map_err(EncodeError::Compress)?);
        put_frame(out, kind, &payload);
        Ok(())
    }
}
