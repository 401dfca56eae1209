//! Ways to reach an agent; each ends in a tonic channel, and above it nothing knows the difference.
//!
//! Called by the controller's driver. Today there is one way: [`connect_local`], for the host `local`, an agent on this
//! machine behind a Unix socket, which is started if there is none.

mod error;
mod local;
mod process;

pub use error::ConnectError;
pub use local::{Connection, LocalOptions, connect_local};
pub use process::AgentProcess;
