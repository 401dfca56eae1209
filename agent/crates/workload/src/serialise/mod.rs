//! The ways in which the workers of a pre-forked server take turns to accept.

mod fcntl;
mod flock;
mod kind;
mod lock;
mod posixsem;
mod pthread;
mod sysvsem;

pub use kind::Serialisation;
pub(crate) use lock::{AcceptLock, AfterDeath, LockError, LockSource, Taken};
