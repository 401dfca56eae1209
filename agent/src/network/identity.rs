//! Who the agent is on a network, and whom it serves.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

use drover_model::Name;
use tokio_rustls::rustls::{
    self, ServerConfig,
    pki_types::UnixTime,
    server::{VerifierBuilderError, WebPkiClientVerifier},
    version::TLS13,
};
use webpki::{EndEntityCert, KeyUsage};

use crate::{
    credentials::{Credentials, CredentialsError, host_of, provider},
    text::chain,
};

/// The only protocol that is spoken inside of TLS.
const HTTP2: &[u8] = b"h2";

/// The agent's name and what it does TLS with.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The host's name, as its certificate says.
    pub name: Name,
    pub(super) config: Arc<ServerConfig>,
}

impl Identity {
    /// Reads the credentials in a folder. An expired certificate is no error, so that controllers are told what is wrong.
    ///
    /// # Errors
    /// When they cannot be used, or are not those of an agent.
    pub fn load(dir: &Path) -> Result<Self, IdentityError> {
        let Credentials { authority, chain: certificates, key } = Credentials::load(dir)?;
        let path = dir.join("cert.pem");
        let unusable = |source| IdentityError::Certificate { path: path.clone(), source };
        let missing = CredentialsError::Malformed { path: path.clone(), what: "certificate" };
        let (own, others) = certificates.split_first().ok_or(missing)?;
        let own = EndEntityCert::try_from(own).map_err(unusable)?;
        let name = own.valid_dns_names().find_map(host_of);
        let name = name.ok_or_else(|| IdentityError::NoName { path: path.clone() })?;
        let provider = provider();
        let now = UnixTime::since_unix_epoch(SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default());
        let algorithms = provider.signature_verification_algorithms.all;
        let usage = KeyUsage::server_auth();
        match own.verify_for_usage(algorithms, &authority.roots, others, now, usage, None, None) {
            Ok(_) => {}
            Err(error @ (webpki::Error::CertExpired { .. } | webpki::Error::CertNotValidYet { .. })) => {
                tracing::warn!(path = %path.display(), error = %chain(&error), "no controller will accept the certificate");
            }
            Err(error) => return Err(unusable(error)),
        }
        let controllers = WebPkiClientVerifier::builder_with_provider(authority, Arc::clone(&provider));
        let controllers = controllers.build()?;
        let builder = ServerConfig::builder_with_provider(provider).with_protocol_versions(&[&TLS13]);
        let builder = builder.map_err(IdentityError::Tls)?.with_client_cert_verifier(controllers);
        let mut config = builder.with_single_cert(certificates.clone(), key).map_err(IdentityError::Tls)?;
        config.alpn_protocols = vec![HTTP2.to_vec()];
        Ok(Self { name, config: Arc::new(config) })
    }
}

/// Why an agent has no identity.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// Its files cannot be used.
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
    /// Its certificate is not one of an agent, or not of the authority beside it.
    #[error(
        "the certificate `{}` is not that of an agent, signed by the authority beside it; `drover pki issue` makes one",
        path.display()
    )]
    Certificate {
        /// The certificate.
        path: PathBuf,
        /// Why.
        source: webpki::Error,
    },
    /// Its certificate names no host.
    #[error("the certificate `{}` names no host; `drover pki issue` makes one that does", path.display())]
    NoName {
        /// The certificate.
        path: PathBuf,
    },
    /// Whom it serves cannot be checked.
    #[error("the authority cannot be used")]
    Authority(#[from] VerifierBuilderError),
    /// Key and certificate do not belong together.
    #[error("key and certificate cannot be used together")]
    Tls(#[source] rustls::Error),
}
