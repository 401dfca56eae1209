//! Why a host cannot be reached over ssh, or no agent be had there, and what to do about it.

use std::{io, path::PathBuf, time::Duration};

use super::config::{ConfigError, Place};

/// Why a host cannot be reached over ssh, or no agent be had there.
#[derive(Debug, thiserror::Error)]
pub enum SshError {
    /// The ssh configuration cannot be understood.
    #[error("the ssh configuration is wrong")]
    Config(#[from] ConfigError),
    /// What is asked for is not possible.
    #[error("{host}: {what}")]
    Unsupported {
        /// The host.
        host: String,
        /// What, and what to do instead.
        what: String,
    },
    /// A file of ours cannot be read or written.
    #[error("{host}: cannot {action} `{}`", path.display())]
    File {
        /// The host it was for.
        host: String,
        /// What was tried.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// No thread.
    #[error("{host}: cannot start a thread for its connection")]
    Thread {
        /// The host.
        host: String,
        /// Why.
        source: io::Error,
    },
    /// Its name leads nowhere.
    #[error(
        "{host}: cannot find the address of `{address}`; check the name, or set HostName in the ssh configuration"
    )]
    Resolve {
        /// The host.
        host: String,
        /// The name that was looked up.
        address: String,
        /// Why.
        source: io::Error,
    },
    /// Nobody answers there.
    #[error(
        "{host}: cannot connect to port {port} of `{address}`; check that the host is up and its sshd runs"
    )]
    Dial {
        /// The host.
        host: String,
        /// Its address.
        address: String,
        /// The port.
        port: u16,
        /// Why.
        source: io::Error,
    },
    /// The jump host does not get through.
    #[error("{host}: the jump host {jump} cannot connect to port {port} of `{address}`")]
    Jump {
        /// The host.
        host: String,
        /// The jump host.
        jump: String,
        /// The host's address.
        address: String,
        /// The port.
        port: u16,
        /// Why.
        source: io::Error,
    },
    /// It took too long.
    #[error("{host}: no connection within {} s; it was still to {during}", waited.as_secs())]
    Slow {
        /// The host.
        host: String,
        /// What was under way.
        during: &'static str,
        /// How long was waited.
        waited: Duration,
    },
    /// The session broke.
    #[error("{host}: the ssh session failed while it was to {during}")]
    Session {
        /// The host.
        host: String,
        /// What was under way.
        during: &'static str,
        /// Why.
        source: io::Error,
    },
    /// The connection was given up by whoever wanted it.
    #[error("{host}: the connection was given up")]
    GivenUp {
        /// The host.
        host: String,
    },
    /// Its host key is not known.
    #[error(
        "{host}: the host key {fingerprint} ({key_type}) is not known; compare it with that of the host \
         (`ssh-keygen -lf` on its /etc/ssh/ssh_host_*_key.pub), then connect with `ssh {address}` once or allow new keys \
         (--accept-new)"
    )]
    UnknownKey {
        /// The host.
        host: String,
        /// Its address.
        address: String,
        /// Type of the key.
        key_type: String,
        /// Its fingerprint.
        fingerprint: String,
    },
    /// Its host key is another one than before.
    #[error(
        "{host}: THE HOST KEY HAS CHANGED: the host shows {shown}, known is {known} ({}:{}). Either it was \
         installed anew, or someone is in between. If the new key is right, remove the old one with \
         `ssh-keygen -f {} -R '{name}'`",
        place.path.display(), place.line, place.path.display()
    )]
    ChangedKey {
        /// The host.
        host: String,
        /// The name that its key is known under.
        name: String,
        /// Fingerprint of the key that it shows.
        shown: String,
        /// Fingerprint of the key that is known.
        known: String,
        /// Where that is written.
        place: Box<Place>,
    },
    /// Its host key must not be used any more.
    #[error("{host}: the host shows the key {fingerprint}, which is revoked ({}:{})", place.path.display(), place.line)]
    RevokedKey {
        /// The host.
        host: String,
        /// The key's fingerprint.
        fingerprint: String,
        /// Where that is written.
        place: Box<Place>,
    },
    /// It does not let us in.
    #[error(
        "{host}: user `{user}` is not let in{}; check that this user exists there and has one of these keys in \
         ~/.ssh/authorized_keys. Tried: {}",
        methods.as_ref().map(|methods| format!(" (the host wants {methods})")).unwrap_or_default(),
        if tried.is_empty() { "nothing, there is no key here".to_owned() } else { tried.join("; ") }
    )]
    Auth {
        /// The host.
        host: String,
        /// The user.
        user: String,
        /// What the host would take.
        methods: Option<String>,
        /// Each key, and why it did not work.
        tried: Vec<String>,
    },
    /// Commands cannot be run there.
    #[error(
        "{host}: a command could not be run ({status}): {said}; check that `ssh {host} true` works and that the user's \
         login shell is a shell"
    )]
    Shell {
        /// The host.
        host: String,
        /// How it ended.
        status: String,
        /// What it said.
        said: String,
    },
    /// It is another kind of machine.
    #[error(
        "{host} is a {machine} machine, the agent `{}` is for {built_for}; build one with scripts/build-agent on such a \
         machine and name it in DROVER_AGENT",
        path.display()
    )]
    Machine {
        /// The host.
        host: String,
        /// What it is, as `uname -sm` says.
        machine: String,
        /// The agent's program.
        path: PathBuf,
        /// What that is for.
        built_for: String,
    },
    /// The state directory cannot be used.
    #[error("{host}: the agent's directory `{dir}` cannot be used: {said}; name another one for this host")]
    Dir {
        /// The host.
        host: String,
        /// The directory.
        dir: String,
        /// What is wrong.
        said: String,
    },
    /// The agent cannot be stored there.
    #[error(
        "{host}: the agent cannot be stored in `{dir}`: {said}; make room there, or name another directory"
    )]
    Store {
        /// The host.
        host: String,
        /// The directory.
        dir: String,
        /// What went wrong.
        said: String,
    },
    /// The agent does not run there.
    #[error(
        "{host}: the agent `{}` does not run there: {said}; {}",
        path.display(),
        if *denied {
            "the file system may be mounted noexec: name another directory for this host"
        } else {
            "build a static one with scripts/build-agent and name it in DROVER_AGENT"
        }
    )]
    Run {
        /// The host.
        host: String,
        /// The agent's program here.
        path: PathBuf,
        /// What the host says.
        said: String,
        /// Whether it may not be executed, rather than cannot.
        denied: bool,
    },
    /// The agent does not start.
    #[error("{host}: the agent did not start ({status}): {said}; its log is `{dir}/agent.log` there")]
    Start {
        /// The host.
        host: String,
        /// Its directory.
        dir: String,
        /// How it ended.
        status: String,
        /// What it wrote to standard error.
        said: String,
    },
    /// It was started and cannot be connected to.
    #[error(
        "{host}: the agent runs and cannot be connected to: its sshd forbids forwarding to sockets, and \
         `drover-agent bridge` failed ({status}): {said}"
    )]
    Bridge {
        /// The host.
        host: String,
        /// How the bridge ended.
        status: String,
        /// What it wrote to standard error.
        said: String,
    },
}

impl SshError {
    /// Whether trying again would not help before somebody has changed something: a key, a user, the agent, the room for it.
    #[must_use]
    pub fn is_permanent(&self) -> bool {
        match self {
            Self::Config(_)
            | Self::Unsupported { .. }
            | Self::File { .. }
            | Self::UnknownKey { .. }
            | Self::ChangedKey { .. }
            | Self::RevokedKey { .. }
            | Self::Auth { .. }
            | Self::Machine { .. }
            | Self::Dir { .. }
            | Self::Store { .. }
            | Self::Run { .. } => true,
            Self::Thread { .. }
            | Self::Resolve { .. }
            | Self::Dial { .. }
            | Self::Jump { .. }
            | Self::Slow { .. }
            | Self::Session { .. }
            | Self::GivenUp { .. }
            | Self::Shell { .. }
            | Self::Start { .. }
            | Self::Bridge { .. } => false,
        }
    }
}
