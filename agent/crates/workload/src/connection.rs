//! One connection of the client: a state machine over a socket that never blocks.
//!
//! Written for few system calls. On loopback the handshake is over when `connect` returns, so the request is sent, or
//! the connection is found established, without waiting for an event first; epoll hears of a connection once, when it
//! is first waited for, and forgets it when the socket is closed.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, connect, recv, send, socket_with,
};

use crate::args::CloseMode;
use crate::failure::Failure;
use crate::response::{Finished, Progress, ResponseReader};
use crate::sys::choose_port_at_connect;

/// What every connection of a run does.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    target: SocketAddr,
    sources: Vec<Ipv4Addr>,
    mode: CloseMode,
    calls: u32,
    request: Vec<u8>,
    last_request: Vec<u8>,
}

impl Script {
    /// Connections to `target`, from `sources` in turn (the kernel's choice if empty), with `calls` HTTP requests for
    /// `path` each.
    pub(crate) fn new(
        target: SocketAddr,
        sources: Vec<Ipv4Addr>,
        mode: CloseMode,
        calls: u32,
        path: &str,
    ) -> Self {
        let request =
            |extra: &str| format!("GET {path} HTTP/1.1\r\nHost: {target}\r\n{extra}\r\n").into_bytes();
        // A server keeps HTTP/1.1 connections; to see its end of file, the client has to ask it to close.
        let last_request = request(if mode == CloseMode::Wait { "Connection: close\r\n" } else { "" });
        Self { target, sources, mode, calls, request: request(""), last_request }
    }
}

/// What a connection waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interest {
    /// To be connected, or for room to send.
    Write,
    /// For data or the end of the connection.
    Read,
}

/// What an event said.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Readiness {
    /// The server has closed its side, after all data that can be read now.
    pub ended: bool,
}

/// How far a connection has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Advance {
    /// It waits.
    Wait(Interest),
    /// It has done all it should.
    Done,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The handshake is under way.
    Connecting,
    /// So many bytes of the current request are still to be sent.
    Sending { left: usize },
    /// A response is being received.
    Receiving,
    /// The server's end of file is awaited.
    Ending,
}

/// A connection under way. Closed on drop.
#[derive(Debug)]
pub(crate) struct Connection {
    socket: OwnedFd,
    step: Step,
    /// Calls not yet answered.
    calls_left: u32,
    response: ResponseReader,
}

