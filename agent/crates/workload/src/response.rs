//! Reads HTTP responses on the client's side, in pieces of any size: where one ends, and whether it is a 200.

use crate::request::header_value;

/// Longest response head understood.
const HEAD_LIMIT: usize = 16 * 1024;
/// Longest line that gives the size of a chunk.
const CHUNK_LINE_LIMIT: usize = 1024;

/// What a piece of the response led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// More has to come.
    Partial,
    /// The response is complete.
    Complete(Finished),
    /// This is no HTTP response that can be followed.
    Malformed,
}

/// A complete response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Finished {
    /// Its status.
    pub status: u16,
}

/// Where the reader stands in a response.
#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    /// In the head; `partial` keeps what came of it in earlier pieces.
    Head,
    /// In a body of known length.
    Length(u64),
    /// In a body of chunks.
    Chunked(Chunk),
    /// In a body that ends with the connection.
    UntilEnd,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Chunk {
    /// In the line with the size.
    Size,
    /// In the data, with its line end.
    Data(u64),
    /// In the lines after the last chunk; the response ends with an empty one.
    Trailer,
}

/// Reads one response after another.
#[derive(Clone, Debug)]
pub(crate) struct ResponseReader {
    state: State,
    status: u16,
    partial: Vec<u8>,
}

impl ResponseReader {
    /// A reader at the begin of a response.
    pub(crate) const fn new() -> Self {
        Self { state: State::Head, status: 0, partial: Vec::new() }
    }

    /// Takes the next piece. After a complete response the reader is at the begin of the next; bytes beyond the end
    /// are dropped, because nothing was asked for yet that they could answer.
    pub(crate) fn feed(&mut self, mut piece: &[u8]) -> Progress {
        while !piece.is_empty() {
            let step = match &self.state {
                State::Head => self.feed_head(&mut piece),
                State::Length(left) => {
                    let left = *left;
                    self.feed_length(left, &mut piece)
                }
                State::Chunked(chunk) => {
                    let chunk = *chunk;
                    self.feed_chunk(chunk, &mut piece)
                }
                State::UntilEnd => return Progress::Partial,
            };
            match step {
                Progress::Partial => {}
                end => return end,
            }
        }
        Progress::Partial
    }

    /// Says that the connection has ended. Completes a response whose body lasts until then.
    pub(crate) fn end(&mut self) -> Progress {
        if self.state == State::UntilEnd { self.complete() } else { Progress::Malformed }
    }

    fn complete(&mut self) -> Progress {
        self.state = State::Head;
        self.partial.clear();
        Progress::Complete(Finished { status: self.status })
    }

    fn feed_head(&mut self, piece: &mut &[u8]) -> Progress {
        // Nearly always the whole head comes in one piece and is read where it lies.
        if self.partial.is_empty()
            && let Some(len) = head_length(piece)
        {
            let (head, rest) = piece.split_at(len);
            *piece = rest;
            return self.begin_body(head);
        }
        let before = self.partial.len();
        self.partial.extend_from_slice(piece);
        let Some(len) = head_length(&self.partial) else {
            *piece = &[];
            return if self.partial.len() > HEAD_LIMIT { Progress::Malformed } else { Progress::Partial };
        };
        *piece = piece.get(len.saturating_sub(before)..).unwrap_or_default();
        let mut head = std::mem::take(&mut self.partial);
        head.truncate(len);
        self.begin_body(&head)
    }

    fn begin_body(&mut self, head: &[u8]) -> Progress {
        let Some((status, body)) = read_head(head) else { return Progress::Malformed };
        self.status = status;
        match status {
            // An interim response: the real one follows (RFC 9110, 15.2).
            100..=199 => Progress::Partial,
            204 | 304 => self.complete(),
            _ => match body {
                State::Length(0) => self.complete(),
                body => {
                    self.state = body;
                    Progress::Partial
                }
            },
        }
    }

    fn feed_length(&mut self, left: u64, piece: &mut &[u8]) -> Progress {
        let (taken, rest) = take(piece, left);
        *piece = rest;
        if taken == left {
            return self.complete();
        }
        self.state = State::Length(left - taken);
        Progress::Partial
    }

    fn feed_chunk(&mut self, chunk: Chunk, piece: &mut &[u8]) -> Progress {
        if let Chunk::Data(left) = chunk {
            let (taken, rest) = take(piece, left);
            *piece = rest;
            let next = if taken == left { Chunk::Size } else { Chunk::Data(left - taken) };
            self.state = State::Chunked(next);
            return Progress::Partial;
        }
        let Some(end) = piece.iter().position(|byte| *byte == b'\n') else {
            self.partial.extend_from_slice(piece);
            *piece = &[];
            return if self.partial.len() > CHUNK_LINE_LIMIT {
                Progress::Malformed
            } else {
                Progress::Partial
            };
        };
        let (line, rest) = piece.split_at(end + 1);
        self.partial.extend_from_slice(line);
        *piece = rest;
        let line = std::mem::take(&mut self.partial);
        let line = line.trim_ascii();
        if chunk == Chunk::Trailer {
            return if line.is_empty() { self.complete() } else { Progress::Partial };
        }
        let digits = line.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
        let size = std::str::from_utf8(digits).ok().and_then(|digits| u64::from_str_radix(digits, 16).ok());
        let next = match size {
            Some(0) => Chunk::Trailer,
            Some(size) => Chunk::Data(size.saturating_add(2)),
            None => return Progress::Malformed,
        };
        self.state = State::Chunked(next);
        Progress::Partial
    }
}

