//! Files that tasks leave in their attempt's folder, found by patterns and read for the controller.
//!
//! What a task leaves is not trusted: names, links and special files are looked at before anything is opened, every folder
//! is opened relative to the one before and never through a link, and everything is bounded.

mod fetch;
mod glob;
mod walk;

pub use fetch::{ArtifactError, ArtifactStream, open};
pub use glob::{PatternError, Patterns};
pub use walk::list;
