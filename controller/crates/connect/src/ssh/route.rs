//! Where to go: what the caller says, the ssh configuration, and the defaults of `ssh`, put together.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use super::{
    SshError, SshOptions,
    config::{ConfigFile, HostConfig, Strict},
    known_hosts::name_with_port,
};

/// Files of the system's administrator.
const SYSTEM_CONFIG: &str = "/etc/ssh/ssh_config";
const SYSTEM_KNOWN_HOSTS: [&str; 2] = ["/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2"];

/// Keys that are tried when none is named, in `~/.ssh`.
const DEFAULT_KEYS: [&str; 3] = ["id_ed25519", "id_ecdsa", "id_rsa"];

/// Where a sshd listens.
const DEFAULT_PORT: u16 = 22;

/// How to get to a host.
#[derive(Clone, Debug)]
pub(super) struct Route {
    /// The host to go through, if any.
    pub jump: Option<Hop>,
    /// The host.
    pub host: Hop,
}

/// One ssh session.
#[derive(Clone, Debug)]
pub(super) struct Hop {
    /// As the user calls it, for messages.
    pub name: String,
    /// What is dialled.
    pub address: String,
    pub port: u16,
    pub user: String,
    /// Keys that were named.
    pub identities: Vec<PathBuf>,
    /// Keys that were not.
    pub default_identities: Vec<PathBuf>,
    /// The ssh-agent may only use keys that were named.
    pub identities_only: bool,
    /// Socket of the ssh-agent.
    pub identity_agent: Option<PathBuf>,
    /// Name of its entries in `known_hosts`.
    pub key_name: String,
    /// As before, but without the port: an entry of that name is good as well.
    pub plain_key_name: Option<String>,
    pub known_hosts: Vec<PathBuf>,
    /// Where new keys are written.
    pub write_to: Option<PathBuf>,
    pub accept_new: bool,
    /// New entries hide the host's name.
    pub hash_names: bool,
    /// Time for the connection and the handshake.
    pub connect_timeout: Duration,
}

/// What comes from the process's surroundings.
#[derive(Clone, Debug)]
pub(super) struct Surroundings {
    pub home: Option<PathBuf>,
    pub user: Option<String>,
    pub auth_socket: Option<PathBuf>,
}

impl Surroundings {
    pub(super) fn of_this_process() -> Self {
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        let user = ["USER", "LOGNAME"].into_iter().find_map(variable);
        let user = user.and_then(|user| user.into_string().ok()).or_else(|| {
            let uid = rustix::process::getuid().as_raw().to_string();
            let accounts = std::fs::read_to_string("/etc/passwd").ok()?;
            let mut accounts = accounts.lines().map(|line| line.split(':').collect::<Vec<_>>());
            let account = accounts.find(|fields| fields.get(2) == Some(&uid.as_str()))?;
            account.first().map(|name| (*name).to_owned())
        });
        Self {
            home: std::env::home_dir().filter(|home| home.is_absolute()),
            user,
            auth_socket: variable("SSH_AUTH_SOCK").map(PathBuf::from),
        }
    }
}

/// A host as `[user@]host[:port]`; IPv6 addresses with a port in brackets.
fn split_destination(text: &str) -> Option<(Option<String>, String, Option<u16>)> {
    let (user, rest) = match text.rsplit_once('@') {
        Some((user, rest)) => (Some(user.to_owned()), rest),
        None => (None, text),
    };
    let bracketed = rest.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    let (host, port) = match (bracketed, rest.rsplit_once(':')) {
        (Some((host, "")), _) => (host, None),
        (Some((host, port)), _) => (host, Some(port.strip_prefix(':')?)),
        (None, Some((host, port))) if !host.contains(':') => (host, Some(port)),
        _ => (rest, None),
    };
    let port = port
        .map(|port| port.parse().ok().filter(|port| *port != 0))
        .map_or(Some(None), |port| port.map(Some));
    let valid = !host.is_empty() && user.as_deref() != Some("");
    port.filter(|_| valid).map(|port| (user, host.to_owned(), port))
}

