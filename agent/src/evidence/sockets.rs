//! Listen queues, and how many sockets are in which state, from `/proc/net`.

use std::{
    collections::BTreeMap,
    fmt::Write,
    fs::File,
    io::{BufRead, BufReader},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
};

use super::Bundle;

/// Most sockets read of one table: a million in TIME_WAIT would take seconds.
const MAX_SOCKETS: usize = 200_000;
/// Most listeners shown.
const MAX_LISTENERS: usize = 500;
/// State of a listening socket, and names of all (`include/net/tcp_states.h`).
const LISTEN: u8 = 10;
const STATES: [&str; 13] = [
    "?",
    "ESTABLISHED",
    "SYN_SENT",
    "SYN_RECV",
    "FIN_WAIT1",
    "FIN_WAIT2",
    "TIME_WAIT",
    "CLOSE",
    "CLOSE_WAIT",
    "LAST_ACK",
    "LISTEN",
    "CLOSING",
    "NEW_SYN_RECV",
];

pub(super) fn collect(bundle: &mut Bundle) {
    let mut counts: BTreeMap<u8, u64> = BTreeMap::new();
    let mut listeners = Vec::new();
    for path in ["/proc/net/tcp", "/proc/net/tcp6"] {
        let file = match File::open(path) {
            Ok(file) => file,
            // A kernel without IPv6.
            Err(_) if path.ends_with('6') => continue,
            Err(error) => {
                bundle.missing(format!("{path}: {error}"));
                continue;
            }
        };
        let mut read = 0;
        for line in BufReader::new(file).lines().map_while(Result::ok).take(MAX_SOCKETS) {
            read += 1;
            let Some(socket) = parse(&line) else { continue };
            *counts.entry(socket.state).or_default() += 1;
            if socket.state == LISTEN && listeners.len() < MAX_LISTENERS {
                listeners.push(socket);
            }
        }
        if read == MAX_SOCKETS {
            bundle.missing(format!("{path}: sockets after the first {MAX_SOCKETS}"));
        }
    }
    let mut text = String::new();
    for (state, count) in counts {
        let name = STATES.get(usize::from(state)).unwrap_or(&"?");
        let _ = writeln!(text, "{count:>8} {name}");
    }
    bundle.section("TCP sockets by state", &text, 8 << 10, false);
    let mut text = String::from("waiting to be accepted, address\n");
    for socket in listeners {
        let _ = writeln!(text, "{:>8} {}", socket.receive, socket.local);
    }
    bundle.section("TCP listeners", &text, 64 << 10, false);
    for path in ["/proc/net/sockstat", "/proc/net/sockstat6"] {
        if let Ok(text) = std::fs::read_to_string(path) {
            bundle.section(path, &text, 8 << 10, false);
        }
    }
}

/// A line of a table.
#[derive(Debug, PartialEq, Eq)]
struct Socket {
    local: SocketAddr,
    state: u8,
    /// Of a listener: connections that wait to be accepted.
    receive: u64,
}

/// `sl local_address rem_address st tx_queue:rx_queue ...`, all numbers hexadecimal (`proc_pid_net(5)`).
fn parse(line: &str) -> Option<Socket> {
    let mut fields = line.split_ascii_whitespace().skip(1);
    let local = address(fields.next()?)?;
    let state = u8::from_str_radix(fields.nth(1)?, 16).ok()?;
    let (_, receive) = fields.next()?.split_once(':')?;
    Some(Socket { local, state, receive: u64::from_str_radix(receive, 16).ok()? })
}

/// The address as words of 32 bits in the byte order of the machine, each in network order in memory.
fn address(text: &str) -> Option<SocketAddr> {
    let (host, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |at: usize| {
        let word = u32::from_str_radix(host.get(at..at + 8)?, 16).ok()?;
        Some(word.to_ne_bytes())
    };
    let ip: IpAddr = match host.len() {
        8 => Ipv4Addr::from(word(0)?).into(),
        32 => {
            let mut octets = [0; 16];
            for (index, part) in octets.chunks_exact_mut(4).enumerate() {
                part.copy_from_slice(&word(index * 8)?);
            }
            Ipv6Addr::from(octets).into()
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

#[cfg(test)]
#[cfg(target_endian = "little")]
mod tests {
    use super::*;

    #[test]
    fn expect_address_state_and_queue_when_a_line_is_read() {
        let line =
            "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000003 00:00000000 00000000     0        0 8";
        let local = "127.0.0.1:8080".parse().unwrap();
        assert_eq!(parse(line), Some(Socket { local, state: LISTEN, receive: 3 }));
        let line = "   1: 00000000000000000000000001000000:0050 00000000000000000000000000000000:0000 06 0:0";
        let local = "[::1]:80".parse().unwrap();
        assert_eq!(parse(line), Some(Socket { local, state: 6, receive: 0 }));
        for line in [
            "",
            "  sl  local_address rem_address   st tx_queue rx_queue",
            "0: 01:1 2 3 4:5",
            "0: é007F:1 2 3 4:5",
        ] {
            assert_eq!(parse(line), None, "{line}");
        }
    }
}
