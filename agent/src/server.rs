//! Starts and ends the agent's process: takes the state directory, binds the socket (and an address, if it is to serve a
//! network), serves until there is a reason to
//! end, ends what still runs, puts CPUs back, disarms kernels, removes the socket.
//!
//! Reasons to end: a controller's `Shutdown`; SIGTERM, SIGINT or SIGHUP (running tasks are killed and get their end
//! events); nobody needed the agent for its linger time.

use std::{
    fs::{File, OpenOptions, Permissions},
    io::{self, Write},
    net::SocketAddr,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use drover_proto::{MAX_MESSAGE_BYTES, v1::agent_server::AgentServer};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};
use tokio::{
    net::UnixListener,
    signal::unix::{Signal, SignalKind, signal},
    sync::watch,
    time::{Instant, sleep_until, timeout},
};
use tonic::transport::Server;

use crate::{
    agent::{Agent, OpenError},
    args::ServeArgs,
    boot,
    connection::Incoming,
    cpus,
    dir::{DirError, StateDir},
    log,
    network::{Identity, IdentityError, Network, NetworkError},
    own::OwnCommand,
    service::Service,
    text::chain,
};

/// Exit code when another agent serves the directory.
pub const EXIT_TAKEN: u8 = 3;
/// Exit code for arguments that do not go together.
const EXIT_USAGE: u8 = 2;
/// Exit code for any other failure.
pub const EXIT_FAILED: u8 = 4;

/// What a starting agent writes to its standard output once it serves.
pub const READY_LINE: &str = "ready\n";

/// Silence on a connection after which HTTP/2 asks whether the peer is there.
const KEEPALIVE: Duration = Duration::from_secs(30);
/// Time for the answer.
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(20);

/// Time after which an agent that nobody needs ends by itself, unless it was told otherwise or serves a network.
const LINGER: Duration = Duration::from_secs(600);

/// Longest time for killed tasks to be over when the agent is told to end; more than a kill may take.
const END_LIMIT: Duration = Duration::from_secs(15);
/// Longest time for CPUs to be back; a large machine has hundreds.
const PUT_BACK_LIMIT: Duration = Duration::from_secs(30);
/// Longest time for connections to be over.
const CLOSE_LIMIT: Duration = Duration::from_millis(200);

/// Serves until there is a reason to end.
///
/// # Errors
/// When the agent cannot start, or its socket fails.
pub fn serve(args: &ServeArgs, own: OwnCommand) -> Result<(), ServeError> {
    if let (Some(address), None) = (args.listen, &args.tls) {
        return Err(ServeError::Plaintext { address });
    }
    if args.detach {
        // Fails for the leader of a process group, which has left its caller already.
        let _ = rustix::process::setsid();
        let _ = std::env::set_current_dir("/");
    }
    // Tasks start the same whoever started the agent, and nobody else may write to the socket, not even before its mode
    // is set.
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    let dir = StateDir::take(&args.dir)?;
    let log_path = dir.paths.log();
    log::start(&log_path).map_err(|source| ServeError::Log { path: log_path, source })?;
    let identity = args.tls.as_deref().map(Identity::load).transpose()?;
    let host_name = identity.as_ref().map(|identity| identity.name.clone());
    let linger = args.linger.or_else(|| args.listen.is_none().then_some(LINGER));
    let socket = dir.paths.socket();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(ServeError::Runtime)?;
    let served = runtime.block_on(async {
        let agent = Arc::new(Agent::open(dir, own, host_name)?);
        let listener = bind(&socket)?;
        let network = match (args.listen, &identity) {
            (Some(address), Some(identity)) => Some(Network::listen(address, identity).await?),
            _ => None,
        };
        let incoming = Incoming { listener, network, agent: Arc::clone(&agent) };
        tracing::info!(socket = %socket.display(), pid = std::process::id(), "serves");
        announce(args.detach).map_err(ServeError::Announce)?;
        let served = until_the_end(&agent, incoming, linger).await;
        match timeout(PUT_BACK_LIMIT, cpus::put_back(&agent, None)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!(error = %chain(&error), "the next agent will try again"),
            Err(_) => tracing::error!("the kernel does not bring CPUs back; the next agent will try again"),
        }
        if let Err(error) = boot::leave(&agent).await {
            tracing::error!(error = %chain(&error), "the next agent will try again");
        }
        // From here on nobody can connect; a controller that tries starts a new agent, which waits for the lock.
        let _ = std::fs::remove_file(&socket);
        served.map(|()| agent)
    });
    runtime.shutdown_timeout(CLOSE_LIMIT);
    match served {
        // The lock goes with the agent, after everything else.
        Ok(agent) => drop(agent),
        Err(error) => {
            tracing::error!(error = %chain(&error), "ends");
            return Err(error);
        }
    }
    tracing::info!("ended");
    Ok(())
}

/// Binds the socket under another name first, so that it is private before anyone can find it.
fn bind(path: &Path) -> Result<UnixListener, ServeError> {
    let fail = |action| move |source| ServeError::Socket { action, path: path.to_owned(), source };
    let fresh = path.with_extension("new");
    match std::fs::remove_file(&fresh) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(fail("replace")(error)),
        _ => {}
    }
    let listener = UnixListener::bind(&fresh).map_err(fail("bind"))?;
    std::fs::set_permissions(&fresh, Permissions::from_mode(0o600)).map_err(fail("close to others"))?;
    std::fs::rename(&fresh, path).map_err(fail("rename"))?;
    Ok(listener)
}