/// Splits up to `most` bytes off; returns their number and the rest.
fn take(piece: &[u8], most: u64) -> (u64, &[u8]) {
    match usize::try_from(most) {
        Ok(most) if most < piece.len() => {
            (u64::try_from(most).unwrap_or(0), piece.get(most..).unwrap_or_default())
        }
        _ => (u64::try_from(piece.len()).unwrap_or(0), &[]),
    }
}

/// Length of a response head with its blank line, if that is there.
fn head_length(bytes: &[u8]) -> Option<usize> {
    bytes.windows(4).position(|window| window == b"\r\n\r\n").map(|at| at + 4)
}

/// Status, and how the body is delimited (RFC 9112, 6.3).
fn read_head(head: &[u8]) -> Option<(u16, State)> {
    let mut lines = head.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    let first = lines.next()?;
    if !first.starts_with(b"HTTP/1.") {
        return None;
    }
    let status = std::str::from_utf8(first.get(9..12)?).ok()?.parse().ok()?;
    let mut body = State::UntilEnd;
    for line in lines {
        if let Some(value) = header_value(line, b"content-length")
            && body == State::UntilEnd
        {
            body = State::Length(std::str::from_utf8(value).ok()?.parse().ok()?);
        } else if let Some(value) = header_value(line, b"transfer-encoding")
            && value.to_ascii_lowercase().ends_with(b"chunked")
        {
            body = State::Chunked(Chunk::Size);
        }
    }
    Some((status, body))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OK: Progress = Progress::Complete(Finished { status: 200 });

    /// Feeds `bytes` whole and in every split in two, and byte by byte; all must agree.
    fn read_all_ways(bytes: &[u8]) -> Progress {
        let whole = ResponseReader::new().feed(bytes);
        for cut in 0..bytes.len() {
            let mut reader = ResponseReader::new();
            assert_eq!(reader.feed(&bytes[..cut]), Progress::Partial, "cut at {cut}");
            assert_eq!(reader.feed(&bytes[cut..]), whole, "cut at {cut}");
        }
        let mut reader = ResponseReader::new();
        let mut last = Progress::Partial;
        for byte in bytes {
            last = reader.feed(&[*byte]);
        }
        assert_eq!(last, whole, "byte by byte");
        whole
    }

    #[test]
    fn expect_the_end_where_the_length_says() {
        assert_eq!(read_all_ways(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello\n"), OK);
        assert_eq!(read_all_ways(b"HTTP/1.1 200 OK\r\ncontent-length:0\r\n\r\n"), OK);
        assert_eq!(
            ResponseReader::new().feed(b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nhello\n"),
            Progress::Partial
        );
    }

    #[test]
    fn expect_the_end_after_the_last_chunk() {
        let bytes = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n1\r\n\n\r\n0\r\nA: b\r\n\r\n";
        assert_eq!(read_all_ways(bytes), OK);
    }

    #[test]
    fn expect_the_end_with_the_connection_when_no_length_is_given() {
        let mut reader = ResponseReader::new();
        assert_eq!(reader.feed(b"HTTP/1.0 200 OK\r\n\r\nhello"), Progress::Partial);
        assert_eq!(reader.end(), OK);
    }

    #[test]
    fn expect_the_status_when_it_is_no_200() {
        let error = Progress::Complete(Finished { status: 503 });
        assert_eq!(read_all_ways(b"HTTP/1.1 503 No\r\nContent-Length: 1\r\n\r\nx"), error);
        assert_eq!(read_all_ways(b"HTTP/1.1 304 Same\r\n\r\n"), Progress::Complete(Finished { status: 304 }));
    }

    #[test]
    fn expect_interim_responses_to_be_passed_over() {
        assert_eq!(
            read_all_ways(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx"),
            OK
        );
    }

    #[test]
    fn expect_the_next_response_when_one_is_complete() {
        let mut reader = ResponseReader::new();
        for _ in 0..3 {
            assert_eq!(reader.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nh"), Progress::Partial);
            assert_eq!(reader.feed(b"i"), OK);
        }
    }

    #[test]
    fn expect_malformed_when_it_is_no_http() {
        assert_eq!(ResponseReader::new().feed(b"220 smtp ready\r\n\r\n"), Progress::Malformed);
        assert_eq!(
            ResponseReader::new().feed(b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n"),
            Progress::Malformed
        );
        assert_eq!(ResponseReader::new().feed(&[b'x'; HEAD_LIMIT + 1]), Progress::Malformed);
        let mut reader = ResponseReader::new();
        reader.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nhell");
        assert_eq!(reader.end(), Progress::Malformed);
    }
}
