//! Listening sockets of the server.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, getsockname, listen, socket_with, sockopt};

/// Why the server cannot listen.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ListenError {
    /// Another socket listens there.
    #[error(
        "cannot listen on {0}: the port is taken; stop the process that has it (`ss -ltnp` names it) or choose another port"
    )]
    Taken(SocketAddr),
    /// The address is not one of this machine.
    #[error("cannot listen on {0}: this machine has no such address; choose one that `ip addr` shows")]
    NotHere(SocketAddr),
    /// Ports below 1024 are reserved.
    #[error("cannot listen on {0}: not permitted; choose a port above 1023 or run with CAP_NET_BIND_SERVICE")]
    Forbidden(SocketAddr),
    /// Anything else.
    #[error("cannot listen on {address}")]
    Other {
        /// Where.
        address: SocketAddr,
        #[source]
        source: io::Error,
    },
}

/// How a socket is going to be used.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SocketUse {
    /// Several sockets share the port (`SO_REUSEPORT`).
    pub shared_port: bool,
    /// `accept()` does not block, because epoll does.
    pub non_blocking: bool,
}

/// Opens a listening socket.
pub(crate) fn open(address: SocketAddr, backlog: u32, usage: SocketUse) -> Result<OwnedFd, ListenError> {
    try_open(address, backlog, usage).map_err(|error| match error {
        Errno::ADDRINUSE => ListenError::Taken(address),
        Errno::ADDRNOTAVAIL => ListenError::NotHere(address),
        Errno::ACCESS => ListenError::Forbidden(address),
        error => ListenError::Other { address, source: error.into() },
    })
}

fn try_open(address: SocketAddr, backlog: u32, usage: SocketUse) -> Result<OwnedFd, Errno> {
    let mut flags = SocketFlags::CLOEXEC;
    if usage.non_blocking {
        flags |= SocketFlags::NONBLOCK;
    }
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket_with(family, SocketType::STREAM, flags, None)?;
    // The server closes first, so connections of an earlier trial may linger on the port in TIME_WAIT.
    sockopt::set_socket_reuseaddr(&socket, true)?;
    if usage.shared_port {
        sockopt::set_socket_reuseport(&socket, true)?;
    }
    bind(&socket, &address)?;
    listen(&socket, i32::try_from(backlog).unwrap_or(i32::MAX))?;
    Ok(socket)
}

/// Checks that nobody listens on the port yet. Sockets with `SO_REUSEPORT` would join those of another server of the
/// same user without an error, and share its connections.
pub(crate) fn check_free(address: SocketAddr) -> Result<(), ListenError> {
    open(address, 1, SocketUse::default()).map(drop)
}

/// The address a socket is bound to: tells the port when 0 was asked for.
pub(crate) fn address_of(socket: &OwnedFd, asked: SocketAddr) -> Result<SocketAddr, ListenError> {
    let name =
        getsockname(socket).map_err(|error| ListenError::Other { address: asked, source: error.into() })?;
    SocketAddr::try_from(name).map_err(|error| ListenError::Other { address: asked, source: error.into() })
}

/// The backlog the kernel grants: `listen()` silently cuts it to `net.core.somaxconn`.
pub(crate) fn granted_backlog(asked: u32) -> u32 {
    let limit =
        fs::read_to_string("/proc/sys/net/core/somaxconn").ok().and_then(|text| text.trim().parse().ok());
    limit.map_or(asked, |limit: u32| asked.min(limit))
}
