//! Cells: one combination of axis values, and the hash that names it across machines and days.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::Name;

/// One level of an axis. The text is kept as written: `6.10` stays `6.10`, `no` stays `no`.
pub type AxisValue = Arc<str>;

/// One combination of axis values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cell {
    /// Position in the expanded matrix, from 0.
    pub index: u32,
    /// Identity across runs and machines.
    pub key: CellKey,
    /// Axis and value, in the order in which the matrix names the axes.
    pub values: Vec<(Name, AxisValue)>,
}

impl Cell {
    /// The value of an axis, if the cell has it.
    #[must_use]
    pub fn value(&self, axis: &str) -> Option<&str> {
        self.values.iter().find(|(name, _)| name.as_str() == axis).map(|(_, value)| &**value)
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (name, value)) in self.values.iter().enumerate() {
            let gap = if i == 0 { "" } else { " " };
            write!(f, "{gap}{name}={value}")?;
        }
        Ok(())
    }
}

/// Hash of a cell's axis values and of the parts of the matrix that can change its number: the first 16 bytes of a
/// BLAKE3 hash, written as 32 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CellKey([u8; 16]);

impl CellKey {
    /// Hashes `parts` in order; each is preceded by its length, so no two lists of parts collide by concatenation.
    pub fn of<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut hasher = blake3::Hasher::new();
        for part in parts {
            hasher.update(&u64::try_from(part.len()).unwrap_or(u64::MAX).to_le_bytes());
            hasher.update(part);
        }
        let mut bytes = [0; 16];
        hasher.finalize_xof().fill(&mut bytes);
        Self(bytes)
    }
}

impl fmt::Display for CellKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl std::str::FromStr for CellKey {
    type Err = crate::IdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let digits = text.len() == 32 && text.bytes().all(|b| b.is_ascii_hexdigit());
        let number = digits.then(|| u128::from_str_radix(text, 16).ok()).flatten();
        number.map(|n| Self(n.to_be_bytes())).ok_or_else(|| crate::IdError(text.to_owned()))
    }
}

impl Serialize for CellKey {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for CellKey {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expect_different_keys_when_only_the_boundary_between_parts_moves() {
        let key = |parts: &[&str]| CellKey::of(parts.iter().map(|p| p.as_bytes()));
        assert_ne!(key(&["ab", "c"]), key(&["a", "bc"]));
        assert_eq!(key(&["ab", "c"]), key(&["ab", "c"]));
        let text = key(&["ab"]).to_string();
        assert_eq!(text.parse::<CellKey>().unwrap().to_string(), text);
    }
}
