//! From entries of the host file to what the driver connects to.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    path::{Path, PathBuf},
    time::Duration,
};

use drover_connect::{AgentBinary, LocalOptions, SshOptions, Target, TlsOptions};
use drover_matrix::{HostEntry, HostFile, Reach};
use drover_model::Name;

use super::vms;
use crate::{args::HostArgs, driver::HostSetup, driver::chain, error::Failure, exit::ExitStatus};

/// An agent that nobody needs ends by itself after this time.
const AGENT_LINGER: Duration = Duration::from_secs(600);
/// Longest time for a connection to an agent that runs.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);
/// Folder of certificates that is used when the host file names none.
const USUAL_PKI: &str = "drover-pki";

/// What the command line says about reaching hosts.
#[derive(Clone, Copy, Debug)]
pub struct Reaching {
    /// Keys of hosts that are not known yet are accepted and written down.
    pub accept_new: bool,
}

impl From<&HostArgs> for Reaching {
    fn from(args: &HostArgs) -> Self {
        Self { accept_new: args.accept_new }
    }
}

/// How each host is reached, and what may be kept there.
pub fn setups(hosts: &HostFile, reaching: Reaching) -> Result<BTreeMap<Name, HostSetup>, Failure> {
    let needs_agent = hosts.hosts.iter().any(|host| matches!(host.reach, Reach::Ssh(_) | Reach::Vm(_)));
    let agent = needs_agent.then(AgentBinary::find).transpose();
    let agent = agent.map_err(|error| Failure::new(ExitStatus::Infrastructure, chain(&error)))?;
    let setup = |host: &HostEntry| -> Result<_, Failure> {
        let target = match (&host.reach, &agent) {
            (Reach::Vm(vm), Some(agent)) => vms::target(&host.name, vm, &hosts.kernels, agent)?,
            _ => target(host, agent.as_ref(), reaching)?,
        };
        let HostEntry { address, limits, sysrq, cpus, .. } = *host;
        let (power, boot) = (host.power.clone(), host.boot.clone());
        Ok((host.name.clone(), HostSetup { target, address, limits, sysrq, power, boot, cpus }))
    };
    hosts.hosts.iter().map(setup).collect()
}

fn target(host: &HostEntry, agent: Option<&AgentBinary>, reaching: Reaching) -> Result<Target, Failure> {
    match (&host.reach, agent) {
        (Reach::Ssh(ssh), Some(agent)) => Ok(Target::Ssh(SshOptions {
            host: ssh.host.clone(),
            user: ssh.user.clone(),
            port: ssh.port,
            identity: ssh.identity.as_deref().map(expand_home),
            jump: ssh.jump.clone(),
            config: ssh.config.as_deref().map(expand_home),
            known_hosts: ssh.known_hosts.as_deref().map(expand_home),
            accept_new: reaching.accept_new,
            agent: agent.clone(),
            dir: host.dir.clone(),
            linger: AGENT_LINGER,
            connect_timeout: CONNECT_TIMEOUT,
        })),
        (Reach::Tls(tls), _) => Ok(Target::Tls(TlsOptions {
            name: host.name.clone(),
            address: tls.address.clone(),
            pki: expand_home(tls.pki.as_deref().unwrap_or(USUAL_PKI)),
            connect_timeout: CONNECT_TIMEOUT,
        })),
        _ => local_agent(host.dir.as_deref()).map(Target::Local),
    }
}

/// The agent of this machine is this program again.
fn local_agent(dir: Option<&str>) -> Result<LocalOptions, Failure> {
    let program = std::env::current_exe().map_err(|error| {
        Failure::new(ExitStatus::Infrastructure, format!("cannot find the path of this program: {error}"))
    })?;
    Ok(LocalOptions {
        agent_dir: dir.map_or_else(drover_agent::default_dir, expand_home),
        agent_command: vec![program.into_os_string(), OsString::from("agent")],
        linger: AGENT_LINGER,
    })
}

/// A path whose `~/` is the user's home folder.
pub(super) fn expand_home(path: &str) -> PathBuf {
    match (path.strip_prefix("~/"), std::env::var_os("HOME")) {
        (Some(rest), Some(home)) => Path::new(&home).join(rest),
        _ => PathBuf::from(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expect_the_home_folder_only_where_a_path_begins_with_it() {
        let home = std::env::var_os("HOME").unwrap();
        assert_eq!(expand_home("~/.ssh/id"), Path::new(&home).join(".ssh/id"));
        assert_eq!(expand_home("/a/~/b"), Path::new("/a/~/b"));
        assert_eq!(expand_home("~x/b"), Path::new("~x/b"));
    }
}
