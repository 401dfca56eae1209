//! Contents of files, kept by their hash, so that what many tasks need travels to a host once. Filled by `PutBlob`, used
//! when a task's files are written into its attempt's folder.
//!
//! Tasks get copies, so that none can spoil what another gets. The store is bounded; what was not used for the longest time
//! makes room, except for what a running task names.

mod store;
mod upload;

pub use store::{BlobError, BlobStore, Pins};
pub use upload::receive;
