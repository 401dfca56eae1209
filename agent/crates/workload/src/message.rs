//! Messages for people, on standard error.

use std::error::Error;
use std::fmt;
use std::io::{self, Write};

/// Writes one line to standard error. A closed standard error is no reason to stop measuring, so failure is ignored.
pub(crate) fn say(line: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// An error with all its sources: `outer: inner: innermost`.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        text = format!("{text}: {inner}");
        source = inner.source();
    }
    text
}
