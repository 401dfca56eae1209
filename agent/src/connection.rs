//! Connections of controllers, counted for as long as they are open: from this machine through a Unix socket, or from a
//! network by TLS.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpStream, UnixListener, UnixStream},
};
use tokio_rustls::server::TlsStream;
use tokio_stream::Stream;
use tonic::transport::server::Connected;

use crate::{agent::Agent, network::Network};

/// Connections as they come.
#[derive(Debug)]
pub struct Incoming {
    /// Where they come from this machine.
    pub listener: UnixListener,
    /// Where they come from others.
    pub network: Option<Network>,
    /// Counts them.
    pub agent: Arc<Agent>,
}

impl Incoming {
    fn connection(&self, transport: Transport) -> Connection {
        let agent = Arc::clone(&self.agent);
        agent.registry().connection(true);
        agent.tell_server();
        Connection { transport, agent }
    }
}

impl Stream for Incoming {
    type Item = io::Result<Connection>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(network) = &mut self.network
            && let Poll::Ready(Some(stream)) = network.poll_accept(context)
        {
            return Poll::Ready(Some(Ok(self.connection(Transport::Tls(Box::new(stream))))));
        }
        let accepted = std::task::ready!(self.listener.poll_accept(context));
        Poll::Ready(Some(accepted.map(|(stream, _)| self.connection(Transport::Unix(stream)))))
    }
}

/// An open connection.
#[derive(Debug)]
pub struct Connection {
    transport: Transport,
    agent: Arc<Agent>,
}

#[derive(Debug)]
enum Transport {
    Unix(UnixStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// Calls a method of whatever carries the bytes.
macro_rules! carried {
    ($connection:ident.$method:ident($($argument:expr),*)) => {
        match &mut $connection.transport {
            Transport::Unix(stream) => Pin::new(stream).$method($($argument),*),
            Transport::Tls(stream) => Pin::new(stream.as_mut()).$method($($argument),*),
        }
    };
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.agent.registry().connection(false);
        self.agent.tell_server();
    }
}

impl Connected for Connection {
    type ConnectInfo = ();

    fn connect_info(&self) {}
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        carried!(self.poll_read(context, buffer))
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        carried!(self.poll_write(context, bytes))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        carried!(self.poll_flush(context))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        carried!(self.poll_shutdown(context))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        carried!(self.poll_write_vectored(context, slices))
    }

    fn is_write_vectored(&self) -> bool {
        match &self.transport {
            Transport::Unix(stream) => stream.is_write_vectored(),
            Transport::Tls(stream) => stream.is_write_vectored(),
        }
    }
}
