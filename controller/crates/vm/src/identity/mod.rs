//! Which kernel runs, on which CPUs: what a guest or a host reports, and whether it is what was asked for.

mod compare;
mod found;

pub use compare::{Expected, Mismatch};
pub use found::{Found, IdentityError};
