//! The thread that owns an ssh session: connects, finds or brings the agent, then moves the bytes.

use std::{
    io,
    net::IpAddr,
    os::{fd::OwnedFd, unix::net::UnixStream},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use tokio::sync::oneshot;
use uuid::Uuid;

use super::{
    SshError, SshOptions,
    auth::authenticate,
    dial::dial,
    host_key,
    install::{join, probe},
    pump::Pump,
    route::{Hop, Route, Surroundings, resolve},
    wire::Wire,
};

/// Times that a host is dialled when its sshd hangs up at once, as one does that has too many newcomers (MaxStartups).
const TRIES: u32 = 6;
/// Longest pause before the second time; it doubles.
const PAUSE_MS: u64 = 100;

/// Stack of a thread, in bytes; libssh2 holds nothing large on it.
const STACK: usize = 512 << 10;

/// A host that was reached.
#[derive(Debug)]
pub(super) struct Reached {
    /// Leads to the agent. The session lives until this is closed.
    pub stream: UnixStream,
    /// The host's address.
    pub peer: Option<IpAddr>,
    /// The agent's directory there.
    pub dir: String,
}

/// Reaches a host; the connection is given up when this is dropped.
pub(super) async fn reach(options: &Arc<SshOptions>, route: Arc<Route>) -> Result<Reached, SshError> {
    let host = options.host.clone();
    let thread_fails = |source| SshError::Thread { host: host.clone(), source };
    let (_wanted, given_up) = UnixStream::pair().map_err(thread_fails)?;
    let (sender, receiver) = oneshot::channel();
    let options = Arc::clone(options);
    spawn(&host, move || match connect(&options, &route, given_up.into()) {
        Ok((pump, reached)) => {
            // If nobody wants it any more, its stream is closed, and the pump finds that.
            let _ = sender.send(Ok(reached));
            pump.run();
        }
        Err(error) => drop(sender.send(Err(error))),
    })
    .map_err(thread_fails)?;
    receiver.await.unwrap_or_else(|_| Err(thread_fails(io::Error::other("it ended"))))
}

/// Reads the configuration.
pub(super) async fn find_route(options: &Arc<SshOptions>) -> Result<Route, SshError> {
    let wanted = Arc::clone(options);
    // Files may be far away.
    let found = tokio::task::spawn_blocking(move || resolve(&wanted, &Surroundings::of_this_process()));
    let fails = |error| SshError::Thread { host: options.host.clone(), source: io::Error::other(error) };
    found.await.unwrap_or_else(|error| Err(fails(error)))
}

fn spawn(host: &str, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    // The kernel shows the first 15 bytes; names with zero bytes are not possible.
    let name = format!("ssh {}", host.replace('\0', ""));
    thread::Builder::new().name(name).stack_size(STACK).spawn(run).map(drop)
}

fn connect(options: &SshOptions, route: &Route, given_up: OwnedFd) -> Result<(Pump, Reached), SshError> {
    let (wire, peer) = match &route.jump {
        Some(jump) => {
            let (wire, _) = open(jump, &given_up, || dial(jump))?;
            let stream = jump_through(wire, &route.host)?;
            let mut stream = Some(stream);
            let (wire, ()) = open(&route.host, &given_up, || {
                // There is no second time: the jump host's channel is used up.
                let gone = || io::Error::from(io::ErrorKind::ConnectionAborted);
                let stream = stream.take().ok_or_else(gone).map_err(|source| SshError::Jump {
                    host: route.host.name.clone(),
                    jump: jump.name.clone(),
                    address: route.host.address.clone(),
                    port: route.host.port,
                    source,
                })?;
                Ok((stream.into(), ()))
            })?;
            (wire, None)
        }
        None => {
            let (wire, peer) = open(&route.host, &given_up, || dial(&route.host))?;
            (wire, Some(peer))
        }
    };
    let probed = probe(&wire, options)?;
    let joined = join(&wire, options, &probed)?;
    let (stream, local) = pair(wire.host())?;
    let peer = peer.or_else(|| probed.address.parse().ok());
    Ok((Pump::new(wire, joined.channel, local, &joined.first), Reached { stream, peer, dir: probed.dir }))
}

/// A session with a host that is the right one and lets us in.
fn open<T>(
    hop: &Hop,
    given_up: &OwnedFd,
    mut dial: impl FnMut() -> Result<(OwnedFd, T), SshError>,
) -> Result<(Wire, T), SshError> {
    let known = host_key::known_hosts(hop)?;
    let began = Instant::now();
    let mut tries = 0;
    loop {
        tries += 1;
        let (socket, peer) = dial()?;
        let given_up =
            given_up.try_clone().map_err(|source| SshError::Thread { host: hop.name.clone(), source })?;
        let mut wire = Wire::new(&hop.name, socket, given_up, hop.connect_timeout)?;
        host_key::prefer_known(&wire, hop, &known)?;
        match shake_hands(&mut wire) {
            Ok(()) => {
                host_key::check(&wire, hop, &known)?;
                authenticate(&wire, hop)?;
                return Ok((wire, peer));
            }
            Err(SshError::Session { source, .. })
                if wire.session().banner_bytes().is_none()
                    && tries < TRIES
                    && began.elapsed() < hop.connect_timeout =>
            {
                tracing::debug!("{}: its sshd hung up ({source}), trying again", hop.name);
                wire.pause("try again", pause(tries))?;
            }
            Err(error) => return Err(error),
        }
    }
}

/// A part of the longest pause, so that many who were turned away do not come back at once.
fn pause(tries: u32) -> Duration {
    let longest = PAUSE_MS << tries;
    let random = u64::try_from(Uuid::now_v7().as_u128() & 0xff).unwrap_or_default();
    Duration::from_millis(longest / 2 + longest * random / 512)
}

fn shake_hands(wire: &mut Wire) -> Result<(), SshError> {
    loop {
        match wire.session_mut().handshake() {
            Ok(()) => return Ok(()),
            Err(error) => {
                let error = io::Error::from(error);
                if error.kind() != io::ErrorKind::WouldBlock {
                    return Err(wire.fails("shake hands")(error));
                }
            }
        }
        wire.wait("shake hands")?;
    }
}

/// A stream to a host's sshd through this session, which gets a thread of its own.
fn jump_through(wire: Wire, target: &Hop) -> Result<UnixStream, SshError> {
    let opened = wire.finish("connect to the host behind it", || {
        wire.session().channel_direct_tcpip(&target.address, target.port, None)
    });
    let jump = wire.host().to_owned();
    let channel = opened.map_err(|error| match error {
        SshError::Session { source, .. } => SshError::Jump {
            host: target.name.clone(),
            jump: jump.clone(),
            address: target.address.clone(),
            port: target.port,
            source,
        },
        other => other,
    })?;
    let (stream, local) = pair(&target.name)?;
    let pump = Pump::new(wire, channel, local, &[]);
    spawn(&jump, move || pump.run()).map_err(|source| SshError::Thread { host: jump.clone(), source })?;
    Ok(stream)
}

/// Two ends that do not block.
fn pair(host: &str) -> Result<(UnixStream, UnixStream), SshError> {
    let made = UnixStream::pair().and_then(|(one, other)| {
        one.set_nonblocking(true)?;
        other.set_nonblocking(true)?;
        Ok((one, other))
    });
    made.map_err(|source| SshError::Thread { host: host.to_owned(), source })
}
