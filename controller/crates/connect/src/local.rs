//! The host `local`: an agent of this user on this machine, behind a Unix socket.

use std::{
    ffi::OsString,
    fs::{File, OpenOptions},
    io,
    os::unix::fs::OpenOptionsExt,
    path::PathBuf,
    sync::Mutex,
    time::Duration,
};

use drover_agent::{Paths, ensure_private};
use drover_proto::{Hello, MAX_MESSAGE_BYTES, PROTOCOL, Refusal, v1, v1::agent_client::AgentClient};
use hyper_util::rt::TokioIo;
use rustix::fs::{FlockOperation, flock};
use tokio::{net::UnixStream, sync::oneshot, time::timeout};
use tonic::transport::{Channel, Endpoint};
use tower::service_fn;

use crate::{
    AgentProcess, ConnectError,
    process::{Started, start},
};

/// Longest time to wait for another controller that is starting an agent.
const LOCK_LIMIT: Duration = Duration::from_secs(30);

/// Longest time for an agent to answer the first call.
const HELLO_LIMIT: Duration = Duration::from_secs(10);

/// Times that everything is tried when the agent found ends while it is being connected to.
const TRIES: u32 = 3;

/// Silence after which HTTP/2 asks whether the agent is there, and the time for its answer.
const KEEPALIVE: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(20));

/// Bytes that may be under way on one stream: an end event with its outputs at once.
const WINDOW: u32 = 1 << 20;

/// How to reach the agent of this machine.
#[derive(Clone, Debug)]
pub struct LocalOptions {
    /// Its state directory; [`drover_agent::default_dir`] names the usual one.
    pub agent_dir: PathBuf,
    /// Program and leading arguments that act as the agent, to which its subcommand is added: `drover agent`, or
    /// `drover-agent`.
    pub agent_command: Vec<OsString>,
    /// An agent that is started ends by itself when nobody needed it for this long.
    pub linger: Duration,
}

/// A connection to an agent.
///
/// It is not made again when it breaks: an agent that ended has to be noticed, and taken up by [`connect_local`] anew.
#[derive(Debug)]
pub struct Connection {
    /// Calls the agent.
    pub client: AgentClient<Channel>,
    /// What the agent says of itself.
    pub hello: Hello,
    /// The agent's process, if it was started for this connection.
    pub child: Option<AgentProcess>,
}

/// Connects to the agent of this machine; starts one if there is none. Safe to be called by several controllers at once:
/// one of them starts the agent, the others wait for it.
///
/// # Errors
/// See [`ConnectError`]; each says what to do.
pub async fn connect_local(options: &LocalOptions) -> Result<Connection, ConnectError> {
    let paths = Paths::new(ensure_private(&options.agent_dir)?);
    let mut tries = TRIES;
    loop {
        tries -= 1;
        match try_connect(options, &paths).await {
            // It was found and ended meanwhile.
            Err(ConnectError::Transport { .. }) if tries > 0 => {}
            other => return other,
        }
    }
}

async fn try_connect(options: &LocalOptions, paths: &Paths) -> Result<Connection, ConnectError> {
    if let Some(stream) = dial(paths).await? {
        return greet(stream, paths, None).await;
    }
    let lock = lock(paths).await?;
    let mut child = None;
    let stream = match dial(paths).await? {
        Some(stream) => stream,
        None => {
            if let Started::Serving(process) = start(&options.agent_command, paths, options.linger).await? {
                child = Some(process);
            }
            let source = io::ErrorKind::ConnectionRefused.into();
            dial(paths).await?.ok_or_else(|| ConnectError::Socket { path: paths.socket(), source })?
        }
    };
    drop(lock);
    greet(stream, paths, child).await
}

/// Connects to the socket; `None` if nobody listens there.
async fn dial(paths: &Paths) -> Result<Option<UnixStream>, ConnectError> {
    match UnixStream::connect(paths.socket()).await {
        Ok(stream) => Ok(Some(stream)),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) => {
            Ok(None)
        }
        Err(source) => Err(ConnectError::Socket { path: paths.socket(), source }),
    }
}

async fn greet(
    stream: UnixStream,
    paths: &Paths,
    child: Option<AgentProcess>,
) -> Result<Connection, ConnectError> {
    let channel = channel(stream).await.map_err(|source| ConnectError::Transport {
        path: paths.socket(),
        log: paths.log(),
        source,
    })?;
    let mut client = AgentClient::new(channel)
        .max_decoding_message_size(MAX_MESSAGE_BYTES)
        .max_encoding_message_size(MAX_MESSAGE_BYTES);
    let request =
        v1::HelloRequest { protocol: PROTOCOL, controller_version: env!("CARGO_PKG_VERSION").to_owned() };
    let (path, log) = (paths.socket(), paths.log());
    let reply = match timeout(HELLO_LIMIT, client.hello(request)).await {
        Ok(Ok(reply)) => reply.into_inner(),
        Ok(Err(status)) => return Err(refused(status, paths)),
        Err(_) => return Err(ConnectError::Silent { path, waited: HELLO_LIMIT, log }),
    };
    let hello = Hello::try_from(reply)?;
    if hello.protocol != PROTOCOL {
        let message = format!("it speaks protocol {}, this controller {PROTOCOL}", hello.protocol);
        return Err(ConnectError::Protocol { path, message, pid: pid(paths) });
    }
    Ok(Connection { client, hello, child })
}

/// A channel over this one stream.
async fn channel(stream: UnixStream) -> Result<Channel, tonic::transport::Error> {
    let stream = Mutex::new(Some(stream));
    let once = service_fn(move |_| {
        let stream = stream.lock().ok().and_then(|mut stream| stream.take());
        let stream = stream.map(TokioIo::new);
        std::future::ready(
            stream.ok_or_else(|| io::Error::new(io::ErrorKind::NotConnected, "the agent is gone")),
        )
    });
    // The name is not looked up: the connector has its stream already.
    Endpoint::from_static("http://agent")
        .http2_keep_alive_interval(KEEPALIVE.0)
        .keep_alive_timeout(KEEPALIVE.1)
        .keep_alive_while_idle(true)
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(4 * WINDOW)
        .connect_with_connector(once)
        .await
}

fn refused(status: tonic::Status, paths: &Paths) -> ConnectError {
    let (path, message) = (paths.socket(), status.message().to_owned());
    if Refusal::of(&status) == Some(Refusal::Protocol) {
        return ConnectError::Protocol { path, message, pid: pid(paths) };
    }
    ConnectError::Refused { path, message, log: paths.log() }
}

fn pid(paths: &Paths) -> String {
    std::fs::read_to_string(paths.lock()).unwrap_or_default().trim().to_owned()
}

/// Waits for its turn to start an agent. flock(2) knows no time limit, so a thread waits.
async fn lock(paths: &Paths) -> Result<File, ConnectError> {
    let path = paths.start_lock();
    let fail = |source| ConnectError::Lock { path: path.clone(), source };
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    let file = options.open(&path).map_err(fail)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => return Ok(file),
        Err(rustix::io::Errno::WOULDBLOCK) => {}
        Err(error) => return Err(fail(error.into())),
    }
    let (sender, receiver) = oneshot::channel();
    std::thread::spawn(move || {
        let locked = flock(&file, FlockOperation::LockExclusive);
        let _ = sender.send(locked.map(|()| file));
    });
    match timeout(LOCK_LIMIT, receiver).await {
        Ok(Ok(locked)) => locked.map_err(|error| fail(error.into())),
        _ => Err(ConnectError::Busy { path, waited: LOCK_LIMIT }),
    }
}
