//! Parts that many requests have, read the same way everywhere.

use drover_model::IdError;
use drover_proto::{ConversionError, LeaseRef, Problem, v1};

use crate::refused::Refused;

/// A field that must be there is not.
#[must_use]
pub fn missing(field: &str) -> Refused {
    ConversionError { field: field.to_owned(), problem: Problem::Missing }.into()
}

/// A problem of a message that is the field `field` of the request.
#[must_use]
pub fn at(field: &str, error: ConversionError) -> Refused {
    ConversionError { field: format!("{field}.{}", error.field), problem: error.problem }.into()
}

/// The lease of a request.
///
/// # Errors
/// When it is missing or malformed.
pub fn lease_ref(lease: Option<v1::LeaseRef>) -> Result<LeaseRef, Refused> {
    let lease = lease.ok_or_else(|| missing("lease"))?;
    LeaseRef::try_from(lease).map_err(|error| at("lease", error))
}

/// An id of a request.
///
/// # Errors
/// When it is malformed.
pub fn id<T: std::str::FromStr<Err = IdError>>(field: &str, text: &str) -> Result<T, Refused> {
    text.parse()
        .map_err(|error: IdError| ConversionError { field: field.to_owned(), problem: error.into() }.into())
}
