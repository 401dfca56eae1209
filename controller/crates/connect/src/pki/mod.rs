//! Certificates for agents that serve a network: an authority of the user's own, which signs the controllers and the agents
//! that shall talk to each other. Called by `drover pki`; what is made here is read by [`crate::connect`] and by
//! `drover-agent serve --tls`.
//!
//! | file | what |
//! |---|---|
//! | `ca.pem`, `ca-key.pem` | the authority; whoever has its key can be any controller and any agent |
//! | `cert.pem`, `key.pem` | the controller's own |
//! | `agents/HOST/` | a folder to copy to a host, for `drover-agent serve --tls` |
//! | `controllers/NAME/` | a folder to give to another controller |
//!
//! Keys are ECDSA P-256. Serial numbers are derived from the fresh random keys, so they cannot be guessed. Nothing is ever
//! revoked: certificates expire, and a lost key means a new authority (`init` with force).

mod certificate;
mod error;
mod files;
mod issue;
mod show;

pub use error::PkiError;
pub use issue::{DEFAULT_DAYS, PeerKind, pki_init, pki_issue};
pub use show::{CertificateInfo, CertificateKind, pki_show};
