//! Templates: text with `{{ ... }}` in it, checked when the matrix is parsed, rendered per trial.

use std::sync::Arc;

use serde::Serialize;

/// Text with `{{ ... }}` in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Template {
    text: Arc<str>,
}

impl Template {
    pub(crate) fn new(text: &str) -> Self {
        Self { text: text.into() }
    }

    /// The text as written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }
}
