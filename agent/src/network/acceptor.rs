//! Takes connections from the network, and passes on those whose peer has proven to be a controller.

use std::{
    io,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
    time::{Duration, Instant},
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::{Semaphore, mpsc},
    time::timeout,
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{self, CertificateError},
    server::TlsStream,
};

use super::{Identity, refusals::Refusals};

/// Longest time for a peer to prove who it is.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// Most peers that may be busy with that at once; further ones wait in the kernel's queue.
const MAX_HANDSHAKES: usize = 64;

/// Longest time for a refused peer to take note.
const FAREWELL: Duration = Duration::from_secs(1);

/// Pause after the kernel had no descriptor or memory for a connection.
const PAUSE: Duration = Duration::from_millis(100);

/// A listening address whose controllers have proven who they are.
#[derive(Debug)]
pub struct Network {
    proven: mpsc::Receiver<TlsStream<TcpStream>>,
}

impl Network {
    /// Listens, and starts a tokio task that accepts.
    ///
    /// # Errors
    /// When the address cannot be listened at.
    pub async fn listen(address: SocketAddr, identity: &Identity) -> Result<Self, NetworkError> {
        let fail = |source| NetworkError { address, source };
        let listener = TcpListener::bind(address).await.map_err(fail)?;
        let address = listener.local_addr().map_err(fail)?;
        let (sender, proven) = mpsc::channel(MAX_HANDSHAKES);
        let acceptor = TlsAcceptor::from(Arc::clone(&identity.config));
        tokio::spawn(accept(listener, acceptor, sender));
        tracing::info!(%address, name = %identity.name, "listens for controllers");
        Ok(Self { proven })
    }

    /// The next connection.
    pub fn poll_accept(&mut self, context: &mut Context<'_>) -> Poll<Option<TlsStream<TcpStream>>> {
        self.proven.poll_recv(context)
    }
}

async fn accept(listener: TcpListener, acceptor: TlsAcceptor, proven: mpsc::Sender<TlsStream<TcpStream>>) {
    let places = Arc::new(Semaphore::new(MAX_HANDSHAKES));
    let refusals = Arc::new(Mutex::new(Refusals::new(Instant::now())));
    while let Ok(place) = Arc::clone(&places).acquire_owned().await {
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let (acceptor, proven, refusals) = (acceptor.clone(), proven.clone(), Arc::clone(&refusals));
        tokio::spawn(async move {
            // What a call takes must not depend on Nagle's algorithm.
            let _ = stream.set_nodelay(true);
            match timeout(HANDSHAKE, acceptor.accept(stream).into_fallible()).await {
                Ok(Ok(stream)) => {
                    // Fails when the agent ends.
                    let _ = proven.send(stream).await;
                }
                Ok(Err((error, stream))) => {
                    refused(&refusals, peer, &reason(&error));
                    let _ = timeout(FAREWELL, part(stream)).await;
                }
                Err(_) => refused(&refusals, peer, "it did not say who it is within 10 s"),
            }
            drop(place);
        });
    }
}

/// Closes a connection so that the peer learns why. If what it has sent meanwhile were not read, the kernel would reset
/// the connection and the reason be lost.
async fn part(mut stream: TcpStream) -> io::Result<()> {
    stream.shutdown().await?;
    let mut sink = [0; 4096];
    while stream.read(&mut sink).await? > 0 {}
    Ok(())
}

fn reason(error: &io::Error) -> String {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        Some(rustls::Error::InvalidMessage(_)) => "it does not speak TLS".to_owned(),
        Some(rustls::Error::NoCertificatesPresented) => "it has no certificate".to_owned(),
        Some(rustls::Error::InvalidCertificate(
            CertificateError::UnknownIssuer | CertificateError::BadSignature,
        )) => "its certificate is of another authority".to_owned(),
        Some(error) => error.to_string(),
        None => error.to_string(),
    }
}

fn refused(refusals: &Mutex<Refusals>, peer: SocketAddr, reason: &str) {
    let verdict = refusals.lock().unwrap_or_else(PoisonError::into_inner).count(Instant::now());
    if verdict.unsaid > 0 {
        tracing::warn!(count = verdict.unsaid, "further peers were refused before");
    }
    if verdict.log {
        tracing::warn!(%peer, reason, "refused a peer");
    }
}

/// The address cannot be listened at.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen at {address}")]
pub struct NetworkError {
    /// Where.
    address: SocketAddr,
    /// Why.
    source: io::Error,
}
