//! One ssh session and its socket, used by the thread that owns it. ssh2 never blocks here: what would block is tried
//! again when the socket is ready, until there is no more time or the connection is given up.

use std::{
    cell::Cell,
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};
use ssh2::{BlockDirections, Channel, Session};

use super::SshError;

/// A session, before it carries a stream.
pub(super) struct Wire {
    host: String,
    session: Session,
    /// The session's own socket is behind its back.
    socket: OwnedFd,
    /// Ends, or gets readable, when nobody wants the connection any more.
    given_up: OwnedFd,
    deadline: Cell<Instant>,
    limit: Cell<Duration>,
    /// What has to be finished before anything else may be sent.
    unfinished: Cell<Option<Step>>,
}

/// What may be under way on a channel.
///
/// libssh2 sends packet by packet. When the socket takes only a part of one, the call that sent it has to be repeated
/// before any other that sends something; reading sends, too (window adjustments, key exchanges).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Read,
    ReadError,
    Write,
    Eof,
}

impl Wire {
    /// A session over `socket`, which does not block. It has `limit` from now on.
    pub(super) fn new(
        host: &str,
        socket: OwnedFd,
        given_up: OwnedFd,
        limit: Duration,
    ) -> Result<Self, SshError> {
        let during = "begin";
        let fail = |source| SshError::Session { host: host.to_owned(), during, source };
        let mut session = Session::new().map_err(|error| fail(error.into()))?;
        session.set_tcp_stream(socket.try_clone().map_err(fail)?);
        session.set_blocking(false);
        Ok(Self {
            host: host.to_owned(),
            session,
            socket,
            given_up,
            deadline: Cell::new(Instant::now() + limit),
            limit: Cell::new(limit),
            unfinished: Cell::new(None),
        })
    }

    pub(super) fn host(&self) -> &str {
        &self.host
    }

    pub(super) fn session(&self) -> &Session {
        &self.session
    }

    pub(super) fn session_mut(&mut self) -> &mut Session {
        &mut self.session
    }

    pub(super) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// From now on there is this much time.
    pub(super) fn allow(&self, limit: Duration) {
        self.deadline.set(Instant::now() + limit);
        self.limit.set(limit);
    }

    pub(super) fn fails(&self, during: &'static str) -> impl Fn(io::Error) -> SshError {
        let host = self.host.clone();
        move |source| SshError::Session { host: host.clone(), during, source }
    }

    /// Repeats a call until it does not want to block any more.
    ///
    /// # Errors
    /// Those of the call; no more time; given up.
    pub(super) fn finish<T, E: Into<io::Error>>(
        &self,
        during: &'static str,
        mut call: impl FnMut() -> Result<T, E>,
    ) -> Result<T, SshError> {
        loop {
            match call().map_err(Into::into) {
                Ok(value) => return Ok(value),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.wait(during)?,
                Err(error) => return Err(self.fails(during)(error)),
            }
        }
    }

    /// Tries a step of the traffic on a channel; `None` if it would block, or has to wait for another one.
    pub(super) fn step<T, E: Into<io::Error>>(
        &self,
        step: Step,
        call: impl FnOnce() -> Result<T, E>,
    ) -> Option<io::Result<T>> {
        if self.unfinished.get().is_some_and(|unfinished| unfinished != step) {
            return None;
        }
        let result = call().map_err(Into::into);
        let blocked = matches!(&result, Err(error) if error.kind() == io::ErrorKind::WouldBlock);
        self.unfinished.set((blocked && self.wants_to_send()).then_some(step));
        (!blocked).then_some(result)
    }

    /// Whether something is sent in part.
    pub(super) fn unfinished(&self) -> Option<Step> {
        self.unfinished.get()
    }

    fn wants_to_send(&self) -> bool {
        matches!(self.session.block_directions(), BlockDirections::Outbound | BlockDirections::Both)
    }

    /// Waits until the socket is ready for what the session wants.
    pub(super) fn wait(&self, during: &'static str) -> Result<(), SshError> {
        let wanted = match self.session.block_directions() {
            // Nothing else can be done before that is sent.
            _ if self.unfinished.get().is_some() => PollFlags::OUT,
            BlockDirections::Outbound => PollFlags::OUT,
            BlockDirections::Both => PollFlags::IN | PollFlags::OUT,
            BlockDirections::Inbound | BlockDirections::None => PollFlags::IN,
        };
        self.wait_for(during, Some(wanted), self.deadline.get())?
            .then_some(())
            .ok_or_else(|| SshError::Slow { host: self.host.clone(), during, waited: self.limit.get() })
    }

    /// Lets time pass, unless there is not so much left.
    pub(super) fn pause(&self, during: &'static str, time: Duration) -> Result<(), SshError> {
        let until = (Instant::now() + time).min(self.deadline.get());
        self.wait_for(during, None, until).map(drop)
    }

    /// Whether the socket became ready before `until`.
    fn wait_for(
        &self,
        during: &'static str,
        wanted: Option<PollFlags>,
        until: Instant,
    ) -> Result<bool, SshError> {
        loop {
            let mut polled = [
                PollFd::new(&self.given_up, PollFlags::IN),
                PollFd::new(&self.socket, wanted.unwrap_or(PollFlags::empty())),
            ];
            let polled = if wanted.is_some() { &mut polled[..] } else { &mut polled[..1] };
            match poll(polled, Some(&timespec(until.saturating_duration_since(Instant::now())))) {
                Ok(0) if Instant::now() >= until => return Ok(false),
                Ok(0) | Err(Errno::INTR) => continue,
                Ok(_) => {}
                Err(error) => return Err(self.fails(during)(error.into())),
            }
            if polled.first().is_some_and(|given_up| !given_up.revents().is_empty()) {
                return Err(SshError::GivenUp { host: self.host.clone() });
            }
            return Ok(true);
        }
    }

    /// Closes a channel that was read to its end, and waits until the host has closed it as well: only then its exit
    /// status is known.
    pub(super) fn close(&self, during: &'static str, channel: &mut Channel) -> Result<(), SshError> {
        self.finish(during, || channel.wait_close())?;
        self.finish(during, || channel.close())
    }

    /// Ends the session, at once: says goodbye if the socket takes it, without waiting for an answer.
    pub(super) fn end(self, mut channel: Channel) {
        let _ = self.step(Step::Eof, || channel.close());
        let _ = self.session.disconnect(None, "the connection is over", None);
        let _ = self.shut_down();
        drop(channel);
    }

    fn shut_down(&self) -> rustix::io::Result<()> {
        rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both)
    }
}

/// After this libssh2 does not try to send any more, so that freeing the session and what is left of its channels cannot
/// stop half-way.
impl Drop for Wire {
    fn drop(&mut self) {
        // It may be shut down already.
        let _ = self.shut_down();
    }
}

/// A duration for poll(2), rounded up so that it is not over too early.
pub(super) fn timespec(time: Duration) -> Timespec {
    let time = time + Duration::from_micros(1);
    Timespec {
        tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(time.subsec_nanos()),
    }
}
