//! TCP connections to sshd.

use std::{
    io,
    net::{IpAddr, TcpStream, ToSocketAddrs},
    os::fd::OwnedFd,
    time::{Duration, Instant},
};

use rustix::net::sockopt::set_tcp_user_timeout;

use super::{SshError, route::Hop};

/// Time without acknowledgement of what was sent, in milliseconds, after which the kernel gives a connection up.
const UNACKNOWLEDGED_MS: u32 = 18_000;

/// Connects to the host's sshd, to the first of its addresses that answers. The socket does not block.
pub(super) fn dial(hop: &Hop) -> Result<(OwnedFd, IpAddr), SshError> {
    let deadline = Instant::now() + hop.connect_timeout;
    let unresolved =
        |source| SshError::Resolve { host: hop.name.clone(), address: hop.address.clone(), source };
    let addresses: Vec<_> = (hop.address.as_str(), hop.port).to_socket_addrs().map_err(unresolved)?.collect();
    let mut failed = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for (index, address) in addresses.iter().enumerate() {
        let left = deadline.saturating_duration_since(Instant::now());
        let parts = u32::try_from(addresses.len() - index).unwrap_or(u32::MAX);
        let limit = (left / parts).max(Duration::from_millis(1));
        match TcpStream::connect_timeout(address, limit).and_then(prepare) {
            Ok(stream) => return Ok((stream.into(), address.ip())),
            Err(error) => failed = error,
        }
    }
    Err(SshError::Dial {
        host: hop.name.clone(),
        address: hop.address.clone(),
        port: hop.port,
        source: failed,
    })
}

fn prepare(stream: TcpStream) -> io::Result<TcpStream> {
    stream.set_nodelay(true)?;
    set_tcp_user_timeout(&stream, UNACKNOWLEDGED_MS)?;
    stream.set_nonblocking(true)?;
    Ok(stream)
}
