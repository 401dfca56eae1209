//! Reads HTTP requests on the server's side: just enough to answer them in turn.

/// Head of a request found in a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// Bytes of the head with its blank line.
    pub len: usize,
    /// Whether the client wants to send another request on the connection.
    pub keep_alive: bool,
}

/// The first request head of `bytes`, or `None` while its blank line is missing. Bodies are not understood: the
/// clients of this server only GET.
pub(crate) fn find_head(bytes: &[u8]) -> Option<Head> {
    let len = bytes.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let head = bytes.get(..len)?;
    let mut lines = head.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    // HTTP/1.1 keeps connections unless told otherwise, HTTP/1.0 the other way round (RFC 9112, 9.3).
    let mut keep_alive = lines.next().is_some_and(|line| !line.ends_with(b"HTTP/1.0"));
    for line in lines {
        if let Some(value) = header_value(line, b"connection") {
            let has = |token: &[u8]| {
                value.split(|byte| *byte == b',').any(|part| part.trim_ascii().eq_ignore_ascii_case(token))
            };
            if has(b"close") {
                keep_alive = false;
            } else if has(b"keep-alive") {
                keep_alive = true;
            }
        }
    }
    Some(Head { len, keep_alive })
}

/// The value of a header line if it has this (lower-case) name.
pub(crate) fn header_value<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let (found, rest) = line.split_at_checked(name.len())?;
    let value = rest.strip_prefix(b":")?;
    found.eq_ignore_ascii_case(name).then(|| value.trim_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expect_nothing_while_the_blank_line_is_missing() {
        let whole = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
        for cut in 0..whole.len() {
            assert_eq!(find_head(&whole[..cut]), None, "cut at {cut}");
        }
        assert_eq!(find_head(whole), Some(Head { len: whole.len(), keep_alive: true }));
    }

    #[test]
    fn expect_keep_alive_as_the_version_and_the_header_say() {
        let cases: [(&[u8], bool); 6] = [
            (b"GET / HTTP/1.1\r\n\r\n", true),
            (b"GET / HTTP/1.0\r\n\r\n", false),
            (b"GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", true),
            (b"GET / HTTP/1.1\r\nconnection:close\r\n\r\n", false),
            (b"GET / HTTP/1.1\r\nConnection: TE, close\r\n\r\n", false),
            (b"GET / HTTP/1.1\r\nX-Connection: close\r\n\r\n", true),
        ];
        for (bytes, keep_alive) in cases {
            assert_eq!(find_head(bytes).unwrap().keep_alive, keep_alive, "{}", bytes.escape_ascii());
        }
    }

    #[test]
    fn expect_the_first_head_when_requests_are_pipelined() {
        let bytes = b"GET /1 HTTP/1.1\r\n\r\nGET /2 HTTP/1.1\r\n\r\n";
        assert_eq!(find_head(bytes).unwrap().len, 19);
    }
}
