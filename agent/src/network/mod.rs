//! The agent on a network: TLS 1.3 only, and only for controllers that the agent's authority has signed.

mod acceptor;
mod identity;
mod refusals;

pub use acceptor::{Network, NetworkError};
pub use identity::{Identity, IdentityError};
