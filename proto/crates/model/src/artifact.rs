//! Files that tasks leave in their attempt's folder, for the controller to fetch.

use serde::{Deserialize, Serialize};

/// What an attempt left on one host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Artifacts {
    /// The files that match a pattern, by their place in the folder.
    pub files: Vec<Artifact>,
    /// Why there may be more than these.
    pub cut: Option<String>,
}

/// A file that a task left.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Artifact {
    /// Relative to the attempt's folder, without `..`. What cannot be shown of the name of a skipped file is escaped.
    pub path: String,
    /// Its length in bytes.
    pub size: u64,
    /// Why it cannot be fetched.
    pub skipped: Option<String>,
}
