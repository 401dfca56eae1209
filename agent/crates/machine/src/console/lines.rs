//! Cuts a stream of bytes into lines, however it arrives.

use std::{borrow::Cow, mem};

use memchr::memchr2;

/// Longest piece of a line that is looked at as one, in bytes. The rest of a longer line follows as further pieces.
pub const LINE_MAX: usize = 4096;

/// A line, or a piece of a very long one, without its end.
#[derive(Clone, Copy, Debug)]
pub(super) struct RawLine<'a> {
    pub(super) bytes: &'a [u8],
    /// Of its first byte in the stream, from 0.
    pub(super) offset: u64,
    /// Number in the stream as an editor counts, from 1.
    pub(super) number: u64,
}

/// Collects lines. A line ends with LF, CR, or any number and order of them.
#[derive(Debug)]
pub(super) struct Lines {
    partial: Vec<u8>,
    /// Bytes that came before those of `partial`.
    offset: u64,
    number: u64,
}

impl Lines {
    pub(super) fn new() -> Self {
        Self { partial: Vec::new(), offset: 0, number: 1 }
    }

    /// Takes bytes and gives each line that they complete.
    pub(super) fn push(&mut self, mut bytes: &[u8], mut each: impl FnMut(RawLine<'_>)) {
        while !bytes.is_empty() {
            let room = LINE_MAX - self.partial.len();
            let window = bytes.get(..room).unwrap_or(bytes);
            let end = memchr2(b'\n', b'\r', window);
            let (piece, rest) = bytes.split_at(end.unwrap_or(window.len()));
            bytes = rest;
            if end.is_some() || piece.len() == room {
                self.give(piece, &mut each);
            } else {
                self.partial.extend_from_slice(piece);
            }
            if let (Some(_), Some((end, rest))) = (end, bytes.split_first()) {
                self.offset += 1;
                self.number += u64::from(*end == b'\n');
                bytes = rest;
            }
        }
    }

    /// Gives what has no end yet, as a line.
    pub(super) fn finish(&mut self, mut each: impl FnMut(RawLine<'_>)) {
        self.give(&[], &mut each);
    }

    /// Bytes seen so far.
    pub(super) fn offset(&self) -> u64 {
        self.offset + length(&self.partial)
    }

    fn give(&mut self, piece: &[u8], each: &mut impl FnMut(RawLine<'_>)) {
        let (offset, number) = (self.offset, self.number);
        let mut partial = mem::take(&mut self.partial);
        // Copied only if it arrived in parts.
        let bytes = if partial.is_empty() {
            piece
        } else {
            partial.extend_from_slice(piece);
            &partial
        };
        self.offset += length(bytes);
        if !bytes.is_empty() {
            each(RawLine { bytes, offset, number });
        }
        partial.clear();
        self.partial = partial;
    }
}

fn length(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}

/// A line without what a terminal does not print: escape sequences, NULs and other control characters.
pub(super) fn printable(line: &[u8]) -> Cow<'_, [u8]> {
    if !line.iter().any(|byte| is_control(*byte)) {
        return Cow::Borrowed(line);
    }
    let mut kept = Vec::with_capacity(line.len());
    let mut rest = line;
    while let Some((byte, after)) = rest.split_first() {
        rest = if *byte == 0x1b { after.get(escape(after)..).unwrap_or_default() } else { after };
        if !is_control(*byte) {
            kept.push(*byte);
        }
    }
    Cow::Owned(kept)
}

fn is_control(byte: u8) -> bool {
    (byte < 0x20 && byte != b'\t') || byte == 0x7f
}

/// Length of an escape sequence after its ESC, by ECMA-48.
fn escape(after: &[u8]) -> usize {
    let parameters = |from: usize, is_parameter: fn(&u8) -> bool| {
        from + after.iter().skip(from).take_while(|byte| is_parameter(byte)).count()
    };
    match after.first() {
        None => 0,
        Some(b'[') => {
            let last = parameters(1, |byte| (0x20..0x40).contains(byte));
            last + usize::from(after.get(last).is_some_and(|byte| (0x40..0x7f).contains(byte)))
        }
        // A string up to BEL, or to the ESC of the next sequence. If neither comes, text that should be read would be lost.
        Some(b']' | b'P' | b'X' | b'^' | b'_') => {
            let end = after.iter().take(256).position(|byte| matches!(byte, 0x07 | 0x1b));
            end.map_or(1, |end| end + usize::from(after.get(end) == Some(&0x07)))
        }
        Some(0x20..=0x2f) => parameters(0, |byte| (0x20..0x30).contains(byte)) + 1,
        Some(0x30..=0x7e) => 1,
        Some(_) => 0,
    }
}

/// Bytes that `/dev/kmsg` escapes as `\x0a`.
pub(crate) fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((byte, after)) = rest.split_first() {
        let escaped = rest.strip_prefix(b"\\x").and_then(|hex| hex.get(..2));
        let escaped = escaped.and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
        bytes.push(escaped.unwrap_or(*byte));
        rest = if escaped.is_some() { rest.get(4..).unwrap_or_default() } else { after };
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(chunks: &[&[u8]]) -> Vec<(String, u64, u64)> {
        let mut lines = Lines::new();
        let mut found = Vec::new();
        let mut keep = |line: RawLine<'_>| {
            found.push((String::from_utf8_lossy(line.bytes).into_owned(), line.offset, line.number));
        };
        for chunk in chunks {
            lines.push(chunk, &mut keep);
        }
        lines.finish(&mut keep);
        found
    }

    #[test]
    fn expect_the_same_lines_when_bytes_arrive_one_by_one() {
        let mut text = b"a\r\nbc\n\n\r\rd\re\r\r\nf".to_vec();
        text.extend([b'x'; LINE_MAX + 3]);
        text.extend(b"\ny");
        let whole = lines(&[&text]);
        let expected: [(&str, u64, u64); 5] =
            [("a", 0, 1), ("bc", 3, 2), ("d", 9, 4), ("e", 11, 4), ("f", 15, 5)];
        for (found, (text, offset, number)) in whole.iter().zip(expected) {
            assert_eq!((found.0.get(..text.len()), found.1, found.2), (Some(text), offset, number));
        }
        assert_eq!(whole[4].0.len(), LINE_MAX);
        assert_eq!((whole[5].0.as_str(), whole[5].2), ("xxxx", 5));
        assert_eq!((whole[6].0.as_str(), whole[6].2), ("y", 6));
        let bytes: Vec<&[u8]> = text.chunks(1).collect();
        assert_eq!(lines(&bytes), whole);
    }

    #[test]
    fn expect_only_text_when_a_line_holds_escape_sequences() {
        let text = |line: &str| String::from_utf8(printable(line.as_bytes()).into_owned()).unwrap();
        assert_eq!(text("\x1b[1;31mBUG: \x1b[0mx\0\x08y\tz"), "BUG: xy\tz");
        assert_eq!(text("\x1bc\x1b[?7l\x1b[2JLinux"), "Linux");
        assert_eq!(text("\x1b]0;title\x07a\x1b]0;title\x1b\\b\x1b(Bc"), "abc");
        assert_eq!(text("\x1b]no end of this"), "no end of this");
        assert_eq!(text("a\x1b"), "a");
        assert_eq!(text("a\x1b["), "a");
    }

    #[test]
    fn expect_bytes_when_a_record_escapes_them() {
        assert_eq!(unescaped(br"a\x0ab\x5cx\xzz\x1"), b"a\nb\\x\\xzz\\x1");
    }
}
