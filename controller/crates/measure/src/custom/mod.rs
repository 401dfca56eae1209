//! Parsers that a matrix describes itself: `json:`, `regex:` and `lines`.

pub(crate) mod json;
pub(crate) mod lines;
mod path;
pub(crate) mod regex;

/// Samples that one task may have; a table with more columns is a mistake.
const MAX_SAMPLES: usize = 1000;
