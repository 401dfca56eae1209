//! The server's parent process: forks the workers, watches them, and reports when it is told to stop.
//!
//! Processes: the parent and its workers; no threads. The parent sleeps in `poll` on its signals and, until all workers
//! are ready, on the event counter they report to. Workers end by [`STOP_SIGNAL`], which the kernel also sends them
//! when the parent dies. A worker that dies is reported and not replaced: a number measured with fewer servers than
//! the matrix says is no number.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::process::getpid;

use crate::args::ServerArgs;
use crate::board::WorkerSlot;
use crate::crew::{Crew, Ended, LOOK_EVERY};
use crate::listen::{self, ListenError, SocketUse};
use crate::message::{chain, say};
use crate::report::{ServerReport, WriteReportError, count_to_f64, jain_index, write};
use crate::serialise::{LockError, LockSource, Serialisation};
use crate::sys::{ForkError, Notice, Shared, SignalFd, fork_worker};
use crate::worker::Worker;

/// Why the server failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServerError {
    /// No listening socket.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// No accept lock.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// A worker could not be forked.
    #[error(
        "cannot start server {number} of {total}; see `ulimit -u` and the pids limit of the control group"
    )]
    Fork {
        /// Which, from 1.
        number: usize,
        /// Of how many.
        total: u32,
        #[source]
        source: ForkError,
    },
    /// A worker ended before all were ready.
    #[error("server {worker} ended during start-up: {status}")]
    Start {
        /// Which, from 0.
        worker: usize,
        /// How.
        status: String,
    },
    /// Every worker is lost.
    #[error("all servers are lost ({0} of them): nobody accepts any more")]
    AllLost(u32),
    /// A system call failed that should not.
    #[error("cannot {0}")]
    System(&'static str, #[source] io::Error),
    /// The report could not be written.
    #[error(transparent)]
    Report(#[from] WriteReportError),
}

/// Runs the server until SIGTERM, SIGINT or SIGHUP, then writes the report. Forks, so it must be called while the
/// process has a single thread.
pub(crate) fn run(args: &ServerArgs) -> Result<(), ServerError> {
    let mut server = Server::new(args)?;
    let end = server.serve();
    // Refuse clients now instead of letting them wait in the queue of a server that stops.
    server.listener = None;
    server.crew.stop(&server.signals).map_err(|error| ServerError::System("stop the workers", error))?;
    if matches!(end, Ok(()) | Err(ServerError::AllLost(_))) {
        write(&server.report(), &mut io::stdout().lock())?;
    }
    end
}

/// A server and all it needs.
struct Server<'a> {
    args: &'a ServerArgs,
    signals: SignalFd,
    /// Workers add one to it when they are ready.
    ready: OwnedFd,
    /// The socket that all workers share; `None` where each has its own.
    listener: Option<OwnedFd>,
    address: SocketAddr,
    backlog: u32,
    crew: Crew,
    stop_asked: bool,
}

