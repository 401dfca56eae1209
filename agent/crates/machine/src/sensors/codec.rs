//! Samples as bytes, for the spool and the store.
//!
//! A stream is a sequence of frames, each with its own checksum; what is damaged is skipped and counted.
//!
//! | bytes of a frame | |
//! |---|---|
//! | 4 | `DrSn` |
//! | 1 | version, 1 |
//! | 1 | 0: schema, 1: block of samples |
//! | 4 | length of what follows the checksum, little endian |
//! | 8 | the first bytes of BLAKE3 of the ten before and of what follows |
//! | | length before compression (4 bytes), then zstd |
//!
//! A schema is its series in order: kind, type of values, length and text of name and unit. A block names its schema by
//! hash and holds some samples, series by series: whether values are there, then the differences between successive
//! differences (integers, wrapping), or the bits that changed (floating point), as variable-length integers. So a counter that
//! grows evenly and a gauge that does not move cost next to nothing.
//!
//! The schema is written when it changes and again before every second, then every 32nd block: with one frame lost, at most one block is.

mod block;
mod decoder;
mod encoder;
mod frame;
mod wire;

pub use decoder::{Block, Damage, Decoder};
pub use encoder::{EncodeError, Encoder};

#[cfg(test)]
mod tests;
