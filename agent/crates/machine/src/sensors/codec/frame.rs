//! Frames: how blocks are found in a stream, and known to be whole.

use std::ops::Range;

use super::wire::Reader;

const MAGIC: &[u8; 4] = b"DrSn";
const VERSION: u8 = 1;
const CHECKSUM: usize = 8;
/// Magic, version, kind, length.
const HEAD: usize = 10;

/// What a frame holds before compression: what a block of [`super::block::MAX_VALUES`] values cannot exceed.
pub(super) const MAX_RAW: usize = 16 << 20;

/// What is in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrameKind {
    Schema,
    Block,
}

/// A piece of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// A whole frame; the range of its payload.
    Frame(FrameKind, Range<usize>),
    /// A whole frame of a version that is not ours.
    OtherVersion,
    /// So many bytes that are no frame, with more behind them.
    Damaged(usize),
    /// So many bytes at the end that are no frame, or the beginning of one.
    Truncated(usize),
}

/// Appends a frame. `payload` is at most [`MAX_RAW`] bytes and some.
pub(super) fn put_frame(out: &mut Vec<u8>, kind: FrameKind, payload: &[u8]) {
    let kind = match kind {
        FrameKind::Schema => 0,
        FrameKind::Block => 1,
    };
    let mut head = Vec::with_capacity(HEAD);
    head.extend_from_slice(MAGIC);
    head.extend_from_slice(&[VERSION, kind]);
    head.extend_from_slice(&u32::try_from(payload.len()).unwrap_or(u32::MAX).to_le_bytes());
    out.extend_from_slice(&head);
    out.extend_from_slice(&checksum(&head, payload));
    out.extend_from_slice(payload);
}

/// Takes a stream apart.
pub(super) fn pieces(bytes: &[u8]) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut at = 0;
    let mut lost = 0;
    while at < bytes.len() {
        let rest = bytes.get(at..).unwrap_or_default();
        if let Some((frame, length)) = whole_frame(rest, at) {
            if lost > 0 {
                pieces.push(Piece::Damaged(lost));
                lost = 0;
            }
            pieces.push(frame);
            at += length;
        } else {
            // Looks for the next frame behind the first byte of what was none.
            let next =
                rest.get(1..).and_then(|rest| rest.windows(MAGIC.len()).position(|window| window == MAGIC));
            let skipped = next.map_or(rest.len(), |next| next + 1);
            lost += skipped;
            at += skipped;
        }
    }
    if lost > 0 {
        pieces.push(Piece::Truncated(lost));
    }
    pieces
}

/// The frame that `bytes` begin with, and its length.
fn whole_frame(bytes: &[u8], at: usize) -> Option<(Piece, usize)> {
    let mut reader = Reader::new(bytes);
    if reader.take(MAGIC.len())? != MAGIC {
        return None;
    }
    let (version, kind) = (reader.byte()?, reader.byte()?);
    let length = usize::try_from(u32::from_le_bytes(reader.array()?)).ok()?;
    let expected: [u8; CHECKSUM] = reader.array()?;
    let payload = reader.take(length)?;
    if checksum(bytes.get(..HEAD)?, payload) != expected {
        return None;
    }
    let start = at + HEAD + CHECKSUM;
    let kind = match (version, kind) {
        (VERSION, 0) => Some(FrameKind::Schema),
        (VERSION, 1) => Some(FrameKind::Block),
        _ => None,
    };
    let piece = kind.map_or(Piece::OtherVersion, |kind| Piece::Frame(kind, start..start + length));
    Some((piece, HEAD + CHECKSUM + length))
}

fn checksum(head: &[u8], payload: &[u8]) -> [u8; CHECKSUM] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(head);
    hasher.update(payload);
    let mut first = [0; CHECKSUM];
    hasher.finalize_xof().fill(&mut first);
    first
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expect_the_frames_around_it_when_one_is_damaged_or_of_another_version() {
        let mut bytes = Vec::new();
        put_frame(&mut bytes, FrameKind::Schema, b"first");
        let first = bytes.len();
        put_frame(&mut bytes, FrameKind::Block, b"second");
        let second = bytes.len();
        put_frame(&mut bytes, FrameKind::Block, b"third");
        bytes[second - 1] ^= 1;
        let [Piece::Frame(FrameKind::Schema, a), Piece::Damaged(lost), Piece::Frame(FrameKind::Block, c)] =
            &pieces(&bytes)[..]
        else {
            panic!("{:?}", pieces(&bytes))
        };
        assert_eq!(
            (&bytes[a.clone()], *lost, &bytes[c.clone()]),
            (&b"first"[..], second - first, &b"third"[..])
        );

        let mut other = Vec::new();
        put_frame(&mut other, FrameKind::Block, b"new");
        other[4] = 2;
        let sum = checksum(&other[..HEAD], b"new");
        other[HEAD..HEAD + CHECKSUM].copy_from_slice(&sum);
        assert_eq!(pieces(&other), [Piece::OtherVersion]);
        other.pop();
        assert_eq!(pieces(&other), [Piece::Truncated(HEAD + CHECKSUM + 2)]);
    }
}