impl Connection {
    /// Starts connection number `index` and drives it as far as it goes without waiting.
    pub(crate) fn open(script: &Script, index: u64) -> Result<(Self, Advance), Failure> {
        let family = if script.target.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(family, SocketType::STREAM, flags, None)?;
        let sources = u64::try_from(script.sources.len()).unwrap_or(0);
        if let Some(turn) = index.checked_rem(sources)
            && let Some(source) = usize::try_from(turn).ok().and_then(|turn| script.sources.get(turn))
        {
            choose_port_at_connect(&socket)
                .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::INVAL))?;
            bind(&socket, &SocketAddrV4::new(*source, 0))?;
        }
        let connected = match connect(&socket, &script.target) {
            Ok(()) => true,
            Err(Errno::INPROGRESS) => false,
            Err(error) => return Err(error.into()),
        };
        let step = if script.calls > 0 {
            Step::Sending { left: script.request_for(script.calls).len() }
        } else if script.mode == CloseMode::Wait {
            Step::Ending
        } else {
            Step::Connecting
        };
        let mut connection = Self { socket, step, calls_left: script.calls, response: ResponseReader::new() };
        let advance = match step {
            Step::Connecting if connected => Advance::Done,
            Step::Connecting => connection.check_connected(script)?,
            Step::Sending { left } => connection.send(script, left)?,
            // Reports a failed handshake as well, as an event.
            Step::Receiving | Step::Ending => Advance::Wait(Interest::Read),
        };
        Ok((connection, advance))
    }

    /// Goes on after an event. `buffer` is scratch; `calls` counts the calls answered with 200.
    pub(crate) fn advance(
        &mut self,
        script: &Script,
        readiness: Readiness,
        buffer: &mut [u8],
        calls: &mut u64,
    ) -> Result<Advance, Failure> {
        match self.step {
            Step::Connecting => self.check_connected(script),
            Step::Sending { left } => self.send(script, left),
            Step::Receiving | Step::Ending => self.receive(script, readiness, buffer, calls),
        }
    }

    /// A second `connect` tells whether the first has come to an end, and how.
    fn check_connected(&self, script: &Script) -> Result<Advance, Failure> {
        match connect(&self.socket, &script.target) {
            Ok(()) | Err(Errno::ISCONN) => Ok(Advance::Done),
            Err(Errno::ALREADY | Errno::INPROGRESS) => Ok(Advance::Wait(Interest::Write)),
            Err(error) => Err(error.into()),
        }
    }

    /// Sends what is left of the current request. During the handshake this fails with `AGAIN`; after a failed one
    /// with its error.
    fn send(&mut self, script: &Script, left: usize) -> Result<Advance, Failure> {
        let request = script.request_for(self.calls_left);
        let rest = request.get(request.len().saturating_sub(left)..).unwrap_or_default();
        match send(&self.socket, rest, SendFlags::NOSIGNAL) {
            Ok(sent) if sent < rest.len() => self.step = Step::Sending { left: rest.len() - sent },
            Ok(_) => {
                self.step = Step::Receiving;
                return Ok(Advance::Wait(Interest::Read));
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(Advance::Wait(Interest::Write))
    }

    fn receive(
        &mut self,
        script: &Script,
        readiness: Readiness,
        buffer: &mut [u8],
        calls: &mut u64,
    ) -> Result<Advance, Failure> {
        loop {
            let room = buffer.len();
            let count = match recv(&self.socket, &mut *buffer, RecvFlags::empty()) {
                Ok((0, _)) => return self.at_end(calls),
                Ok((count, _)) => count,
                Err(Errno::AGAIN) => return Ok(Advance::Wait(Interest::Read)),
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            };
            if self.step == Step::Receiving {
                match self.response.feed(buffer.get(..count).unwrap_or_default()) {
                    Progress::Partial => {}
                    Progress::Malformed => return Err(Failure::NotHttp),
                    Progress::Complete(finished) => {
                        self.count_call(finished, calls)?;
                        if self.calls_left > 0 {
                            return self.send(script, script.request_for(self.calls_left).len());
                        }
                        if script.mode == CloseMode::Close {
                            return Ok(Advance::Done);
                        }
                        self.step = Step::Ending;
                    }
                }
            }
            // A short read has emptied the socket: what comes later is a new event, and an end that was announced
            // with the data need not be read to be known.
            if count < room {
                if readiness.ended {
                    return self.at_end(calls);
                }
                return Ok(Advance::Wait(Interest::Read));
            }
        }
    }

    fn at_end(&mut self, calls: &mut u64) -> Result<Advance, Failure> {
        if self.step == Step::Ending {
            return Ok(Advance::Done);
        }
        match self.response.end() {
            Progress::Complete(finished) => self.count_call(finished, calls)?,
            Progress::Partial | Progress::Malformed => return Err(Failure::EarlyEnd),
        }
        if self.calls_left == 0 { Ok(Advance::Done) } else { Err(Failure::EarlyEnd) }
    }

    fn count_call(&mut self, finished: Finished, calls: &mut u64) -> Result<(), Failure> {
        if finished.status != 200 {
            return Err(Failure::Status(finished.status));
        }
        *calls += 1;
        self.calls_left -= 1;
        Ok(())
    }
}

impl Script {
    /// The request to send when so many calls are left.
    fn request_for(&self, calls_left: u32) -> &[u8] {
        if calls_left <= 1 { &self.last_request } else { &self.request }
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
