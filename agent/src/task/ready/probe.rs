//! The loop over a task's ready checks, and the short probes.

use std::{
    io,
    net::SocketAddr,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use drover_model::{ReadyCheck, TaskSpec};
use drover_supervise::Child;
use tokio::net::{TcpStream, UnixStream};

use super::{
    super::{logwatch::LogWatch, prepare::Prepared},
    command, http,
};
use crate::{agent::Agent, text::chain};

/// Pause before the second probe; doubled for each further one. tokio's timers count milliseconds.
pub(super) const FIRST_PAUSE: Duration = Duration::from_millis(1);

/// Longest pause: how late a task can be seen ready.
pub(super) const MAX_PAUSE: Duration = Duration::from_millis(50);

/// Longest time one probe may take.
pub(super) const PROBE_LIMIT: Duration = Duration::from_secs(5);

/// What the probes of a task need.
#[derive(Clone, Copy, Debug)]
pub(in crate::task) struct Probes<'a> {
    pub(in crate::task) agent: &'a Agent,
    pub(in crate::task) spec: &'a TaskSpec,
    pub(in crate::task) prepared: &'a Prepared,
    pub(in crate::task) child: &'a Mutex<Child>,
    pub(in crate::task) log: &'a LogWatch,
    /// What is missing right now, for the verdict.
    pub(in crate::task) missing: &'a Mutex<String>,
    /// Commands whose probe was given up before they ended; somebody has to kill them.
    pub(in crate::task) doomed: &'a Mutex<Vec<Child>>,
}

impl Probes<'_> {
    /// Returns when all checks have held, in the order in which they are given.
    pub(in crate::task) async fn all_hold(self) {
        for check in &self.spec.ready {
            self.holds(check).await;
        }
    }

    async fn holds(&self, check: &ReadyCheck) {
        self.missing(check, "not probed yet");
        if let ReadyCheck::Log(text) = check {
            self.missing(check, "not seen in the output");
            return self.log.wait_for(text).await;
        }
        let mut pause = FIRST_PAUSE;
        loop {
            let failure = match tokio::time::timeout(PROBE_LIMIT, self.probe(check)).await {
                Ok(Ok(())) => return,
                Ok(Err(failure)) => failure,
                Err(_) => format!("no answer within {} s", PROBE_LIMIT.as_secs()),
            };
            self.missing(check, &failure);
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(MAX_PAUSE);
        }
    }

    fn missing(&self, check: &ReadyCheck, failure: &str) {
        let text = format!("{}: {failure}", name(check));
        *self.missing.lock().unwrap_or_else(PoisonError::into_inner) = text;
    }

    async fn probe(&self, check: &ReadyCheck) -> Result<(), String> {
        match check {
            ReadyCheck::Tcp(address) => tcp(*address).await.map_err(|error| error.to_string()),
            ReadyCheck::Unix(path) => self.unix(path).await.map_err(|error| error.to_string()),
            ReadyCheck::Http(url) => http::probe(url).await.map_err(|error| chain(&error)),
            ReadyCheck::Command(argv) => command::probe(self, argv).await.map_err(|error| chain(&error)),
            ReadyCheck::Processes(wanted) => self.processes(*wanted),
            ReadyCheck::Log(text) => {
                self.log.wait_for(text).await;
                Ok(())
            }
        }
    }

    async fn unix(&self, path: &str) -> io::Result<()> {
        // A relative path is relative to the task's folder.
        UnixStream::connect(self.prepared.cwd.join(path)).await.map(drop)
    }

    fn processes(&self, wanted: u32) -> Result<(), String> {
        let child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        let found = child.processes().map_err(|error| chain(&error))?.len();
        if u32::try_from(found) == Ok(wanted) { Ok(()) } else { Err(format!("there are {found} processes")) }
    }
}

pub(super) async fn tcp(address: SocketAddr) -> io::Result<()> {
    TcpStream::connect(address).await.map(drop)
}

fn name(check: &ReadyCheck) -> String {
    match check {
        ReadyCheck::Tcp(address) => format!("tcp {address}"),
        ReadyCheck::Unix(path) => format!("unix {path}"),
        ReadyCheck::Log(text) => format!("log {text:?}"),
        ReadyCheck::Http(url) => format!("http {url}"),
        ReadyCheck::Command(argv) => format!("command {}", argv.join(" ")),
        ReadyCheck::Processes(count) => format!("processes {count}"),
    }
}