impl<'a> Server<'a> {
    /// Takes what has to be there before the first fork.
    fn new(args: &'a ServerArgs) -> Result<Self, ServerError> {
        let signals = SignalFd::new().map_err(|error| ServerError::System("read signals", error))?;
        let ready = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|error| ServerError::System("make an event counter", error.into()))?;
        let lock = LockSource::create(args.serialisation)?;
        let count = usize::try_from(args.servers).unwrap_or(usize::MAX);
        // Never unmapped: signal handlers of the workers point into it for as long as they live.
        let board: &'static Shared<WorkerSlot> = Box::leak(Box::new(
            Shared::new(count)
                .map_err(|error| ServerError::System("share memory with the workers", error))?,
        ));
        let backlog = listen::granted_backlog(args.backlog);
        if backlog < args.backlog {
            let asked = args.backlog;
            say(format_args!(
                "backlog {asked} asked for, {backlog} granted: net.core.somaxconn is the limit"
            ));
        }
        if args.serialisation == Serialisation::Reuseport && args.listen.port() != 0 {
            listen::check_free(args.listen)?;
        }
        let listener = listen::open(args.listen, backlog, socket_use(args.serialisation))?;
        let address = listen::address_of(&listener, args.listen)?;
        let crew = Crew::new(board, lock);
        Ok(Self { args, signals, ready, listener: Some(listener), address, backlog, crew, stop_asked: false })
    }

    /// From the first fork until there is a reason to stop.
    fn serve(&mut self) -> Result<(), ServerError> {
        self.fork_all()?;
        self.wait_until_ready()?;
        while !self.stop_asked {
            self.wait(false)?;
            self.handle_signals()?;
            self.crew
                .settle_doubt()
                .map_err(|error| ServerError::System("inspect the accept lock", error))?;
            if self.crew.living() == 0 {
                return Err(ServerError::AllLost(self.args.servers));
            }
        }
        Ok(())
    }

    fn fork_all(&mut self) -> Result<(), ServerError> {
        let server = getpid();
        let kind = self.args.serialisation;
        for (index, slot) in self.crew.board().iter().enumerate() {
            // With SO_REUSEPORT each worker has its own socket, and nobody else keeps it: connections queued on the
            // socket of a dead worker must not wait for ever.
            let listener = match self.listener.take() {
                Some(listener) => listener,
                None => listen::open(self.address, self.backlog, socket_use(kind))?,
            };
            let worker = Worker {
                server,
                slot,
                listener: &listener,
                lock: self.crew.lock(),
                serialisation: kind,
                reply: self.args.reply,
                ready: &self.ready,
            };
            let forked = fork_worker(|| match worker.run() {
                Ok(never) => match never {},
                Err(error) => {
                    say(format_args!("server {index}: {}", chain(&error)));
                    1
                }
            });
            let total = self.args.servers;
            let pid = forked.map_err(|source| ServerError::Fork { number: index + 1, total, source })?;
            self.crew.add(pid);
            if kind != Serialisation::Reuseport {
                self.listener = Some(listener);
            }
        }
        Ok(())
    }

    /// Waits until every worker is about to accept, or a stop is asked for.
    fn wait_until_ready(&mut self) -> Result<(), ServerError> {
        let total = u64::from(self.args.servers);
        let mut ready = 0;
        while ready < total {
            self.wait(true)?;
            self.handle_signals()?;
            if self.stop_asked {
                return Ok(());
            }
            if let Some(lost) = self.crew.lost().first() {
                return Err(ServerError::Start { worker: lost.worker, status: lost.status.clone() });
            }
            let mut count = [0_u8; 8];
            match rustix::io::read(&self.ready, &mut count) {
                Ok(_) => ready += u64::from_ne_bytes(count),
                Err(rustix::io::Errno::AGAIN) => {}
                Err(error) => return Err(ServerError::System("count ready workers", error.into())),
            }
        }
        let plural = if total == 1 { "server" } else { "servers" };
        say(format_args!("listening on {} with {total} {plural}", self.address));
        Ok(())
    }

    /// Sleeps until a signal comes, a worker reports ready (if asked for), or the lock is to be looked at again.
    fn wait(&self, for_ready: bool) -> Result<(), ServerError> {
        let timeout = if self.crew.in_doubt() { Timespec::try_from(LOOK_EVERY).ok() } else { None };
        let mut sources =
            [PollFd::new(&self.signals, PollFlags::IN), PollFd::new(&self.ready, PollFlags::IN)];
        let watched = if for_ready { &mut sources[..] } else { &mut sources[..1] };
        match poll(watched, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(ServerError::System("wait for signals", error.into())),
        }
    }

    fn handle_signals(&mut self) -> Result<(), ServerError> {
        while let Some(notice) =
            self.signals.next().map_err(|error| ServerError::System("read signals", error))?
        {
            match notice {
                Notice::Stop => self.stop_asked = true,
                Notice::Child => {
                    let ended =
                        self.crew.reap().map_err(|error| ServerError::System("reap workers", error))?;
                    for Ended { worker, status, note } in ended {
                        say(format_args!("server {worker} is lost: {status}{note}"));
                    }
                }
            }
        }
        Ok(())
    }

    fn report(&self) -> ServerReport {
        let accepts_per_worker = self.crew.accepts();
        let accepted = accepts_per_worker.iter().sum();
        let switches = self.crew.switches();
        ServerReport {
            drover_workload: "server",
            serialisation: self.args.serialisation,
            servers: self.args.servers,
            accepted,
            voluntary_switches: switches.voluntary,
            involuntary_switches: switches.involuntary,
            wakeups_per_conn: (accepted > 0)
                .then(|| count_to_f64(switches.voluntary) / count_to_f64(accepted)),
            fairness: jain_index(&accepts_per_worker),
            accepts_per_worker,
            workers_lost: u64::try_from(self.crew.lost().len()).unwrap_or(u64::MAX),
            lost: self.crew.lost().to_vec(),
            backlog: self.backlog,
            lock_recovered: self.crew.recovered(),
        }
    }
}

fn socket_use(kind: Serialisation) -> SocketUse {
    SocketUse { shared_port: kind == Serialisation::Reuseport, non_blocking: kind.uses_epoll() }
}
