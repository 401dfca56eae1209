//! Private keys in files: whether one can be used, and what its public part is.

use std::{io, os::unix::fs::MetadataExt, path::Path};

use base64::{Engine, engine::general_purpose::STANDARD};

use super::known_hosts::key_type;

/// How a private key in OpenSSH's own format begins (its PROTOCOL.key).
const MAGIC: &[u8] = b"openssh-key-v1\0";

/// What is in a file that should be a private key.
#[derive(Debug)]
pub(super) enum KeyFile {
    /// A key that can be used; the text of the file.
    Usable(String),
    /// There is no such file.
    Missing,
    /// A key that cannot be used, or none; why.
    Unusable(String),
}

/// Reads a private key.
pub(super) fn read(path: &Path) -> KeyFile {
    let unusable = |error: io::Error| KeyFile::Unusable(format!("cannot be read: {error}"));
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return KeyFile::Missing,
        Err(error) => return unusable(error),
    };
    match path.metadata() {
        Ok(metadata) if metadata.mode() & 0o077 != 0 => {
            return KeyFile::Unusable("others may read it (chmod 600 it)".to_owned());
        }
        Ok(_) => {}
        Err(error) => return unusable(error),
    }
    if is_encrypted(&text) {
        return KeyFile::Unusable("is encrypted; add it to an ssh-agent (ssh-add)".to_owned());
    }
    let public = public_part(&text);
    if public.as_deref().and_then(key_type).is_some_and(|kind| kind.starts_with("sk-")) {
        return KeyFile::Unusable("needs a security key; use an ssh-agent".to_owned());
    }
    KeyFile::Usable(text)
}

/// The public key that belongs to a private one: from the file beside it, or from itself.
pub(super) fn public_key(path: &Path) -> Option<Vec<u8>> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".pub");
    let from = |text: String| {
        let mut words = text.split_ascii_whitespace().skip(1);
        STANDARD.decode(words.next()?).ok()
    };
    let beside = std::fs::read_to_string(beside).ok().and_then(from);
    // An identity may also be named by its public key alone.
    beside.or_else(|| {
        let text = std::fs::read_to_string(path).ok()?;
        public_part(&text).or_else(|| from(text))
    })
}

fn is_encrypted(text: &str) -> bool {
    if text.contains("BEGIN ENCRYPTED PRIVATE KEY") || text.contains("Proc-Type: 4,ENCRYPTED") {
        return true;
    }
    let own = own_format(text);
    let cipher = own.as_deref().and_then(|bytes| field(bytes, 0));
    cipher.is_some_and(|cipher| cipher != b"none")
}

fn public_part(text: &str) -> Option<Vec<u8>> {
    let bytes = own_format(text)?;
    // After cipher, key derivation and its options there is the number of keys, then the first public key.
    let skipped = [0, 1, 2].iter().try_fold(0, |sum, index| Some(sum + 4 + field(&bytes, *index)?.len()))?;
    field(bytes.get(skipped + 4..)?, 0).map(<[u8]>::to_vec)
}

/// What is inside of OpenSSH's own format, after its magic.
fn own_format(text: &str) -> Option<Vec<u8>> {
    let (_, body) = text.split_once("-----BEGIN OPENSSH PRIVATE KEY-----")?;
    let (body, _) = body.split_once("-----END")?;
    let body: String = body.split_ascii_whitespace().collect();
    STANDARD.decode(body).ok()?.strip_prefix(MAGIC).map(<[u8]>::to_vec)
}

/// One of several byte strings with their lengths before them.
fn field(bytes: &[u8], index: usize) -> Option<&[u8]> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
    let (here, rest) = rest.split_at_checked(length)?;
    if index == 0 { Some(here) } else { field(rest, index - 1) }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn generate(arguments: &[&str]) -> (tempfile::TempDir, std::path::PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        let made = Command::new("ssh-keygen").args(["-q", "-f"]).arg(&path).args(arguments).status().unwrap();
        assert!(made.success());
        (dir, path)
    }

    #[test]
    fn expect_a_usable_key_with_its_public_part_when_it_is_not_encrypted() {
        let (_dir, path) = generate(&["-t", "ed25519", "-N", ""]);
        let KeyFile::Usable(text) = read(&path) else { panic!() };
        let beside = public_key(&path).unwrap();
        assert_eq!(public_part(&text), Some(beside.clone()));
        std::fs::remove_file(path.with_extension("pub")).unwrap();
        assert_eq!(public_key(&path), Some(beside));
    }

    #[test]
    fn expect_the_remedy_when_a_key_is_encrypted_in_either_format() {
        for format in [&["-t", "ed25519", "-N", "secret"][..], &["-t", "rsa", "-N", "secret", "-m", "PEM"]] {
            let (_dir, path) = generate(format);
            let KeyFile::Unusable(why) = read(&path) else { panic!() };
            assert!(why.contains("ssh-add"), "{why}");
        }
    }

    #[test]
    fn expect_a_refusal_when_others_may_read_the_key() {
        let (_dir, path) = generate(&["-t", "ed25519", "-N", ""]);
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o640)).unwrap();
        assert!(matches!(read(&path), KeyFile::Unusable(why) if why.contains("chmod 600")));
        assert!(matches!(read(&path.with_extension("no")), KeyFile::Missing));
    }
}
