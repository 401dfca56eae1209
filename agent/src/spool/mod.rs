//! What the agent must still know after it was killed: who held the host, which tasks it accepted, and what happened to
//! them. Used by the registry alone.

mod file;
mod index;
mod record;
mod replay;
mod shed;

pub use file::{Spool, SpoolError};
use index::Index;
pub use index::{AttemptEntry, TaskEntry};
use record::Record;