/// Puts it all together; reads the configuration files. What the user should know is logged.
pub(super) fn resolve(options: &SshOptions, here: &Surroundings) -> Result<Route, SshError> {
    let files = config_files(options, here)?;
    let look_up = |host: &str| -> Result<HostConfig, SshError> {
        let mut found = HostConfig::default();
        for file in &files {
            file.look_up(host, &mut found)?;
        }
        for warning in &found.warnings {
            tracing::warn!("{warning}");
        }
        Ok(found)
    };
    let found = look_up(&options.host)?;
    let jump = options.jump.clone().or_else(|| found.proxy_jump.clone());
    let jump = jump.filter(|jump| !jump.eq_ignore_ascii_case("none"));
    let unsupported = |what: String| SshError::Unsupported { host: options.host.clone(), what };
    if jump.is_none() && found.proxy_command.as_deref().is_some_and(|command| command != "none") {
        return Err(unsupported("ProxyCommand is not supported; use ProxyJump with one host".to_owned()));
    }
    let jump = match jump {
        Some(jump) if jump.contains(',') => {
            return Err(unsupported(format!("`{jump}` are several jump hosts; one is supported")));
        }
        Some(jump) => {
            let (user, host, port) = split_destination(&jump).ok_or_else(|| {
                unsupported(format!("`{jump}` is no jump host; expected [user@]host[:port]"))
            })?;
            let found = look_up(&host)?;
            Some(hop(Wanted { host: &host, user, port, identity: None }, found, options, here)?)
        }
        None => None,
    };
    let wanted = Wanted {
        host: &options.host,
        user: options.user.clone(),
        port: options.port,
        identity: options.identity.clone(),
    };
    Ok(Route { jump, host: hop(wanted, found, options, here)? })
}

struct Wanted<'a> {
    host: &'a str,
    user: Option<String>,
    port: Option<u16>,
    identity: Option<PathBuf>,
}

fn hop(
    wanted: Wanted<'_>,
    found: HostConfig,
    options: &SshOptions,
    here: &Surroundings,
) -> Result<Hop, SshError> {
    let host = wanted.host;
    let unsupported = |what: String| SshError::Unsupported { host: host.to_owned(), what };
    let address = found.host_name.as_deref().unwrap_or(host).replace("%h", host).replace("%%", "%");
    let port = wanted.port.or(found.port).unwrap_or(DEFAULT_PORT);
    let user = wanted.user.or(found.user).or_else(|| here.user.clone());
    let user =
        user.ok_or_else(|| unsupported("no user is named; set User in the ssh configuration".to_owned()))?;
    let expand = |text: &str| {
        let expanded = expand(text, &Tokens { here, host, address: &address, port, user: &user });
        expanded.map_err(|what| unsupported(format!("`{text}` in the ssh configuration: {what}")))
    };
    let expand_all = |texts: &[String]| texts.iter().map(|text| expand(text)).collect::<Result<Vec<_>, _>>();

    let in_home = |name: &str| here.home.as_ref().map(|home| home.join(".ssh").join(name));
    let mut identities = expand_all(&found.identity_files)?;
    let default_identities = if identities.is_empty() && wanted.identity.is_none() {
        DEFAULT_KEYS.iter().filter_map(|name| in_home(name)).collect()
    } else {
        Vec::new()
    };
    if let Some(identity) = wanted.identity {
        identities.retain(|path| *path != identity);
        identities.insert(0, identity);
    }
    let identity_agent = match found.identity_agent.as_deref() {
        Some(none) if none.eq_ignore_ascii_case("none") => None,
        None | Some("SSH_AUTH_SOCK") => here.auth_socket.clone(),
        Some(path) => Some(expand(path)?),
    };
    let own = match (&options.known_hosts, &found.user_known_hosts) {
        (Some(path), _) => vec![path.clone()],
        (None, Some(texts)) if texts.iter().any(|text| text.eq_ignore_ascii_case("none")) => Vec::new(),
        (None, Some(texts)) => expand_all(texts)?,
        (None, None) => ["known_hosts", "known_hosts2"].iter().filter_map(|name| in_home(name)).collect(),
    };
    let write_to = own.first().cloned();
    let of_system = match (&options.known_hosts, &found.global_known_hosts) {
        (Some(_), _) => Vec::new(),
        (None, Some(texts)) => expand_all(texts)?,
        (None, None) => SYSTEM_KNOWN_HOSTS.iter().map(PathBuf::from).collect(),
    };
    let (key_name, plain_key_name) = match &found.host_key_alias {
        Some(alias) => (alias.clone(), None),
        None => {
            let plain = (port != DEFAULT_PORT).then(|| address.to_ascii_lowercase());
            (name_with_port(&address, port), plain)
        }
    };
    let configured = found.connect_timeout.map(Duration::from_secs);
    Ok(Hop {
        name: host.to_owned(),
        port,
        user,
        identities,
        default_identities,
        identities_only: found.identities_only.unwrap_or(false),
        identity_agent,
        key_name,
        plain_key_name,
        known_hosts: own.into_iter().chain(of_system).collect(),
        write_to,
        accept_new: options.accept_new || found.strict == Some(Strict::AcceptNew),
        hash_names: found.hash_known_hosts.unwrap_or(false),
        connect_timeout: configured.map_or(options.connect_timeout, |time| time.min(options.connect_timeout)),
        address,
    })
}

