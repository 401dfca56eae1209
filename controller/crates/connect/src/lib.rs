//! Ways to reach an agent; each ends in a tonic channel, and above it nothing knows the difference.
//!
//! Called by the controller's driver, with [`connect`]. The ways are:
//!
//! - [`LocalOptions`]: the host `local`, an agent on this machine behind a Unix socket, which is started if there is none.
//! - [`SshOptions`]: a host with sshd. The agent's program is brought there once per version, started if no agent serves,
//!   and its Unix socket reached through a channel of the ssh session. Nothing listens on a network.
//! - [`TlsOptions`]: a host with a resident agent, which serves a network by TLS to those who have a certificate of the
//!   authority that [`pki_init`] made.
//! - [`VmHost`]: a virtual machine of this controller, which is booted when it is connected to, and made anew when it died
//!   or another kernel or another number of CPUs is asked for.
//!
//! # Over ssh
//!
//! TCP to sshd (or a channel through a jump host), handshake, host key, authentication; then one command tells what is
//! there, and a `direct-streamlocal` channel to the agent's socket is opened. Only if that fails, the agent's program is
//! stored and started. Where the server forbids forwarding to sockets, `drover-agent bridge` on an exec channel takes its
//! place.
//!
//! Threads, beside those of the tokio runtime, which only ever see a non-blocking socket pair:
//!
//! | thread | made by | owns | listens to | ends |
//! |---|---|---|---|---|
//! | `ssh HOST` | [`connect`] | the session with the host and its channels, which are opened one after the other; a socket pair's end while the stream to the agent is open | its socket; until the agent is reached also a socket pair whose other end is with [`connect`]'s future (closed: given up); then the local end of the stream | with an error before the agent is reached; else when the last clone of the client is dropped, the agent or the host closes the channel, or the session fails. It closes the stream first, so that the client fails at once |
//! | `ssh JUMP` | the thread of the host behind it | the session with the jump host, once it is authenticated, and its one channel | its socket, and the local end of the stream that is the socket of the session behind it | when either end of that stream is closed, or its session fails |
//!
//! A host that does not answer is noticed within 18 s, by the kernel (`TCP_USER_TIMEOUT`) when something was sent to it,
//! and by an ssh keepalive when nothing was.
//!
//! Two things may hold a thread up for longer than its caller waits: the lookup of a host's name, and an ssh-agent that
//! asks its user. The caller is not held up by them.

mod binary;
mod error;
mod greet;
mod local;
mod pki;
mod process;
mod ssh;
mod target;
mod tls;
mod tls_stream;
mod vm;

pub use binary::{AgentBinary, BinaryError};
pub use error::ConnectError;
pub use greet::Connection;
pub use local::{LocalOptions, connect_local};
pub use pki::{
    CertificateInfo, CertificateKind, DEFAULT_DAYS, PeerKind, PkiError, pki_init, pki_issue, pki_show,
};
pub use process::AgentProcess;
pub use ssh::{ConfigError, Place, SshError, SshOptions};
pub use target::{Target, connect};
pub use tls::{TlsError, TlsOptions};
pub use vm::{Death, KernelPlace, Machine, Now, VmError, VmHost, VmOptions};
