//! The agent of a host that is reached over ssh. See [`SshOptions`]; the way there is told in the crate's page.

mod auth;
mod cksum;
mod config;
mod connect;
mod dial;
mod error;
mod exec;
mod host_key;
mod install;
mod key_file;
mod known_hosts;
mod options;
mod pattern;
mod program;
mod pump;
mod route;
mod script;
mod thread;
mod wire;

pub use config::{ConfigError, Place};
pub use error::SshError;
pub use options::SshOptions;

pub(crate) use connect::connect_ssh;
