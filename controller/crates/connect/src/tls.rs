//! A host with a resident agent that serves a network by TLS. Both sides prove who they are with certificates of one
//! authority, and the agent's has to name the host that is asked for.

use std::{io, path::PathBuf, sync::Arc, time::Duration};

use drover_agent::{Credentials, CredentialsError, Paths, certificate_name, provider};
use drover_model::Name;
use tokio::{
    net::TcpStream,
    time::{Instant, timeout_at},
};
use tokio_rustls::{
    TlsConnector,
    rustls::{
        self, CertificateError, ClientConfig,
        client::WebPkiServerVerifier,
        pki_types::{InvalidDnsNameError, ServerName},
        version::TLS13,
    },
};

use crate::{ConnectError, Connection, greet::greet, tls_stream::Noted};

/// How to reach a resident agent.
#[derive(Clone, Debug)]
pub struct TlsOptions {
    /// The host's name; the agent's certificate has to name it.
    pub name: Name,
    /// Its address and port, as `10.0.0.2:7600` or `box.example:7600`.
    pub address: String,
    /// Folder with `ca.pem`, `cert.pem` and `key.pem` of the controller, as `drover pki init` makes it.
    pub pki: PathBuf,
    /// Longest time for connection and handshake.
    pub connect_timeout: Duration,
}

/// Connects to a resident agent. None is started: it is there, or it cannot be reached.
///
/// # Errors
/// See [`TlsError`]; each says what to do.
pub async fn connect_tls(options: &TlsOptions) -> Result<Connection, ConnectError> {
    let address = &options.address;
    let (config, server) = client(options)?;
    let until = Instant::now() + options.connect_timeout;
    let slow = |_| TlsError::Slow { address: address.clone(), waited: options.connect_timeout };
    let stream = timeout_at(until, TcpStream::connect(address)).await.map_err(slow)?;
    let stream = stream.map_err(|source| TlsError::Tcp { address: address.clone(), source })?;
    let peer = stream.peer_addr().ok().map(|peer| peer.ip());
    // What a call takes must not depend on Nagle's algorithm.
    let _ = stream.set_nodelay(true);
    let connector = TlsConnector::from(config);
    let stream = timeout_at(until, connector.connect(server, stream)).await.map_err(slow)?;
    let stream = stream.map_err(|error| handshake(options, error))?;
    // In TLS 1.3 a server that refuses the client says so only when the client believes that it is connected.
    let (stream, note) = Noted::new(stream);
    let paths = Paths::new(PathBuf::from(format!("{} ({address})", options.name)));
    let mut connection = greet(stream, &paths, None).await.map_err(|error| match (note.take(), error) {
        (Some(broken), ConnectError::Transport { .. } | ConnectError::Refused { .. }) => {
            ConnectError::Tls(closed(options, broken))
        }
        (_, error) => error,
    })?;
    if connection.hello.host_name.as_ref() != Some(&options.name) {
        let presented = connection.hello.host_name.take().map(|name| name.to_string());
        let presented = presented.unwrap_or_else(|| "no name".to_owned());
        return Err(
            TlsError::OtherHost { address: address.clone(), name: options.name.clone(), presented }.into()
        );
    }
    connection.peer = peer;
    Ok(connection)
}

fn client(options: &TlsOptions) -> Result<(Arc<ClientConfig>, ServerName<'static>), TlsError> {
    let Credentials { authority, chain, key } = Credentials::load(&options.pki)?;
    let server = ServerName::try_from(certificate_name(&options.name)?)?;
    let unusable = |source| TlsError::Own { pki: options.pki.clone(), source };
    let provider = provider();
    let verifier = WebPkiServerVerifier::builder_with_provider(authority, Arc::clone(&provider)).build();
    let verifier = verifier.map_err(|error| unusable(rustls::Error::General(error.to_string())))?;
    let builder = ClientConfig::builder_with_provider(provider).with_protocol_versions(&[&TLS13]);
    let builder = builder.map_err(unusable)?.with_webpki_verifier(verifier);
    let mut config = builder.with_client_auth_cert(chain, key).map_err(unusable)?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok((Arc::new(config), server))
}

