//! Frames in, samples out; what is damaged is counted.

use std::{collections::HashMap, ops::Range, sync::Arc};

use super::{
    block,
    frame::{FrameKind, MAX_RAW, Piece, pieces},
    wire::Reader,
};
use crate::sensors::{sample::Sample, schema::Schema};

/// Samples that were written together.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    /// Their series. Schemas of a stream only grow, so the last one reads all blocks.
    pub schema: Arc<Schema>,
    /// In order of time.
    pub samples: Vec<Sample>,
}

/// What of a stream could not be read. All zero for a whole one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Damage {
    /// Places in the middle where bytes are no frames.
    pub places: u64,
    /// How many bytes that are.
    pub bytes: u64,
    /// Bytes at the end that are no frame: a block that was not written to its end, or damaged.
    pub tail: u64,
    /// Whole frames of another version of the format.
    pub other_versions: u64,
    /// Whole frames that do not hold what they should, blocks whose schema is lost among them. Counted as they are read.
    pub unreadable: u64,
}

/// Reads a stream that was written by [`super::Encoder`], block by block. Never fails: what cannot be read is skipped and is in [`Self::damage`].
#[derive(Debug)]
pub struct Decoder<'a> {
    bytes: &'a [u8],
    schemas: HashMap<u64, Arc<Schema>>,
    blocks: std::vec::IntoIter<Range<usize>>,
    damage: Damage,
}

impl<'a> Decoder<'a> {
    /// Finds all frames and reads all schemas.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        let mut decoder = Self {
            bytes,
            schemas: HashMap::new(),
            blocks: Vec::new().into_iter(),
            damage: Damage::default(),
        };
        let mut blocks = Vec::new();
        let wide = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        for piece in pieces(bytes) {
            match piece {
                Piece::Frame(FrameKind::Block, payload) => blocks.push(payload),
                Piece::Frame(FrameKind::Schema, payload) => {
                    match decoder.raw(payload).and_then(|raw| block::schema(&raw)) {
                        Some(schema) => {
                            decoder.schemas.entry(schema.id()).or_insert_with(|| Arc::new(schema));
                        }
                        None => decoder.damage.unreadable += 1,
                    }
                }
                Piece::OtherVersion => decoder.damage.other_versions += 1,
                Piece::Damaged(count) => {
                    decoder.damage.places += 1;
                    decoder.damage.bytes += wide(count);
                }
                Piece::Truncated(count) => decoder.damage.tail = wide(count),
            }
        }
        decoder.blocks = blocks.into_iter();
        decoder
    }

    /// What could not be read, so far; final once the last block was taken.
    #[must_use]
    pub fn damage(&self) -> Damage {
        self.damage
    }

    fn block(&self, payload: Range<usize>) -> Option<Block> {
        let raw = self.raw(payload)?;
        let schema = self.schemas.get(&block::schema_id(&raw)?)?;
        let samples = block::samples(&raw, schema)?;
        Some(Block { schema: Arc::clone(schema), samples })
    }

    /// A payload before compression.
    fn raw(&self, payload: Range<usize>) -> Option<Vec<u8>> {
        let mut reader = Reader::new(self.bytes.get(payload.clone())?);
        let length = usize::try_from(u32::from_le_bytes(reader.array()?)).ok()?;
        let compressed = self.bytes.get(payload.start + 4..payload.end)?;
        // Whatever the bytes claim, no more memory than this is taken.
        if length > MAX_RAW {
            return None;
        }
        let raw = zstd::bulk::decompress(compressed, length).ok()?;
        (raw.len() == length).then_some(raw)
    }
}

impl Iterator for Decoder<'_> {
    type Item = Block;

    fn next(&mut self) -> Option<Block> {
        loop {
            let payload = self.blocks.next()?;
            match self.block(payload) {
                Some(block) => return Some(block),
                None => self.damage.unreadable += 1,
            }
        }
    }
}
