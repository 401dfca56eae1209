//! One worker process of the server: waits its turn, accepts, serves, until the server says stop.

use std::convert::Infallible;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::epoll;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, SocketFlags, accept_with, recv, send, sockopt};
use rustix::process::Pid;

use crate::args::Reply;
use crate::board::{LockPhase, WorkerSlot};
use crate::request::find_head;
use crate::serialise::{AcceptLock, LockError, LockSource, Serialisation, Taken};
use crate::sys::{Stop, usage_of_self};

/// Longest silence of a client between two requests; after it the worker closes, so that no client can keep it.
const PATIENCE: Duration = Duration::from_secs(30);
/// Room for a request head; a longer one ends the connection.
const REQUEST_LIMIT: usize = 8192;
const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 6\r\n\r\nhello\n";
const LAST_ANSWER: &[u8] =
    b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 6\r\nConnection: close\r\n\r\nhello\n";

/// What a worker inherits from the server.
pub(crate) struct Worker<'a> {
    /// Process id of the server.
    pub server: Pid,
    /// The worker's place on the board.
    pub slot: &'static WorkerSlot,
    /// The listening socket.
    pub listener: &'a OwnedFd,
    /// The accept lock, not yet opened.
    pub lock: &'a LockSource,
    /// How workers take turns.
    pub serialisation: Serialisation,
    /// What a connection gets.
    pub reply: Reply,
    /// Event counter on which the worker reports that it is ready.
    pub ready: &'a OwnedFd,
}

/// Why a worker ended by itself.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WorkerError {
    /// Handlers or the tie to the server could not be set up.
    #[error("cannot set up signals")]
    Signals(#[source] io::Error),
    /// The lock could not be opened.
    #[error(transparent)]
    Lock(LockError),
    /// The lock could not be taken or given back.
    #[error("cannot {0} the accept lock")]
    Turn(&'static str, #[source] io::Error),
    /// The epoll instance failed.
    #[error("cannot wait for connections")]
    Wait(#[source] io::Error),
    /// `accept()` failed for good.
    #[error("cannot accept")]
    Accept(#[source] io::Error),
    /// The server could not be told.
    #[error("cannot report readiness")]
    Ready(#[source] io::Error),
}

impl Worker<'_> {
    /// Serves until the stop signal ends the process from within its handler; returns only on an error.
    pub(crate) fn run(&self) -> Result<Infallible, WorkerError> {
        let stop =
            Stop::install(self.server, self.slot, self.lock.semaphore()).map_err(WorkerError::Signals)?;
        let turn = self.turn()?;
        rustix::io::write(self.ready, &1_u64.to_ne_bytes())
            .map_err(|error| WorkerError::Ready(error.into()))?;
        self.slot.record_start(&usage_of_self());
        let mut buffer = [0; REQUEST_LIMIT];
        loop {
            let Some(connection) = turn.accept(self.listener, self.slot)? else { continue };
            stop.busy();
            self.slot.count_accept();
            match self.reply {
                Reply::Close => drop(connection),
                Reply::Http => serve_http(connection, &mut buffer, &stop),
            }
            stop.idle();
        }
    }

    fn turn(&self) -> Result<Turn<'_>, WorkerError> {
        if self.serialisation.uses_epoll() {
            let poller = self.poller().map_err(|error| WorkerError::Wait(error.into()))?;
            return Ok(Turn::Epoll(poller));
        }
        Ok(match self.lock.open().map_err(WorkerError::Lock)? {
            Some(lock) => Turn::Locked(lock),
            None => Turn::Free,
        })
    }

    fn poller(&self) -> Result<OwnedFd, Errno> {
        let poller = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let mut flags = epoll::EventFlags::IN;
        if self.serialisation == Serialisation::EpollExclusive {
            flags |= epoll::EventFlags::EXCLUSIVE;
        }
        epoll::add(&poller, self.listener, epoll::EventData::new_u64(0), flags)?;
        Ok(poller)
    }
}

/// How the worker comes to a connection.
enum Turn<'a> {
    /// By `accept()` alone.
    Free,
    /// By `accept()` while holding a lock.
    Locked(Box<dyn AcceptLock + 'a>),
    /// By epoll and an `accept()` that does not block.
    Epoll(OwnedFd),
}

impl Turn<'_> {
    /// Waits for a connection. `None` if it went to another worker or away: to be tried again.
    fn accept(&self, listener: &OwnedFd, slot: &WorkerSlot) -> Result<Option<OwnedFd>, WorkerError> {
        match self {
            Self::Free => accept_one(listener),
            Self::Locked(lock) => {
                slot.set_lock_phase(LockPhase::Taking);
                if acquire(lock.as_ref())? == Taken::FromDead {
                    slot.count_recovered();
                }
                slot.set_lock_phase(LockPhase::Held);
                let accepted = accept_one(listener);
                slot.set_lock_phase(LockPhase::Giving);
                lock.release().map_err(|error| WorkerError::Turn("give back", error))?;
                slot.set_lock_phase(LockPhase::Free);
                accepted
            }
            Self::Epoll(poller) => {
                let mut event =
                    [epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) }];
                match epoll::wait(poller, &mut event, None) {
                    Ok(_) => accept_one(listener),
                    Err(Errno::INTR) => Ok(None),
                    Err(error) => Err(WorkerError::Wait(error.into())),
                }
            }
        }
    }
}

