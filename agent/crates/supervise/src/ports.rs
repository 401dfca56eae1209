//! TCP ports: are they free, who holds them, and which ones to give to a task. Used by the agent before a start, after an
//! end, and to reserve ports for a role.

use std::io;

/// Who listens on a port.
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
    /// Nothing but connections in TIME_WAIT: free for a server that sets `SO_REUSEADDR`, as all here do.
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
/// # Errors
///
/// When no socket can be made, or the port may not be bound (below 1024 without privilege).
pub fn state_of(port: u16) -> Result<PortState, PortError> {
    let _ = port;
    unimplemented!()
}

/// Checks that a server can listen on each of the ports; one with nothing but TIME_WAIT connections counts as free.
///
/// # Errors
///
/// The first port that is taken.
pub fn check_free(ports: &[u16]) -> Result<(), PortError> {
    let _ = ports;
    unimplemented!()
}

/// The process that listens on a port, if this process may see it.
#[must_use]
pub fn holder_of(port: u16) -> Option<Holder> {
    let _ = port;
    unimplemented!()
}

/// Gives out TCP ports that are free, outside of the range from which the kernel takes ports for outgoing connections, and
/// never one twice before it is given back.
#[derive(Debug)]
pub struct PortPool {}

impl PortPool {
    /// A pool that starts its walk at a place that depends on `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let _ = seed;
        unimplemented!()
    }

    /// Reserves `count` free ports. Walks forward, so that a port is used again as late as possible.
    ///
    /// # Errors
    ///
    /// When there are not that many.
    pub fn reserve(&mut self, count: usize) -> Result<Vec<u16>, PortError> {
        let _ = count;
        unimplemented!()
    }

    /// Gives ports back.
    pub fn release(&mut self, ports: &[u16]) {
        let _ = ports;
        unimplemented!()
    }
}
