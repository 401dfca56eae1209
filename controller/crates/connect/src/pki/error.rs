//! Why certificates cannot be made or shown.

use std::{io, path::PathBuf};

use drover_agent::CredentialsError;

/// Why certificates cannot be made or shown.
#[derive(Debug, thiserror::Error)]
pub enum PkiError {
    /// The file system said no.
    #[error("cannot {action} `{}`", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// With what.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is there already.
    #[error("`{}` is there already; --force replaces it", path.display())]
    Exists {
        /// What.
        path: PathBuf,
    },
    /// Others could read the keys in the folder.
    #[error("`{}` is open to other users: chmod 700 it", path.display())]
    Open {
        /// The folder.
        path: PathBuf,
    },
    /// The folder has no authority.
    #[error("there is no authority in `{}`; `drover pki init` makes one", dir.display())]
    NoAuthority {
        /// The folder.
        dir: PathBuf,
    },
    /// The name cannot be in a certificate.
    #[error(transparent)]
    Name(#[from] CredentialsError),
    /// The time is longer than that of any authority.
    #[error("a certificate is valid for 1 to {max} days, not {days}")]
    Days {
        /// Asked for.
        days: u32,
        /// Allowed.
        max: u32,
    },
    /// The certificate would outlive the authority, and nobody would accept it then.
    #[error(
        "the authority expires in {left} days, before the certificate would; ask for fewer --days or make a new authority"
    )]
    OutlivesAuthority {
        /// Days until the authority expires.
        left: i64,
    },
    /// A certificate cannot be made.
    #[error("cannot make a certificate")]
    Make(#[from] rcgen::Error),
    /// A file is no certificate.
    #[error("there is no certificate in `{}`", path.display())]
    NoCertificate {
        /// The file.
        path: PathBuf,
    },
}