struct Tokens<'a> {
    here: &'a Surroundings,
    host: &'a str,
    address: &'a str,
    port: u16,
    user: &'a str,
}

/// A path of the configuration with `~`, `%` tokens and `${VARIABLES}` replaced.
fn expand(text: &str, tokens: &Tokens<'_>) -> Result<PathBuf, String> {
    let home =
        || tokens.here.home.as_ref().and_then(|home| home.to_str()).ok_or("there is no home directory");
    let mut expanded = String::new();
    let mut rest = text;
    if let Some(below) = text.strip_prefix("~/") {
        expanded.push_str(home()?);
        expanded.push('/');
        rest = below;
    }
    while let Some(character) = rest.chars().next() {
        rest = &rest[character.len_utf8()..];
        match character {
            '%' => {
                let token = rest.chars().next().unwrap_or_default();
                rest = rest.get(token.len_utf8()..).unwrap_or_default();
                match token {
                    '%' => expanded.push('%'),
                    'h' => expanded.push_str(tokens.address),
                    'n' => expanded.push_str(tokens.host),
                    'p' => expanded.push_str(&tokens.port.to_string()),
                    'r' => expanded.push_str(tokens.user),
                    'u' => expanded.push_str(tokens.here.user.as_deref().unwrap_or_default()),
                    'd' => expanded.push_str(home()?),
                    'i' => expanded.push_str(&rustix::process::getuid().as_raw().to_string()),
                    other => return Err(format!("`%{other}` is not supported")),
                }
            }
            '$' if rest.starts_with('{') => {
                let (name, after) = rest[1..].split_once('}').ok_or("a `${` is not closed")?;
                expanded.push_str(&std::env::var(name).map_err(|_| format!("`{name}` is not set"))?);
                rest = after;
            }
            _ => expanded.push(character),
        }
    }
    Ok(PathBuf::from(expanded))
}

fn config_files(options: &SshOptions, here: &Surroundings) -> Result<Vec<ConfigFile>, SshError> {
    let own_dir = here.home.as_ref().map(|home| home.join(".ssh"));
    let mut files = Vec::new();
    let mut read = |path: &Path, dir: &Path, required: bool| {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && !required => return Ok(()),
            Err(source) => {
                let (host, path) = (options.host.clone(), path.to_owned());
                return Err(SshError::File { host, action: "read", path, source });
            }
        };
        files.push(ConfigFile::parse(&text, path, &|pattern| included(pattern, dir, here))?);
        Ok(())
    };
    match (&options.config, &own_dir) {
        (Some(path), dir) => {
            let dir = dir.as_deref().or_else(|| path.parent()).unwrap_or(Path::new("/"));
            read(path, dir, true)?;
        }
        (None, dir) => {
            if let Some(dir) = dir {
                read(&dir.join("config"), dir, false)?;
            }
            let path = Path::new(SYSTEM_CONFIG);
            read(path, path.parent().unwrap_or(path), false)?;
        }
    }
    Ok(files)
}

