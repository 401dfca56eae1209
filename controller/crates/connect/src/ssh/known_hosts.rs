//! The `known_hosts` format of `sshd(8)`: which keys are known for a host. Pure.
//!
//! ssh2's own reader knows neither `@revoked` nor patterns, so the files are read here. Stricter than OpenSSH in one
//! point: a host of which any key is known may not show another one, not even of another type.

use std::path::PathBuf;

use base64::{Engine, engine::general_purpose::STANDARD};
use hmac::{Hmac, KeyInit, Mac};
use sha1::Sha1;
use sha2::{Digest, Sha256};

use super::{config::Place, pattern::list_matches};

/// Bytes of the salt of a hashed name.
pub(super) const SALT_BYTES: usize = 20;

/// Files of known hosts, read.
#[derive(Clone, Debug, Default)]
pub(super) struct KnownHosts {
    files: Vec<(PathBuf, String)>,
}

/// What the files say of a host's key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Check {
    /// It is the host's.
    Known,
    /// Nothing is known of this host.
    Unknown,
    /// Other keys are.
    Changed {
        /// Where the first of them is.
        place: Place,
        /// That key.
        known: Vec<u8>,
    },
    /// It was revoked.
    Revoked {
        /// Where.
        place: Place,
    },
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Marker {
    None,
    Revoked,
    /// `@cert-authority`, or one that is not known.
    Other,
}

struct Entry<'a> {
    marker: Marker,
    names: &'a str,
    key_type: &'a str,
    key: Vec<u8>,
}

impl KnownHosts {
    /// Those of these files, by path and text.
    pub(super) fn new(files: Vec<(PathBuf, String)>) -> Self {
        Self { files }
    }

    /// What is known of `key` as a key of `name`: a host's name, or `[name]:port` for a port other than 22.
    pub(super) fn check(&self, name: &str, key: &[u8]) -> Check {
        let mut check = Check::Unknown;
        for (place, entry) in self.entries(name) {
            match (entry.marker, entry.key == key) {
                (Marker::Revoked, true) => return Check::Revoked { place },
                (Marker::None, true) => check = Check::Known,
                (Marker::None, false) if check == Check::Unknown => {
                    check = Check::Changed { place, known: entry.key };
                }
                _ => {}
            }
        }
        check
    }

    /// Types of the keys that are known for the host, such as `ssh-ed25519`, in the files' order.
    pub(super) fn key_types(&self, name: &str) -> Vec<String> {
        let entries = self.entries(name).filter(|(_, entry)| entry.marker == Marker::None);
        entries.map(|(_, entry)| entry.key_type.to_owned()).collect()
    }

    fn entries<'a>(&'a self, name: &'a str) -> impl Iterator<Item = (Place, Entry<'a>)> {
        let lines = self.files.iter().flat_map(|(path, text)| {
            text.lines().enumerate().map(move |(index, line)| (path, index + 1, line))
        });
        lines.filter_map(move |(path, line, text)| {
            let entry = Entry::parse(text)?;
            entry.is_for(name).then(|| (Place { path: path.clone(), line }, entry))
        })
    }
}

impl<'a> Entry<'a> {
    /// `None` for empty lines, comments, and what is not understood.
    fn parse(line: &'a str) -> Option<Self> {
        let mut words = line.split_ascii_whitespace();
        let mut names = words.next().filter(|word| !word.starts_with('#'))?;
        let mut marker = Marker::None;
        if names.starts_with('@') {
            marker = if names == "@revoked" { Marker::Revoked } else { Marker::Other };
            names = words.next()?;
        }
        let key_type = words.next()?;
        let key = STANDARD.decode(words.next()?).ok()?;
        Some(Self { marker, names, key_type, key })
    }

    fn is_for(&self, name: &str) -> bool {
        match self.names.strip_prefix("|1|") {
            Some(hashed) => is_hash_of(hashed, name).unwrap_or(false),
            None => list_matches(self.names.split(','), name),
        }
    }
}

/// Whether `SALT|HASH` was made of this name; `None` if it is malformed.
fn is_hash_of(hashed: &str, name: &str) -> Option<bool> {
    let (salt, hash) = hashed.split_once('|')?;
    let (salt, hash) = (STANDARD.decode(salt).ok()?, STANDARD.decode(hash).ok()?);
    Some(hash == hash_of(&salt, name)?)
}

fn hash_of(salt: &[u8], name: &str) -> Option<Vec<u8>> {
    let mut mac = Hmac::<Sha1>::new_from_slice(salt).ok()?;
    mac.update(name.to_ascii_lowercase().as_bytes());
    Some(mac.finalize().into_bytes().to_vec())
}

/// The line that makes `key` known as the host's, with its line break; the name hashed if there is a salt. `None` for a
/// key without a type.
pub(super) fn line(name: &str, key: &[u8], salt: Option<[u8; SALT_BYTES]>) -> Option<String> {
    let key_type = key_type(key)?;
    let name = match salt {
        Some(salt) => format!("|1|{}|{}", STANDARD.encode(salt), STANDARD.encode(hash_of(&salt, name)?)),
        None => name.to_owned(),
    };
    Some(format!("{name} {key_type} {}\n", STANDARD.encode(key)))
}

