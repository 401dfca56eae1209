//! A socket option that rustix does not offer. Used by the client when it spreads over source addresses.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Lets `bind` to an address leave the choice of the port to `connect`, which then needs the four-tuple, not the local
/// port, to be unique (`IP_BIND_ADDRESS_NO_PORT`, ip(7)). Without it each source address gives its ports only once.
pub(crate) fn choose_port_at_connect(socket: impl AsFd) -> io::Result<()> {
    let on: libc::c_int = 1;
    let size = libc::socklen_t::try_from(size_of_val(&on)).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: points to an int of the given size that outlives the call.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_IP,
            libc::IP_BIND_ADDRESS_NO_PORT,
            (&raw const on).cast(),
            size,
        )
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
