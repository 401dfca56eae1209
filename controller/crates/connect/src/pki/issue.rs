//! Makes an authority, and certificates that it signs.

use std::{
    fmt, io,
    path::{Path, PathBuf},
    time::SystemTime,
};

use drover_agent::certificate_name;
use drover_model::Name;
use rcgen::{Issuer, KeyPair};

use super::{
    CertificateInfo, PkiError,
    certificate::{AUTHORITY_DAYS, authority, peer},
    files::{fail, private_folder, write},
    show::info,
};

/// Days that the certificates of controllers and agents are valid, unless something else is asked for.
pub const DEFAULT_DAYS: u32 = 825;

/// Who a certificate is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerKind {
    /// An agent: it is connected to.
    Agent,
    /// A controller: it connects.
    Controller,
}

impl PeerKind {
    fn folder(self) -> &'static str {
        match self {
            Self::Agent => "agents",
            Self::Controller => "controllers",
        }
    }
}

impl fmt::Display for PeerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Agent => "agent",
            Self::Controller => "controller",
        })
    }
}

/// Makes an authority in the folder `dir`, and the certificate of the controller that will use it. Replaces what is there
/// only with `force`; then everything that the former authority signed is void.
///
/// # Errors
/// When there is an authority, the folder is open to others, or a file cannot be written.
pub fn pki_init(dir: &Path, force: bool) -> Result<Vec<CertificateInfo>, PkiError> {
    private_folder(dir)?;
    let paths = ["ca.pem", "ca-key.pem", "cert.pem", "key.pem"].map(|name| dir.join(name));
    if let Some(path) = paths.iter().find(|path| !force && path.symlink_metadata().is_ok()) {
        return Err(PkiError::Exists { path: path.clone() });
    }
    let [ca, ca_key, certificate, key] = paths;
    let key_of_authority = KeyPair::generate()?;
    let params = authority();
    let signed = params.self_signed(&key_of_authority)?;
    let own_key = KeyPair::generate()?;
    let issuer = Issuer::from_params(&params, &key_of_authority);
    let own = peer("controller", PeerKind::Controller, DEFAULT_DAYS)?.signed_by(&own_key, &issuer)?;
    // The key of the authority comes first: without it the rest is of no use.
    write(&ca_key, &key_of_authority.serialize_pem())?;
    write(&ca, &signed.pem())?;
    write(&key, &own_key.serialize_pem())?;
    write(&certificate, &own.pem())?;
    Ok(vec![info(&ca)?, info(&certificate)?])
}

/// Makes a certificate that the authority of the folder `dir` signs, valid for so many days. Returns the folder with
/// everything that its owner needs, and what is in the certificate.
///
/// # Errors
/// When there is no authority, a certificate of that name is there (and not `force`), or a file cannot be written.
pub fn pki_issue(
    dir: &Path,
    name: &Name,
    kind: PeerKind,
    days: u32,
    force: bool,
) -> Result<(PathBuf, CertificateInfo), PkiError> {
    if !(1..=AUTHORITY_DAYS).contains(&days) {
        return Err(PkiError::Days { days, max: AUTHORITY_DAYS });
    }
    private_folder(dir)?;
    let read = |name: &str| {
        let path = dir.join(name);
        std::fs::read_to_string(&path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => PkiError::NoAuthority { dir: dir.to_owned() },
            _ => fail("read", &path)(error),
        })
    };
    let (authority_pem, key_pem) = (read("ca.pem")?, read("ca-key.pem")?);
    let authority = info(&dir.join("ca.pem"))?;
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().as_secs();
    let until = now.saturating_add(u64::from(days).saturating_mul(24 * 3600));
    if i64::try_from(until).is_ok_and(|until| authority.expires_unix <= until) {
        return Err(PkiError::OutlivesAuthority { left: authority.days_left });
    }
    let issuer = Issuer::from_ca_cert_pem(&authority_pem, KeyPair::from_pem(&key_pem)?)?;
    let params = match kind {
        PeerKind::Agent => peer(&certificate_name(name)?, kind, days)?,
        PeerKind::Controller => peer(name.as_str(), kind, days)?,
    };
    let folder = dir.join(kind.folder()).join(name.as_str());
    if !force && folder.symlink_metadata().is_ok() {
        return Err(PkiError::Exists { path: folder });
    }
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, &issuer)?;
    private_folder(&folder)?;
    write(&folder.join("key.pem"), &key.serialize_pem())?;
    write(&folder.join("ca.pem"), &authority_pem)?;
    write(&folder.join("cert.pem"), &certificate.pem())?;
    let info = info(&folder.join("cert.pem"))?;
    Ok((folder, info))
}
