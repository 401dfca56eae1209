//! TCP ports: are they free, who holds them, and which ones to give to a task. Used by the agent before a start, after an
//! end, and to reserve ports for a role.

mod net;
mod pool;

use std::{
    io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    os::fd::OwnedFd,
};

use net::{Socket, State};
pub use pool::PortPool;
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

/// Who has a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Process id.
    pub pid: u32,
    /// Command name.
    pub comm: String,
}

/// What holds a port back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PortState {
    /// A server can listen on it.
    Free,
    /// Nothing but connections that no process has any more, most of them in TIME_WAIT. They go away by themselves; a server cannot listen
    /// until then if the previous one did not set `SO_REUSEADDR`.
    TimeWait,
    /// Taken, by this process if it could be found out.
    Taken(Option<Holder>),
}

/// A port that is needed is not free, or could not be checked.
#[derive(Debug, thiserror::Error)]
pub enum PortError {
    /// Another process has it.
    #[error("port {port} is taken{}", by(holder.as_ref()))]
    Taken {
        /// Which port.
        port: u16,
        /// By whom, if known.
        holder: Option<Holder>,
    },
    /// Not enough free ports.
    #[error("no {asked} free TCP ports outside of the kernel's own range")]
    Exhausted {
        /// How many were asked for.
        asked: usize,
    },
    /// It could not be checked.
    #[error("cannot check port {port}")]
    System {
        /// Which port.
        port: u16,
        /// Why.
        source: io::Error,
    },
}

fn by(holder: Option<&Holder>) -> String {
    holder.map_or_else(String::new, |h| format!(" by process {} ({})", h.pid, h.comm))
}

/// What is going on at a TCP port, on any address of IPv4 and IPv6.
///
/// Decided by binding a socket with `SO_REUSEADDR`, as servers do, without listening; the kernel's tables are read only if that fails.
///
/// # Errors
///
/// When no socket can be made, or the port may not be bound (below 1024 without privilege).
pub fn state_of(port: u16) -> Result<PortState, PortError> {
    let system = |source| PortError::System { port, source };
    if try_bind(port).map_err(system)? {
        return Ok(PortState::Free);
    }
    let sockets = net::sockets_at(port).map_err(system)?;
    if sockets.iter().any(Socket::is_held) {
        return Ok(PortState::Taken(holder_among(&sockets)));
    }
    if !sockets.is_empty() {
        return Ok(PortState::TimeWait);
    }
    // Either it was given up between the two looks, or a process has bound it without listening yet, which no table shows.
    Ok(if try_bind(port).map_err(system)? { PortState::Free } else { PortState::Taken(None) })
}

/// Checks that a server can listen on each of the ports; one with nothing but TIME_WAIT connections counts as free.
///
/// # Errors
///
/// The first port that is taken.
pub fn check_free(ports: &[u16]) -> Result<(), PortError> {
    for &port in ports {
        if let PortState::Taken(holder) = state_of(port)? {
            return Err(PortError::Taken { port, holder });
        }
    }
    Ok(())
}

/// The process that listens on a port, or else has a connection there, if this process may see it.
#[must_use]
pub fn holder_of(port: u16) -> Option<Holder> {
    holder_among(&net::sockets_at(port).ok()?)
}

fn holder_among(sockets: &[Socket]) -> Option<Holder> {
    let listening = sockets.iter().filter(|socket| socket.state == State::Listen);
    let others = sockets.iter().filter(|socket| socket.state != State::Listen && socket.is_held());
    net::owner_of(&listening.chain(others).map(|socket| socket.inode).collect::<Vec<_>>())
}

/// Whether the wildcard address of both families can be bound; `false` if it is in use.
fn try_bind(port: u16) -> io::Result<bool> {
    match bind((Ipv6Addr::UNSPECIFIED, port).into()) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => Ok(false),
        // A host without IPv6.
        Err(error)
            if matches!(
                error.raw_os_error(),
                Some(libc::EAFNOSUPPORT | libc::EADDRNOTAVAIL | libc::EPROTONOSUPPORT)
            ) =>
        {
            match bind((Ipv4Addr::UNSPECIFIED, port).into()) {
                Ok(_) => Ok(true),
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => Ok(false),
                Err(error) => Err(error),
            }
        }
        Err(error) => Err(error),
    }
}

fn bind(address: SocketAddr) -> io::Result<OwnedFd> {
    let family = if address.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
    let socket = rustix::net::socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, false)?;
    }
    rustix::net::bind(&socket, &address)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use std::{
        io::Read,
        net::{TcpListener, TcpStream},
    };

    use super::*;

    #[test]
    fn expect_taken_by_this_process_when_it_listens_on_any_address() {
        for address in ["127.0.0.1:0", "127.0.0.9:0", "0.0.0.0:0", "[::1]:0"] {
            let listener = TcpListener::bind(address).unwrap();
            let port = listener.local_addr().unwrap().port();
            let PortState::Taken(Some(holder)) = state_of(port).unwrap() else { panic!("{address}") };
            assert_eq!(holder.pid, std::process::id());
            assert_eq!(holder_of(port), Some(holder.clone()));
            let message = check_free(&[port]).unwrap_err().to_string();
            assert_eq!(message, format!("port {port} is taken by process {} ({})", holder.pid, holder.comm));
        }
    }

    /// A bound socket on a port of the kernel's choice: one that was chosen before could be waiting from earlier use.
    fn bound() -> (OwnedFd, u16) {
        let kind = SocketType::STREAM;
        let socket = rustix::net::socket_with(AddressFamily::INET, kind, SocketFlags::CLOEXEC, None).unwrap();
        rustix::net::bind(&socket, &SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
        let port = SocketAddr::try_from(rustix::net::getsockname(&socket).unwrap()).unwrap().port();
        (socket, port)
    }

    #[test]
    fn expect_taken_when_a_socket_is_bound_and_does_not_listen() {
        let (socket, port) = bound();
        assert_eq!(state_of(port).unwrap(), PortState::Taken(None));
        drop(socket);
        assert_eq!(state_of(port).unwrap(), PortState::Free);
    }

    #[test]
    fn expect_free_when_only_time_wait_connections_are_left() {
        // Without SO_REUSEADDR on the listener's side, binding alone would call the port taken.
        let (socket, port) = bound();
        rustix::net::listen(&socket, 8).unwrap();
        let listener = TcpListener::from(socket);
        let mut client = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
        // The side that closes first keeps the connection in TIME_WAIT.
        drop(listener.accept().unwrap());
        drop(listener);
        assert_eq!(client.read(&mut [0]).unwrap(), 0);
        drop(client);
        let state = state_of(port).unwrap();
        assert_eq!(state, PortState::TimeWait);
        check_free(&[port]).unwrap();
    }
}
