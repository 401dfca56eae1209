//! `ssh_config(5)`, as far as it says how to reach a host. Pure: files are read by whoever calls.
//!
//! The first value of a keyword wins; `IdentityFile` adds up. `Match` blocks other than `Match all` are left out, with
//! a warning, because they may depend on commands and networks. Keywords that do not matter here are ignored.

use std::path::{Path, PathBuf};

use super::pattern::list_matches;

/// Files that include each other stop at this depth, as in OpenSSH.
const MAX_DEPTH: usize = 16;

/// A configuration file, read and split.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConfigFile {
    items: Vec<Item>,
}

#[derive(Clone, Debug)]
enum Item {
    /// `Host`: what follows holds for names that match.
    Host(Vec<String>),
    /// `Match`; whether it is `Match all`.
    Match { all: bool, place: Place },
    /// `Include`: the files that there are.
    Include(Vec<ConfigFile>),
    /// Any other keyword, in lower case.
    Set { keyword: String, values: Vec<String>, place: Place },
}

/// A line of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file.
    pub path: PathBuf,
    /// The line, from 1.
    pub line: usize,
}

/// Whether unknown host keys are accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Strict {
    /// No; `StrictHostKeyChecking yes` or `ask`.
    Yes,
    /// They are written down; `accept-new`.
    AcceptNew,
}

/// What the files say of one host. Nothing is expanded yet.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct HostConfig {
    pub host_name: Option<String>,
    pub user: Option<String>,
    pub port: Option<u16>,
    pub identity_files: Vec<String>,
    pub identities_only: Option<bool>,
    pub identity_agent: Option<String>,
    pub proxy_jump: Option<String>,
    pub proxy_command: Option<String>,
    pub user_known_hosts: Option<Vec<String>>,
    pub global_known_hosts: Option<Vec<String>>,
    pub strict: Option<Strict>,
    pub host_key_alias: Option<String>,
    pub hash_known_hosts: Option<bool>,
    /// In seconds.
    pub connect_timeout: Option<u64>,
    /// What was left out or changed, for the user to know.
    pub warnings: Vec<String>,
}

/// A line that cannot be understood.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}:{}: {what}", place.path.display(), place.line)]
pub struct ConfigError {
    place: Place,
    what: String,
}

impl ConfigFile {
    /// Splits the text of the file `path`. `include` gives the paths and texts of the files that a pattern of `Include`
    /// names.
    ///
    /// # Errors
    /// A line that cannot be split.
    pub(crate) fn parse(
        text: &str,
        path: &Path,
        include: &dyn Fn(&str) -> Vec<(PathBuf, String)>,
    ) -> Result<Self, ConfigError> {
        Self::parse_at(text, path, include, 0)
    }

    fn parse_at(
        text: &str,
        path: &Path,
        include: &dyn Fn(&str) -> Vec<(PathBuf, String)>,
        depth: usize,
    ) -> Result<Self, ConfigError> {
        let mut items = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let place = Place { path: path.to_owned(), line: index + 1 };
            let fail = |what: String| ConfigError { place: place.clone(), what };
            let Some((keyword, values)) = split(line).map_err(&fail)? else { continue };
            items.push(match keyword.as_str() {
                "host" => Item::Host(values),
                "match" => {
                    let all = matches!(values.as_slice(), [all] if all.eq_ignore_ascii_case("all"));
                    Item::Match { all, place }
                }
                "include" if depth >= MAX_DEPTH => {
                    return Err(fail(format!("files include each other more than {MAX_DEPTH} deep")));
                }
                "include" => {
                    let files = values.iter().flat_map(|pattern| include(pattern));
                    let files = files.map(|(path, text)| Self::parse_at(&text, &path, include, depth + 1));
                    Item::Include(files.collect::<Result<_, _>>()?)
                }
                _ => Item::Set { keyword, values, place },
            });
        }
        Ok(Self { items })
    }

    /// Adds what this file says of `host` to what files before it say.
    ///
    /// # Errors
    /// A value that makes no sense, in a block that holds for the host.
    pub(crate) fn look_up(&self, host: &str, found: &mut HostConfig) -> Result<(), ConfigError> {
        self.look_up_within(host, true, found)
    }

    fn look_up_within(&self, host: &str, within: bool, found: &mut HostConfig) -> Result<(), ConfigError> {
        let mut holds = within;
        for item in &self.items {
            match item {
                Item::Host(patterns) => {
                    holds = within && list_matches(patterns.iter().map(String::as_str), host);
                }
                Item::Match { all: true, .. } => holds = within,
                Item::Match { all: false, place } => {
                    holds = false;
                    found.warnings.push(format!(
                        "{}:{}: this `Match` block is left out; write what it says in a `Host` block",
                        place.path.display(),
                        place.line
                    ));
                }
                Item::Include(files) => {
                    for file in files {
                        file.look_up_within(host, holds, found)?;
                    }
                }
                Item::Set { keyword, values, place } if holds => found.set(keyword, values, place)?,
                Item::Set { .. } => {}
            }
        }
        Ok(())
    }
}

