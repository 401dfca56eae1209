//! What can be wrong with a message that a peer sent.

use std::net::AddrParseError;

use drover_model::{HashError, IdError, Name, NameError};

/// A field of a message does not have the form that the contract asks for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("field `{field}` of the message is not valid")]
pub struct ConversionError {
    /// Path of the field inside of the message, such as `ready[1].tcp`.
    pub field: String,
    /// What is wrong with it.
    #[source]
    pub problem: Problem,
}

impl ConversionError {
    pub(crate) fn new(field: impl Into<String>, problem: Problem) -> Self {
        Self { field: field.into(), problem }
    }

    /// The same error, seen from the message that holds the erring one as its field `outer`.
    pub(crate) fn within(self, outer: impl std::fmt::Display) -> Self {
        Self { field: format!("{outer}.{}", self.field), problem: self.problem }
    }

    /// Field and problem in one line, for places that do not print sources.
    #[must_use]
    pub fn in_full(&self) -> String {
        format!("{self}: {}", self.problem)
    }
}

/// What is wrong with a field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// It must be there, and is not (or is an enumeration's zero, or of a kind this version does not know).
    #[error("it is missing, or of a kind that this version does not know")]
    Missing,
    /// Not an id.
    #[error(transparent)]
    Id(#[from] IdError),
    /// Not a name.
    #[error(transparent)]
    Name(#[from] NameError),
    /// Not a hash.
    #[error(transparent)]
    Hash(#[from] HashError),
    /// Two fields of which only one may be there.
    #[error("it cannot be there together with `{0}`")]
    Both(&'static str),
    /// Not a socket address.
    #[error("`{0}` is not an address and a port")]
    Address(String, #[source] AddrParseError),
    /// A number that its type does not allow.
    #[error("{0} is out of range")]
    Range(u64),
}

/// The value of a field that must be there.
pub(crate) fn required<T>(value: Option<T>, field: &'static str) -> Result<T, ConversionError> {
    value.ok_or_else(|| ConversionError::new(field, Problem::Missing))
}

/// Parses a name.
pub(crate) fn name(text: &str, field: &'static str) -> Result<Name, ConversionError> {
    text.parse().map_err(|error: NameError| ConversionError::new(field, Problem::Name(error)))
}

/// Parses an id.
pub(crate) fn id<T: std::str::FromStr<Err = IdError>>(
    text: &str,
    field: &'static str,
) -> Result<T, ConversionError> {
    text.parse().map_err(|error: IdError| ConversionError::new(field, Problem::Id(error)))
}
