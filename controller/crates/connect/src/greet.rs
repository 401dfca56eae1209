//! The first call on a connection, whatever carries it: makes a stream a [`Connection`].

use std::{io, net::IpAddr, sync::Mutex, time::Duration};

use drover_agent::Paths;
use drover_proto::{Hello, MAX_MESSAGE_BYTES, PROTOCOL, Refusal, v1, v1::agent_client::AgentClient};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::timeout,
};
use tonic::transport::{Channel, Endpoint};
use tower::service_fn;

use crate::{AgentProcess, ConnectError};

/// Longest time for an agent to answer the first call.
const HELLO_LIMIT: Duration = Duration::from_secs(10);

/// Silence after which HTTP/2 asks whether the agent is there, and the time for its answer.
const KEEPALIVE: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(20));

/// Bytes that may be under way on one stream: an end event with its outputs at once.
const WINDOW: u32 = 1 << 20;

/// A connection to an agent.
///
/// What carries it (an ssh session and its thread, too) lives as long as the last clone of `client`. It is not made again when it breaks: an agent that ended has to be noticed, and taken up by connecting anew.
#[derive(Debug)]
pub struct Connection {
    /// Calls the agent.
    pub client: AgentClient<Channel>,
    /// What the agent says of itself.
    pub hello: Hello,
    /// The agent's process, if it was started on this machine for this connection.
    pub child: Option<AgentProcess>,
    /// The address that the host was reached at; none for this machine.
    pub peer: Option<IpAddr>,
}

/// Says hello to the agent at the other end of `stream`. `paths` are for messages; those of another host begin with its
/// name.
///
/// # Errors
/// No agent is there, or none that this version can talk to.
pub(crate) async fn greet(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
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
        return Err(ConnectError::Protocol { path, message });
    }
    Ok(Connection { client, hello, child, peer: None })
}

/// A channel over this one stream.
async fn channel(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
) -> Result<Channel, tonic::transport::Error> {
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
        return ConnectError::Protocol { path, message };
    }
    ConnectError::Refused { path, message, log: paths.log() }
}
