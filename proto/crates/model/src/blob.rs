//! The name of a file's contents.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// BLAKE3 hash of contents. Displayed as 64 lower-case hexadecimal digits, which is safe as a file name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlobHash(pub [u8; 32]);

impl BlobHash {
    /// The hash of these bytes.
    #[must_use]
    pub fn of(contents: &[u8]) -> Self {
        Self(*blake3::hash(contents).as_bytes())
    }
}

impl fmt::Display for BlobHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&blake3::Hash::from(self.0).to_hex())
    }
}

impl FromStr for BlobHash {
    type Err = HashError;

    fn from_str(text: &str) -> Result<Self, HashError> {
        // One spelling only, because it is a file name.
        let canonical = text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let hash = blake3::Hash::from_hex(text).ok().filter(|_| canonical);
        hash.map(|hash| Self(*hash.as_bytes())).ok_or_else(|| HashError(text.to_owned()))
    }
}

impl Serialize for BlobHash {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for BlobHash {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// A text that is not the hash of a blob.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a hash: 64 lower-case hexadecimal digits")]
pub struct HashError(pub String);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expect_one_spelling_when_a_hash_is_read() {
        let hash = BlobHash::of(b"text");
        let text = hash.to_string();
        assert_eq!(text.parse(), Ok(hash));
        for bad in
            [text.to_uppercase(), text[1..].to_owned(), format!("{text}0"), "../x".to_owned(), String::new()]
        {
            assert_eq!(bad.parse::<BlobHash>(), Err(HashError(bad)));
        }
    }
}
