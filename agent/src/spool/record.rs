//! The spool's records and their framing: bytes in, records out, no I/O.
//!
//! A frame is the length of its body (4 bytes, little-endian), the first 8 bytes of the body's BLAKE3 hash, and the
//! body: one byte that tells events from the rest, then a protobuf `TaskEvent` (as it goes over the wire) or JSON.

use drover_model::{AttemptId, LeaseEpoch, TaskId};
use drover_proto::v1;
use prost::Message;
use serde::{Deserialize, Serialize};

use crate::lease::Grant;

/// First bytes of a spool; the last one is the version of the format.
pub(super) const MAGIC: [u8; 8] = *b"drspool\x01";

/// Bytes before a frame's body.
pub(super) const HEADER: usize = 12;

/// Longest body of a frame: an event with two inline outputs is far below.
const MAX_BODY: usize = 1 << 20;

const TAG_EVENT: u8 = 1;
const TAG_NOTE: u8 = 2;

/// One entry of the spool.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "almost every record is an event")]
pub enum Record {
    /// Something happened to a task.
    Event(v1::TaskEvent),
    /// Anything else.
    Note(Note),
}

/// Entries that are not events.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Note {
    /// First record of a spool: the numbers that must never go back.
    Head {
        /// Sequence number of the next event.
        next_seq: u64,
        /// Highest epoch ever given.
        epoch: LeaseEpoch,
    },
    /// A run took the host.
    Lease(Grant),
    /// The host was given back.
    Free,
    /// A task was accepted; it is started next.
    Accepted {
        /// Which.
        task: TaskId,
        /// Bytes kept of each of its outputs; needed to read them back.
        output_limit: u64,
        /// When, in microseconds since the Unix epoch.
        at_unix_us: u64,
    },
    /// Ports were reserved.
    Ports {
        /// For this attempt.
        attempt: AttemptId,
        /// Their numbers.
        ports: Vec<u16>,
        /// When, in microseconds since the Unix epoch.
        at_unix_us: u64,
    },
    /// All of an attempt is stored elsewhere.
    Forgotten(AttemptId),
}

impl Record {
    /// The record as a frame.
    ///
    /// # Errors
    /// When a note cannot be written as JSON, which its types rule out.
    pub(super) fn frame(&self) -> Result<Vec<u8>, serde_json::Error> {
        let mut frame = vec![0; HEADER];
        match self {
            Self::Event(event) => {
                frame.reserve_exact(event.encoded_len().saturating_add(1));
                frame.push(TAG_EVENT);
                event.encode_raw(&mut frame);
            }
            Self::Note(note) => {
                frame.push(TAG_NOTE);
                serde_json::to_writer(&mut frame, note)?;
            }
        }
        let body = frame.get(HEADER..).unwrap_or_default();
        let (length, check) = (u32::try_from(body.len()).unwrap_or(u32::MAX), check(body));
        frame[..4].copy_from_slice(&length.to_le_bytes());
        frame[4..HEADER].copy_from_slice(&check);
        Ok(frame)
    }

    /// The first frame of `bytes`: its record and its whole length. `None` when the bytes are cut short or damaged, which
    /// is the same: nothing behind them can be trusted.
    pub(super) fn parse(bytes: &[u8]) -> Option<(Self, usize)> {
        let (length, rest) = bytes.split_first_chunk::<4>()?;
        let (expected, rest) = rest.split_first_chunk::<8>()?;
        let length =
            usize::try_from(u32::from_le_bytes(*length)).ok().filter(|length| *length <= MAX_BODY)?;
        let body = rest.get(..length).filter(|body| check(body) == *expected)?;
        let record = match body.split_first()? {
            (&TAG_EVENT, event) => Self::Event(v1::TaskEvent::decode(event).ok()?),
            (&TAG_NOTE, note) => Self::Note(serde_json::from_slice(note).ok()?),
            _ => return None,
        };
        Some((record, HEADER + length))
    }
}

fn check(body: &[u8]) -> [u8; 8] {
    let mut check = [0; 8];
    let hash = blake3::hash(body);
    check.copy_from_slice(&hash.as_bytes()[..8]);
    check
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    fn record() -> impl Strategy<Value = Record> {
        prop_oneof![
            (any::<u64>(), "[a-z.]{0,20}", any::<u64>()).prop_map(|(seq, task, at_unix_us)| {
                let kind = Some(v1::task_event::Kind::Armed(v1::Armed {}));
                Record::Event(v1::TaskEvent { seq, task, at_unix_us, kind })
            }),
            (any::<u64>(), any::<u64>()).prop_map(|(next_seq, epoch)| {
                Record::Note(Note::Head { next_seq, epoch: LeaseEpoch(epoch) })
            }),
            Just(Record::Note(Note::Free)),
        ]
    }

    fn parse_all(mut bytes: &[u8]) -> Vec<Record> {
        let mut records = Vec::new();
        while let Some((record, length)) = Record::parse(bytes) {
            records.push(record);
            bytes = &bytes[length..];
        }
        records
    }

    proptest! {
        #[test]
        fn whatever_is_cut_off_only_the_last_records_are_lost(records in vec(record(), 0..6), cut in 0_usize..400) {
            let bytes: Vec<u8> = records.iter().flat_map(|record| record.frame().unwrap()).collect();
            let found = parse_all(&bytes[..bytes.len().saturating_sub(cut)]);
            prop_assert!(records.starts_with(&found));
            prop_assert!(cut > 0 || found.len() == records.len());
        }

        #[test]
        fn a_flipped_bit_is_never_taken_for_a_record(record in record(), at: prop::sample::Index, bit in 0_u8..8) {
            let mut bytes = record.frame().unwrap();
            let at = at.index(bytes.len());
            bytes[at] ^= 1_u8 << bit;
            prop_assert_eq!(Record::parse(&bytes), None);
        }
    }
}
