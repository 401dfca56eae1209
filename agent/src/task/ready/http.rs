//! `GET` of an `http://` URL over HTTP/1.0, as small as a ready check needs it: no redirects, no names but `localhost`.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// More than any status line has.
const MAX_STATUS_LINE: usize = 256;

/// Asks for the URL; an answer with a 2xx or 3xx status is success.
pub(super) async fn probe(url: &str) -> Result<(), HttpError> {
    let target = Target::parse(url)?;
    let request = format!(
        "GET {} HTTP/1.0\r\nHost: {}\r\nUser-Agent: drover\r\nConnection: close\r\n\r\n",
        target.path, target.authority
    );
    let mut stream = TcpStream::connect(target.address).await.map_err(HttpError::Connect)?;
    stream.write_all(request.as_bytes()).await.map_err(HttpError::Exchange)?;
    let (mut answer, mut piece) = (Vec::new(), [0; MAX_STATUS_LINE]);
    while answer.len() < MAX_STATUS_LINE && !answer.contains(&b'\n') {
        match stream.read(&mut piece).await.map_err(HttpError::Exchange)? {
            0 => break,
            length => answer.extend_from_slice(piece.get(..length).unwrap_or_default()),
        }
    }
    match status(&answer) {
        Some(200..=399) => Ok(()),
        Some(status) => Err(HttpError::Status(status)),
        None => Err(HttpError::NotHttp),
    }
}

/// The status of an answer that starts like `HTTP/1.1 200 OK`.
fn status(answer: &[u8]) -> Option<u16> {
    let line = answer.split(|byte| *byte == b'\n').next()?;
    let mut words = std::str::from_utf8(line).ok()?.split_ascii_whitespace();
    words.next()?.strip_prefix("HTTP/")?;
    words.next()?.parse().ok().filter(|status| (100..1000).contains(status))
}

#[derive(Debug, PartialEq, Eq)]
struct Target<'a> {
    address: SocketAddr,
    authority: &'a str,
    path: &'a str,
}

impl<'a> Target<'a> {
    fn parse(url: &'a str) -> Result<Self, HttpError> {
        let bad = || HttpError::Url(url.to_owned());
        let printable = url.bytes().all(|byte| byte.is_ascii_graphic());
        let rest = url.strip_prefix("http://").filter(|_| printable).ok_or_else(bad)?;
        let (authority, path) = rest.find('/').map_or((rest, "/"), |at| rest.split_at(at));
        let address = if let Ok(address) = authority.parse() {
            address
        } else if let Some(host) = authority.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            SocketAddr::new(host.parse().map_err(|_| bad())?, 80)
        } else {
            let (host, port) = authority.split_once(':').unwrap_or((authority, "80"));
            let localhost = IpAddr::from(Ipv4Addr::LOCALHOST);
            let host = if host == "localhost" { localhost } else { host.parse().map_err(|_| bad())? };
            SocketAddr::new(host, port.parse().map_err(|_| bad())?)
        };
        Ok(Self { address, authority, path })
    }
}

/// Why a URL does not answer as it should.
#[derive(Debug, thiserror::Error)]
pub(super) enum HttpError {
    #[error("`{0}` is not a URL that can be probed: http://, an IP address or localhost, a port, a path")]
    Url(String),
    #[error("cannot connect")]
    Connect(#[source] io::Error),
    #[error("no answer")]
    Exchange(#[source] io::Error),
    #[error("the answer is not HTTP")]
    NotHttp,
    #[error("the answer has status {0}")]
    Status(u16),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expect_address_and_path_when_a_url_can_be_probed() {
        for (url, address, path) in [
            ("http://127.0.0.1:8080/index.html?a=b", "127.0.0.1:8080", "/index.html?a=b"),
            ("http://localhost:81", "127.0.0.1:81", "/"),
            ("http://127.0.0.2/", "127.0.0.2:80", "/"),
            ("http://[::1]:8080/x", "[::1]:8080", "/x"),
            ("http://[::1]/x", "[::1]:80", "/x"),
        ] {
            let target = Target::parse(url).unwrap();
            assert_eq!((target.address, target.path), (address.parse().unwrap(), path), "{url}");
        }
    }

    #[test]
    fn expect_a_refusal_when_a_url_is_of_another_kind_or_would_inject_a_header() {
        let injected = "http://127.0.0.1/ HTTP/1.0\r\nX: y";
        for url in [
            "https://127.0.0.1/",
            "http://example.com/",
            "127.0.0.1",
            "http://",
            "http://1.2.3.4:x/",
            injected,
        ] {
            assert!(matches!(Target::parse(url), Err(HttpError::Url(_))), "{url}");
        }
    }

    #[test]
    fn expect_a_status_only_when_the_first_line_is_that_of_http() {
        assert_eq!(status(b"HTTP/1.1 200 OK\r\nX"), Some(200));
        assert_eq!(status(b"HTTP/1.0 503\r\n"), Some(503));
        for bad in [&b"SSH-2.0-OpenSSH"[..], b"", b"HTTP/1.1\r\n", b"HTTP/1.1 20000 OK", b"HTTP/1.1 \xff"] {
            assert_eq!(status(bad), None);
        }
    }
}