/// The files that `Include` means, in order; those that cannot be read are left out, as in OpenSSH. Patterns are allowed
/// in the last part of the path.
fn included(pattern: &str, dir: &Path, here: &Surroundings) -> Vec<(PathBuf, String)> {
    let path = match (pattern.strip_prefix("~/"), &here.home) {
        (Some(below), Some(home)) => home.join(below),
        _ => dir.join(pattern),
    };
    let (Some(folder), Some(name)) = (path.parent(), path.file_name().and_then(|name| name.to_str())) else {
        return Vec::new();
    };
    let mut paths = if name.contains(['*', '?']) {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let names = names.filter(|found| !found.starts_with('.') && super::pattern::matches(name, found));
        names.map(|found| folder.join(found)).collect::<Vec<_>>()
    } else {
        vec![path]
    };
    paths.sort();
    let files = paths.into_iter().map(|path| (std::fs::read_to_string(&path), path));
    files.filter_map(|(text, path)| text.ok().map(|text| (path, text))).collect()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::AgentBinary;

    fn options(config: &Path) -> SshOptions {
        SshOptions {
            host: "db1".to_owned(),
            user: None,
            port: None,
            identity: None,
            jump: None,
            config: Some(config.to_owned()),
            known_hosts: None,
            accept_new: false,
            agent: AgentBinary { path: PathBuf::new(), args: Vec::new(), hash: String::new() },
            dir: None,
            linger: Duration::ZERO,
            connect_timeout: Duration::from_secs(20),
        }
    }

    fn here(dir: &Path) -> Surroundings {
        Surroundings {
            home: Some(dir.to_owned()),
            user: Some("me".to_owned()),
            auth_socket: Some(PathBuf::from("/run/agent")),
        }
    }

    fn write(text: &str) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config");
        std::fs::write(&path, text).unwrap();
        (dir, path)
    }

    #[test]
    fn expect_the_defaults_of_ssh_when_nothing_is_said() {
        let (dir, path) = write("");
        let route = resolve(&options(&path), &here(dir.path())).unwrap();
        let host = route.host;
        assert_eq!((host.address.as_str(), host.port, host.user.as_str()), ("db1", 22, "me"));
        assert_eq!((host.key_name.as_str(), &host.plain_key_name), ("db1", &None));
        assert!(host.identities.is_empty() && !host.accept_new && route.jump.is_none());
        assert_eq!(host.default_identities[0], dir.path().join(".ssh/id_ed25519"));
        assert_eq!(host.known_hosts[0], dir.path().join(".ssh/known_hosts"));
        assert_eq!(host.write_to.as_ref(), Some(&host.known_hosts[0]));
        assert_eq!(host.identity_agent, Some(PathBuf::from("/run/agent")));
    }

    #[test]
    fn expect_tokens_and_the_jump_host_looked_up_when_the_configuration_names_them() {
        let text = "Host db1\nHostName %h.example.org\nPort 2222\nUser dba\nIdentityFile ~/.ssh/%r@%h-%n-%u\n\
            IdentityAgent none\nProxyJump gate\nUserKnownHostsFile ~/kh\nConnectTimeout 3\n\
            Host gate\nHostName 10.0.0.1\nUser guard\nHostKeyAlias front\n";
        let (dir, path) = write(text);
        let mut options = options(&path);
        options.identity = Some(PathBuf::from("/key"));
        let route = resolve(&options, &here(dir.path())).unwrap();
        let host = route.host;
        assert_eq!(host.address, "db1.example.org");
        assert_eq!(host.key_name, "[db1.example.org]:2222");
        assert_eq!(host.plain_key_name.as_deref(), Some("db1.example.org"));
        let key = dir.path().join(".ssh/dba@db1.example.org-db1-me");
        assert_eq!(host.identities, [PathBuf::from("/key"), key]);
        assert!(host.default_identities.is_empty());
        assert_eq!((host.identity_agent, host.connect_timeout), (None, Duration::from_secs(3)));
        assert_eq!(host.write_to, Some(dir.path().join("kh")));
        let jump = route.jump.unwrap();
        assert_eq!((jump.address.as_str(), jump.user.as_str()), ("10.0.0.1", "guard"));
        assert_eq!(jump.key_name, "front");
    }

    #[test]
    fn expect_included_files_in_order_when_a_pattern_names_them() {
        let (dir, path) = write("Include ~/conf.d/*.conf\nPort 3");
        let folder = dir.path().join("conf.d");
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join("b.conf"), "Port 2").unwrap();
        std::fs::write(folder.join("a.conf"), "Host web\nPort 1").unwrap();
        std::fs::write(folder.join("c.txt"), "Port 0").unwrap();
        assert_eq!(resolve(&options(&path), &here(dir.path())).unwrap().host.port, 2);
    }

    #[rstest]
    #[case::several_jumps("ProxyJump a,b", "several jump hosts")]
    #[case::no_jump("ProxyJump a:b", "`a:b` is no jump host")]
    #[case::command("ProxyCommand nc %h %p", "use ProxyJump")]
    #[case::token("IdentityFile %C", "`%C` is not supported")]
    fn expect_what_is_possible_said_when_the_configuration_asks_for_more(
        #[case] text: &str,
        #[case] said: &str,
    ) {
        let (dir, path) = write(text);
        let error = resolve(&options(&path), &here(dir.path())).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }

    #[rstest]
    #[case("gate", Some((None, "gate", None)))]
    #[case("me@gate:22", Some((Some("me"), "gate", Some(22))))]
    #[case("a@b@gate", Some((Some("a@b"), "gate", None)))]
    #[case("::1", Some((None, "::1", None)))]
    #[case("[::1]", Some((None, "::1", None)))]
    #[case("me@[::1]:2222", Some((Some("me"), "::1", Some(2222))))]
    #[case("gate:", None)]
    #[case("gate:0", None)]
    #[case("@gate", None)]
    #[case("[::1]x", None)]
    #[case("", None)]
    fn expect_user_host_and_port_when_a_destination_is_split(
        #[case] text: &str,
        #[case] expected: Option<(Option<&str>, &str, Option<u16>)>,
    ) {
        let split = split_destination(text);
        let split = split.as_ref().map(|(user, host, port)| (user.as_deref(), host.as_str(), *port));
        assert_eq!(split, expected);
    }
}
