//! The files by which agents and controllers prove to each other who they are: a folder with `ca.pem`, `cert.pem` and
//! `key.pem`, as `drover pki` makes it. Read here for the agent, and by the controller's side of a connection.

use std::{
    fs::File,
    io::{self, Read},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use drover_model::Name;
use tokio_rustls::rustls::{
    self, RootCertStore,
    crypto::CryptoProvider,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};

/// Last part of the DNS name in an agent's certificate; the first part is the host's name.
const DOMAIN: &str = "drover";

/// Longest part of a DNS name, in bytes (RFC 1035, section 2.3.4).
const MAX_LABEL: usize = 63;

/// Largest file that is read.
const MAX_FILE: u64 = 1 << 20;

/// Permissions that only others than the owner have.
const OTHERS: u32 = 0o077;

/// Whom to trust, and who one is.
#[derive(Debug)]
pub struct Credentials {
    /// The authority that signs both agents and controllers.
    pub authority: Arc<RootCertStore>,
    /// The own certificate, and what leads from it to the authority.
    pub chain: Vec<CertificateDer<'static>>,
    /// Its key.
    pub key: PrivateKeyDer<'static>,
}

impl Credentials {
    /// Reads the files of a folder.
    ///
    /// # Errors
    /// When one is missing or malformed, or others than its owner can read the key.
    pub fn load(dir: &Path) -> Result<Self, CredentialsError> {
        let mut authority = RootCertStore::empty();
        let path = dir.join("ca.pem");
        for certificate in certificates(&path)? {
            let added = authority.add(certificate);
            added.map_err(|source| CredentialsError::Authority { path: path.clone(), source })?;
        }
        let chain = certificates(&dir.join("cert.pem"))?;
        let path = dir.join("key.pem");
        let (bytes, mode) = read(&path)?;
        if mode & OTHERS != 0 {
            return Err(CredentialsError::OpenKey { path });
        }
        let key = PrivateKeyDer::from_pem_slice(&bytes);
        let key = key.map_err(|_| CredentialsError::Malformed { path, what: "private key" })?;
        Ok(Self { authority: Arc::new(authority), chain, key })
    }
}

/// The algorithms that both sides use.
#[must_use]
pub fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// The DNS name in the certificate of the agent of a host.
///
/// # Errors
/// When no DNS name can have the host's name as a part.
pub fn certificate_name(host: &Name) -> Result<String, CredentialsError> {
    let text = host.as_str();
    if text.len() > MAX_LABEL || text.ends_with('-') {
        return Err(CredentialsError::Name(host.clone()));
    }
    Ok(format!("{text}.{DOMAIN}"))
}

/// The host's name in a DNS name of an agent's certificate.
#[must_use]
pub(crate) fn host_of(dns_name: &str) -> Option<Name> {
    dns_name.strip_suffix(DOMAIN)?.strip_suffix('.')?.parse().ok()
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, CredentialsError> {
    let (bytes, _) = read(path)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    let found = found.ok().filter(|found| !found.is_empty());
    found.ok_or_else(|| CredentialsError::Malformed { path: path.to_owned(), what: "certificate" })
}

/// The bytes of a file, and its mode.
fn read(path: &Path) -> Result<(Vec<u8>, u32), CredentialsError> {
    let fail = |source| CredentialsError::Read { path: path.to_owned(), source };
    let file = File::open(path).map_err(fail)?;
    let mode = file.metadata().map_err(fail)?.mode();
    let mut bytes = Vec::new();
    file.take(MAX_FILE).read_to_end(&mut bytes).map_err(fail)?;
    Ok((bytes, mode))
}

/// Why credentials cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    /// A file cannot be read.
    #[error("cannot read `{}`; `drover pki init` and `drover pki issue` make it", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file is not what it should be.
    #[error("there is no {what} in `{}` (PEM is expected)", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What was expected.
        what: &'static str,
    },
    /// The certificate of the authority cannot be used.
    #[error("the authority in `{}` cannot be used", path.display())]
    Authority {
        /// The file.
        path: PathBuf,
        /// Why.
        source: rustls::Error,
    },
    /// Others can read the private key.
    #[error("other users can read the private key `{}`: chmod 600 it", path.display())]
    OpenKey {
        /// The file.
        path: PathBuf,
    },
    /// A certificate cannot name the host.
    #[error(
        "a certificate cannot name the host `{0}`: such a name ends with a letter, a digit or `_` and has at most 63 bytes"
    )]
    Name(Name),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expect_the_hosts_name_back_when_a_certificate_can_hold_it() {
        for good in ["lab1", "big-box_2", "_x"] {
            let name: Name = good.parse().unwrap();
            assert_eq!(host_of(&certificate_name(&name).unwrap()), Some(name));
        }
        for bad in ["a-".to_owned(), "a".repeat(64)] {
            assert!(certificate_name(&bad.parse().unwrap()).is_err(), "{bad}");
        }
        for other in ["lab1", "lab1.example", ".drover", "a.b.drover", "drover"] {
            assert_eq!(host_of(other), None, "{other}");
        }
    }
}
