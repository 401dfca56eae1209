//! Identifiers. A trial, an attempt and a task are named by their place in the run, so every process derives the same
//! id for the same thing and a repeated message is recognised as such.

use std::{fmt, str::FromStr, sync::Arc};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// One execution of a matrix (UUIDv7: sorts by the time it was made).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RunId(pub Uuid);

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_hyphenated().fmt(f)
    }
}

impl FromStr for RunId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        Uuid::try_parse(text).map(Self).map_err(|_| IdError(text.to_owned()))
    }
}

/// One repetition of a cell: `cell` is the cell's position in the expanded matrix, `repetition` counts from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TrialId {
    /// Position of the cell in the expanded matrix, from 0.
    pub cell: u32,
    /// Which repetition of that cell, from 1.
    pub repetition: u32,
}

impl fmt::Display for TrialId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "c{}r{}", self.cell, self.repetition)
    }
}

/// One try at a trial; `number` counts from 1. Displayed as `RUN.c3r1a1`, which is safe as a file name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct AttemptId {
    /// The run it belongs to.
    pub run: RunId,
    /// The trial it tries.
    pub trial: TrialId,
    /// Which try, from 1.
    pub number: u32,
}

impl fmt::Display for AttemptId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}a{}", self.run, self.trial, self.number)
    }
}

impl FromStr for AttemptId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let parse = || {
            let (run, rest) = text.split_once('.')?;
            let (cell, rest) = rest.strip_prefix('c')?.split_once('r')?;
            let (repetition, number) = rest.split_once('a')?;
            Some(Self {
                run: run.parse().ok()?,
                trial: TrialId { cell: decimal(cell)?, repetition: decimal(repetition)? },
                number: decimal(number)?,
            })
        };
        parse().ok_or_else(|| IdError(text.to_owned()))
    }
}

/// One instance of a role in one attempt. Displayed as `RUN.c3r1a1.server.0`, which is safe as a file name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TaskId {
    /// The attempt it belongs to.
    pub attempt: AttemptId,
    /// The role it plays.
    pub role: Name,
    /// Which instance of the role, from 0.
    pub instance: u32,
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.attempt, self.role, self.instance)
    }
}

impl FromStr for TaskId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let parse = || {
            let (rest, instance) = text.rsplit_once('.')?;
            let (attempt, role) = rest.rsplit_once('.')?;
            Some(Self {
                attempt: attempt.parse().ok()?,
                role: role.parse().ok()?,
                instance: decimal(instance)?,
            })
        };
        parse().ok_or_else(|| IdError(text.to_owned()))
    }
}

/// Canonical decimals only, so that one id has one spelling.
fn decimal(text: &str) -> Option<u32> {
    let canonical = text == "0" || !text.starts_with(['0', '+']);
    text.parse().ok().filter(|_| canonical)
}

/// Counts the owners of a host; a message with an older epoch than the host's current one is refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LeaseEpoch(pub u64);

/// An id that does not have the form of its kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an id of this kind")]
pub struct IdError(pub String);

/// The name of a role, an axis, a metric, a port or a host: a letter or `_`, then letters, digits, `_` and (not for
/// names used in expressions) `-`; at most 64 bytes. Never a path, never an option.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Name(Arc<str>);

impl Name {
    /// Longest name allowed, in bytes.
    pub const MAX_LEN: usize = 64;

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl FromStr for Name {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let mut chars = text.chars();
        let first = chars.next().ok_or(NameError::Empty)?;
        if text.len() > Self::MAX_LEN {
            return Err(NameError::TooLong(text.len()));
        }
        let good_first = first.is_ascii_alphabetic() || first == '_';
        let bad = if good_first {
            chars.find(|c| !(c.is_ascii_alphanumeric() || *c == '_' || *c == '-'))
        } else {
            Some(first)
        };
        match bad {
            Some(c) => Err(NameError::BadChar(c)),
            None => Ok(Self(text.into())),
        }
    }
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl AsRef<str> for Name {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl std::borrow::Borrow<str> for Name {
    fn borrow(&self) -> &str {
        &self.0
    }
}

/// Why a text is not a [`Name`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// No text at all.
    #[error("a name is empty")]
    Empty,
    /// Longer than [`Name::MAX_LEN`].
    #[error("a name has {0} bytes, 64 are allowed")]
    TooLong(usize),
    /// A character that a name cannot have at that place.
    #[error("a name cannot have {0:?} there: a letter or `_` first, then letters, digits, `_` and `-`")]
    BadChar(char),
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn task_ids_survive_their_text_form(
            run: u128, cell: u32, repetition: u32, number: u32, instance: u32, role in "[a-z_][a-z0-9_-]{0,20}",
        ) {
            let id = TaskId {
                attempt: AttemptId {
                    run: RunId(Uuid::from_u128(run)),
                    trial: TrialId { cell, repetition },
                    number,
                },
                role: role.parse().unwrap(),
                instance,
            };
            prop_assert_eq!(id.to_string().parse::<TaskId>().unwrap(), id);
        }

        #[test]
        fn names_never_hold_what_a_path_or_an_option_needs(text in "\\PC{0,80}") {
            if let Ok(name) = text.parse::<Name>() {
                prop_assert!(!name.as_str().contains(['/', '.', '\0', ' ']));
                prop_assert!(!name.as_str().starts_with('-'));
            }
        }
    }

    #[test]
    fn expect_one_spelling_per_id_when_numbers_have_leading_zeros() {
        let good = "00000000-0000-0000-0000-000000000001.c3r1a1";
        assert!(good.parse::<AttemptId>().is_ok());
        assert!(good.replace("c3", "c03").parse::<AttemptId>().is_err());
        assert!(good.replace("c3", "c+3").parse::<AttemptId>().is_err());
        assert!(good.replace("a1", "a").parse::<AttemptId>().is_err());
    }
}