fn acquire(lock: &dyn AcceptLock) -> Result<Taken, WorkerError> {
    loop {
        match lock.acquire() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result.map_err(|error| WorkerError::Turn("take", error)),
        }
    }
}

/// Accepts one connection. Errors of the connection itself, which accept(2) says to treat like "try again", and an
/// empty queue are `None`.
fn accept_one(listener: &OwnedFd) -> Result<Option<OwnedFd>, WorkerError> {
    match accept_with(listener, SocketFlags::CLOEXEC) {
        Ok(connection) => Ok(Some(connection)),
        Err(
            Errno::INTR
            | Errno::AGAIN
            | Errno::CONNABORTED
            | Errno::PROTO
            | Errno::NETDOWN
            | Errno::NETUNREACH
            | Errno::HOSTUNREACH
            | Errno::HOSTDOWN
            | Errno::NONET
            | Errno::NOPROTOOPT
            | Errno::OPNOTSUPP,
        ) => Ok(None),
        Err(error) => Err(WorkerError::Accept(error.into())),
    }
}

/// Answers requests until the client closes, asks to close, falls silent or sends nonsense. The worker counts as idle
/// while it waits for a request, so that a stop need not wait for the client.
fn serve_http(connection: OwnedFd, buffer: &mut [u8; REQUEST_LIMIT], stop: &Stop) {
    if sockopt::set_socket_timeout(&connection, sockopt::Timeout::Recv, Some(PATIENCE)).is_err() {
        return;
    }
    let mut filled = 0;
    loop {
        let Some(room) = buffer.get_mut(filled..).filter(|room| !room.is_empty()) else { return };
        stop.idle();
        let received = recv(&connection, room, RecvFlags::empty());
        stop.busy();
        match received {
            Ok((0, _)) => return,
            Ok((count, _)) => filled += count,
            Err(Errno::INTR) => continue,
            Err(_) => return,
        }
        match answer_all(connection.as_fd(), buffer, filled) {
            Some(left) => filled = left,
            None => return,
        }
    }
}

/// Answers every complete request in the first `filled` bytes and moves the rest to the front. Returns how many bytes
/// are left, or `None` to close.
fn answer_all(connection: impl AsFd, buffer: &mut [u8; REQUEST_LIMIT], filled: usize) -> Option<usize> {
    let mut done = 0;
    while let Some(head) = find_head(buffer.get(done..filled)?) {
        done += head.len;
        // Never waits: a client that does not read its answers is dropped when the socket's buffer is full.
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let (answer, flags) = match head.keep_alive {
            true => (ANSWER, flags),
            // More to come: the end of the connection, which then travels in the same packet.
            false => (LAST_ANSWER, flags | SendFlags::MORE),
        };
        match send(&connection, answer, flags) {
            Ok(sent) if sent == answer.len() && head.keep_alive => {}
            _ => return None,
        }
    }
    buffer.copy_within(done..filled, 0);
    Some(filled - done)
}
