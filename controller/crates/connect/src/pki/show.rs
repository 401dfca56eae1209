//! Tells what certificates there are.

use std::{
    fmt::{self, Write},
    io,
    path::{Path, PathBuf},
    time::SystemTime,
};

use sha2::{Digest, Sha256};
use x509_parser::{extensions::GeneralName, pem::parse_x509_pem, prelude::X509Certificate, time::ASN1Time};

use super::{PkiError, files::fail};

/// Seconds of a day.
const DAY: i64 = 24 * 3600;

/// What a certificate is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CertificateKind {
    /// It signs the others.
    Authority,
    /// Its owner connects to agents.
    Controller,
    /// Its owner is connected to.
    Agent,
    /// Something that Drover has not made.
    Other,
}

impl fmt::Display for CertificateKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Authority => "authority",
            Self::Controller => "controller",
            Self::Agent => "agent",
            Self::Other => "other",
        })
    }
}

/// What is in a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateInfo {
    /// Where it is.
    pub path: PathBuf,
    /// What it is for.
    pub kind: CertificateKind,
    /// Whose it is: of an agent, its DNS name, which begins with the host's name.
    pub name: String,
    /// SHA-256 of it, as pairs of hexadecimal digits with colons between, as OpenSSL prints it.
    pub fingerprint: String,
    /// When it expires, in seconds since the Unix epoch.
    pub expires_unix: i64,
    /// The day on which it expires (UTC), as `2029-02-28`.
    pub expires_on: String,
    /// Whole days until then; negative when it has expired.
    pub days_left: i64,
}

impl fmt::Display for CertificateInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (path, kind) = (self.path.display(), self.kind);
        writeln!(f, "{kind} {}: {path}", self.name)?;
        if self.days_left < 0 {
            writeln!(f, "  expired on {}", self.expires_on)?;
        } else {
            writeln!(f, "  expires on {}, in {} days", self.expires_on, self.days_left)?;
        }
        write!(f, "  SHA-256 {}", self.fingerprint)
    }
}

/// The certificates in a folder of `drover pki`: the authority, the controller's own, and all others by their names.
///
/// # Errors
/// When there is no authority, or a file cannot be read.
pub fn pki_show(dir: &Path) -> Result<Vec<CertificateInfo>, PkiError> {
    let mut paths = vec![dir.join("cert.pem")];
    for kind in ["agents", "controllers"] {
        let folder = dir.join(kind);
        let entries = match std::fs::read_dir(&folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            entries => entries.map_err(fail("read", &folder))?,
        };
        let mut found: Vec<PathBuf> = entries.flatten().map(|entry| entry.path().join("cert.pem")).collect();
        found.sort_unstable();
        paths.extend(found);
    }
    let authority = info(&dir.join("ca.pem"));
    if let Err(PkiError::Io { source, .. }) = &authority
        && source.kind() == io::ErrorKind::NotFound
    {
        return Err(PkiError::NoAuthority { dir: dir.to_owned() });
    }
    let mut all = vec![authority?];
    for path in paths.iter().filter(|path| path.exists()) {
        all.push(info(path)?);
    }
    Ok(all)
}

/// What is in the first certificate of a file.
pub(super) fn info(path: &Path) -> Result<CertificateInfo, PkiError> {
    let bytes = std::fs::read(path).map_err(fail("read", path))?;
    let none = || PkiError::NoCertificate { path: path.to_owned() };
    let (_, pem) = parse_x509_pem(&bytes).map_err(|_| none())?;
    let certificate = pem.parse_x509().map_err(|_| none())?;
    let expires = certificate.validity().not_after;
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().as_secs();
    let left = expires.timestamp().saturating_sub(i64::try_from(now).unwrap_or(i64::MAX));
    Ok(CertificateInfo {
        path: path.to_owned(),
        kind: kind(&certificate),
        name: name(&certificate),
        fingerprint: fingerprint(&pem.contents),
        expires_unix: expires.timestamp(),
        expires_on: day(expires),
        days_left: left.div_euclid(DAY),
    })
}

fn kind(certificate: &X509Certificate<'_>) -> CertificateKind {
    let usage = certificate.extended_key_usage().ok().flatten().map(|usage| usage.value);
    match usage {
        _ if certificate.is_ca() => CertificateKind::Authority,
        Some(usage) if usage.client_auth && !usage.server_auth => CertificateKind::Controller,
        Some(usage) if usage.server_auth && !usage.client_auth => CertificateKind::Agent,
        _ => CertificateKind::Other,
    }
}

fn name(certificate: &X509Certificate<'_>) -> String {
    let alternative = certificate.subject_alternative_name().ok().flatten();
    let dns =
        alternative.into_iter().flat_map(|names| &names.value.general_names).find_map(|name| match name {
            GeneralName::DNSName(name) => Some((*name).to_owned()),
            _ => None,
        });
    let common = || certificate.subject().iter_common_name().next()?.as_str().ok().map(ToOwned::to_owned);
    dns.or_else(common).unwrap_or_default()
}

fn fingerprint(der: &[u8]) -> String {
    let mut text = String::new();
    for (place, byte) in Sha256::digest(der).iter().enumerate() {
        let _ = write!(text, "{}{byte:02X}", if place == 0 { "" } else { ":" });
    }
    text
}

fn day(time: ASN1Time) -> String {
    let day = time.to_datetime().date();
    format!("{:04}-{:02}-{:02}", day.year(), u8::from(day.month()), day.day())
}
