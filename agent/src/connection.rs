//! Connections of controllers, counted for as long as they are open.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{UnixListener, UnixStream},
};
use tokio_stream::Stream;
use tonic::transport::server::Connected;

use crate::agent::Agent;

/// Connections as they come.
#[derive(Debug)]
pub struct Incoming {
    /// Where they come.
    pub listener: UnixListener,
    /// Counts them.
    pub agent: Arc<Agent>,
}

impl Stream for Incoming {
    type Item = io::Result<Connection>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let accepted = std::task::ready!(self.listener.poll_accept(context));
        Poll::Ready(Some(accepted.map(|(stream, _)| {
            let agent = Arc::clone(&self.agent);
            agent.registry().connection(true);
            agent.tell_server();
            Connection { stream, agent }
        })))
    }
}

/// An open connection.
#[derive(Debug)]
pub struct Connection {
    stream: UnixStream,
    agent: Arc<Agent>,
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
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