/// Why the agent is not the one that was asked for.
fn handshake(options: &TlsOptions, error: io::Error) -> TlsError {
    let (address, name) = (options.address.clone(), options.name.clone());
    let Some(tls) = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) else {
        return TlsError::Broken { address, source: error };
    };
    match tls {
        rustls::Error::InvalidMessage(_) => TlsError::Plaintext { address },
        rustls::Error::InvalidCertificate(certificate) => match certificate {
            CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                TlsError::OtherAuthority { address, pki: options.pki.clone() }
            }
            CertificateError::NotValidForName => {
                TlsError::OtherHost { address, name, presented: "another name".to_owned() }
            }
            CertificateError::NotValidForNameContext { presented, .. } => {
                TlsError::OtherHost { address, name, presented: presented.join(", ") }
            }
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                TlsError::Expired { address, name }
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                TlsError::NotYet { address }
            }
            CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
                TlsError::NoAgent { address }
            }
            _ => TlsError::Broken { address, source: error },
        },
        rustls::Error::AlertReceived(_) => TlsError::Unwelcome { address, source: error },
        _ => TlsError::Broken { address, source: error },
    }
}

/// Why the connection broke before the agent answered.
fn closed(options: &TlsOptions, error: io::Error) -> TlsError {
    let address = options.address.clone();
    let refused = error
        .get_ref()
        .is_some_and(|inner| matches!(inner.downcast_ref(), Some(rustls::Error::AlertReceived(_))));
    if refused {
        TlsError::Unwelcome { address, source: error }
    } else {
        TlsError::Broken { address, source: error }
    }
}

/// Why a resident agent cannot be reached.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The controller cannot prove who it is.
    #[error("this controller has no certificate for hosts that are reached by TLS")]
    Credentials(#[from] CredentialsError),
    /// No certificate can have the host's name.
    #[error("no certificate can name the host")]
    Name(#[from] InvalidDnsNameError),
    /// Its certificate and key cannot be used.
    #[error("the certificate and the key in `{}` cannot be used", pki.display())]
    Own {
        /// The folder.
        pki: PathBuf,
        /// Why.
        source: rustls::Error,
    },
    /// No TCP connection.
    #[error(
        "cannot connect to {address}; does `drover-agent serve --listen` run there, and is the port open?"
    )]
    Tcp {
        /// Where.
        address: String,
        /// Why.
        source: io::Error,
    },
    /// Neither yes nor no.
    #[error("{address} does not answer within {} s", waited.as_secs_f64())]
    Slow {
        /// Where.
        address: String,
        /// How long was waited.
        waited: Duration,
    },
    /// No TLS there.
    #[error("what listens at {address} does not speak TLS 1.3; nothing was said to it")]
    Plaintext {
        /// Where.
        address: String,
    },
    /// Signed by somebody else.
    #[error(
        "the certificate at {address} is not signed by the authority in `{}`; make one for the host with `drover pki issue`, or name the right folder",
        pki.display()
    )]
    OtherAuthority {
        /// Where.
        address: String,
        /// The folder with the authority.
        pki: PathBuf,
    },
    /// Another host answers.
    #[error(
        "the certificate at {address} is not that of the host `{name}`, it names {presented}; check the host's address"
    )]
    OtherHost {
        /// Where.
        address: String,
        /// Who was asked for.
        name: Name,
        /// Who answers.
        presented: String,
    },
    /// Too late.
    #[error(
        "the certificate at {address} has expired, or this machine's clock is wrong; make a new one with `drover pki issue {name} --force`"
    )]
    Expired {
        /// Where.
        address: String,
        /// The host.
        name: Name,
    },
    /// Too early.
    #[error(
        "the certificate at {address} is not valid yet: this machine's clock is wrong, or was that of the one that made it"
    )]
    NotYet {
        /// Where.
        address: String,
    },
    /// A controller's certificate, for instance.
    #[error(
        "the certificate at {address} is not one of an agent; give the host a folder made by `drover pki issue`"
    )]
    NoAgent {
        /// Where.
        address: String,
    },
    /// The agent does not want this controller.
    #[error(
        "the agent at {address} refuses this controller's certificate: it may have expired, or be of another authority; see the agent's log"
    )]
    Unwelcome {
        /// Where.
        address: String,
        /// What it said.
        source: io::Error,
    },
    /// It ended without a reason.
    #[error("the connection to {address} broke before the agent answered; see the agent's log")]
    Broken {
        /// Where.
        address: String,
        /// Why.
        source: io::Error,
    },
}

impl TlsError {
    /// Whether trying again would not help before somebody has changed something. A connection that breaks without a word of TLS
    /// may be one to a machine that goes down or comes up.
    #[must_use]
    pub fn is_permanent(&self) -> bool {
        match self {
            Self::Tcp { .. } | Self::Slow { .. } => false,
            Self::Broken { source, .. } => source.get_ref().is_some_and(|inner| inner.is::<rustls::Error>()),
            _ => true,
        }
    }
}
