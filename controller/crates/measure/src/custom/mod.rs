//! Parsers that a matrix describes itself: `json:`, `regex:` and `lines`.

pub(crate) mod json;
pub(crate) mod lines;
mod path;
pub(crate) mod regex;
