//! Connects to QEMU as soon as it listens, and tells why it does not.

use std::{
    fs::File,
    os::fd::AsRawFd,
    path::Path,
    time::{Duration, Instant},
};

use tokio::{
    net::UnixStream,
    sync::watch,
    time::{sleep, timeout},
};

use super::{console::tail, error::StartError, process::End, spec::VmSpec};

/// How long QEMU may take to open its sockets, on a machine that is busy.
const SOCKET_LIMIT: Duration = Duration::from_secs(20);
/// How often they are looked for.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// How long a QEMU that closed its sockets may take to end.
const END_LIMIT: Duration = Duration::from_secs(3);
/// How much of QEMU's messages goes into an error, in bytes.
const TAIL: u64 = 4 << 10;

/// The sockets that QEMU opens in the machine's folder.
pub(super) struct Sockets<'a> {
    pub(super) spec: &'a VmSpec,
    pub(super) end: watch::Receiver<Option<End>>,
    pub(super) log: &'a Path,
}

impl Sockets<'_> {
    /// Connects as soon as QEMU listens.
    pub(super) async fn connect(&self, name: &'static str) -> Result<UnixStream, StartError> {
        let dir = &self.spec.dir;
        let fail = |source| StartError::Folder { path: dir.clone(), source };
        let folder = File::open(dir).map_err(fail)?;
        // A socket's path may have 107 bytes only; this one is always short.
        let path = format!("/proc/self/fd/{}/{name}", folder.as_raw_fd());
        let start = Instant::now();
        loop {
            let source = match UnixStream::connect(&path).await {
                Ok(stream) => return Ok(stream),
                Err(error) => error,
            };
            let end = *self.end.borrow();
            if let Some(end) = end {
                return Err(self.ended(end));
            }
            if start.elapsed() > SOCKET_LIMIT {
                return Err(StartError::Socket { socket: name, limit: SOCKET_LIMIT, source });
            }
            sleep(LOOK_EVERY).await;
        }
    }

    /// How QEMU has ended, if it has, or does soon.
    pub(super) async fn end(&self) -> Option<StartError> {
        let mut end = self.end.clone();
        let end = (*timeout(END_LIMIT, end.wait_for(Option::is_some)).await.ok()?.ok()?)?;
        Some(self.ended(end))
    }

    fn ended(&self, end: End) -> StartError {
        let said = tail(self.log, TAIL).unwrap_or_default().trim().to_owned();
        StartError::Ended { qemu: self.spec.qemu.clone(), end, said }
    }
}