impl HostConfig {
    fn set(&mut self, keyword: &str, values: &[String], place: &Place) -> Result<(), ConfigError> {
        let fail = |what: String| ConfigError { place: place.clone(), what };
        let Some(value) = values.first() else {
            return Err(fail(format!("`{keyword}` has no value")));
        };
        let yes_or_no = || match value.to_ascii_lowercase().as_str() {
            "yes" | "true" => Ok(true),
            "no" | "false" => Ok(false),
            _ => Err(fail(format!("`{keyword} {value}`: expected `yes` or `no`"))),
        };
        match keyword {
            "hostname" => first(&mut self.host_name, || Ok(value.clone())),
            "user" => first(&mut self.user, || Ok(value.clone())),
            "port" => first(&mut self.port, || {
                let port = value.parse().ok().filter(|port| *port != 0);
                port.ok_or_else(|| fail(format!("`{value}` is no port; expected 1 to 65535")))
            }),
            "identityfile" => {
                if !value.eq_ignore_ascii_case("none") && !self.identity_files.contains(value) {
                    self.identity_files.push(value.clone());
                }
                Ok(())
            }
            "identitiesonly" => first(&mut self.identities_only, yes_or_no),
            "identityagent" => first(&mut self.identity_agent, || Ok(value.clone())),
            "proxyjump" => first(&mut self.proxy_jump, || Ok(value.clone())),
            // Its command is the rest of the line.
            "proxycommand" => first(&mut self.proxy_command, || Ok(values.join(" "))),
            "userknownhostsfile" => first(&mut self.user_known_hosts, || Ok(values.to_vec())),
            "globalknownhostsfile" => first(&mut self.global_known_hosts, || Ok(values.to_vec())),
            "hostkeyalias" => first(&mut self.host_key_alias, || Ok(value.clone())),
            "hashknownhosts" => first(&mut self.hash_known_hosts, yes_or_no),
            "connecttimeout" => first(&mut self.connect_timeout, || {
                let seconds = value.parse().ok().filter(|seconds| *seconds != 0);
                seconds.ok_or_else(|| fail(format!("`{value}` is no number of seconds")))
            }),
            "stricthostkeychecking" if self.strict.is_none() => {
                self.strict = Some(match value.to_ascii_lowercase().as_str() {
                    "yes" | "true" | "ask" => Strict::Yes,
                    "accept-new" => Strict::AcceptNew,
                    "no" | "off" | "false" => {
                        self.warnings.push(format!(
                            "{}:{}: `StrictHostKeyChecking {value}` is taken as `accept-new`: a changed key is refused",
                            place.path.display(),
                            place.line
                        ));
                        Strict::AcceptNew
                    }
                    _ => return Err(fail(format!("`{value}`: expected `yes`, `ask`, `accept-new` or `no`"))),
                });
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

/// Sets what is not set yet.
fn first<T>(slot: &mut Option<T>, value: impl FnOnce() -> Result<T, ConfigError>) -> Result<(), ConfigError> {
    if slot.is_none() {
        *slot = Some(value()?);
    }
    Ok(())
}

/// A line as a keyword in lower case and its values; `None` if there is nothing on it. `Keyword value`,
/// `Keyword = value`, values in quotes, comments.
fn split(line: &str) -> Result<Option<(String, Vec<String>)>, String> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return Ok(None);
    }
    let end =
        line.find(|character: char| character.is_whitespace() || character == '=').unwrap_or(line.len());
    let (keyword, rest) = line.split_at(end);
    let rest = rest.trim_start();
    let rest = rest.strip_prefix('=').unwrap_or(rest);
    Ok(Some((keyword.to_ascii_lowercase(), words(rest)?)))
}

fn words(text: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut characters = text.chars().peekable();
    loop {
        while characters.next_if(|character| character.is_whitespace()).is_some() {}
        if matches!(characters.peek(), None | Some('#')) {
            return Ok(words);
        }
        let mut word = String::new();
        let mut quote = None;
        while let Some(character) = characters.peek().copied() {
            if quote.is_none() && character.is_whitespace() {
                break;
            }
            characters.next();
            match (quote, character) {
                (None, '"' | '\'') => quote = Some(character),
                (Some(open), _) if open == character => quote = None,
                (_, '\\') if matches!(characters.peek(), Some('"' | '\'' | '\\')) => {
                    word.extend(characters.next());
                }
                _ => word.push(character),
            }
        }
        if quote.is_some() {
            return Err("a quote is not closed".to_owned());
        }
        words.push(word);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nothing(_: &str) -> Vec<(PathBuf, String)> {
        Vec::new()
    }

    fn look_up(text: &str, host: &str) -> HostConfig {
        let mut found = HostConfig::default();
        let file = ConfigFile::parse(text, Path::new("config"), &nothing).unwrap();
        file.look_up(host, &mut found).unwrap();
        found
    }

    fn refused(text: &str) -> String {
        let parsed = ConfigFile::parse(text, Path::new("config"), &nothing);
        let error = match parsed {
            Ok(file) => file.look_up("db1", &mut HostConfig::default()).unwrap_err(),
            Err(error) => error,
        };
        error.to_string()
    }

    const TEXT: &str = r#"
User = everyone
Host db1
    HostName 10.0.0.1   # the first one
    Port 2222
    IdentityFile ~/.ssh/db
    IdentitiesOnly yes
Host db* !db9
    hostname "10.0.0.9"
    user late
    IdentityFile "~/my keys/%h"
    ProxyJump gate@jump:2200
    UserKnownHostsFile ~/a ~/b
    StrictHostKeyChecking accept-new
    ForwardAgent yes
Host=*
    ConnectTimeout 7
    HostKeyAlias cluster
    HashKnownHosts yes
    IdentityAgent none
"#;

    #[test]
    fn expect_the_first_value_to_win_when_several_blocks_hold() {
        let found = look_up(TEXT, "db1");
        let expected = HostConfig {
            host_name: Some("10.0.0.1".to_owned()),
            user: Some("everyone".to_owned()),
            port: Some(2222),
            identity_files: vec!["~/.ssh/db".to_owned(), "~/my keys/%h".to_owned()],
            identities_only: Some(true),
            identity_agent: Some("none".to_owned()),
            proxy_jump: Some("gate@jump:2200".to_owned()),
            user_known_hosts: Some(vec!["~/a".to_owned(), "~/b".to_owned()]),
            strict: Some(Strict::AcceptNew),
            host_key_alias: Some("cluster".to_owned()),
            hash_known_hosts: Some(true),
            connect_timeout: Some(7),
            ..HostConfig::default()
        };
        assert_eq!(found, expected);
    }

    #[test]
    fn expect_a_block_left_out_when_a_negated_pattern_matches() {
        let found = look_up(TEXT, "db9");
        assert_eq!(found.proxy_jump, None);
        assert_eq!(found.connect_timeout, Some(7));
    }

    #[test]
    fn expect_a_warning_when_a_match_block_is_left_out_or_no_check_is_asked_for() {
        let text = "Match host db1\n Port 7\nMatch all\n User x\nHost db1\nStrictHostKeyChecking no\nStrictHostKeyChecking no";
        let found = look_up(text, "db1");
        assert_eq!(
            (found.port, found.user.as_deref(), found.strict),
            (None, Some("x"), Some(Strict::AcceptNew))
        );
        assert_eq!(found.warnings.len(), 2, "{:?}", found.warnings);
        assert!(found.warnings[0].starts_with("config:1: "), "{:?}", found.warnings);
        assert!(found.warnings[1].starts_with("config:6: "), "{:?}", found.warnings);
    }

    #[test]
    fn expect_an_included_file_to_hold_where_its_include_does() {
        let include = |pattern: &str| {
            assert_eq!(pattern, "conf.d/*");
            let text = "Port 7\nHost db1\nUser inner\n".to_owned();
            vec![(PathBuf::from("conf.d/a"), text)]
        };
        let text = "Host db*\nInclude conf.d/*\nHost *\nPort 8";
        let file = ConfigFile::parse(text, Path::new("config"), &include).unwrap();
        for (host, port, user) in [("db1", 7, Some("inner")), ("db2", 7, None), ("web", 8, None)] {
            let mut found = HostConfig::default();
            file.look_up(host, &mut found).unwrap();
            assert_eq!((found.port, found.user.as_deref()), (Some(port), user), "{host}");
        }
    }

    #[test]
    fn expect_an_error_when_files_include_themselves() {
        let include = |_: &str| vec![(PathBuf::from("config"), "Include config".to_owned())];
        let error = ConfigFile::parse("Include config", Path::new("config"), &include).unwrap_err();
        assert!(error.to_string().contains("16 deep"), "{error}");
    }

    #[test]
    fn expect_file_and_line_when_a_value_makes_no_sense() {
        assert_eq!(refused("\nPort none"), "config:2: `none` is no port; expected 1 to 65535");
        assert_eq!(refused("User"), "config:1: `user` has no value");
        assert_eq!(refused("User \"x"), "config:1: a quote is not closed");
        assert_eq!(
            refused("IdentitiesOnly maybe"),
            "config:1: `identitiesonly maybe`: expected `yes` or `no`"
        );
        assert_eq!(
            refused("StrictHostKeyChecking perhaps"),
            "config:1: `perhaps`: expected `yes`, `ask`, `accept-new` or `no`"
        );
    }
}
