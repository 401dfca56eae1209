//! Moves the bytes between a channel and a local socket, until either side ends.
//!
//! Waits in poll(2) on the session's socket and the local one; wakes without traffic only to ask a silent host whether
//! it is there. A host that does not answer is given up after [`ASK_AFTER`] and [`ANSWER_LIMIT`], together 18 s.

use std::{
    io::{self, ErrorKind, Read, Write},
    os::unix::net::UnixStream,
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, poll},
    io::Errno,
};
use ssh2::Channel;

use super::{
    exec::CHUNK,
    wire::{Step, Wire, timespec},
};

/// Silence after which the host is asked whether it is there.
const ASK_AFTER: Duration = Duration::from_secs(8);
/// Time for its answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);

/// Bytes that are held in each direction.
const BUFFER: usize = 2 * CHUNK;

/// A channel and the local socket it is joined with.
pub(super) struct Pump {
    wire: Wire,
    channel: Channel,
    local: UnixStream,
    /// To the host.
    up: Buffer,
    /// From the host.
    down: Buffer,
    heard: Instant,
    asked: Option<Instant>,
}

/// Bytes under way; refilled only when empty, because a write that libssh2 did not finish has to be repeated as it was.
struct Buffer {
    bytes: Vec<u8>,
    from: usize,
    to: usize,
    /// Nothing comes after them.
    ended: bool,
}

impl Buffer {
    fn new() -> Self {
        Self { bytes: vec![0; BUFFER], from: 0, to: 0, ended: false }
    }

    fn is_empty(&self) -> bool {
        self.from == self.to
    }

    fn is_over(&self) -> bool {
        self.ended && self.is_empty()
    }

    fn wants_more(&self) -> bool {
        self.is_empty() && !self.ended
    }

    fn pending(&self) -> &[u8] {
        self.bytes.get(self.from..self.to).unwrap_or_default()
    }

    fn filled(&mut self, count: usize) {
        (self.from, self.to) = (0, count);
        self.ended = count == 0;
    }
}

impl Pump {
    /// Joins `channel`, from which `first` was read already, with `local`, which must not block.
    pub(super) fn new(wire: Wire, channel: Channel, local: UnixStream, first: &[u8]) -> Self {
        let (up, mut down) = (Buffer::new(), Buffer::new());
        let first = first.get(..BUFFER).unwrap_or(first);
        for (to, byte) in down.bytes.iter_mut().zip(first) {
            *to = *byte;
        }
        down.to = first.len();
        wire.session().set_keepalive(true, 2);
        Self { wire, channel, local, up, down, heard: Instant::now(), asked: None }
    }

    /// Moves bytes until either side has ended or the session fails, then ends both.
    pub(super) fn run(mut self) {
        let host = self.wire.host().to_owned();
        match self.until_the_end() {
            Ok(()) => tracing::debug!("{host}: the connection is over"),
            Err(error) => tracing::warn!("{host}: the ssh session failed: {error}"),
        }
        // Before the session, so that nobody waits for its goodbye.
        drop(self.local);
        self.wire.end(self.channel);
    }

    fn until_the_end(&mut self) -> io::Result<()> {
        loop {
            let moved = self.read_host()? | self.write_local()? | self.read_local()? | self.write_host()?;
            if self.up.is_over() || self.down.is_over() {
                return Ok(());
            }
            if !moved {
                self.wait()?;
            }
        }
    }

    fn read_host(&mut self) -> io::Result<bool> {
        if !self.down.wants_more() {
            return Ok(false);
        }
        let (channel, bytes) = (&mut self.channel, &mut self.down.bytes);
        match self.wire.step(Step::Read, || channel.read(bytes)) {
            Some(Ok(0)) if !self.channel.eof() => Ok(false),
            Some(Ok(count)) => {
                self.down.filled(count);
                Ok(true)
            }
            Some(Err(error)) => Err(error),
            None => Ok(false),
        }
    }

