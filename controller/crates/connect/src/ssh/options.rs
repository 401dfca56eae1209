//! What a caller says about a host that is reached over ssh.

use std::{path::PathBuf, time::Duration};

use crate::AgentBinary;

/// How to reach the agent of a host over ssh. What is `None` is looked up in the ssh configuration, then has the same
/// default as for `ssh`.
#[derive(Clone, Debug)]
pub struct SshOptions {
    /// Alias or address.
    pub host: String,
    /// User on the host.
    pub user: Option<String>,
    /// Port of its sshd.
    pub port: Option<u16>,
    /// A private key, tried before those of the configuration.
    pub identity: Option<PathBuf>,
    /// One host to go through, as `[user@]host[:port]`; its own settings come from the ssh configuration.
    pub jump: Option<String>,
    /// The ssh configuration; default `~/.ssh/config`, then `/etc/ssh/ssh_config`.
    pub config: Option<PathBuf>,
    /// The file of known host keys, instead of those that the configuration names.
    pub known_hosts: Option<PathBuf>,
    /// Keys of hosts of which none is known are written down. A changed key is refused all the same.
    pub accept_new: bool,
    /// The program that is brought to the host when no agent runs there.
    pub agent: AgentBinary,
    /// The agent's state directory on the host; `~/` at its start is the user's home there. Default: the agent's own.
    pub dir: Option<String>,
    /// An agent that is started ends by itself when nobody needed it for this long.
    pub linger: Duration,
    /// Longest time for the host's port to answer, and again for what follows until the agent is reached; for a jump host
    /// the same. A first contact, which brings the agent, may take longer.
    pub connect_timeout: Duration,
}