/// Tells whoever started the agent that it serves, and lets go of what it inherited.
fn announce(detach: bool) -> io::Result<()> {
    let mut stdout = io::stdout();
    // Nobody may be there to read it.
    let _ = stdout.write_all(READY_LINE.as_bytes()).and_then(|()| stdout.flush());
    if detach {
        let null: File = OpenOptions::new().read(true).write(true).open("/dev/null")?;
        dup2_stdin(&null)?;
        dup2_stdout(&null)?;
        dup2_stderr(&null)?;
    }
    Ok(())
}

async fn until_the_end(
    agent: &Arc<Agent>,
    incoming: Incoming,
    linger: Option<Duration>,
) -> Result<(), ServeError> {
    let signals = [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()];
    let [mut terminate, mut interrupt, mut hangup] =
        signals.map(|kind| signal(kind).map_err(ServeError::Signals));
    let (closing, closed) = watch::channel(false);
    let service = AgentServer::new(Service::new(Arc::clone(agent)))
        .max_decoding_message_size(MAX_MESSAGE_BYTES)
        .max_encoding_message_size(MAX_MESSAGE_BYTES);
    let serving = Server::builder()
        .http2_keepalive_interval(Some(KEEPALIVE))
        .http2_keepalive_timeout(Some(KEEPALIVE_TIMEOUT))
        .serve_with_incoming_shutdown(service, incoming, told(closed));
    let mut serving = std::pin::pin!(serving);
    let signal = async {
        tokio::select! {
            name = received(&mut terminate, "SIGTERM") => name,
            name = received(&mut interrupt, "SIGINT") => name,
            name = received(&mut hangup, "SIGHUP") => name,
        }
    };
    tokio::select! {
        result = &mut serving => return result.map_err(ServeError::Serve),
        name = signal => {
            tracing::info!(signal = name?, "ends: was told to");
            agent.end(true);
        }
        () = asked_to_end(agent) => {}
        () = unused_for(agent, linger) => {
            tracing::info!(?linger, "ends: nobody needed the agent");
            agent.end(false);
        }
    }
    // The service goes on meanwhile, so that whoever watches sees the ends.
    let over = async {
        if timeout(END_LIMIT, no_task_left(agent)).await.is_err() {
            tracing::error!("tasks are still not over; the next agent will end them");
        }
        closing.send_replace(true);
    };
    let all = async { tokio::join!(over, timeout(END_LIMIT + CLOSE_LIMIT, &mut serving)) };
    // Streams that nobody reads would keep the server; it is dropped then.
    let closed = async {
        no_task_left(agent).await;
        tokio::time::sleep(CLOSE_LIMIT).await;
    };
    tokio::select! {
        _ = all => {}
        () = closed => {}
    }
    Ok(())
}

async fn received(
    signal: &mut Result<Signal, ServeError>,
    name: &'static str,
) -> Result<&'static str, ServeError> {
    match signal {
        Ok(signal) => {
            signal.recv().await;
            Ok(name)
        }
        Err(error) => Err(std::mem::replace(error, ServeError::Signals(io::ErrorKind::Other.into()))),
    }
}

async fn told(mut closed: watch::Receiver<bool>) {
    let _ = closed.wait_for(|closed| *closed).await;
}

/// Returns once the registry says so; looks again whenever a task or connection came or went.
async fn until(agent: &Agent, holds: impl Fn() -> bool) {
    let mut activity = agent.activity();
    while !holds() {
        if activity.changed().await.is_err() {
            return;
        }
    }
}

async fn asked_to_end(agent: &Agent) {
    until(agent, || agent.registry().is_ending()).await;
}

async fn no_task_left(agent: &Agent) {
    until(agent, || agent.registry().all_live().next().is_none()).await;
}

/// Returns when nobody needed the agent for `linger`, never if that is `None`. Sleeps for as long as nothing can change
/// that.
async fn unused_for(agent: &Agent, linger: Option<Duration>) {
    let Some(linger) = linger else { return std::future::pending().await };
    let mut activity = agent.activity();
    loop {
        let idle = agent.registry().idle();
        let wake_at = match idle {
            Ok(()) => Some(Instant::now() + linger),
            Err(left) => left.map(|left| Instant::now() + left),
        };
        let changed = activity.changed();
        let Some(wake_at) = wake_at else {
            let _ = changed.await;
            continue;
        };
        tokio::select! {
            _ = changed => {}
            () = sleep_until(wake_at) => if idle.is_ok() { return },
        }
    }
}

/// Why the agent cannot serve.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The state directory cannot be used.
    #[error(transparent)]
    Dir(#[from] DirError),
    /// The log cannot be written.
    #[error("cannot write the log `{}`", path.display())]
    Log {
        /// The log.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// No event loop.
    #[error("cannot start the event loop")]
    Runtime(#[source] io::Error),
    /// The work of the agent before cannot be taken up.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// No socket.
    #[error("cannot {action} the socket `{}`", path.display())]
    Socket {
        /// What was tried.
        action: &'static str,
        /// The socket.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It would serve a network without TLS.
    #[error(
        "plain text is served through a Unix socket only: --listen {address} needs --tls DIR, a folder made by `drover pki issue`"
    )]
    Plaintext {
        /// Where it should have listened.
        address: SocketAddr,
    },
    /// It cannot prove who it is.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// It cannot listen.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// Standard descriptors cannot be let go.
    #[error("cannot let go of the standard descriptors")]
    Announce(#[source] io::Error),
    /// No signal handlers.
    #[error("cannot listen to signals")]
    Signals(#[source] io::Error),
    /// The server failed.
    #[error("the gRPC server failed")]
    Serve(#[source] tonic::transport::Error),
}

impl ServeError {
    /// What the process exits with.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Dir(DirError::Taken { .. }) => EXIT_TAKEN,
            Self::Plaintext { .. } => EXIT_USAGE,
            _ => EXIT_FAILED,
        }
    }
}
