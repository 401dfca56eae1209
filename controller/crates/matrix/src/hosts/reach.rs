//! Places in the host file: `[user@]host[:port]`, `host:port`, addresses, paths.

use std::net::{IpAddr, Ipv6Addr};

use crate::{
    decode::{fields::Problems, value},
    scalar::Scalar,
    tree::Node,
};

const HOP_HELP: &str =
    "write [USER@]HOST[:PORT], an IPv6 address in brackets: perf@10.0.0.1:22, root@[fd00::1]";
const TLS_HELP: &str = "write HOST:PORT, an IPv6 address in brackets: 10.0.0.9:7411, [fd00::9]:7411";

/// `[user@]host[:port]`.
pub(super) struct Hop {
    /// An IPv6 address is without its brackets.
    pub(super) host: String,
    pub(super) user: Option<String>,
    pub(super) port: Option<u16>,
}

/// Reads `[user@]host[:port]`.
pub(super) fn hop(scalar: &Scalar, what: &str, problems: &mut Problems) -> Option<Hop> {
    match parse_hop(&scalar.text) {
        Ok(hop) => Some(hop),
        Err(problem) => {
            problems.add(scalar.span.clone(), format!("{what} `{}` {problem}", scalar.text), HOP_HELP);
            None
        }
    }
}

fn parse_hop(text: &str) -> Result<Hop, &'static str> {
    if text.starts_with("ssh://") || text.starts_with("ssh ") {
        return Err("begins with `ssh`, which goes without saying");
    }
    let (user, place) = match text.rsplit_once('@') {
        Some((user, place)) => (Some(user), place),
        None => (None, text),
    };
    if user.is_some_and(|user| user.is_empty() || user.starts_with('-') || !is_plain(user)) {
        return Err("has no user in front of the `@`");
    }
    let (host, port) = host_and_port(place)?;
    Ok(Hop { host, user: user.map(str::to_owned), port })
}

/// `host:port`, as written.
pub(super) fn tls(scalar: &Scalar, problems: &mut Problems) -> Option<String> {
    let text = &scalar.text;
    let problem = match host_and_port(text) {
        _ if text.contains("://") => "is a URL, not an address",
        _ if text.contains('@') => "has a user, but a resident agent knows certificates only",
        Ok((_, Some(_))) => return Some(text.clone()),
        Ok((_, None)) => "has no port",
        Err(problem) => problem,
    };
    problems.add(scalar.span.clone(), format!("`tls` `{text}` {problem}"), TLS_HELP);
    None
}

/// A host with or without a port. The brackets of an IPv6 address are taken off.
fn host_and_port(text: &str) -> Result<(String, Option<u16>), &'static str> {
    let (host, port) = if let Some(rest) = text.strip_prefix('[') {
        let (host, rest) = rest.split_once(']').ok_or("has a bracket that is not closed")?;
        if host.parse::<Ipv6Addr>().is_err() {
            return Err("has no IPv6 address in its brackets");
        }
        match rest.strip_prefix(':') {
            None if rest.is_empty() => (host, None),
            None => return Err("has something behind its bracket"),
            Some(port) => (host, Some(port)),
        }
    } else if text.parse::<Ipv6Addr>().is_ok() {
        return Err("is an IPv6 address without brackets");
    } else {
        match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        }
    };
    if host.is_empty() {
        return Err("names no host");
    }
    // Never an option of a command.
    if host.starts_with('-') || !is_plain(host) {
        return Err("has characters that no host name has");
    }
    let port = match port {
        None => None,
        Some(port) => Some(number(port).ok_or("has a port that is no number from 1 to 65535")?),
    };
    Ok((host.to_owned(), port))
}

fn number(text: &str) -> Option<u16> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    text.parse().ok().filter(|port| digits && *port > 0)
}

/// Letters, digits and what else names of hosts and users have.
fn is_plain(text: &str) -> bool {
    text.len() <= 255
        && text.chars().all(|c| c.is_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '%' | '+'))
}

/// The address of a host, which others can connect to.
pub(super) fn address(node: &Node, problems: &mut Problems) -> Option<IpAddr> {
    const HELP: &str =
        "write the IP address alone, that of the network that carries the load: 10.1.0.1 or fd00::1";
    let scalar = value::scalar(node, "`address`", problems)?;
    let problem = match scalar.text.parse::<IpAddr>() {
        Ok(address) if address.is_unspecified() => "stands for all addresses",
        Ok(address) if address.is_multicast() || address.to_string() == "255.255.255.255" => {
            "stands for many hosts"
        }
        Ok(address) => return Some(address),
        Err(_) => "is no IP address",
    };
    problems.add(scalar.span.clone(), format!("`address` `{}` {problem}", scalar.text), HELP);
    None
}

/// The path of a file on this machine.
pub(super) fn path(node: &Node, what: &str, problems: &mut Problems) -> Option<String> {
    let scalar = value::scalar(node, what, problems)?;
    let text = &scalar.text;
    let problem = if text.is_empty() {
        "is empty"
    } else if text.len() > 4000 || text.contains(char::is_control) {
        "is too long or has control characters"
    } else if text.starts_with('~') && !text.starts_with("~/") {
        "begins with `~` of another user"
    } else {
        return Some(text.clone());
    };
    let help = "write a path on this machine; `~/` is your own folder";
    problems.add(scalar.span.clone(), format!("{what} `{text}` {problem}"), help);
    None
}

/// The agent's folder on a host.
pub(super) fn dir(node: &Node, problems: &mut Problems) -> Option<String> {
    let path = path(node, "`dir`", problems)?;
    let inner = path.strip_prefix("~/").or_else(|| path.strip_prefix('/'));
    let parts = inner.map(|inner| inner.trim_end_matches('/').split('/').collect::<Vec<_>>());
    let problem = match parts {
        None => "is relative",
        Some(parts) if parts.iter().any(|part| matches!(*part, "" | "." | "..")) => {
            "is not a plain path below a folder"
        }
        Some(_) => return Some(path.trim_end_matches('/').to_owned()),
    };
    let help = "write an absolute path, or one below the home folder there: /var/tmp/drover, ~/drover";
    problems.add(node.span.clone(), format!("`dir` `{path}` {problem}"), help);
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(text: &str) -> Result<(Option<String>, String, Option<u16>), &'static str> {
        parse_hop(text).map(|hop| (hop.user, hop.host, hop.port))
    }

    #[test]
    fn expect_user_host_and_port_when_a_place_has_them() {
        let user = |name: &str| Some(name.to_owned());
        assert_eq!(parts("web1"), Ok((None, "web1".into(), None)));
        assert_eq!(parts("perf@10.0.0.1:22"), Ok((user("perf"), "10.0.0.1".into(), Some(22))));
        assert_eq!(parts("root@[fd00::1]:2222"), Ok((user("root"), "fd00::1".into(), Some(2222))));
        assert_eq!(parts("[::1]"), Ok((None, "::1".into(), None)));
    }

    #[test]
    fn expect_a_reason_when_a_place_is_none() {
        for bad in [
            "",
            "@web1",
            "perf@",
            "web1:",
            "web1:0",
            "web1:65536",
            "web1:+22",
            "web1:22:23",
            "fd00::1",
            "[fd00::1",
            "[web1]:22",
            "[::1]22",
            "-oProxyCommand=x",
            "-x@web1",
            "-web1",
            "web 1",
            "a;b",
            "ssh://web1",
            "$(id)",
        ] {
            assert!(parts(bad).is_err(), "{bad}");
        }
    }
}