/// The type that a public key names at its start (RFC 4253, 6.6).
pub(super) fn key_type(key: &[u8]) -> Option<&str> {
    let (length, rest) = key.split_first_chunk::<4>()?;
    let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
    std::str::from_utf8(rest.get(..length)?).ok()
}

/// A key's fingerprint as OpenSSH prints it.
pub(super) fn fingerprint(key: &[u8]) -> String {
    let hash = STANDARD.encode(Sha256::digest(key));
    format!("SHA256:{}", hash.trim_end_matches('='))
}

/// How a host is called in the files: its name in lower case, with the port unless that is 22.
pub(super) fn name_with_port(name: &str, port: u16) -> String {
    let name = name.to_ascii_lowercase();
    if port == 22 { name } else { format!("[{name}]:{port}") }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    /// Made with `ssh-keygen -t ed25519`.
    const ED25519: &str = "AAAAC3NzaC1lZDI1NTE5AAAAIK7Sa+ApLGtELA8BdIDb1nL34ROud9BnvaMkcvkHVtrx";
    const OTHER: &str = "AAAAC3NzaC1lZDI1NTE5AAAAIK7Sa+ApLGtELA8BdIDb1nL34ROud9BnvaMkcvkHVtry";

    fn key(text: &str) -> Vec<u8> {
        STANDARD.decode(text).unwrap()
    }

    fn known(text: &str) -> KnownHosts {
        let text = text.replace("KEY", &format!("ssh-ed25519 {ED25519}"));
        let text = text.replace("OTHER", &format!("ssh-ed25519 {OTHER}"));
        KnownHosts::new(vec![(PathBuf::from("known"), text)])
    }

    #[rstest]
    #[case::plain("db1 KEY", "db1")]
    #[case::comment_behind("db1 KEY me@here", "db1")]
    #[case::list("web,db1,10.0.0.1 KEY", "10.0.0.1")]
    #[case::port("[db1]:2222 KEY", "[db1]:2222")]
    #[case::wildcard("*.example.org KEY", "a.example.org")]
    #[case::upper_case("DB1 KEY", "db1")]
    #[case::second_of_several("db1 OTHER\ndb1 KEY", "db1")]
    #[case::another_revoked("@revoked db1 OTHER\ndb1 KEY", "db1")]
    fn expect_a_known_key_when_an_entry_has_it(#[case] text: &str, #[case] name: &str) {
        assert_eq!(known(text).check(name, &key(ED25519)), Check::Known);
    }

    #[rstest]
    #[case::nothing("", "db1")]
    #[case::comment("# db1 KEY", "db1")]
    #[case::another_host("db2 OTHER", "db1")]
    #[case::another_port("[db1]:2222 KEY", "[db1]:2223")]
    #[case::negated("!db1,* KEY", "db1")]
    #[case::authority("@cert-authority * KEY", "db1")]
    #[case::malformed("db1 ssh-ed25519 ?", "db1")]
    fn expect_an_unknown_host_when_no_entry_is_for_it(#[case] text: &str, #[case] name: &str) {
        assert_eq!(known(text).check(name, &key(ED25519)), Check::Unknown);
    }

    #[test]
    fn expect_the_place_when_the_key_changed_or_was_revoked() {
        let place = |line| Place { path: PathBuf::from("known"), line };
        let changed = Check::Changed { place: place(2), known: key(OTHER) };
        assert_eq!(known("\ndb1 OTHER").check("db1", &key(ED25519)), changed);
        let revoked = Check::Revoked { place: place(2) };
        assert_eq!(known("db1 KEY\n@revoked * KEY").check("db1", &key(ED25519)), revoked);
    }

    #[test]
    fn expect_a_changed_key_when_only_keys_of_another_type_are_known() {
        let hosts = known("db1 ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTY=");
        assert!(matches!(hosts.check("db1", &key(ED25519)), Check::Changed { .. }));
        assert_eq!(hosts.key_types("db1"), ["ecdsa-sha2-nistp256"]);
    }

    #[test]
    fn expect_a_hashed_entry_found_when_it_was_written_by_us_or_by_openssh() {
        // Written by `ssh-keygen -H`.
        let hashed = "|1|AZSsaN6mGfJDfH9NVaWSlYdploA=|tk7aoE46HCQ/pPjdG/e+XiyROuU= KEY";
        assert_eq!(known(hashed).check("db1", &key(ED25519)), Check::Known);
        let line = line("[db1]:2222", &key(ED25519), Some([7; SALT_BYTES])).unwrap();
        assert!(line.starts_with("|1|BwcHBwcHBwcHBwcHBwcHBwcHBwc=|"), "{line}");
        assert_eq!(known(&line).check("[db1]:2222", &key(ED25519)), Check::Known);
        assert_eq!(known(&line).check("db1", &key(ED25519)), Check::Unknown);
    }

    #[test]
    fn expect_the_fingerprint_of_openssh_when_a_key_is_named() {
        assert_eq!(key_type(&key(ED25519)), Some("ssh-ed25519"));
        assert_eq!(key_type(&[0, 0, 0, 9, 1]), None);
        assert_eq!(fingerprint(&key(ED25519)), "SHA256:sRZsSGYzMNXAElZhnZGWBllDOTX5cXg3hnCZtksdb4c");
    }
}
