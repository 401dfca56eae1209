//! Command lines of the built-in server and client.

use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::serialise::Serialisation;

/// Most workers a server forks.
pub(crate) const MAX_SERVERS: u32 = 20_000;
/// Most connections a client keeps open at once.
pub(crate) const MAX_CONCURRENCY: u32 = 1_000_000;
/// Most threads of a client.
pub(crate) const MAX_THREADS: u32 = 1024;

/// Shortest interval of reports.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(100);

/// Arguments of the server.
#[derive(Args, Clone, Debug)]
pub struct ServerArgs {
    /// Address to listen on; port 0 takes a free one
    #[arg(long, value_name = "ADDR:PORT", value_parser = parse_address)]
    pub listen: SocketAddr,

    /// Processes to fork
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_SERVERS)))]
    pub servers: u32,

    /// How the processes take turns to accept
    #[arg(long, value_enum, default_value_t = Serialisation::None)]
    pub serialisation: Serialisation,

    /// Connections the kernel may queue before they are accepted (capped by net.core.somaxconn)
    #[arg(long, value_name = "B", default_value_t = 4096, value_parser = clap::value_parser!(u32).range(1..=65_535))]
    pub backlog: u32,

    /// What an accepted connection gets
    #[arg(long, value_enum, default_value_t = Reply::Close)]
    pub reply: Reply,
}

/// What the server does with an accepted connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Reply {
    /// Closes it at once: the fork-and-accept microbenchmark.
    Close,
    /// Answers HTTP requests with a small 200 until the client closes or asks to.
    Http,
}

/// When the client closes a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CloseMode {
    /// The client closes first, as soon as it is connected or has its last answer.
    Close,
    /// The client waits for the server's end of file before it closes.
    Wait,
}

/// Arguments of the client.
#[derive(Args, Clone, Debug)]
#[command(group = clap::ArgGroup::new("end").required(true).multiple(true).args(["connections", "duration"]))]
pub struct ClientArgs {
    /// Server to connect to
    #[arg(long, value_name = "ADDR:PORT", value_parser = parse_address)]
    pub connect: SocketAddr,

    /// Connections to make
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub connections: Option<u64>,

    /// Time after which no further connection is started, such as `10s`
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub duration: Option<Duration>,

    /// Who closes a connection first
    #[arg(long, value_enum, default_value_t = CloseMode::Close)]
    pub mode: CloseMode,

    /// Connections open at once [default: 1, or 1000 with --rate]
    #[arg(long, value_name = "C", value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_CONCURRENCY)))]
    pub concurrency: Option<u32>,

    /// HTTP requests per connection; 0 only connects
    #[arg(long, value_name = "K", default_value_t = 0)]
    pub calls: u32,

    /// Path of the HTTP requests
    #[arg(long, value_name = "PATH", default_value = "/", value_parser = parse_path)]
    pub path: String,

    /// Start connections at this rate per second, whether or not earlier ones have ended; latency then counts from
    /// the instant a connection was due
    #[arg(long, value_name = "R", value_parser = parse_rate)]
    pub rate: Option<f64>,

    /// Threads that drive connections [default: one per CPU, with 8 connections or more each]
    #[arg(long, value_name = "T", value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_THREADS)))]
    pub threads: Option<u32>,

    /// Time after which an unfinished connection has failed
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_duration)]
    pub timeout: Duration,

    /// Report each interval of this length too, as a line of its own
    #[arg(long, value_name = "EVERY", value_parser = parse_interval)]
    pub progress: Option<Duration>,

    /// Source addresses to use on loopback, 127.0.0.1 upwards [default: as many as the ports need]
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u32).range(1..=i64::from(crate::ports::MAX_SOURCES)))]
    pub sources: Option<u32>,
}

/// An address with port; a host name counts as its first address.
fn parse_address(text: &str) -> Result<SocketAddr, String> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let mut found = text.to_socket_addrs().map_err(|error| format!("expected ADDR:PORT: {error}"))?;
    found.next().ok_or_else(|| "the name has no address".to_owned())
}

fn parse_duration(text: &str) -> Result<Duration, String> {
    let duration = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    if duration.is_zero() { Err("must be longer than zero".to_owned()) } else { Ok(duration) }
}

fn parse_interval(text: &str) -> Result<Duration, String> {
    let interval = parse_duration(text)?;
    if interval < SHORTEST_INTERVAL { Err("must be 100ms or longer".to_owned()) } else { Ok(interval) }
}

fn parse_rate(text: &str) -> Result<f64, String> {
    let rate: f64 = text.parse().map_err(|_| "expected a number".to_owned())?;
    if rate.is_finite() && (0.001..=10_000_000.0).contains(&rate) {
        Ok(rate)
    } else {
        Err("must be between 0.001 and 10000000 connections per second".to_owned())
    }
}

fn parse_path(text: &str) -> Result<String, String> {
    if text.starts_with('/') && text.bytes().all(|byte| byte.is_ascii_graphic()) {
        Ok(text.to_owned())
    } else {
        Err("must begin with / and contain neither spaces nor control characters".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expect_names_and_numbers_when_an_address_is_parsed() {
        assert_eq!(parse_address("127.0.0.1:80").unwrap(), "127.0.0.1:80".parse().unwrap());
        assert_eq!(parse_address("[::1]:80").unwrap(), "[::1]:80".parse().unwrap());
        assert!(parse_address("localhost:80").unwrap().ip().is_loopback());
        assert!(parse_address("127.0.0.1").is_err());
    }

    #[test]
    fn expect_refusal_when_a_rate_or_duration_is_senseless() {
        for text in ["0", "-1", "nan", "inf", "fast"] {
            assert!(parse_rate(text).is_err(), "{text}");
        }
        assert!(parse_duration("0s").is_err());
        assert!(parse_interval("99ms").is_err() && parse_interval("100ms").is_ok());
        assert!(parse_path("index.html").is_err());
        assert!(parse_path("/a b").is_err());
    }
}
