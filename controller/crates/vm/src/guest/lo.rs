//! Brings up the loopback interface by `rtnetlink(7)`; it then has its addresses by itself.

use std::io;

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketType, netlink::SocketAddrNetlink, recv, sendto, socket,
};

/// `RTM_NEWLINK` and `NLMSG_ERROR`, which is also what says that all is well.
const NEW_LINK: u16 = 16;
const ERROR: u16 = 2;
/// `NLM_F_REQUEST | NLM_F_ACK`.
const REQUEST_WITH_ANSWER: u16 = 1 | 4;
/// `IFF_UP`.
const UP: u32 = 1;
/// The loopback interface is the first of every network namespace.
const INDEX: u32 = 1;

/// Brings it up.
///
/// # Errors
/// What the kernel says.
pub(super) fn up() -> io::Result<()> {
    let socket = socket(AddressFamily::NETLINK, SocketType::RAW, None)?;
    sendto(&socket, &request(), SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
    let mut answer = [0_u8; 256];
    let (length, _) = recv(&socket, &mut answer, RecvFlags::empty())?;
    let number = answer.get(..length).and_then(verdict);
    match number {
        Some(0) => Ok(()),
        Some(number) => Err(io::Error::from_raw_os_error(-number)),
        None => Err(io::Error::new(io::ErrorKind::InvalidData, "the kernel's answer is not understood")),
    }
}

/// A `nlmsghdr` and an `ifinfomsg`.
fn request() -> Vec<u8> {
    let mut body = vec![0; 4];
    for number in [INDEX, UP, UP] {
        body.extend(number.to_ne_bytes());
    }
    let mut bytes = Vec::new();
    bytes.extend(32_u32.to_ne_bytes());
    bytes.extend(NEW_LINK.to_ne_bytes());
    bytes.extend(REQUEST_WITH_ANSWER.to_ne_bytes());
    bytes.extend(1_u32.to_ne_bytes());
    bytes.extend(0_u32.to_ne_bytes());
    bytes.extend(body);
    bytes
}

/// The error number, negative or 0, in the kernel's answer.
fn verdict(answer: &[u8]) -> Option<i32> {
    let kind = u16::from_ne_bytes(answer.get(4..6)?.try_into().ok()?);
    let number = i32::from_ne_bytes(answer.get(16..20)?.try_into().ok()?);
    (kind == ERROR).then_some(number)
}
