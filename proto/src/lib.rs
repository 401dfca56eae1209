//! The `drover.v1` wire contract: generated code, and conversions to and from the model.
//!
//! Used by the agent (server) and by the controller (client). This is the only crate that sees both the protobuf types
//! ([`v1`]) and the domain types (`drover-model`); on either side of it there is only one of the two. Model to wire is
//! `From`, because every domain value can be sent; wire to model is `TryFrom` with a [`ConversionError`] that names
//! the field, because a peer may send anything.

mod artifact;
mod blob;
mod boot;
mod error;
mod event;
mod host;
mod observation;
mod refusal;
mod spec;
mod survey;

pub use error::{ConversionError, Problem};
pub use host::{Hello, LeaseRef};
pub use refusal::{REFUSAL_KEY, Refusal};

/// Generated code.
pub mod v1 {
    #![expect(
        missing_docs,
        unused_qualifications,
        clippy::allow_attributes,
        clippy::allow_attributes_without_reason,
        reason = "generated; the .proto files are the documentation"
    )]
    tonic::include_proto!("drover.v1");
}

/// Version of the contract that this build speaks. Peers with different numbers do not talk.
pub const PROTOCOL: u32 = 3;

/// Largest message accepted by either side, in bytes. Staged files that are no blobs travel inside of `StartTask`,
/// hence in all fewer than this per task.
pub const MAX_MESSAGE_BYTES: usize = 4 << 20;

/// Largest piece of a file that `Fetch`, `FetchArtifact` and `PutBlob` send at once, in bytes.
pub const MAX_CHUNK_BYTES: usize = 256 << 10;

/// Longest output that travels with the end event of its task, in bytes per stream.
pub const MAX_INLINE_BYTES: usize = 64 << 10;

/// Most bytes of both outputs of a round that travel with its event.
pub const MAX_ROUND_BYTES: usize = 64 << 10;

/// Most bytes of lines that travel with one event.
pub const MAX_LINES_BYTES: usize = 64 << 10;

/// Most bytes of evidence.
pub const MAX_EVIDENCE_BYTES: usize = 4 << 20;

/// Largest blob, in bytes.
pub const MAX_BLOB_BYTES: u64 = 1 << 30;

/// Most files that `ListArtifacts` names.
pub const MAX_ARTIFACTS: usize = 1000;

/// Longest time that `CheckReach` may take.
pub const MAX_REACH: std::time::Duration = std::time::Duration::from_secs(60);

/// Microseconds of a duration, at most `u64::MAX` (584,000 years).
fn micros(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
