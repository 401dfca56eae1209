//! Any way to reach an agent.

use crate::{
    ConnectError, Connection, LocalOptions, SshOptions, TlsOptions, VmHost, connect_local, ssh::connect_ssh,
    tls::connect_tls,
};

/// An agent, and how to reach it.
#[derive(Clone, Debug)]
pub enum Target {
    /// That of this machine.
    Local(LocalOptions),
    /// That of a host with sshd.
    Ssh(SshOptions),
    /// That of a host where one serves a network.
    Tls(TlsOptions),
    /// That of a virtual machine.
    Vm(VmHost),
}

/// Connects to an agent. Where there is none, starts one; where its program is missing, brings it.
///
/// # Errors
/// See [`ConnectError`]; each says what to do.
pub async fn connect(target: &Target) -> Result<Connection, ConnectError> {
    match target {
        Target::Local(options) => connect_local(options).await,
        Target::Ssh(options) => connect_ssh(options).await,
        Target::Tls(options) => connect_tls(options).await,
        Target::Vm(host) => host.connect().await,
    }
}
