//! Whether the host is the one that it should be.

use std::{
    fs::{DirBuilder, OpenOptions},
    io::{self, Read, Seek, SeekFrom, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::Path,
};

use ssh2::MethodType;
use uuid::Uuid;

use super::{
    SshError,
    known_hosts::{Check, KnownHosts, SALT_BYTES, fingerprint, key_type, line},
    route::Hop,
    wire::Wire,
};

/// Signature algorithms of keys of the type `ssh-rsa`.
const RSA_ALGORITHMS: [&str; 3] = ["rsa-sha2-512", "rsa-sha2-256", "ssh-rsa"];

/// Reads the files that there are.
pub(super) fn known_hosts(hop: &Hop) -> Result<KnownHosts, SshError> {
    let mut files = Vec::new();
    for path in &hop.known_hosts {
        match std::fs::read(path) {
            Ok(bytes) => files.push((path.clone(), String::from_utf8_lossy(&bytes).into_owned())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(source) => {
                let (host, path) = (hop.name.clone(), path.clone());
                return Err(SshError::File { host, action: "read", path, source });
            }
        }
    }
    Ok(KnownHosts::new(files))
}

/// Before the handshake: asks for a key of a type that is known. The host may have several.
pub(super) fn prefer_known(wire: &Wire, hop: &Hop, known: &KnownHosts) -> Result<(), SshError> {
    let plain = hop.plain_key_name.iter().flat_map(|name| known.key_types(name));
    let types: Vec<_> = known.key_types(&hop.key_name).into_iter().chain(plain).collect();
    if types.is_empty() {
        return Ok(());
    }
    let during = "choose algorithms";
    let supported = wire.finish(during, || wire.session().supported_algs(MethodType::HostKey))?;
    let is_known = |algorithm: &str| {
        types.iter().any(|key_type| {
            key_type == algorithm || key_type == "ssh-rsa" && RSA_ALGORITHMS.contains(&algorithm)
        })
    };
    let (first, then): (Vec<_>, Vec<_>) = supported.into_iter().partition(|algorithm| is_known(algorithm));
    let preferred = first.into_iter().chain(then).collect::<Vec<_>>().join(",");
    wire.finish(during, || wire.session().method_pref(MethodType::HostKey, &preferred))
}

/// After the handshake: compares the key that the host showed, and proved to have, with those that are known.
pub(super) fn check(wire: &Wire, hop: &Hop, known: &KnownHosts) -> Result<(), SshError> {
    let host = || hop.name.clone();
    let Some((key, _)) = wire.session().host_key() else {
        let source = io::Error::other("the host showed no key");
        return Err(wire.fails("get the host's key")(source));
    };
    let mut check = known.check(&hop.key_name, key);
    if let (Check::Unknown, Some(plain)) = (&check, &hop.plain_key_name) {
        // An entry without port holds for all of the host's ports, but it cannot speak against one.
        check = match known.check(plain, key) {
            Check::Changed { .. } => Check::Unknown,
            other => other,
        };
    }
    match check {
        Check::Known => Ok(()),
        Check::Revoked { place } => {
            Err(SshError::RevokedKey { host: host(), fingerprint: fingerprint(key), place: Box::new(place) })
        }
        Check::Changed { place, known } => Err(SshError::ChangedKey {
            host: host(),
            name: hop.key_name.clone(),
            shown: fingerprint(key),
            known: fingerprint(&known),
            place: Box::new(place),
        }),
        Check::Unknown if hop.accept_new => remember(hop, key),
        Check::Unknown => Err(SshError::UnknownKey {
            host: host(),
            address: hop.address.clone(),
            key_type: key_type(key).unwrap_or("unknown type").to_owned(),
            fingerprint: fingerprint(key),
        }),
    }
}

fn remember(hop: &Hop, key: &[u8]) -> Result<(), SshError> {
    let salt = hop.hash_names.then(salt);
    let (Some(path), Some(line)) = (&hop.write_to, line(&hop.key_name, key, salt)) else { return Ok(()) };
    append(path, &line).map_err(|source| SshError::File {
        host: hop.name.clone(),
        action: "write the host's key to",
        path: path.clone(),
        source,
    })?;
    tracing::warn!(
        "{}: its host key {} is accepted and written to {}",
        hop.name,
        fingerprint(key),
        path.display()
    );
    Ok(())
}

/// Random enough: it only keeps names from being compared with a table made in advance.
fn salt() -> [u8; SALT_BYTES] {
    let random = [Uuid::now_v7(), Uuid::now_v7()].map(Uuid::into_bytes).concat();
    let hash = blake3::hash(&random);
    hash.as_bytes().first_chunk().copied().unwrap_or_default()
}

fn append(path: &Path, line: &str) -> io::Result<()> {
    if let Some(dir) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    }
    let mut file = OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path)?;
    let mut last = [b'\n'];
    if file.seek(SeekFrom::End(0))? > 0 {
        file.seek(SeekFrom::End(-1))?;
        file.read_exact(&mut last)?;
    }
    let before = if last == *b"\n" { "" } else { "\n" };
    // In one write, because other controllers may append at the same time.
    file.write_all(format!("{before}{line}").as_bytes())
}