    fn write_local(&mut self) -> io::Result<bool> {
        if self.down.is_empty() {
            return Ok(false);
        }
        match self.local.write(self.down.pending()) {
            Ok(count) => {
                self.down.from += count;
                Ok(true)
            }
            Err(error) if is_temporary(&error) => Ok(false),
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                self.up.ended = true;
                self.down.filled(0);
                Ok(true)
            }
            Err(error) => Err(error),
        }
    }

    fn read_local(&mut self) -> io::Result<bool> {
        if !self.up.wants_more() {
            return Ok(false);
        }
        match self.local.read(&mut self.up.bytes) {
            Ok(count) => {
                self.up.filled(count);
                Ok(true)
            }
            Err(error) if is_temporary(&error) => Ok(false),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => {
                self.up.filled(0);
                Ok(true)
            }
            Err(error) => Err(error),
        }
    }

    fn write_host(&mut self) -> io::Result<bool> {
        if self.up.is_empty() {
            return Ok(false);
        }
        let (channel, up) = (&mut self.channel, &self.up);
        match self.wire.step(Step::Write, || channel.write(up.pending())) {
            Some(Ok(count)) => {
                self.up.from += count;
                Ok(count > 0)
            }
            Some(Err(error)) => Err(error),
            None => Ok(false),
        }
    }

    /// Waits until something can be moved; asks the host whether it is there when it says nothing.
    fn wait(&mut self) -> io::Result<()> {
        // A stopped write waits for the host's window or for the socket.
        let sending = self.wire.unfinished().is_some();
        let listening = self.down.wants_more() || !self.up.is_empty();
        let now = Instant::now();
        if sending || !listening {
            // Nothing is heard while a packet is to be finished (then the kernel counts the time), and while whoever is
            // here does not take what came.
            (self.heard, self.asked) = (now, None);
        }
        let from_socket = match (sending, listening) {
            (true, _) => PollFlags::OUT,
            (false, true) => PollFlags::IN,
            (false, false) => PollFlags::empty(),
        };
        let mut from_local = PollFlags::empty();
        from_local.set(PollFlags::IN, self.up.wants_more());
        from_local.set(PollFlags::OUT, !self.down.is_empty());
        let next = self.asked.map_or(self.heard + ASK_AFTER, |asked| asked + ANSWER_LIMIT);
        let socket = self.wire.socket();
        let mut polled =
            [PollFd::from_borrowed_fd(socket, from_socket), PollFd::new(&self.local, from_local)];
        match poll(&mut polled, Some(&timespec(next.saturating_duration_since(now)))) {
            Ok(0) => {}
            Err(Errno::INTR) => return Ok(()),
            Err(error) => return Err(error.into()),
            Ok(_) => {
                let [socket, local] = polled.map(|polled| polled.revents());
                if socket.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) {
                    (self.heard, self.asked) = (Instant::now(), None);
                }
                // The peer is gone while we only wanted to write: reading tells so.
                if local.intersects(PollFlags::HUP | PollFlags::ERR)
                    && !self.up.ended
                    && from_local.is_empty()
                {
                    self.up.filled(0);
                }
                return Ok(());
            }
        }
        if self.asked.is_some_and(|asked| asked.elapsed() >= ANSWER_LIMIT) {
            let waited = (ASK_AFTER + ANSWER_LIMIT).as_secs();
            return Err(io::Error::new(ErrorKind::TimedOut, format!("the host says nothing for {waited} s")));
        }
        if self.asked.is_none() && self.heard.elapsed() >= ASK_AFTER {
            self.asked = Some(Instant::now());
            if self.can_send()? {
                self.wire.session().keepalive_send()?;
            }
        }
        Ok(())
    }

    /// Whether the socket has room for a small packet. A keepalive that is sent in part could not be finished: libssh2
    /// wants the same call repeated, and does not repeat this one.
    fn can_send(&self) -> io::Result<bool> {
        let mut polled = [PollFd::from_borrowed_fd(self.wire.socket(), PollFlags::OUT)];
        let ready = poll(&mut polled, Some(&rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 }))?;
        Ok(ready > 0)
    }
}

fn is_temporary(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}
